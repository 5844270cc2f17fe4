import inspect
import re
from datetime import UTC, date, datetime

import pytest
from cases import tried_in_one
from langchain_core.messages import AIMessage, HumanMessage

from memory_retrievers import AgentMemory, Message, RetrievalSettings
from memory_retrievers.errors import ConfigurationError, NotFoundError, ValidationError
from memory_retrievers.models import DetailLevel, EpisodicMemory, SemanticMemory
from memory_retrievers.models.results import ForgottenMessages
from memory_retrievers.remote import MAX_REMEMBERED, RemoteMemory
from memory_retrievers.server import ServerSettings, bodies, create_app
from memory_retrievers.testing import FixedClock

ALICE = "user/alice"

QUESTIONS = [
    {"query": "Where does Alice live?"},
    {"query": "Lyon", "category": "identity"},
    {"query": "Alice", "include_child_scopes": True},
    {"query": "Lyon", "limit": 2},
    {"query": "Lyon", "episodic_limit": 0},
    {"query": "Lyon", "as_of": datetime(2026, 2, 25, tzinfo=UTC)},
    {"query": "?!", "semantic_limit": 1},
    {"query": "Lyon", "tags": ["nobody has it"]},
    {"query": "Lyon", "metadata": {"source": "x", "n": None}},
    {"query": "Lyon", "where": {"or": [{"tags": {"in": ["home", "x"]}}, {"time": {"lt": "2026-02-21"}}]}},
    {"query": "Lyon", "since": datetime(2026, 2, 25, tzinfo=UTC), "until": "2026-03-01"},
]


def test_days_are_those_of_the_server_s_time_zone(serving):
    noon = datetime(2026, 3, 6, 3, tzinfo=UTC)
    at = datetime(2026, 3, 4, 23, tzinfo=UTC)
    said = Message(role="user", content="I see the dentist tomorrow", timestamp=at)
    in_tokyo = RetrievalSettings(time_zone="Asia/Tokyo")
    with AgentMemory.in_memory(clock=FixedClock(noon), retrieval=in_tokyo) as memory:
        memory.add_messages(ALICE, [said], conversation="c")
        memory.flush(ALICE)
        app = create_app(memory, settings=ServerSettings(worker=False))
        with serving(app) as url, RemoteMemory(url) as remote:
            found = remote.retrieve("What do I have today?", scope=ALICE, min_relevance="auto", record=False)
            assert "5 March 2026" in found.to_markdown()
            found = remote.retrieve("dentist", scope=ALICE, record=False, time_zone="UTC")
            assert "4 March 2026" in found.to_markdown("excerpts")
            with pytest.raises(ValidationError, match=r"time_zone: .* is not a time zone"):
                remote.retrieve("dentist", scope=ALICE, time_zone="Mars/Base")
            assert remote.recent(ALICE).now == noon
            memory.remember_fact(scope=ALICE, fact="Alice sees the dentist tomorrow", category="identity", valid_at=at)
            assert "as of 2026-03-05" in remote.profile(ALICE).to_markdown()


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_what_is_retrieved_is_what_the_server_has_to_the_byte(memory, remote, question):
    here = remote.retrieve(**question, scope=ALICE, record=False)
    there = memory.retrieve(**question, scope=ALICE, record=False)

    for detail in DetailLevel:
        assert here.to_markdown(detail) == there.to_markdown(detail)
    assert here.to_dict() == there.to_dict()
    assert here.to_dict(explain=True) == there.to_dict(explain=True)
    assert (here.query, here.scope, here.now) == (there.query, there.scope, there.now)
    assert [(hit.rank, hit.score, hit.explanation) for hit in (*here.semantic, *here.episodic)] == [
        (hit.rank, hit.score, hit.explanation) for hit in (*there.semantic, *there.episodic)
    ]


def test_the_conversations_of_a_scope_are_kept_apart_on_the_server(memory, remote):
    for conversation in ("a", "b", None):
        said = Message(role="user", content=f"We spoke of Lyon in {conversation}.")
        assert remote.add_messages("c1", [said], conversation=conversation).queued == 1
    (episode,) = remote.flush("c1", "b").episodes
    assert (episode.conversation_id, episode.summary_by) == ("b", "rules")
    assert memory.get(episode.id, scope="c1") == episode
    assert remote.flush("c1", "unknown").episodes == ()
    assert {each.conversation_id for each in remote.flush("c1").episodes} == {"a", None}
    found = remote.retrieve("Lyon", scope="c1", exclude_conversation="b", record=False).episodic
    assert {hit.memory.conversation_id for hit in found} == {"a", None}
    with pytest.raises(ValidationError, match="conversation"):
        remote.flush("c1", " ")


def test_an_open_episode_is_found_on_the_server_as_it_is_here(memory, remote):
    said = [Message(role="user", content="Lyon is rainy."), Message(role="user", content="I leave Lyon.")]
    remote.add_messages("c1", said, conversation="a")
    asked = {"scope": "c1", "record": False, "in_prompt": said[1:]}
    here, there = remote.retrieve("Lyon", **asked), memory.retrieve("Lyon", **asked)
    (found,) = here.episodic
    assert found.memory.is_open
    assert [message.content for message in found.memory.messages] == ["Lyon is rainy."]
    assert here.to_markdown() == there.to_markdown()
    assert here.to_dict(explain=True) == there.to_dict(explain=True)


def test_context_and_recent_are_those_of_the_server(memory, remote):
    assert remote.context("Lyon", scope=ALICE).to_dict() == memory.context("Lyon", scope=ALICE).to_dict()
    assert remote.context("Lyon", scope=ALICE).to_markdown() == memory.context("Lyon", scope=ALICE).to_markdown()
    for asked in ({}, {"limit": 1}, {"limit": 0}, {"days_limit": 2}, {"facts": True}):
        here, there = remote.recent(ALICE, **asked), memory.recent(ALICE, **asked)
        assert here.to_markdown() == there.to_markdown()
        assert here.to_dict(explain=True) == there.to_dict(explain=True)


def test_a_profile_is_that_of_the_server(memory, remote):
    memory.remember_fact(scope=ALICE, fact="Alice plays the cello", category="identity")
    assert remote.profile(ALICE).to_dict() == memory.profile(ALICE).to_dict()
    assert remote.profile(ALICE).to_markdown() == memory.profile(ALICE).to_markdown() != ""
    with pytest.raises(ValidationError):
        remote.profile("")


def test_only_a_retrieval_that_is_to_be_recorded_is_filed_for_review(memory, remote):
    remote.retrieve("Lyon", scope=ALICE, record=False)
    remote.context("Lyon", scope=ALICE)
    assert memory.pending_reviews(ALICE) == []

    remote.retrieve("Lyon", scope=ALICE)
    assert [review.query for review in memory.pending_reviews(ALICE)] == ["Lyon"]


def test_what_is_told_twice_is_known_and_what_differs_is_named_there_too(memory, remote):
    first = remote.remember_fact(scope="user/alice", fact="The door code is 4711")
    again = remote.remember_fact(scope="user/alice", fact="the door code is  4711.")
    assert (again.id, again.duplicate_of) == (first.id, first.id)
    second = remote.remember_fact(scope="user/alice", fact="The door code is 4712")
    assert first.id in {near.id for near in second.near}
    third = remote.remember_fact(scope="user/alice", fact="The door code is 4713", replaces=first.id)
    assert memory.get(first.id, scope="user/alice").replaced_by == third.id
    with pytest.raises(NotFoundError):
        remote.remember_fact(scope="user/alice", fact="The door code is 4714", replaces="nobody")


def test_what_is_remembered_comes_back_as_it_is_stored(memory, remote):
    fact = remote.remember_fact(scope="c1", fact="Il pleut à Lyon ☔", category="note", metadata={"a": [1, None]})
    episode = remote.remember_episode(
        scope="c1", summary="It rained.", messages=[Message(role="user", content="Rain!")], surprise=0.5
    )
    several = remote.remember_many(
        [
            SemanticMemory.new(scope="c1", fact="First"),
            EpisodicMemory.new(scope="c1", summary="Second"),
            SemanticMemory.new(scope="c1", fact="Third"),
        ]
    )

    for stored in (fact, episode, *several):
        assert memory.get(stored.id, scope="c1") == stored
    assert [each.embedding_text for each in several] == ["note: First", "Second", "note: Third"]
    assert remote.remember_many([]) == []


def test_a_conversation_becomes_memories(memory, remote):
    said = [Message(role="user", content=f"Message {number} about the garden.") for number in range(5)]

    queued = remote.add_messages("c1", said)
    assert (queued.accepted, queued.queued, queued.due) == (5, 5, False)
    assert remote.process_due("c1").waiting == 5
    report = remote.flush("c1")

    assert report.waiting == 0
    assert [memory.get(each.id, scope="c1") for each in report.episodes] == list(report.episodes)
    assert report.episodes
    assert remote.process_due().episodes == ()


def test_what_one_of_several_people_said_is_forgotten_in_the_form_in_which_it_was_added(memory, remote):
    said = [
        {"role": "user", "name": name, "content": [{"type": "text", "text": "I am ill."}]} for name in ("Anna", "Tom")
    ]
    remote.add_messages("team/red", said)
    assert remote.forget_messages("team/red", said[:1]) == ForgottenMessages(messages=1)
    assert [each.role for each in memory.transcript("team/red")] == ["Tom"]


def test_a_scope_is_forgotten_with_those_below_it_or_without(memory, remote):
    assert remote.forget_scope(ALICE, include_child_scopes=False) == 4
    assert remote.forget_scope(ALICE) == 1
    assert memory.scopes() == ["user/bob"]


def test_messages_of_langchain_are_queued(memory, remote):
    assert remote.add_messages("c1", [HumanMessage("Hello."), AIMessage(""), AIMessage("Hi.")]).accepted == 2
    assert [(each.role, each.content) for each in memory.waiting("c1")] == [("user", "Hello."), ("assistant", "Hi.")]


def test_errors_are_those_of_the_server(remote):
    with pytest.raises(ValidationError, match="Query cannot be empty"):
        remote.retrieve(" ", scope=ALICE)
    with pytest.raises(ValidationError, match="scope must not be empty"):
        remote.recent("")
    with pytest.raises(ValidationError, match="limit"):
        remote.recent(ALICE, limit="many")
    with pytest.raises(ValidationError, match="one scope in one call"):
        remote.remember_many([SemanticMemory.new(scope="a", fact="x"), SemanticMemory.new(scope="b", fact="y")])
    with pytest.raises(ValidationError, match="f1"):
        remote.remember_fact(scope=ALICE, id="f1", fact="taken")
    with pytest.raises(ValidationError, match="fact"):
        remote.remember_fact(scope=ALICE, fact=" ")
    with pytest.raises(ValidationError, match="cannot be sent as JSON"):
        remote.recent(ALICE, days_limit=float("nan"))
    with pytest.raises(NotFoundError, match="Memory not found: no-such"):
        remote.run_tool("memory_get", {"id": "no-such"}, scope=ALICE)


@pytest.mark.parametrize("token", [None, "wrong-0123456789"])
def test_without_a_token_that_the_server_knows_nothing_is_told(served, token):
    with RemoteMemory(served[1], token) as stranger, pytest.raises(ConfigurationError, match="token"):
        stranger.recent(ALICE)


def test_a_token_to_read_reads_and_a_bound_one_stays_within_its_root(served, tokens):
    memory, url = served
    with RemoteMemory(url, tokens["reader"]) as reader:
        assert reader.retrieve("Lyon", scope=ALICE).semantic
        with pytest.raises(ConfigurationError, match="may only read"):
            reader.remember_fact(scope=ALICE, fact="x")
    with RemoteMemory(url, tokens["alices"]) as bound:
        assert bound.recent("user/alice/work").episodic == ()
        with pytest.raises(ConfigurationError, match="does not reach"):
            bound.retrieve("Bergen", scope="user/bob")
    assert memory.pending_reviews(ALICE) == []


@tried_in_one("url", ["", "localhost:8000", "ftp://example.com", "http://", "http://127.0.0.1:x", "http://h?a=b", None])
def test_an_address_is_of_a_web_server(url):
    with pytest.raises(ConfigurationError, match="write it like http"):
        RemoteMemory(url)


@tried_in_one("url", ["http://h?token=hush", "http://h#hush", "ftp://u:hush@h"])
def test_a_secret_in_an_address_is_not_repeated(url):
    with pytest.raises(ConfigurationError, match=r"^this is not the address of a server") as caught:
        RemoteMemory(url)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    "timeouts",
    [
        *({"timeout": wrong} for wrong in (0, float("nan"), float("inf"), 10**20, None, "5")),
        *({"processing_timeout": wrong} for wrong in (-1, float("inf"), "5")),
        *({"retries": wrong} for wrong in (-1, 1.5, None)),
    ],
    ids=str,
)
def test_a_timeout_is_more_than_nothing(timeouts):
    with pytest.raises(ConfigurationError, match="more than 0 seconds"):
        RemoteMemory("http://127.0.0.1:8000", **timeouts)


@pytest.mark.parametrize("token", ["", "a b", "abc ", "abcdé", b"abc"])
def test_a_token_that_no_header_takes_is_refused(token):
    with pytest.raises(ConfigurationError, match="printable ASCII without a space"):
        RemoteMemory("http://127.0.0.1:8000", token)


def test_the_name_of_a_tool_is_no_path(remote):
    for name in ("../get", "memory_get?x=#", "\ud800"):
        with pytest.raises(NotFoundError):
            remote.run_tool(name, {"id": "f"}, scope=ALICE)


def test_none_is_refused_where_a_method_does_not_take_it(memory, remote):
    kept = memory.remember_fact(scope=ALICE, fact="Alice sails", tags=["sea"])
    for wrong in ({"tags": None}, {"fact": "Alice rows", "metadata": None}, {"fact": None}):
        with pytest.raises(ValidationError):
            memory.update(kept.id, scope=ALICE, **wrong)
        with pytest.raises(ValidationError, match="must not be None: give a value, or leave it out"):
            remote.update(kept.id, scope=ALICE, **wrong)
    assert remote.get(kept.id, scope=ALICE) == kept
    assert remote.update(kept.id, scope=ALICE, expires_at=None) == kept
    with pytest.raises(ValidationError, match="limit"):
        remote.list(ALICE, limit=None)


@pytest.mark.parametrize(
    "call",
    [
        lambda memory: memory.get(b"f1", scope=ALICE),
        lambda memory: memory.invalidate(b"f1", scope=ALICE),
        lambda memory: memory.explain_missing(b"f1", query="x", scope=ALICE),
        lambda memory: memory.transcript(ALICE, b"thread"),
        lambda memory: memory.list(ALICE, since=date(2026, 1, 1)),
        lambda memory: memory.diff(ALICE, since=1_767_225_600),
        lambda memory: memory.remember_many([], replacing=["f1"]),
    ],
)
def test_what_is_no_text_and_no_moment_is_refused_in_the_same_words(memory, remote, call):
    with pytest.raises(ValidationError) as here:
        call(memory)
    with pytest.raises(ValidationError, match=f"^{re.escape(str(here.value))}$"):
        call(remote)


def test_what_is_nothing_is_refused_here_and_there(memory, remote):
    for each in (memory, remote):
        with pytest.raises(ValidationError, match="since must not be None"):
            each.diff(ALICE, since=None)
        with pytest.raises(TypeError, match="NoneType"):
            each.remember_many(None)


def test_what_is_true_or_false_may_be_said_by_any_value_here_and_there(memory, remote, twin):
    for each in (twin, remote):
        each.update("f1", scope=ALICE, fact="Alice lives in Lyons", correct=1)
        each.remember_many([{"scope": ALICE, "id": "e2", "summary": "Alice planned a pond."}], replace="yes")
        each.remember_fact(scope=ALICE, id="f9", fact="Alice lives in Lyons", allow_duplicates=1)
    assert memory.list(ALICE) == twin.list(ALICE)
    assert memory.history("f1", scope=ALICE) == twin.history("f1", scope=ALICE)


def test_a_closed_one_says_that_it_is_closed(served, tokens):
    with RemoteMemory(served[1], tokens["reader"]) as remote:
        assert remote.recent(ALICE).episodic
    with pytest.raises(ConfigurationError, match="closed"):
        remote.recent(ALICE)
    remote.close()


@pytest.mark.parametrize("name", ["retrieve", "context", "recent", "add_messages", "flush", "forget_scope"])
def test_methods_take_what_those_of_an_agent_memory_take(name):
    here, there = (inspect.signature(getattr(kind, name)) for kind in (RemoteMemory, AgentMemory))

    assert here == there


def test_more_memories_than_a_server_takes_at_once_are_refused_before_anything_is_sent(memory, remote):
    assert MAX_REMEMBERED == bodies.MAX_REMEMBERED
    drafts = [SemanticMemory.new(scope="c1", fact=f"Number {number}") for number in range(257)]
    with (
        RemoteMemory("http://127.0.0.1:1", retries=0) as nobody,
        pytest.raises(ValidationError, match="at most 256 memories in one call"),
    ):
        nobody.remember_many(drafts)
    assert not memory.list("c1").memories
    assert len(remote.remember_many(drafts[:256])) == 256
