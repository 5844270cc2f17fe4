"""What happened to a memory is told: what, when, by which way and by whom, and not a word of what it says."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_retrievers import AgentMemory, NotFoundError, ValidationError
from memory_retrievers.backends.sql import removal
from memory_retrievers.models import EpisodicMemory, SemanticMemory
from memory_retrievers.models.management import Channel, MemoryEventType
from memory_retrievers.models.messages import Message
from memory_retrievers.server.mcp import McpOffer
from memory_retrievers.testing import FixedClock, HashEmbedder, inside
from memory_retrievers.tools.registry import LocalToolbox
from memory_retrievers.tools.tool import ToolContext


def told(memory, scope="c1", id=None):
    """Types, oldest first."""
    return [str(event.type) for event in reversed(memory.events(scope, id=id))]


def rows(memory):
    with inside(memory).ledger.database.read() as connection:
        return repr(connection.execute("SELECT * FROM events").fetchall())


def test_each_change_is_told_with_its_moment(memory, clock):
    start = clock.now()
    fact = memory.remember_fact(scope="c1", fact="User lives in Porto")
    clock.advance(days=1)
    memory.remember_fact(scope="c1", fact="User lives in Porto")
    memory.update(fact.id, scope="c1", fact="User lives in Braga", tags=["home"])
    memory.update(fact.id, scope="c1", fact="User lives in Braga.", correct=True)
    memory.update(fact.id, scope="c1", tags=["place"])
    memory.update(fact.id, scope="c1", tags=["place"])  # nothing is different
    clock.advance(days=1)
    new = memory.remember_fact(scope="c1", fact="User lives in Faro", replaces=fact.id)
    memory.invalidate(new.id, scope="c1")
    memory.invalidate(new.id, scope="c1")  # it is already
    events = memory.events("c1", id=fact.id)
    assert [(str(event.type), event.fields, (event.at - start).days) for event in reversed(events)] == [
        ("created", (), 0),
        ("confirmed", (), 1),
        ("updated", ("tags", "fact"), 1),
        ("corrected", ("fact",), 1),
        ("updated", ("tags",), 1),
        ("superseded", (), 2),
    ]
    assert told(memory, id=new.id) == ["created", "invalidated"]
    assert len(memory.events("c1")) == 8
    assert [event.id for event in memory.events("c1", limit=2)] == [new.id, fact.id]


def test_episodes_are_reviewed_and_memories_pinned_moved_merged_and_restored(memory):
    episode = memory.remember_episode(scope="c1", summary="The user moved")
    memory.review(episode.id, scope="c1", rating="good")
    manager = memory.manager
    manager.importance.set(memory.get(episode.id, scope="c1"), score=0.9, reason="told so")
    manager.importance.clear(memory.get(episode.id, scope="c1"))
    manager.importance.clear(memory.get(episode.id, scope="c1"))
    before = memory.get(episode.id, scope="c1")
    after = memory.update(episode.id, scope="c1", summary="The user moved to Faro")
    manager.restore(before, after)
    manager.move([memory.get(episode.id, scope="c1")], target_scope="c2")
    assert told(memory) == []
    assert told(memory, "c2", episode.id) == [
        *("created", "reviewed", "pinned", "unpinned", "updated", "restored", "moved")
    ]
    made = SemanticMemory.new(scope="c1", fact="Both", consolidated_from=["a", "b"])
    memory.remember_many([made])
    assert told(memory) == ["merged"]


def test_what_is_undone_while_the_clock_is_behind_takes_no_other_version_with_it(memory, clock):
    start = clock.now()
    memory.remember_fact(scope="c1", fact="User lives in Porto", id="home")
    clock.advance(days=2)
    memory.update("home", scope="c1", fact="User lives in Braga")
    clock.advance(days=-1)  # what is said from here on holds from the same moment as what was said before
    known = [memory.get("home", scope="c1")]
    known += [memory.update("home", scope="c1", fact=f"User lives in {place}") for place in ("Faro", "Braga", "Faro")]
    told = [[fact.fact for fact in memory.history("home", scope="c1")]]
    for before, after in zip(known[-2::-1], known[:0:-1], strict=True):
        memory.manager.restore(before, after)
        told.append([fact.fact for fact in memory.history("home", scope="c1")])
    assert [len(each) for each in told] == [5, 4, 3, 2]
    assert told[-1] == ["User lives in Porto", "User lives in Braga"]
    (then,) = memory.retrieve("home", scope="c1", as_of=start).semantic
    assert then.memory.fact == "User lives in Porto"


def test_of_a_forgotten_memory_only_the_moment_stays(memory, clock):
    fact = memory.remember_fact(scope="c1", fact="User hides a grail", id="grail")
    memory.remember_fact(scope="c1", fact="User likes tea")
    memory.update("grail", scope="c1", fact="User has hidden a grail")
    memory.remember_fact(scope="c1", fact="It is short", expires_at=clock.now().replace(year=2027), id="short")
    assert "grail" not in rows(memory)
    memory.forget(fact.id, scope="c1")
    assert told(memory) == ["created", "created", "forgotten"]
    assert [(event.id, event.fields) for event in memory.events("c1", limit=1)] == [(None, ())]
    clock.advance(days=365)
    assert told(memory) == ["created", "forgotten"]  # what has expired is not seen any more
    memory.purge()
    assert told(memory) == ["created", "forgotten", "expired"]
    memory.forget_scope("c1")
    assert memory.events("c1") == ()
    memory.remember_fact(scope="c1", fact="Anew")
    assert told(memory) == ["created"]
    assert memory.verify().ok


def test_what_is_stored_over_a_memory_begins_a_new_log(memory):
    draft = SemanticMemory.new(scope="c1", id="f1", fact="One")
    memory.remember_many([draft])
    memory.update("f1", scope="c1", fact="Two")
    memory.remember_many([draft], replace=True)
    assert told(memory) == ["created"]


def test_nobody_reads_the_log_of_another_scope(memory):
    fact = memory.remember_fact(scope="user/a", fact="User likes tea")
    memory.remember_fact(scope="user/a/b", fact="User likes coffee")
    for scope in ("user/b", "user", "user/a/b"):
        with pytest.raises(NotFoundError):
            memory.events(scope, id=fact.id)
    assert memory.events("user") == memory.events("user/b") == ()
    assert [event.scope for event in memory.events("user/a")] == ["user/a"]
    for scope, limit in (("user//a", 1), ("user/a", 0), ("user/a", 1001)):
        with pytest.raises(ValidationError):
            memory.events(scope, limit=limit)


def test_it_tells_by_which_way_and_by_whom(memory):
    memory.remember_fact(scope="api", fact="User likes tea")
    LocalToolbox(ToolContext(memory=memory, root="tool")).call("memory_store", {"content": "User likes tea"})
    McpOffer(memory, scope="mcp").call("memory_store", {"content": "User likes tea"})
    memory.add_messages("worker", [Message(role="user", content="I have moved to Faro")])
    memory.flush("worker")
    found = {scope: memory.events(scope)[-1] for scope in memory.scopes()}
    assert {scope: (event.channel, event.actor) for scope, event in found.items()} == {
        "api": (Channel.API, None),
        "tool": (Channel.TOOL, "memory_store"),
        "mcp": (Channel.MCP, "memory_store"),
        "worker": (Channel.WORKER, None),
    }


def test_an_export_carries_it_and_an_older_one_says_imported(memory, clock, tmp_path):
    memory.remember_fact(scope="c1", fact="User lives in Porto", id="f1")
    memory.remember_fact(scope="c1", fact="User likes tea", id="f2")
    memory.forget("f2", scope="c1")
    memory.remember_fact(scope="c0", fact="User has a cat", id="f0")
    memory.update("f1", scope="c1", fact="User lives in Faro")
    memory.export(tmp_path / "new.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "new.jsonl").read_text("utf-8").splitlines()[:-1]]
    assert lines[0]["events"] == 4
    with AgentMemory.import_(tmp_path / "new.jsonl", into=tmp_path / "copy", embedder=HashEmbedder()) as copy:
        assert copy.events("c1") == memory.events("c1")
        assert [event.id for event in copy.events("c1")] == ["f1", None, "f1"]  # newest first, as before
        copy.export(tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "new.jsonl").read_bytes()
    header = {name: value for name, value in lines[0].items() if name != "events"} | {"version": 5}
    older = [header, *(line for line in lines[1:] if line["type"] != "event")]
    (tmp_path / "old.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in older), "utf-8")
    options = {"embedder": HashEmbedder(), "clock": clock}
    with AgentMemory.import_(tmp_path / "old.jsonl", into=tmp_path / "older", **options) as copy:
        (event,) = copy.events("c1")
        assert (event.id, event.type, event.channel, event.at) == (
            "f1",
            MemoryEventType.IMPORTED,
            Channel.IMPORT,
            clock.now(),
        )
    lost = [*lines, {**lines[-1], "id": "f9"}]
    lost[0]["events"] += 1
    (tmp_path / "lost.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lost), "utf-8")
    with pytest.raises(ValidationError, match="that is in no line before"):
        AgentMemory.import_(tmp_path / "lost.jsonl", into=tmp_path / "lost", embedder=HashEmbedder())


@pytest.mark.parametrize("is_searched", [True, False], ids=["review", "queue"])
@pytest.mark.parametrize("is_left", [True, False], ids=["as earlier versions left it", "gone"])
def test_a_scope_that_holds_only_what_was_forgotten_hinders_no_copy(tmp_path, monkeypatch, is_searched, is_left):
    """What kept the scope, a review or queued messages, went in another way than by forgetting in that scope."""
    if is_left:
        monkeypatch.setattr(removal, "EMPTY_SCOPES", "FALSE")

    def before_store(draft):
        return draft if is_searched or isinstance(draft, Message) else None

    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder()) as memory:
        memory.remember_fact(scope="other", fact="Alice likes tea", id="kept")
        memory.remember_fact(scope="user", fact="Bob lives in Lyon", id="p")
        memory.remember_episode(scope="user/a", summary="Child went to Lyon", id="c")
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder(), before_store=before_store) as memory:
        if is_searched:
            memory.retrieve("Child Lyon", scope="user", include_child_scopes=True)
            assert len(memory.pending_reviews("user")) == 1
        else:
            memory.add_messages("user", [{"role": "user", "content": "Keep"}, {"role": "assistant", "content": "Yes"}])
        memory.forget("p", scope="user")
        memory.forget("c", scope="user/a")
        memory.flush("user")
        assert (memory.events("user") != ()) is is_left
        assert memory.export(tmp_path / "new.jsonl") == 1
    lines = [json.loads(line) for line in (tmp_path / "new.jsonl").read_text("utf-8").splitlines()[:-1]]
    assert {line["scope"] for line in lines if line.get("type") == "event"} == {"other"}
    earlier = {**next(line for line in lines if line.get("type") == "event"), "scope": "user", "id": None}
    lines[0]["events"] += 1
    (tmp_path / "old.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in [*lines, earlier]), "utf-8")
    for name in ("new", "old"):
        with AgentMemory.import_(tmp_path / f"{name}.jsonl", into=tmp_path / name, embedder=HashEmbedder()) as copy:
            assert [each.id for each in copy.list("other")] == ["kept"]
            assert copy.events("user") == ()


STEPS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(
    ["tell", "say", "correct", "tag", "invalidate", "replace", "pin", "unpin", "forget", "move"]
)), max_size=12)  # fmt: skip


@settings(deadline=None, max_examples=40, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_the_log_explains_the_present_state(steps):
    clock = FixedClock(datetime(2026, 3, 1, tzinfo=UTC))
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as memory:
        for number in range(3):
            memory.remember_fact(scope="c1", fact=f"Thing {number} is blue", id=f"f{number}")
        memory.remember_episode(scope="c1", summary="It stays")
        forgotten = sum(taken(memory, clock, f"f{number}", step) for number, step in steps)
        for scope in ("c1", "c2"):
            events = [*reversed(memory.events(scope, limit=1000))]
            present = memory.list(scope, limit=1000).memories
            assert {event.id for event in events} - {None} == {each.id for each in present}
            for each in present:
                explained(memory, each, [event for event in events if event.id == each.id])
        assert sum(event.type is MemoryEventType.FORGOTTEN for event in memory.events("c1", limit=1000)) == forgotten


AS_IT_WAS = {MemoryEventType.CONFIRMED, MemoryEventType.PINNED, MemoryEventType.UNPINNED, MemoryEventType.MOVED}
"""What leaves ``updated_at`` as it was."""


def taken(memory, clock, id, step):
    """Take a step, where it can be; 1 if a memory was forgotten in the scope that stays."""
    clock.advance(seconds=1)
    try:
        known = memory.get(id, scope="c1")
    except NotFoundError:
        return 0
    match step:
        case "tell" if known.invalid_at is None:
            memory.remember_fact(scope="c1", fact=known.fact)
        case "say" | "correct":
            memory.update(id, scope="c1", fact=f"{known.fact}!", correct=step == "correct")
        case "tag":
            memory.update(id, scope="c1", tags=[f"t{len(known.tags)}", *known.tags])
        case "invalidate":
            memory.invalidate(id, scope="c1")
        case "replace" if known.replaced_by is None:
            memory.remember_fact(scope="c1", fact=f"{known.fact} not", replaces=id)
        case "forget":
            memory.forget(id, scope="c1")
        case _:
            managed(memory.manager, known, step)
    return int(step == "forget")


def managed(manager, known, step):
    if step == "pin":
        manager.importance.set(known, score=1.0, reason="")
    elif step == "unpin":
        manager.importance.clear(known)
    elif step == "move":
        manager.move([known], target_scope="c2")


def explained(memory, each, events):
    types = [event.type for event in events]
    assert types[0] is MemoryEventType.CREATED
    if isinstance(each, EpisodicMemory):
        assert types == [MemoryEventType.CREATED]
        return
    ended = [event for event in events if event.type in {MemoryEventType.SUPERSEDED, MemoryEventType.INVALIDATED}]
    assert (each.invalid_at is not None) == bool(ended)
    assert (each.replaced_by is not None) == (MemoryEventType.SUPERSEDED in types)
    pins = [each for each in types if each in {MemoryEventType.PINNED, MemoryEventType.UNPINNED}]
    assert each.importance_pinned == (pins[-1:] == [MemoryEventType.PINNED])
    told_again = [event.at for event in events if event.type is MemoryEventType.CONFIRMED]
    assert each.last_confirmed_at is None or each.last_confirmed_at == told_again[-1]
    texts = [event for event in events if "fact" in event.fields]
    kept = [version for version in memory.history(each.id, scope=each.scope) if version.id == each.id]
    assert len(kept) <= 1 + sum(event.type is MemoryEventType.UPDATED for event in texts)
    assert each.fact.count("!") >= len(texts)
    assert each.updated_at == [event.at for event in events if event.type not in AS_IT_WAS][-1]
