"""Snapshots of scopes: they equal those made anew whatever happens, grow, are bounded, and hold nothing forgotten."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Barrier, BrokenBarrierError, Event

import numpy as np
import pytest
from contracts.samples import NOW, SCOPE, add, at_once, columns_read, episodes_in, fact, facts_in
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from kept import held_bytes, kept_snapshots
from patience import A_LONG_TIME, PATIENCE

from memory_retrievers import AgentMemory, Message
from memory_retrievers.backends import snapshot as snapshot_module
from memory_retrievers.backends import terms
from memory_retrievers.backends.sql import snapshots
from memory_retrievers.backends.sql.keyword import PostingsKeywordIndex
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.backends.sql.passages import KEPT_CHANGES, StoredPassages, changed_since
from memory_retrievers.backends.sql.snapshots import Snapshots
from memory_retrievers.backends.sqlite import Database
from memory_retrievers.backends.vectors import ExactVectorIndex
from memory_retrievers.errors import BackendError, NotFoundError, ValidationError
from memory_retrievers.models import Category, Kind, MemoryKey, Origin
from memory_retrievers.models.filters import Filters
from memory_retrievers.models.memories import EpisodicDraft, SemanticDraft
from memory_retrievers.models.selection import GROWING, Growing, Selection
from memory_retrievers.settings import IngestionSettings
from memory_retrievers.storage.open import Storage
from memory_retrievers.storage.options import ResolvedOptions
from memory_retrievers.storage.store import MemoryStore
from memory_retrievers.testing import FixedClock, HashEmbedder

SCOPES = ("user/1", "user/1/work", "user/2")
IDS = [f"m{n}" for n in range(6)]
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def ledger(tmp_path):
    ledger = SQLLedger(Database(tmp_path / "memory.db"))
    yield ledger
    ledger.close()


def store_on(path, clock):
    return store_of(SQLLedger(Database(path)), clock)


def store_of(ledger, clock):
    keyword = PostingsKeywordIndex(ledger, k1=0.9, b=0.4)
    storage = Storage(ledger=ledger, keyword=keyword, dense=ExactVectorIndex(ledger))
    given = {"embedder": HashEmbedder(16), "embedder_id": "hash", "clock": clock}
    return MemoryStore(storage, ResolvedOptions.chosen(given, keyword="sqlite_bm25"))


def selections(now):
    for scope in SCOPES:
        for children in (False, True):
            for kind, every in ((Kind.SEMANTIC, False), (Kind.EPISODIC, False), (Kind.EPISODIC, True)):
                whole = Selection(scope=scope, kind=kind, now=now, include_child_scopes=children, every_passage=every)
                yield whole
                yield replace(whole, as_of=now)
                yield replace(whole, as_of=BEGIN + timedelta(hours=2), category=Category.GOAL)
                yield replace(
                    whole, filters=Filters(since=BEGIN + timedelta(hours=1), until=now), origins=(Origin.CONVERSATION,)
                )
                yield replace(whole, created_after=BEGIN + timedelta(hours=1), created_before=now - timedelta(hours=1))
                yield replace(whole, ids=IDS[:3], exclude_conversation="thread-1")


def shown(snapshot):
    """All that a snapshot holds, in a form that two of them can be compared by."""
    columns = {name: column.array.tolist() for name, column in snapshot.columns.items()}
    columns["speakers"] = [None if code < 0 else snapshot.names[code] for code in columns["speakers"]]
    terms = snapshot.terms
    return {
        **columns,
        "names": sorted(snapshot.names),
        "vectors": snapshot.matrix.tolist(),
        "terms": {term: sorted(postings.T.tolist()) for term, postings in terms.postings.items()},
        "lengths": terms.lengths.tolist(),
        "language": terms.postings.language(len(terms.ids)),
        "forms": {
            form: sorted(terms.postings.of_form(form, language))
            for form, language in [("ment", "spanish"), ("cafe", None), ("bus", None), ("tea", "spanish")]
        },
        "of terms": (terms.ids.tolist(), terms.memories.tolist()),
    }


def assert_current(ledger, now):
    """Every snapshot equals one that is made anew, and lets through and lays out what the tables say."""
    anew, compared = Snapshots(ledger), (None, None)
    for selection in selections(now):
        kept, made = ledger.snapshots.of(selection), anew.of(selection)
        if kept is not compared[0] or made is not compared[1]:  # several selections in a row share one
            assert shown(kept) == shown(made)
            compared = kept, made
        snapshot, mask = ledger.snapshots.seen(selection)
        assert snapshot.ids[mask].tolist() == ledger.eligible(selection)
        layout, positions = snapshot.layout(mask)
        expected = ledger.layout(selection)
        assert snapshot.ids[positions].tolist() == layout.passages.tolist()
        for name in ("passages", "memories", "places", "tells_time", "began", *GROWING):
            assert getattr(layout, name).tolist() == getattr(expected, name).tolist()
        said = [[None if code < 0 else each.names[code] for code in each.speakers] for each in (layout, expected)]
        assert said[0] == said[1]
        assert set(layout.names) == set(expected.names)


class Life(RuleBasedStateMachine):
    """Two connections to one file, which change it in any order; each asks for snapshots as it likes."""

    def __init__(self):
        super().__init__()
        self.clock = FixedClock(NOW)
        self.begin()
        self.stores = [self.opened() for _ in range(2)]

    def begin(self):
        self.folder = TemporaryDirectory()

    def opened(self):
        return store_on(Path(self.folder.name) / "memory.db", self.clock)

    def end(self):
        self.folder.cleanup()

    def teardown(self):
        for store in self.stores:
            assert_current(store.ledger, self.clock.now())
            store.close()
        self.end()

    who, scope, name = st.integers(0, 1), st.sampled_from(SCOPES), st.sampled_from(IDS)
    words = st.sampled_from(["green tea", "tea with milk", "un café con menta", "the red bus", "..."])

    @rule(
        who=who,
        scope=scope,
        name=name,
        text=words,
        category=st.sampled_from(Category),
        lasts=st.integers(1, 5) | st.none(),
        since=st.integers(0, 3) | st.none(),
        origin=st.sampled_from(Origin),
        keywords=st.lists(words, max_size=1),
    )
    def add_fact(self, who, scope, name, text, category, lasts, since, origin, keywords):
        expires = None if lasts is None else self.clock.now() + timedelta(hours=lasts)
        begun = None if since is None else BEGIN + timedelta(hours=since)
        draft = SemanticDraft(
            scope=scope,
            id=name,
            fact=text,
            category=category,
            expires_at=expires,
            created_at=begun,
            valid_at=begun,
            origin=origin,
            keywords=keywords,
        )
        with suppress(ValidationError, NotFoundError):
            self.stores[who].put([draft])

    @rule(
        who=who,
        scope=scope,
        name=name,
        texts=st.lists(words, min_size=1, max_size=4),
        speaker=st.sampled_from(["Ann", "Bob"]),
    )
    def add_episode(self, who, scope, name, texts, speaker):
        messages = [
            Message(role=speaker, content=text, timestamp=BEGIN + timedelta(minutes=n)) for n, text in enumerate(texts)
        ]
        draft = EpisodicDraft(scope=scope, id=name, title=texts[0], summary=" ".join(texts), messages=messages)
        with suppress(ValidationError, NotFoundError):
            self.stores[who].put([draft])

    @rule(who=who, scope=scope, name=name, text=words)
    def update(self, who, scope, name, text):
        with suppress(NotFoundError):
            memory = self.stores[who].get(name, scope=scope)
            field = "fact" if memory.kind is Kind.SEMANTIC else "summary"
            self.stores[who].update(name, scope=scope, fields={field: text})

    @rule(who=who, scope=scope, name=name)
    def take_keywords_into_the_text(self, who, scope, name):
        with suppress(NotFoundError, ValidationError):
            fact = self.stores[who].get(name, scope=scope)
            if fact.kind is Kind.SEMANTIC:
                fields = {"fact": fact.search_text, "keywords": ()}
                self.stores[who].update(name, scope=scope, fields=fields)

    @rule(who=who, scope=scope, name=name)
    def invalidate(self, who, scope, name):
        with suppress(ValidationError, NotFoundError):
            self.stores[who].invalidate(name, scope=scope)

    @rule(who=who, scope=scope, name=name)
    def forget(self, who, scope, name):
        with suppress(NotFoundError):
            self.stores[who].forget(name, scope=scope)

    @rule(who=who, scope=scope, name=name, to=scope)
    def move(self, who, scope, name, to):
        with suppress(ValidationError, NotFoundError):
            self.stores[who].move([MemoryKey(scope=scope, id=name)], target_scope=to)

    @rule(who=who, scope=scope, children=st.booleans())
    def forget_scope(self, who, scope, children):
        self.stores[who].forget_scope(scope, include_child_scopes=children)

    @rule(who=who, scope=scope, name=name, text=words)
    def add_and_undo(self, who, scope, name, text):
        with suppress(ZeroDivisionError, ValidationError), self.stores[who].transaction():
            self.stores[who].put([SemanticDraft(scope=scope, id=name, fact=text, category=Category.NOTE)])
            assert_current(self.stores[who].ledger, self.clock.now())
            raise ZeroDivisionError

    @rule(hours=st.integers(1, 4))
    def pass_time(self, hours):
        self.clock.advance(hours=hours)

    @rule(who=who)
    def reopen(self, who):
        self.stores[who].close()
        self.stores[who] = self.opened()

    @rule(who=who)
    def look(self, who):
        assert_current(self.stores[who].ledger, self.clock.now())

    @rule(who=who)
    def let_go_of_what_others_forgot(self, who):
        ledger = self.stores[who].ledger
        ledger.snapshots.let_go_of_forgotten(idle=0)
        for each in kept_snapshots(ledger):
            assert ledger.texts(each.ids.tolist()).keys() == set(each.ids.tolist())

    @rule(who=who)
    def look_again(self, who):  # as often as two of the others
        assert_current(self.stores[who].ledger, self.clock.now())


Life.TestCase.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestLife = Life.TestCase


def counted(monkeypatch):
    """How often a snapshot was loaded, and for how many passages texts were read to catch up."""
    calls = []
    load = Snapshots._load
    monkeypatch.setattr(Snapshots, "_load", lambda *given: (calls.append("load"), load(*given))[1])
    return calls


def test_a_snapshot_is_loaded_once_and_grows_with_what_is_added(ledger, monkeypatch):
    loads = counted(monkeypatch)
    add(ledger, [fact(f"f{n}") for n in range(10)])
    first = ledger.snapshots.of(facts_in())
    assert ledger.snapshots.of(facts_in()) is first
    add(ledger, [fact("elsewhere", scope="user/2")])
    assert ledger.snapshots.of(facts_in()) is first
    rooms = set()
    for n in range(10, 60):
        add(ledger, [fact(f"f{n}")])
        grown = ledger.snapshots.of(facts_in())
        assert len(grown) == n + 1
        rooms.add(id(grown.vectors._room.array))
    assert loads == ["load"]
    assert len(first) == 10  # a search that has it goes on with it
    assert len(rooms) < 15  # the vectors were not copied with every addition
    ledger.invalidate(scope=SCOPE, id="f3", at=NOW)
    snapshot, mask = ledger.snapshots.seen(facts_in())
    assert (len(snapshot), np.count_nonzero(mask)) == (60, 59)
    assert loads == ["load"]


def test_what_follows_from_a_layout_grows_with_what_is_added(tmp_path):
    store = store_on(tmp_path / "memory.db", FixedClock(NOW))
    selection = Selection(scope=SCOPE, kind=Kind.EPISODIC, now=NOW, every_passage=True)
    rooms = {name: {} for name in GROWING}
    snapshot, mask = store.ledger.snapshots.seen(selection)
    assert [getattr(snapshot.layout(mask)[0], name).tolist() for name in GROWING] == [[]] * len(GROWING)
    for number in range(40):
        said = [Message(role="user", content=f"Hello {place}", timestamp=BEGIN) for place in range(number % 4)]
        store.put([EpisodicDraft(scope=SCOPE, id=f"e{number}", summary="They met.", messages=said)])
        snapshot, mask = store.ledger.snapshots.seen(selection)
        layout, _ = snapshot.layout(mask)
        for name in GROWING:
            assert getattr(layout, name).tolist() == getattr(store.ledger.layout(selection), name).tolist()
            if number:
                room = layout.grown[name]._room.array
                rooms[name][id(room)] = room
    assert max(map(len, rooms.values())) < 20  # they were not made anew with every addition
    store.close()


def test_what_is_added_to_a_searched_scope_expires(ledger):
    add(ledger, [fact("f1")])
    ledger.snapshots.seen(facts_in())[0].layout(np.ones(1, np.bool_))
    add(ledger, [fact("f2", expires_at=NOW + timedelta(hours=1))])
    seen = [ledger.snapshots.seen(facts_in(now=NOW + timedelta(minutes=each))) for each in (59, 60)]
    assert [int(np.count_nonzero(mask)) for _, mask in seen] == [2, 1]


def test_only_the_changed_memories_are_read_to_catch_up(ledger, monkeypatch):
    asked = columns_read(ledger, monkeypatch)
    stored = add(ledger, [fact(f"f{n}") for n in range(5)])
    ledger.snapshots.of(facts_in())
    asked.clear()
    ledger.invalidate(scope=SCOPE, id="f3", at=NOW)
    ledger.snapshots.of(facts_in())
    assert asked == [{"memories": [stored[3].memory], "with_vectors": False, "with_texts": False}]


def test_who_searches_no_more_reads_only_the_changed_memories_to_let_go_of_what_others_forgot(tmp_path, monkeypatch):
    with (
        closing(SQLLedger(Database(tmp_path / "memory.db"))) as ledger,
        closing(SQLLedger(Database(tmp_path / "memory.db"))) as other,
    ):
        stored = add(other, [fact(f"f{n}") for n in range(5)])
        assert len(ledger.snapshots.of(facts_in())) == 5
        asked = columns_read(ledger, monkeypatch)
        for number in (1, 3):
            other.remove([MemoryKey(scope=SCOPE, id=f"f{number}")])
            ledger.snapshots.let_go_of_forgotten(idle=0)
            assert asked.pop() == {"memories": [stored[number].memory]}
        (kept,) = kept_snapshots(ledger)
        assert kept.memories.tolist() == [stored[number].memory for number in (0, 2, 4)]
        ledger.snapshots.let_go_of_forgotten(idle=0)
        assert asked == []  # nobody has written


def test_what_could_not_be_looked_at_is_looked_at_again(tmp_path, monkeypatch):
    with (
        closing(SQLLedger(Database(tmp_path / "memory.db"))) as ledger,
        closing(SQLLedger(Database(tmp_path / "memory.db"))) as other,
    ):
        add(other, [fact(f"f{n}") for n in range(3)])
        assert len(ledger.snapshots.of(facts_in())) == 3
        other.remove([MemoryKey(scope=SCOPE, id="f1")])
        with monkeypatch.context() as patch:
            patch.setattr(ledger, "columns", lambda *_, **__: (_ for _ in ()).throw(BackendError("it cannot be read")))
            with pytest.raises(BackendError, match="cannot be read"):
                ledger.snapshots.let_go_of_forgotten(idle=0)
        ledger.snapshots.let_go_of_forgotten(idle=0)
        assert [len(each) for each in kept_snapshots(ledger)] == [2]


def test_a_write_lets_the_snapshots_of_its_scope_grow_once_between_two_searches(tmp_path, monkeypatch):
    store = store_on(tmp_path / "memory.db", FixedClock(NOW))
    ledger, asked = store.ledger, []
    read = ledger.columns
    monkeypatch.setattr(
        ledger, "columns", lambda *given, **more: (asked.append(more.get("memories")), read(*given, **more))[1]
    )
    above = Selection(scope="user", kind=Kind.SEMANTIC, now=NOW, include_child_scopes=True)
    searched = [facts_in(), above, facts_in("user/2")]

    def put(*names, scope=SCOPE):
        asked.clear()
        store.put([SemanticDraft(scope=scope, id=name, fact=name, category=Category.NOTE) for name in names])

    def shown():
        return [len(ledger.snapshots.of(each)) for each in searched]

    put("f0", scope=SCOPE)
    put("elsewhere", scope="user/2")
    assert shown() == [1, 2, 1]
    put("f1")
    assert len(asked) == 2  # that of another scope is left as it is
    assert all("terms" in vars(each) for each in kept_snapshots(ledger) if len(each) > 1)  # counted with the write
    put("f2")
    put("f3")
    assert asked == []  # nobody has searched in between
    assert shown() == [4, 5, 1]
    asked.clear()
    assert shown() == [4, 5, 1]
    assert asked == []
    put(*(f"many{n}" for n in range(snapshots._GROWN + 1)))
    assert asked == []  # nor is much read in the time of a write
    put("f4")
    with suppress(ZeroDivisionError), store.transaction(SCOPE):
        put("undone")
        raise ZeroDivisionError
    assert shown() == [5 + snapshots._GROWN + 1, 6 + snapshots._GROWN + 1, 1]
    assert_current(ledger, NOW)
    store.close()


def test_what_a_new_fact_is_compared_with_is_read_once_and_not_again_after_the_write(tmp_path, monkeypatch):
    store = store_on(tmp_path / "memory.db", FixedClock(NOW))
    ledger = store.ledger
    asked = columns_read(ledger, monkeypatch)

    def put(name):
        asked.clear()
        draft = SemanticDraft(scope=SCOPE, fact=f"{name} lives here", category=Category.NOTE)
        store.put([draft], allow_duplicates=False, near=IngestionSettings())
        return len(asked)

    put("Ada")
    ledger.snapshots.of(facts_in())
    put("Ben")  # the first write after a search lets the snapshot grow
    assert [put("Cleo"), put("Dan"), put("Eve")] == [0, 1, 1]
    assert len(ledger.snapshots.of(facts_in())) == 5
    assert_current(ledger, NOW)
    store.close()


def test_a_write_that_waits_for_the_one_connection_in_memory_holds_no_snapshot_that_a_search_waits_for():
    with closing(SQLLedger(Database(None))) as ledger, ThreadPoolExecutor(1) as pool:
        add(ledger, [fact("m0")])
        ledger.snapshots.of(facts_in())
        (entry,) = ledger.snapshots._entries.values()
        with ledger.database.read():  # as a search does, before it lets its snapshot catch up
            growing = pool.submit(ledger.snapshots.grow, SCOPE)
            wait([growing], 0.2)
            assert not entry.lock.locked()
        growing.result()


def test_moments_and_origins_are_masks_and_the_memories_are_not_asked(ledger, monkeypatch):
    days = [BEGIN + timedelta(days=n) for n in range(4)]
    origins = [Origin.TOOL, Origin.API, Origin.TOOL, Origin.IMPORT]
    for number, (day, origin) in enumerate(zip(days, origins, strict=True)):
        told = fact(f"f{number}").model_copy(update={"created_at": day, "valid_at": day, "origin": origin})
        add(ledger, [told])
    ledger.invalidate(scope=SCOPE, id="f1", at=days[2])
    expected = {
        (): ["f0", "f2", "f3"],
        (("as_of", days[1]),): ["f0", "f1"],
        (("as_of", days[2]),): ["f0", "f2"],
        (("filters", Filters(since=days[2])),): ["f2", "f3"],
        (("filters", Filters(until=days[2])),): ["f0", "f2"],
        (("created_after", days[1]), ("created_before", days[2])): ["f2"],
        (("origins", (Origin.TOOL, Origin.CONVERSATION)),): ["f0", "f2"],
        (("origins", (Origin.TOOL,)), ("as_of", days[1])): ["f0"],
    }
    ids = {row: memory.id for row, memory in ledger.load(range(1, 5)).items()}
    asked = [replace(facts_in(), **dict(filters)) for filters in expected]
    assert [[ids[row] for row in sorted(ledger.matching(each))] for each in asked] == list(expected.values())
    monkeypatch.setattr(ledger, "matching", None)
    for selection, found in zip(asked, expected.values(), strict=True):
        snapshot, mask = ledger.snapshots.seen(selection)
        assert [ids[row] for row in snapshot.memories[mask].tolist()] == found


def test_a_fact_that_only_takes_its_keywords_into_its_text_holds_since_then(tmp_path):
    clock = FixedClock(NOW)
    store = store_on(tmp_path / "memory.db", clock)
    told = SemanticDraft(scope=SCOPE, id="f1", fact="tea", keywords=["milk"], category=Category.NOTE)
    store.put([told])
    now = replace(facts_in(), as_of=NOW)
    assert [seen.tolist() for seen in store.ledger.snapshots.seen(now)[1:]] == [[True]]
    clock.advance(hours=1)
    store.update("f1", scope=SCOPE, fields={"fact": "tea milk", "keywords": ()})
    assert [seen.tolist() for seen in store.ledger.snapshots.seen(now)[1:]] == [[False]]
    assert store.ledger.matching(now) == []
    store.close()


def test_what_another_connection_writes_is_seen_and_nothing_else_is_read(ledger, tmp_path, monkeypatch):
    add(ledger, [fact("f1")])
    assert len(ledger.snapshots.of(facts_in())) == 1
    asked = columns_read(ledger, monkeypatch)
    other = SQLLedger(Database(tmp_path / "memory.db"))
    (second,) = add(other, [fact("f2")])
    assert len(ledger.snapshots.of(facts_in())) == 2
    (third,) = add(other, [fact("f3")])
    (fourth,) = add(ledger, [fact("f4")])
    assert len(ledger.snapshots.of(facts_in())) == 4
    other.remove([MemoryKey(scope=SCOPE, id="f2")])
    assert len(ledger.snapshots.of(facts_in())) == 3
    at_once = {"with_vectors": True, "with_texts": True}  # what is new is read by one statement, and little is
    assert asked == [
        {"memories": [second.memory], **at_once},
        {"memories": [third.memory, fourth.memory], **at_once},
        {"memories": [second.memory], **dict.fromkeys(at_once, False)},
    ]
    other.close()


def test_what_a_transaction_sees_before_it_is_undone_is_not_kept(ledger):
    (first,) = add(ledger, [fact("f1")])
    assert ledger.snapshots.of(facts_in()).ids.tolist() == [first.id]
    with suppress(ZeroDivisionError), ledger.database.write():
        (undone,) = add(ledger, [fact("f2")])
        assert ledger.snapshots.of(facts_in()).ids.tolist() == [first.id, undone.id]
        raise ZeroDivisionError
    assert ledger.snapshots.of(facts_in()).ids.tolist() == [first.id]
    (third,) = add(ledger, [fact("f3")])
    assert ledger.snapshots.of(facts_in()).ids.tolist() == [first.id, third.id]


def reads_in_a_transaction(ledger, monkeypatch):
    """A transaction asks for a state once until it writes, keeps what it loads, and sees what it writes and undoes."""
    asked, ask = [], snapshots._versions_of
    monkeypatch.setattr(snapshots, "_versions_of", lambda *given: (asked.append(given[1].scope), ask(*given))[1])
    (first,) = add(ledger, [fact("f1")])
    with suppress(ZeroDivisionError), ledger.database.write(SCOPE):
        seen = ledger.snapshots.of(facts_in())
        assert ledger.snapshots.of(facts_in()) is seen
        assert asked == [SCOPE]
        with suppress(KeyError), ledger.database.write(SCOPE):
            (undone,) = add(ledger, [fact("f2")])
            assert ledger.snapshots.of(facts_in()).ids.tolist() == [first.id, undone.id]
            raise KeyError
        assert ledger.snapshots.of(facts_in()).ids.tolist() == [first.id]
        (second,) = add(ledger, [fact("f2")])
        assert ledger.snapshots.of(facts_in()).ids.tolist() == [first.id, second.id]
        raise ZeroDivisionError
    assert ledger.snapshots.of(facts_in()) is seen


def test_a_transaction_asks_for_a_state_once_until_it_writes_and_keeps_what_it_loads(ledger, monkeypatch):
    reads_in_a_transaction(ledger, monkeypatch)


def test_a_memory_expires_and_a_clock_may_be_set_back(ledger):
    add(ledger, [fact("f1", expires_at=NOW + timedelta(hours=1)), fact("f2")])
    sizes = [
        int(np.count_nonzero(ledger.snapshots.seen(facts_in(now=NOW + timedelta(minutes=minutes)))[1]))
        for minutes in (0, 59, 60, 0)
    ]
    assert sizes == [2, 2, 1, 2]


def test_snapshots_keep_to_their_bytes_and_those_searched_longest_ago_go(ledger):
    for scope in ("a", "b", "c"):
        add(ledger, [fact(f"f{n}", scope=scope) for n in range(10)])
    ledger.snapshots.of(facts_in("a"))
    ledger.snapshots.most = int(2.5 * sum(held_bytes(ledger).values()))
    for scope in ("a", "b", "a", "c"):
        assert len(ledger.snapshots.of(facts_in(scope))) == 10
        assert sum(held_bytes(ledger).values()) <= ledger.snapshots.most
    assert set(held_bytes(ledger)) == {"a", "c"}


def test_a_scope_that_is_too_large_costs_no_other_its_place(ledger):
    keyword = PostingsKeywordIndex(ledger, k1=0.9, b=0.4)
    keyword.add(add(ledger, [fact("f1", scope="small")]))
    keyword.add(add(ledger, [fact(f"f{n}", f"word{n} tea", scope="large") for n in range(200)]))
    ledger.snapshots.of(facts_in("small"))
    ledger.snapshots.most = 2 * sum(held_bytes(ledger).values())
    for _ in range(2):
        assert ledger.snapshots.of(facts_in("large")) is None
        assert len(ledger.snapshots.of(facts_in("large"), at_any_size=True)) == 200
        assert len(keyword.search(["tea"], facts_in("large"), limit=500).passages) == 200
    assert set(held_bytes(ledger)) == {"small"}


def behind(ledger):
    """The numbers that stand in the rooms of the kept vectors, behind what the snapshots show."""
    return [each.vectors._room.array[len(each) : each.vectors._room.taken] for each in kept_snapshots(ledger)]


def test_nothing_that_may_be_undone_or_was_forgotten_meanwhile_stands_behind_what_is_kept(ledger, monkeypatch):
    add(ledger, [fact(f"f{n}") for n in range(8)])
    ledger.snapshots.of(facts_in())
    add(ledger, [fact("grows")])
    ledger.snapshots.of(facts_in())  # its arrays have room now
    with suppress(ZeroDivisionError), ledger.database.write():
        add(ledger, [fact("undone")])
        assert len(ledger.snapshots.of(facts_in())) == 10
        raise ZeroDivisionError
    assert [len(rows) for rows in behind(ledger)] == [0]
    (secret,) = add(ledger, [fact("secret")])
    vectors = ledger.vectors

    def read_and_forget(passages):
        ledger.snapshots.forget([secret.id])
        return vectors(passages)

    monkeypatch.setattr(ledger, "vectors", read_and_forget)
    ledger.snapshots.of(facts_in())
    assert sum(len(rows) for rows in behind(ledger)) == 0


def test_what_is_counted_is_what_is_kept(ledger):
    for n in range(30):
        for scope in ("a", "b"):
            add(ledger, [fact(f"f{n}", f"word{n}", scope=scope)])
            ledger.snapshots.of(facts_in(scope))
            ledger.snapshots.of(facts_in(scope, include_child_scopes=True))
    entries = ledger.snapshots._entries
    assert ledger.snapshots._size == sum(entry.size for entry in entries.values())
    for (scope, *_), entry in entries.items():
        assert entry.size == pytest.approx(entry.snapshot.size + snapshots._ENTRY_BYTES, abs=100 + len(scope))
    ledger.snapshots.forget(None)
    assert ledger.snapshots._size == 0


def test_nothing_of_what_is_forgotten_is_kept(ledger):
    vectors = np.eye(3, 16, dtype=np.float32)
    stored = add(ledger, [fact("f1", "secret tea"), fact("f2", "tea"), fact("f3", "milk")], vectors)
    for selection in (facts_in(), facts_in("user", include_child_scopes=True)):
        ledger.snapshots.of(selection)
    ledger.remove([MemoryKey(scope=SCOPE, id="f1")])
    ledger.snapshots.forget([stored[0].id])
    kept = kept_snapshots(ledger)
    assert len(kept) == 2
    for snapshot in kept:
        assert stored[0].id not in snapshot.ids
        assert set(snapshot.terms.postings) == {"tea", "milk"}
        for array in (snapshot.matrix, snapshot.vectors._room.array):
            assert not (array @ vectors[0]).any()
    ledger.snapshots.forget([each.id for each in stored])
    assert held_bytes(ledger) == {}


def test_a_name_goes_with_the_last_of_what_was_said(tmp_path):
    store = store_on(tmp_path / "memory.db", FixedClock(NOW))
    for id, name in (("e1", "Ann"), ("e2", "Bob")):
        message = Message(role=name, content="hello there", timestamp=BEGIN)
        store.put([EpisodicDraft(scope=SCOPE, id=id, summary="They met.", messages=[message])])
    selection = Selection(scope=SCOPE, kind=Kind.EPISODIC, now=NOW, every_passage=True)
    assert set(store.ledger.snapshots.of(selection).names) == {"Ann", "Bob"}
    store.forget("e1", scope=SCOPE)
    assert [snapshot.names for snapshot in kept_snapshots(store.ledger)] == [("Bob",)]
    store.close()


def test_what_was_read_before_something_was_forgotten_is_not_kept(ledger, monkeypatch):
    (stored,) = add(ledger, [fact("f1", "secret tea")])
    texts = ledger.texts

    def read_and_forget(passages):
        found = texts(passages)
        ledger.snapshots.forget([stored.id])
        return found

    monkeypatch.setattr(ledger, "texts", read_and_forget)
    assert ledger.snapshots.of(facts_in()).ids.tolist() == [stored.id]
    assert held_bytes(ledger) == {}


@pytest.mark.parametrize("most", [10**9, 0], ids=["kept", "evicted"])
def test_what_was_forgotten_between_finding_a_snapshot_and_catching_up_does_not_come_back(ledger, monkeypatch, most):
    (stored,) = add(ledger, [fact("f1", "tea")])
    ledger.snapshots.of(facts_in())
    add(ledger, [fact("f2", "milk")])
    current, moves = Snapshots._current, [np.full((2, 4), 0.5, np.float32)]

    def move_and_go_on(self, *given, **named):
        if moves:
            self.most = most
            self._evict()
            ledger.new_vectors.begin("new")
            ledger.new_vectors.keep([stored.id, stored.id + 1], moves.pop())
            ledger.new_vectors.take_over()
            self.forget(None)
            self.most = 10**9
        return current(self, *given, **named)

    monkeypatch.setattr(Snapshots, "_current", move_and_go_on)
    ledger.snapshots.of(facts_in())
    assert not moves
    assert shown(ledger.snapshots.of(facts_in())) == shown(Snapshots(ledger).of(facts_in()))


def test_what_a_search_began_with_is_not_read_out_of_a_snapshot_that_lost_a_part_meanwhile(tmp_path):
    store = store_on(tmp_path / "memory.db", FixedClock(NOW))
    store.put([SemanticDraft(scope=SCOPE, fact=f"tea number {n}", id=f"m{n}") for n in range(3)])
    states = {}
    with store.ledger.database.reading(states):
        assert len(store.ledger.snapshots.of(facts_in())) == 3
    store.update("m1", scope=SCOPE, fields={"fact": "coffee"}, correct=True)
    with store.ledger.database.reading(states):
        found = store.ledger.snapshots.of(facts_in())
    assert len(found) == 3
    assert found.terms.statistics(["coffe"]).frequencies == {"coffe": 1}
    store.close()


def test_what_was_to_be_forgotten_is_found_after_the_transaction_has_failed(tmp_path):
    store = store_on(tmp_path / "memory.db", FixedClock(NOW))
    store.put([SemanticDraft(scope=SCOPE, fact=f"tea number {n}", id=f"m{n}") for n in range(3)])
    store.search("tea", lambda _: store.ledger.snapshots.of(facts_in()))

    def fail():
        with store.transaction():
            store.forget("m1", scope=SCOPE)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert len(store.ledger.snapshots.of(facts_in())) == 3
    store.close()


def test_unknown_scopes_take_no_room(ledger):
    for n in range(5):
        assert len(ledger.snapshots.of(facts_in(f"nobody/{n}"))) == 0
        assert len(ledger.snapshots.of(episodes_in(f"nobody/{n}", include_child_scopes=True))) == 0
    assert held_bytes(ledger) == {}


def test_what_is_attached_is_made_once_and_goes_with_its_snapshot(ledger):
    add(ledger, [fact("f1")])
    made = []

    def attached():
        snapshot = ledger.snapshots.of(facts_in())
        return ledger.snapshots.attach(snapshot, "model", lambda: made.append(1) or len(made), lambda _: 5_000)

    before = ledger.snapshots.of(facts_in()) and sum(held_bytes(ledger).values())
    assert [attached(), attached()] == [1, 1]
    assert sum(held_bytes(ledger).values()) == before + 5_000
    add(ledger, [fact("f2")])
    assert attached() == 2


def test_threads_that_read_write_and_forget_see_whole_snapshots(ledger):
    add(ledger, [fact(f"f{n}", f"word{n} tea") for n in range(50)])

    def work(thread):
        for n in range(40):
            if thread < 2:
                (passage,) = add(ledger, [fact(f"t{thread} {n}", f"tea of{n}")])
                if n % 3 == 0:
                    ledger.remove([MemoryKey(scope=SCOPE, id=f"t{thread} {n}")])
                    ledger.snapshots.forget([passage.id])
            snapshot = ledger.snapshots.of(facts_in())
            size = len(snapshot)
            assert {len(column.array) for column in snapshot.columns.values()} == {size}
            assert len(snapshot.matrix) == len(snapshot.terms.lengths) == size
            assert snapshot.terms.postings["tea"][0].tolist() == list(range(size))

    at_once(work)
    assert shown(ledger.snapshots.of(facts_in())) == shown(Snapshots(ledger).of(facts_in()))


def test_the_terms_of_additions_are_kept_apart_until_they_are_many(monkeypatch):
    monkeypatch.setattr(terms, "_MOST_LAYERS", 4)
    documents = [Counter([f"t{n % 7}", f"t{n % 5}", f"t{n}"]) for n in range(40)]
    block, layers = terms.EMPTY, []
    for number, document in enumerate(documents):
        block = block.appended({number: 7}, [document])
        layers.append(block.postings.layers)
        assert block.size == 24 * (number + 1) + sum(each.size for each in layers[-1])
    whole = terms.EMPTY.appended(dict.fromkeys(range(40), 7), documents)
    for each in (block, block.without(np.array([40])), whole.without(np.array([40]))):
        assert {term: places.tolist() for term, places in each.postings.items()} == {
            term: whole.postings[term].tolist() for term in whole.postings
        }
        assert each.statistics(["t1", "no"]).frequencies == {"t1": len(whole.postings["t1"][0]), "no": 0}
    assert len(block.postings) == 40
    assert max(map(len, layers)) == 4
    assert len({id(each[0]) for each in layers}) < 20  # not all terms were copied every time
    assert whole.postings.layers[0].size == terms._Layer.joined(block.postings.layers).size


def test_terms_of_additions_are_counted_when_somebody_asks_or_their_texts_are_long(ledger, monkeypatch):
    monkeypatch.setattr(snapshot_module, "_MOST_UNREAD", 30)
    ledger.snapshots.of(facts_in())
    add(ledger, [fact("f0", "tea")])
    unread = []
    for number in range(1, 8):
        add(ledger, [fact(f"f{number}", f"green tea {number}")])
        snapshot = ledger.snapshots.of(facts_in())
        unread.append(len(snapshot.unread))
        assert len(snapshot.indexed.ids) + unread[-1] == len(snapshot) == number + 1
        assert snapshot.size >= snapshot.indexed.size + sum(map(len, snapshot.unread))
    assert unread == [0, 1, 2, 3, 1, 2, 3]
    assert shown(snapshot) == shown(Snapshots(ledger).of(facts_in()))
    add(ledger, [fact("f8", "black tea")])
    assert ledger.snapshots.of(facts_in()).unread == ("black tea",)  # what was counted above is not counted again


def test_an_array_grows_in_its_room_and_views_keep_their_length():
    first = Growing(np.arange(8))
    second = first.appended(np.array([8]))
    third = second.appended(np.array([9]))
    assert third._room is second._room
    assert second.size <= second.array.nbytes * 1.125 + 8
    branch = second.appended(np.array([-1]))  # from a view whose next row is taken: a room of its own
    assert branch._room is not second._room
    assert (second.array[-1], third.array.tolist()[-2:], branch.array.tolist()[-2:]) == (8, [8, 9], [8, -1])


class TestChangedSince:
    def test_it_tells_what_has_changed_between_two_versions(self, ledger):
        (first,) = add(ledger, [fact("f1")])
        (other,) = add(ledger, [fact("elsewhere", scope="user/2")])
        known = versions(ledger)
        assert told(ledger, known) == set()
        (second,) = add(ledger, [fact("f2")])
        ledger.invalidate(scope=SCOPE, id="f1", at=NOW)
        assert told(ledger, known) == {first.memory, second.memory}
        assert told(ledger, {}) == {first.memory, second.memory, other.memory}  # scopes that are new
        with suppress(ZeroDivisionError), ledger.database.write():
            (undone,) = add(ledger, [fact("f3")])
            assert told(ledger, known) == {first.memory, second.memory, undone.memory}
            raise ZeroDivisionError
        assert told(ledger, known) == {first.memory, second.memory}
        ledger.remove([MemoryKey(scope=SCOPE, id="f1")])
        assert told(ledger, known) == {first.memory, second.memory}

    def test_what_it_does_not_hold_is_not_told(self, ledger):
        add(ledger, [fact("f1")])
        known = versions(ledger)
        assert told(ledger, known | {99: 1}) is None  # a scope is gone
        add(ledger, [fact("f2")])
        with ledger.database.write() as connection:
            connection.execute("UPDATE scopes SET version = version + 1")  # nobody has said what for
        assert told(ledger, known) is None

    def test_it_is_bounded(self, ledger):
        add(ledger, [fact("f1")])
        known = versions(ledger)
        for first in range(0, 1500, 300):
            add(ledger, [fact(f"m{first + each}") for each in range(300)])
        with ledger.database.read() as connection:
            (kept,) = connection.execute("SELECT count(*) FROM changes").fetchone()
        assert KEPT_CHANGES <= kept < KEPT_CHANGES + 500
        assert told(ledger, known) is None
        assert len(ledger.snapshots.of(facts_in())) == 1501

    def test_it_goes_with_its_scope(self, ledger):
        add(ledger, [fact("f1")])
        ledger.remove_scope(SCOPE, include_child_scopes=True)
        with ledger.database.read() as connection:
            assert connection.execute("SELECT count(*) FROM changes").fetchone() == (0,)


def versions(ledger):
    with ledger.database.read() as connection:
        return dict(connection.execute("SELECT id, version FROM scopes").fetchall())


def told(ledger, known):
    with ledger.database.read() as connection:
        return changed_since(connection, known, versions(ledger))


@pytest.mark.parametrize(("passages", "is_alone"), [(100, True), (snapshots._WIDE, False)])
def test_small_scopes_are_searched_one_at_a_time_and_wide_ones_on_every_core(ledger, monkeypatch, passages, is_alone):
    monkeypatch.setattr(snapshots, "_CORES", 2)
    monkeypatch.setattr(snapshots, "_PATIENCE", PATIENCE)
    kept, meeting = Snapshots(StoredPassages(ledger.database)), Barrier(2)

    def search(_):
        with kept.turn(passages):
            try:
                meeting.wait(0.2 if is_alone else PATIENCE)
            except BrokenBarrierError:
                return False
            return True

    with ThreadPoolExecutor(2) as threads:
        met = list(threads.map(search, range(2)))

    assert met == [not is_alone] * 2


def test_who_waits_for_a_turn_in_vain_or_writes_searches_beside_the_others(ledger, monkeypatch):
    monkeypatch.setattr(snapshots, "_PATIENCE", 0.01)
    kept, is_done = Snapshots(StoredPassages(ledger.database)), Event()

    def hold():
        with kept.turn(0), kept.turn(0):  # the second of one thread waits for nobody
            assert is_done.wait(PATIENCE)

    with ThreadPoolExecutor(1) as threads:
        held = threads.submit(hold)
        with kept.turn(0):
            pass
        monkeypatch.setattr(snapshots, "_PATIENCE", A_LONG_TIME)
        with ledger.database.write(), kept.turn(0):
            is_done.set()
        held.result(PATIENCE)


def test_a_turn_ends_where_a_snapshot_is_read(ledger, monkeypatch):
    monkeypatch.setattr(snapshots, "_PATIENCE", A_LONG_TIME)
    add(ledger, [fact("tea")])
    kept = ledger.snapshots
    with kept.turn(0):
        assert kept.of(Selection(scope=SCOPE, kind=Kind.SEMANTIC, now=NOW))
        with ThreadPoolExecutor(1) as threads:  # it gets the turn while this thread goes on
            threads.submit(lambda: kept.turn(0).__enter__()).result(PATIENCE)


def test_a_search_takes_the_turn_of_its_scope_and_then_a_connection(tmp_path, monkeypatch):
    steps = []
    turn, take = Snapshots.turn, Database._take
    monkeypatch.setattr(Snapshots, "turn", lambda self, passages: steps.append(passages) or turn(self, passages))
    monkeypatch.setattr(Database, "_take", lambda self: steps.append("connection") or take(self))

    with AgentMemory.open(tmp_path, embedder=HashEmbedder(16), embedder_id="hash") as memory:
        memory.remember_fact(scope=SCOPE, fact="Ana drinks tea")
        memory.retrieve("tea", scope=SCOPE)
        steps.clear()
        memory.retrieve("tea", scope=SCOPE)
        memory.retrieve("tea", scope="user/of-whom-nothing-is-known")

    assert steps[:4] == [1, "connection"] * 2
    assert steps[4:6] == [None, "connection"]


def test_threads_do_not_wait_for_each_other_to_make_what_follows_from_their_snapshots():
    met = Barrier(2)

    class Thing:
        @snapshot_module.cached_property
        def made(self):
            return met.wait(PATIENCE)

    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(lambda each: each.made, [Thing(), Thing()])) == [0, 1]
