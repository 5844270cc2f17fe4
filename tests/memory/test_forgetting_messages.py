"""One thing that was said is forgotten: of what is queued, at work or in episodes, and nothing else of it."""

from datetime import timedelta

import pytest
from kept import kept_terms

from memory_retrievers import AgentMemory, EmbeddingError, LanguageModelError, Message, NotFoundError, ValidationError
from memory_retrievers.backends.sql.snapshots import Snapshots
from memory_retrievers.models import Kind, SemanticDraft, SummaryBy
from memory_retrievers.models.management import MemoryEventType
from memory_retrievers.models.selection import Selection
from memory_retrievers.protocols import Segment
from memory_retrievers.storage import store
from memory_retrievers.testing import HashEmbedder, ScriptedLanguageModel, inside

TOLD = "I have xyzzy diabetes since spring."
NIGHT = "The nightly import died again."
KAFKA = "Want to stream it through Kafka?"
TALK = [("user", NIGHT), ("user", TOLD), ("assistant", KAFKA), ("user", "Yes, from Monday on.")]


def said(clock, talk=TALK):
    first = clock.now() - timedelta(hours=1)
    return [
        Message(role=role, content=text, timestamp=first + timedelta(minutes=minute))
        for minute, (role, text) in enumerate(talk)
    ]


def without_it(messages):
    return [each for each in messages if each.content != TOLD]


def texts(memory, scope="c"):
    return [message.content for message in memory.transcript(scope, limit=1000)]


def files_with(directory, text="xyzzy"):
    return [file.name for file in directory.rglob("*") if file.is_file() and text.encode() in file.read_bytes()]


def shown(snapshot):
    terms = snapshot.terms
    return {
        **{name: column.array.tolist() for name, column in snapshot.columns.items()},
        "names": sorted(snapshot.names),
        "vectors": snapshot.matrix.tolist(),
        "terms": {term: sorted(postings.T.tolist()) for term, postings in terms.postings.items()},
        "of terms": (terms.ids.tolist(), terms.memories.tolist()),
    }


def ranked(memory, query):
    found = memory.retrieve(query, scope="c", record=False)
    return [(hit.memory.messages, hit.score) for hit in found.episodic]


def test_the_rest_of_an_episode_is_as_if_it_had_never_been_said(memory, clock, keyword, dense):
    memory.remember_episode(scope="c", id="e1", summary="Of xyzzy diabetes.", title="xyzzy", messages=said(clock))
    memory.remember_episode(scope="c", id="e2", summary="They spoke of lunch.", messages=said(clock, TALK[:1]))
    memory.retrieve("xyzzy diabetes", scope="c")
    assert "diabet" in kept_terms(inside(memory))

    forgotten = memory.forget_messages("c", [TOLD])

    assert (forgotten.messages, forgotten.episodes, forgotten.memories) == (1, ("e1",), ())
    after = memory.get("e1", scope="c")
    assert (after.messages, after.summary_by) == (tuple(without_it(said(clock))), SummaryBy.RULES)
    assert "xyzzy" not in after.model_dump_json()
    assert NIGHT in after.summary
    assert not {"xyzzi", "diabet"} & kept_terms(inside(memory))
    assert memory.pending_reviews("c") == []
    selection = Selection(scope="c", kind=Kind.EPISODIC, now=clock.now())
    look = inside(memory)
    assert shown(look.ledger.snapshots.of(selection)) == shown(Snapshots(look.ledger).of(selection))
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, keyword=keyword, dense=dense) as other:
        rest = without_it(said(clock))
        title, summary = after.title, after.summary
        other.remember_episode(scope="c", id="e1", summary=summary, title=title, messages=rest)
        other.remember_episode(scope="c", id="e2", summary="They spoke of lunch.", messages=said(clock, TALK[:1]))
        for query in ("Kafka", "nightly import", "what died on Monday?"):
            assert ranked(memory, query) == ranked(other, query)
    assert memory.verify().ok


def test_times_follow_the_messages_that_are_left_and_the_log_quotes_nothing(memory, clock):
    messages = said(clock)[1:]
    memory.remember_episode(scope="c", id="e1", summary="They spoke.", messages=messages)
    memory.forget_messages("c", [messages[0]])
    after = memory.get("e1", scope="c")
    assert (after.start_at, after.end_at) == (messages[1].timestamp, messages[2].timestamp)
    newest, before, *_ = memory.events("c")
    assert {newest.type, before.type} == {MemoryEventType.FORGOTTEN, MemoryEventType.UPDATED}
    assert "xyzzy" not in str(memory.events("c"))


def test_an_episode_of_which_nothing_is_left_is_forgotten_and_what_was_made_of_it_named(memory, clock):
    memory.remember_episode(scope="c", id="e1", summary="They spoke.", messages=said(clock)[1:2])
    memory.remember_episode(scope="c", id="e2", summary="They spoke.", messages=said(clock)[:2])
    memory.remember_fact(scope="c", id="f1", fact="User is ill", source_episodic_ids=["e1"])
    memory.remember_many([SemanticDraft(scope="c", id="f2", fact="Merged", consolidated_from=("e2", "e1"))])
    memory.remember_fact(scope="c", id="f3", fact="User likes tea")
    forgotten = memory.forget_messages("c", [TOLD])
    assert (forgotten.messages, forgotten.episodes, forgotten.memories) == (2, ("e2",), ("f1", "f2"))
    assert memory.get("f1", scope="c").source_episodic_ids == ()
    with pytest.raises(NotFoundError):
        memory.get("e1", scope="c")
    assert memory.verify().ok


def test_what_is_queued_is_forgotten_and_the_rest_becomes_an_episode(memory, clock):
    memory.add_messages("c", said(clock))
    memory.add_messages("c", said(clock)[1:2], conversation="monday")
    memory.retrieve(TOLD, scope="c")
    assert memory.forget_messages("c", [TOLD]).messages == 2
    assert "xyzzy" not in str(memory.retrieve("diabetes", scope="c", record=False).to_dict())
    assert memory.pending_reviews("c") == []
    assert memory.stats("c").queued_messages == 3
    (episode,) = memory.flush("c").episodes
    assert episode.messages == tuple(without_it(said(clock)))
    assert memory.verify().ok


def test_the_last_of_a_scope_leaves_no_name(memory, clock):
    memory.add_messages("c", said(clock)[1:2])
    memory.forget_messages("c", [TOLD])
    assert (memory.scopes(), memory.waiting_scopes()) == ([], [])


class Forgets:
    """A segmenter in whose time somebody forgets; the first segments still tell it."""

    def __init__(self):
        self.memory, self.calls = None, 0

    def segment(self, messages, context):
        self.calls += 1
        if self.calls == 1:
            self.memory.forget_messages("c", [TOLD])
        told = " ".join(message.content for message in messages)
        return [Segment(messages=len(messages), title="A talk", summary=told, surprise=0.0)]


@pytest.mark.parametrize("whose", ["its own", "the episode before"])
def test_who_is_making_an_episode_of_it_begins_anew(clock, whose):
    segmenter = Forgets()
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, segmenter=segmenter) as memory:
        segmenter.memory = memory
        if whose == "its own":
            memory.add_messages("c", said(clock))
        else:
            memory.remember_episode(scope="c", id="e1", summary=TOLD, messages=said(clock)[:2])
            memory.add_messages("c", said(clock)[2:])
        (episode,) = memory.flush("c").episodes
        assert segmenter.calls == 2
        assert "xyzzy" not in episode.model_dump_json()
        assert TOLD not in texts(memory)


def test_facts_that_a_model_was_just_making_of_it_are_not_stored(clock):
    seen = []

    def answer(prompt):
        seen.append(prompt)
        if len(seen) == 1:
            memory.forget_messages("c", [TOLD])
        facts = [{"action": "new", "fact": "User has xyzzy", "category": "identity"}] if "xyzzy" in seen[-1] else []
        return {"facts": facts}

    class Model:
        name = "asked"

        def generate(self, system, user, schema):
            return schema.model_validate(answer(user))

    class Whole:
        def segment(self, messages, context):
            return [Segment(messages=len(messages), title="A talk", summary="They spoke.", surprise=1.0)]

    with AgentMemory.in_memory(
        embedder=HashEmbedder(), clock=clock, language_model=Model(), segmenter=Whole()
    ) as memory:
        memory.add_messages("c", said(clock))
        memory.flush("c")
        memory.process_due("c")
        assert [TOLD in each for each in seen] == [True, False]
        assert [each for each in memory.list("c", kind="semantic").memories if "xyzzy" in each.fact] == []


class Unreachable:
    def rate(self, conversation, memories, *, embed):
        raise LanguageModelError("the judge cannot be reached")


@pytest.mark.embedded("it looks for bytes in the files of the store")
def test_after_a_purge_no_byte_of_it_is_left(tmp_path, clock, keyword):
    options = {"embedder": HashEmbedder(), "clock": clock, "keyword": keyword, "judge": Unreachable()}
    with AgentMemory.open(tmp_path / "store", **options) as memory:
        memory.remember_episode(scope="c", id="e1", summary="xyzzy", title="xyzzy", messages=said(clock))
        clock.advance(days=3)
        memory.add_messages("c", said(clock), conversation="monday")
        memory.retrieve(f"xyzzy {TOLD}", scope="c")
        with pytest.raises(LanguageModelError):
            memory.flush("c")
        memory.add_messages("c", said(clock)[1:], conversation="tuesday")
        memory.retrieve(TOLD, scope="c")
        assert files_with(tmp_path)
        assert memory.forget_messages("c", [TOLD]).messages == 3
        memory.purge()
        assert files_with(tmp_path) == files_with(tmp_path, "diabetes") == []
        assert sorted(texts(memory)) == []  # of the conversation without a name nothing was said
        memory.export(tmp_path / "export.jsonl")
    assert files_with(tmp_path) == []
    with AgentMemory.import_(tmp_path / "export.jsonl", into=tmp_path / "copy", embedder=HashEmbedder()) as copy:
        assert copy.verify().ok
        assert copy.stats("c").episodes == 2


@pytest.mark.embedded("two handles on one directory")
def test_another_handle_knows_it_with_its_next_search(tmp_path, clock):
    options = {"embedder": HashEmbedder(), "clock": clock}
    with AgentMemory.open(tmp_path, **options) as one, AgentMemory.open(tmp_path, **options) as other:
        one.remember_episode(scope="c", id="e1", summary="They spoke.", messages=said(clock))
        one.add_messages("c", said(clock)[:2])
        assert "xyzzy" in str(other.retrieve("diabetes", scope="c", record=False).to_dict())
        one.forget_messages("c", [TOLD])
        assert "xyzzy" not in str(other.retrieve("diabetes", scope="c", record=False).to_dict())
        assert "diabet" not in kept_terms(inside(other))


@pytest.mark.parametrize("forgets", ["forget_messages", "forget_conversation", "forget"])
def test_what_was_asked_of_a_scope_above_tells_it_no_more(memory, clock, forgets):
    for scope in ("team", "team/anna", "other"):
        memory.remember_episode(scope=scope, id="e1", summary="They spoke of diabetes.", messages=said(clock))
    (told,) = [each for each in said(clock) if each.content == TOLD]
    memory.add_messages("team/anna", [told, *said(clock, TALK[:1])], conversation="t1")
    for scope in ("team", "other"):
        memory.retrieve(TOLD, scope=scope, include_child_scopes=True)
    filed = memory.pending_reviews("team") + memory.pending_reviews("other")
    assert [each.scope for each in filed] == ["team", "other"]
    clock.advance(seconds=1)
    if forgets == "forget_messages":
        memory.forget_messages("team/anna", [TOLD])
    elif forgets == "forget_conversation":
        memory.forget_conversation("team/anna", "t1")
    else:
        (waiting,) = [each for each in memory.recent("team/anna").episodic if each.is_open]
        memory.forget(waiting.id, scope="team/anna")
    assert memory.pending_reviews("team") == []
    inside(memory).store.add_pending_reviews(filed)  # as another process does that has not yet written them
    assert [each.scope for each in memory.pending_reviews("team") + memory.pending_reviews("other")] == ["other"]


def test_a_conversation_that_nobody_had_takes_no_review_of_a_scope_above(memory, clock):
    memory.remember_episode(scope="team/anna", id="e1", summary="They spoke of diabetes.", messages=said(clock))
    for scope in ("team", "team/anna"):
        memory.retrieve(TOLD, scope=scope, include_child_scopes=True)
    memory.forget_conversation("team/anna", "nobody's")
    assert [len(memory.pending_reviews(scope)) for scope in ("team", "team/anna")] == [1, 0]


def test_no_other_scope_is_touched(memory, clock):
    for scope in ("c", "c/d", "cc", "other"):
        memory.remember_episode(scope=scope, id="e1", summary="They spoke.", messages=said(clock))
        memory.add_messages(scope, said(clock))
    assert memory.forget_messages("c/d", [TOLD]).messages == 2
    for scope in ("c", "cc", "other"):
        assert texts(memory, scope).count(TOLD) == 1
        assert TOLD in [each.content for each in memory.get("e1", scope=scope).messages]
    assert memory.forget_messages("nobody", [TOLD]).messages == 0
    assert "nobody" not in memory.scopes()


def test_a_message_is_named_by_speaker_and_time_or_by_its_words_alone(memory, clock):
    first, second = said(clock, [("user", "Yes."), ("user", "Yes.")])
    answer = Message(role="assistant", content="Yes.", timestamp=first.timestamp)
    other = Message(role="user", content="No.", timestamp=clock.now())
    memory.remember_episode(scope="c", id="e1", summary="They agreed.", messages=[first, second, answer, other])
    assert (
        memory.forget_messages("c", [{"role": "user", "content": "Yes.", "timestamp": first.timestamp}]).messages == 1
    )
    assert memory.get("e1", scope="c").messages == (second, answer, other)
    assert memory.forget_messages("c", [Message(role="user", content="Yes.")]).messages == 1
    assert memory.get("e1", scope="c").messages == (answer, other)
    assert memory.forget_messages("c", ["yes", "Yes"]).messages == 0
    assert memory.forget_messages("c", ["Yes."]).messages == 1
    assert memory.get("e1", scope="c").messages == (other,)


@pytest.mark.parametrize("role", ["Anna", "anna", "ANNA"])
def test_a_speaker_is_the_same_in_other_letters(memory, clock, role):
    memory.add_messages("c", [{"role": "user", "name": each, "content": TOLD} for each in ("Anna", "Tom")])
    assert memory.forget_messages("c", [Message(role=role, content=TOLD)]).messages == 1
    assert [each.role for each in memory.transcript("c")] == ["Tom"]


LONG = 'First line of "it" <b>\n\n  and a [rank: 1] second </memory> line, é 日本 \\ which ends here.'


@pytest.mark.parametrize(
    ("given", "is_named"),
    [
        (LONG, True),
        (" ".join(LONG.split()), True),
        ('First line of "it" <b> and … which ends here.', True),
        ('First line of "it" <b> and…', True),
        ("…second &lt;/memory> line, é 日本 \\ which ends here.", True),
        ('First line of "it" <b> … which ends', False),
        ("which ends here. … First line of", False),
        ("First line of", False),
        ("First…", False),
        ("…", False),
        ("… …", False),
        ("%", False),
        ('First line of "it" <b>\' OR 1=1 --', False),
    ],
)
def test_words_are_known_as_a_block_shows_them(memory, clock, given, is_named):
    memory.remember_episode(
        scope="c", id="e1", summary="They spoke.", messages=[*said(clock), Message(role="user", content=LONG)]
    )
    memory.add_messages("c", [Message(role="user", content=LONG)])
    assert memory.forget_messages("c", [given]).messages == 2 * is_named


@pytest.mark.parametrize("given", [TOLD, [3], [None], [""], ["  "], [{"role": "user"}], [TOLD] * 101, None, b"x"])
def test_what_names_no_messages_is_refused(memory, clock, given):
    memory.add_messages("c", said(clock))
    with pytest.raises(ValidationError):
        memory.forget_messages("c", given)
    assert texts(memory) == [text for _, text in TALK]


def test_what_is_said_everywhere_is_refused_until_it_is_named_by_its_time(memory, clock, monkeypatch):
    monkeypatch.setattr(store, "_RETOLD_TOGETHER", 1)
    for place in range(2):
        messages = said(clock, [("user", "Yes."), ("user", f"Number {place}")])
        memory.remember_episode(scope="c", id=f"e{place}", summary="They spoke.", messages=messages)
        clock.advance(seconds=1)
    with pytest.raises(ValidationError, match="in 2 episodes, and at most 1"):
        memory.forget_messages("c", ["Yes."])
    assert memory.forget_messages("c", [memory.get("e1", scope="c").messages[0]]).episodes == ("e1",)
    assert len(memory.get("e0", scope="c").messages) == 2


def test_a_scope_is_needed_and_nothing_named_is_nothing_forgotten(memory):
    with pytest.raises(ValidationError, match="scope"):
        memory.forget_messages("", [TOLD])
    assert memory.forget_messages("c", []).messages == 0


def test_where_the_embedder_fails_nothing_is_half_forgotten(clock):
    class Failing(HashEmbedder):
        fails = False

        def embed_documents(self, texts):
            if self.fails:
                raise EmbeddingError("down")
            return super().embed_documents(texts)

    embedder = Failing()
    with AgentMemory.in_memory(embedder=embedder, clock=clock) as memory:
        memory.remember_episode(scope="c", id="e1", summary="They spoke.", messages=said(clock))
        memory.remember_episode(scope="c", id="e2", summary="They spoke.", messages=said(clock)[1:2])
        memory.add_messages("c", said(clock))
        embedder.fails = True
        with pytest.raises(EmbeddingError):
            memory.forget_messages("c", [TOLD])
        assert memory.get("e2", scope="c").messages
        assert TOLD in texts(memory)
        assert TOLD in [each.content for each in memory.get("e1", scope="c").messages]
        assert memory.verify().ok


def test_expired_episodes_forget_too_and_former_results_name_messages(memory, clock):
    memory.remember_episode(
        scope="c", id="e1", summary="They spoke.", messages=said(clock), expires_at=clock.now() + timedelta(seconds=1)
    )
    (hit,) = memory.retrieve("diabetes", scope="c", record=False).episodic
    assert memory.forget_messages("d", [TOLD]).messages == 0  # which purges what has expired, for an hour
    clock.advance(seconds=2)
    assert memory.forget_messages("c", [hit.memory.messages[1]]).messages == 1
    assert memory.scopes() == []


def test_a_hook_sees_what_is_left_and_no_model_is_asked(clock):
    seen = []

    def before_store(record):
        seen.append(record)
        return record

    model = ScriptedLanguageModel([])
    with AgentMemory.in_memory(
        embedder=HashEmbedder(), clock=clock, before_store=before_store, language_model=model
    ) as memory:
        memory.remember_episode(scope="c", id="e1", summary="xyzzy", messages=said(clock))
        seen.clear()
        memory.forget_messages("c", [TOLD])
        assert [each.messages for each in seen] == [tuple(without_it(said(clock)))]
