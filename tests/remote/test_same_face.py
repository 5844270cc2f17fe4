"""``RemoteMemory`` has the methods of ``AgentMemory``, with their signatures, and they give what those give."""

import asyncio
import inspect
import threading
from datetime import UTC, datetime, timedelta

import pytest
from patience import PATIENCE

from memory_retrievers import AgentMemory, Message
from memory_retrievers.errors import BackendError, ConfigurationError, NotFoundError, ValidationError
from memory_retrievers.models.scenes import SceneEvent
from memory_retrievers.remote import RemoteMemory
from memory_retrievers.server.methods import METHODS
from memory_retrievers.settings import SceneSettings
from memory_retrievers.testing import HashEmbedder

ALICE = "user/alice"
LEFT_OUT = {
    "open": "it opens a directory of this machine",
    "in_memory": "it makes a memory of this process",
    "connect": "it opens a database",
    "import_": "it makes a directory on this machine",
    "from_chroma": "it makes a store from a collection of this process",
    "sync_chroma": "it reads a collection of this process",
    "adoption": "it tells of from_chroma",
    "items": "it holds the open store; a LangGraph store is over a memory of this process",
    "overview": "it holds the open store; the window is over a memory of this process",
    "manager": "it holds the open store; run_tool runs the tools there",
    "query_characters": "it is a setting of the server, which refuses longer queries by itself",
    "verify": "of whoever runs the server: it reads every scope",
    "rebuild": "of whoever runs the server: it changes every scope",
    "reembed": "of whoever runs the server: it changes every scope",
    "reindex": "of whoever runs the server: it changes every scope",
    "purge": "of whoever runs the server: it writes the file anew",
    "backup": "of whoever runs the server: it writes a directory there",
    "export": "of whoever runs the server: it writes a file there",
}
ITS_OWN = {"run_tool", "call"}


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


def test_what_is_left_out_is_named_with_its_reason_and_nothing_else_is():
    assert public(AgentMemory) - public(RemoteMemory) == set(LEFT_OUT)
    assert public(RemoteMemory) - public(AgentMemory) == ITS_OWN
    assert set(METHODS) <= public(RemoteMemory)


def test_methods_take_what_those_of_an_agent_memory_take_and_are_described():
    for name in sorted(public(AgentMemory) - set(LEFT_OUT)):
        here, there = getattr(RemoteMemory, name), getattr(AgentMemory, name)
        assert inspect.signature(here) == inspect.signature(there), name
        assert inspect.getdoc(here), name


def test_each_form_that_is_awaited_is_of_a_method():
    awaited = {name for name in public(AgentMemory) if inspect.iscoroutinefunction(getattr(AgentMemory, name))}
    assert {name[1:] for name in awaited} == {
        *("retrieve", "context", "recent", "profile", "get", "list", "history", "events", "transcript"),
        *("remember_fact", "remember_episode", "remember_many", "update", "invalidate", "review"),
        *("forget", "forget_messages", "forget_scope", "forget_conversation", "add_messages", "process_due", "flush"),
    }
    for kind in (AgentMemory, RemoteMemory):
        for name in awaited:
            sync, form = getattr(kind, name[1:]), getattr(kind, name)
            assert inspect.signature(form) == inspect.signature(sync), name
            assert form.__name__ == name
            assert inspect.getdoc(form), name


READS = {
    "retrieve": [
        (("garden",), {"scope": ALICE, "record": False}),
        (("Lyon",), {"scope": "user", "include_child_scopes": True, "episodic_limit": 1, "record": False}),
    ],
    "recent": [((ALICE,), {}), ((ALICE,), {"limit": 5_000, "facts": True}), ((ALICE,), {"days_limit": 0.5})],
    "profile": [((ALICE,), {})],
    "get": [(("f1",), {"scope": ALICE}), (("e1",), {"scope": ALICE})],
    "list": [
        ((ALICE,), {}),
        ((ALICE,), {"limit": 1}),
        ((ALICE,), {"kind": "episodic", "tags": ("work",)}),
        ((ALICE,), {"tags": None}),
        ((ALICE,), {"metadata": {"a": None}, "since": datetime(2026, 1, 1, tzinfo=UTC), "until": "2027-01-01"}),
    ],
    "history": [(("f1",), {"scope": ALICE})],
    "events": [((ALICE,), {}), ((ALICE,), {"id": "f1"}), ((ALICE,), {"limit": 1})],
    "diff": [
        ((ALICE,), {"since": "2020-01-01", "until": "2100-01-01"}),
        ((ALICE,), {"since": "2020-01-01", "until": "2100-01-01", "include_child_scopes": True, "limit": 1}),
    ],
    "scopes": [((), {}), (("user/alice",), {}), ((), {"within": "user"})],
    "stats": [((), {}), ((ALICE,), {})],
    "now": [((), {})],
    "explain": [(("Lyon",), {"scope": ALICE}), (("Lyon",), {"scope": ALICE, "limit": 2, "tags": ["work"]})],
    "explain_missing": [(("b1",), {"query": "x", "scope": "user/bob", "category": "goal"})],
    "waiting": [((ALICE,), {}), ((ALICE,), {"limit": 1})],
    "waiting_scopes": [((), {}), (("user/bob",), {})],
    "transcript": [((ALICE,), {}), ((ALICE,), {"conversation": None, "limit": 1})],
    "pending_reviews": [((ALICE,), {})],
    "characters": [(("story",), {}), (("story",), {"pov": ["Mia"]})],
    "scene": [
        (("story",), {"chat_length": 10}),
        (("story",), {"chat_length": 10, "present": ("Mia",), "settings": SceneSettings(trajectories=True)}),
    ],
}
WRITES = {
    "add_messages": [
        ((ALICE, [Message(role="user", content="It is dry."), {"role": "human", "content": "So it is."}]), {}),
        ((ALICE, ({"role": "user", "content": "It is dry."},)), {"conversation": "thread-7"}),
        ((ALICE, [{"role": "assistant", "content": None, "tool_calls": []}]), {}),
    ],
    "update": [(("f1",), {"scope": ALICE, "fact": "Alice lives in Nantes", "tags": ("new",), "importance": 0.75})],
    "invalidate": [(("f2",), {"scope": ALICE})],
    "forget": [(("e2",), {"scope": ALICE})],
    "forget_messages": [
        ((ALICE, ["Hello.", "Never said."]), {}),
        ((ALICE,), {"messages": (Message(role="user", content="It rains."),)}),
        ((ALICE, [{"role": "human", "content": "It rains."}]), {}),
        ((ALICE, []), {}),
    ],
    "forget_conversation": [((ALICE,), {})],
    "forget_scope": [(("user",), {"include_child_scopes": False}), (("user/bob",), {})],
    "process_due": [((ALICE,), {}), ((), {}), (("user",), {"include_child_scopes": True})],
    "flush": [((ALICE, "none of that name"), {})],  # ids of new episodes are made of chance
    "review": [(("e1",), {"scope": ALICE, "rating": "good"})],
    "add_scene_events": [(("story",), {"events": [SceneEvent(id="s2", summary="Mia ran home.")]})],
}


def prepare(memory):
    memory.update("f1", scope=ALICE, fact="Alice lives in Bordeaux")
    memory.add_messages(ALICE, [Message(role="user", content="Hello."), Message(role="user", content="It rains.")])
    memory.retrieve("garden", scope=ALICE)
    event = SceneEvent(
        id="s1", summary="Mia found the letter.", characters_involved=["Mia"], emotional_impact={"Mia": "joy"}
    )
    memory.add_scene_events("story", [event])


def test_every_method_of_the_table_is_called_here():
    assert set(READS) | set(WRITES) == set(METHODS)
    assert set(WRITES) == {name for name, method in METHODS.items() if method.writes}


@pytest.mark.parametrize("name", READS)
def test_what_is_read_there_is_what_is_read_here(memory, remote, name):
    prepare(memory)
    for args, options in READS[name]:
        there = getattr(memory, name)(*args, **options)
        assert getattr(remote, name)(*args, **options) == there
        assert there or name in {"list", "waiting_scopes"}, (args, options)


@pytest.mark.parametrize("name", WRITES)
def test_what_is_written_there_is_what_is_written_here(memory, remote, twin, name):
    for each in (memory, twin):
        prepare(each)
    for args, options in WRITES[name]:
        assert getattr(remote, name)(*args, **options) == getattr(twin, name)(*args, **options)
    for scope in (ALICE, "story"):
        assert memory.list(scope) == twin.list(scope)
    assert memory.history("f1", scope=ALICE) == twin.history("f1", scope=ALICE)


def test_what_a_flush_makes_is_noted_as_made_by_the_worker(memory, remote, twin):
    for each in (remote, twin):
        each.add_messages(ALICE, [Message(role="user", content="I have moved to Faro")])
        each.flush(ALICE)
    assert memory.events(ALICE)[0].channel == twin.events(ALICE)[0].channel == "worker"


def test_what_is_not_given_stays_and_none_keeps_a_memory_for_good(memory, remote):
    soon = memory.now() + timedelta(days=1)
    remote.update("f1", scope=ALICE, expires_at=soon)
    assert remote.update("f1", scope=ALICE, tags=["x"]).expires_at == soon
    assert remote.update("f1", scope=ALICE, expires_at=None).expires_at is None
    assert memory.get("f1", scope=ALICE).expires_at is None
    assert remote.update("f1", scope=ALICE, fact="Alice lives in Lyons", correct=True) == memory.get("f1", scope=ALICE)
    assert len(remote.history("f1", scope=ALICE)) == 1


def test_errors_are_those_of_the_method(memory, remote):
    for failing in (memory, remote):
        with pytest.raises(NotFoundError, match="nobody"):
            failing.get("nobody", scope=ALICE)
        with pytest.raises(NotFoundError):
            failing.get("b1", scope=ALICE)
        with pytest.raises(ValidationError):
            failing.get("f1", scope="")
        with pytest.raises(ValidationError):
            failing.invalidate("e1", scope=ALICE)
        with pytest.raises(ValidationError):
            failing.update("f1", scope=ALICE, summary="of an episode")
        with pytest.raises(ValidationError):
            failing.list(ALICE, cursor="mine")
        with pytest.raises(ValidationError):
            failing.list(ALICE, since=datetime(2026, 1, 1))  # noqa: DTZ001 - that is what is refused
        with pytest.raises(ValidationError):
            failing.review("e1", scope=ALICE, rating="splendid")
        for nowhere in (failing.recent, failing.profile, failing.flush, failing.forget_scope):
            with pytest.raises(ValidationError, match="scope must be a string"):
                nowhere(None)
        with pytest.raises(TypeError):
            failing.get("f1", ALICE)
        with pytest.raises(TypeError):
            failing.explain("x", scope=ALICE, no_such_option=1)


def test_a_flag_is_taken_as_python_takes_it(memory, remote):
    for asked in (memory, remote):
        asked.retrieve("tea", scope=ALICE, record=None)
        asked.recent(ALICE, facts=1)
        assert asked.pending_reviews(ALICE) == []


def test_memories_are_replaced_there_as_they_are_here(memory, remote):
    with pytest.raises(ValidationError):
        remote.remember_many([{"scope": ALICE, "id": "f1", "fact": "Alice lives in Paris"}])
    (stored,) = remote.remember_many([{"scope": ALICE, "id": "f1", "fact": "Alice lives in Paris"}], replace=True)
    assert memory.get("f1", scope=ALICE).fact == stored.fact == "Alice lives in Paris"


def test_a_token_sees_the_scopes_within_its_root_and_no_other(served, tokens):
    _, url = served
    with RemoteMemory(url, tokens["alices"]) as bound:
        assert bound.scopes() == ["user/alice", "user/alice/work"]
        assert bound.scopes("user/alice/work") == ["user/alice/work"]
        assert bound.waiting_scopes() == []
        assert bound.get("f1", scope=ALICE).id == "f1"
        refused = [
            lambda: bound.scopes("user"),
            lambda: bound.scopes("user/bob"),
            bound.stats,
            lambda: bound.get("b1", scope="user/bob"),
            lambda: bound.list("user/bob"),
            lambda: bound.update("b1", scope="user/bob", fact="x"),
            lambda: bound.forget("b1", scope="user/bob"),
            lambda: bound.explain("Bergen", scope="user/bob"),
            lambda: bound.scene("user/bob", chat_length=1),
            lambda: bound.waiting("user/bob"),
            lambda: bound.transcript("user/bob"),
            lambda: bound.forget_conversation("user/bob"),
            lambda: bound.forget_messages("user/bob", ["Hello."]),
            lambda: bound.pending_reviews("user/bob"),
        ]
        for ask in refused:
            with pytest.raises(ConfigurationError):
                ask()


def test_what_a_token_forgets_is_told_by_no_question_above_which_keeps_its_memories(served, tokens):
    memory, url = served
    memory.remember_episode(scope="user", id="e1", summary="They spoke of the garden.")
    memory.add_messages(ALICE, [Message(role="user", content="My garden is flooded.")], conversation="t1")
    for scope in ("user", "user/bob"):
        memory.remember_episode(scope=scope, id="e9", summary="The garden.")
        memory.retrieve("Whose garden is flooded?", scope=scope, include_child_scopes=True)
    before = [memory.list(scope) for scope in ("user", "user/bob")]
    with RemoteMemory(url, tokens["alices"]) as bound:
        assert bound.forget_conversation(ALICE, "t1") == 0
        with pytest.raises(ConfigurationError):
            bound.pending_reviews("user")
    assert memory.pending_reviews("user") == []
    assert len(memory.pending_reviews("user/bob")) == 1
    assert [memory.list(scope) for scope in ("user", "user/bob")] == before


def test_a_token_to_read_changes_nothing_by_any_method(served, tokens):
    memory, url = served
    prepare(memory)
    before = memory.list(ALICE), memory.list("story"), memory.stats()
    with RemoteMemory(url, tokens["reader"]) as reader:
        for name, calls in WRITES.items():
            for args, options in calls:
                with pytest.raises(ConfigurationError, match="may only read"):
                    getattr(reader, name)(*args, **options)
        for name, calls in READS.items():
            for args, options in calls:
                getattr(reader, name)(*args, **options)
    assert before == (memory.list(ALICE), memory.list("story"), memory.stats())


def test_the_due_of_scopes_below_is_done_if_it_is_asked_for(memory, remote):
    said = [Message(role="user", content=f"Message {number} about the garden.") for number in range(20)]
    memory.add_messages("user/carol/work", said)
    assert remote.process_due("user/carol").waiting == 0
    assert remote.process_due("user/carol", include_child_scopes=True).waiting == 20


def test_a_method_is_awaited_here_and_there(memory, remote):
    async def asked(either):
        fact = await either.aremember_fact(scope="c1", fact="Alice likes rain", allow_duplicates=True)
        await either.aadd_messages("c1", [{"role": "user", "content": "Hello."}])
        report = await either.aflush("c1")
        found, got, page = await asyncio.gather(
            either.aretrieve("rain", scope="c1", record=False), either.aget(fact.id, scope="c1"), either.alist("c1")
        )
        assert got == fact
        assert fact in page.memories
        assert report.episodes[0] in page.memories
        assert [each.content for each in await either.atranscript("c1")] == ["Hello."]
        assert await either.aforget_conversation("c1") == 1
        return [hit.memory.fact for hit in found.semantic]

    assert asyncio.run(asked(memory)) == ["Alice likes rain"]
    assert asyncio.run(asked(remote)) == ["Alice likes rain"] * 2


def test_a_call_that_is_cancelled_is_finished_whole():
    begun, go_on, done = threading.Event(), threading.Event(), threading.Event()

    class Slow(AgentMemory):
        def remember_many(self, *args, **kwargs):
            begun.set()
            go_on.wait(PATIENCE)
            try:
                return super().remember_many(*args, **kwargs)
            finally:
                done.set()

    async def cancelled(slow):
        task = asyncio.create_task(slow.aremember_fact(scope="c1", fact="Alice likes rain"))
        await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        await asyncio.to_thread(done.wait, 60)

    with Slow.in_memory(embedder=HashEmbedder()) as slow:
        asyncio.run(cancelled(slow))
        assert [each.fact for each in slow.list("c1").memories] == ["Alice likes rain"]


def test_an_answer_of_something_else_is_not_taken_for_one(serving):
    from fastapi import FastAPI

    app = FastAPI()

    @app.post("/api/v0/get")
    def other():
        return {"result": {"neither": "a fact nor an episode"}}

    @app.post("/api/v0/now")
    def nothing():
        return {}

    with serving(app) as url, RemoteMemory(url) as remote:
        for ask in (lambda: remote.get("f1", scope=ALICE), remote.now):
            with pytest.raises(BackendError, match="cannot be read"):
                ask()
