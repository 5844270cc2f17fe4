"""What changed keeps its past, what is told twice is known once, and what differs is named."""

import threading
from datetime import UTC, datetime, timedelta

import pytest

from memory_retrievers import AgentMemory, NotFoundError, RetrievalSettings, SemanticMemory, ValidationError
from memory_retrievers.storage import migrate
from memory_retrievers.testing import HashEmbedder, inside
from memory_retrievers.tools.registry import LocalToolbox
from memory_retrievers.tools.tool import ToolContext

DAYS = [datetime(2026, 3, day, tzinfo=UTC) for day in (5, 15, 25)]
QUESTION = "Where does the user live?"


def said(memory, *, as_of=None, scope="c1", **options):
    result = memory.retrieve(QUESTION, scope=scope, as_of=as_of, episodic_limit=0, record=False, **options)
    return [hit.memory.fact for hit in result.semantic]


@pytest.fixture
def moved(memory, clock):
    """User lived in Porto until the 10th, in Braga until the 20th, and lives in Faro."""
    fact = memory.remember_fact(scope="c1", fact="User lives in Porto", category="identity", keywords=["home"])
    memory.remember_fact(scope="c1", fact="User likes coffee", category="preference")
    for city in ("Braga", "Faro"):
        clock.advance(days=10)
        memory.update(fact.id, scope="c1", fact=f"User lives in {city}")
    return fact


def test_what_a_fact_said_is_found_as_of_then_and_nowhere_else(moved, memory):
    assert [said(memory, as_of=day)[0] for day in DAYS] == [
        f"User lives in {city}" for city in ("Porto", "Braga", "Faro")
    ]
    assert said(memory) == ["User lives in Faro", "User likes coffee"]
    assert said(memory, as_of=DAYS[0], category="identity") == ["User lives in Porto"]
    assert said(memory, as_of=datetime(2026, 2, 1, tzinfo=UTC)) == []


def test_history_shows_each_version_in_the_order_of_validity(moved, memory):
    versions = memory.history(moved.id, scope="c1")
    assert [version.fact for version in versions] == [f"User lives in {city}" for city in ("Porto", "Braga", "Faro")]
    assert {version.id for version in versions} == {moved.id}
    assert [version.invalid_at for version in versions[:2]] == [version.valid_at for version in versions[1:]]
    assert [version.replaced_by for version in versions] == [moved.id, moved.id, None]
    assert versions[0].keywords == ("home",)
    assert versions[2] == memory.get(moved.id, scope="c1")


def test_a_clock_that_is_behind_loses_no_former_version(memory, clock):
    fact = memory.remember_fact(scope="c1", fact="User lives in Porto")
    clock.advance(seconds=-30)
    for city in ("Braga", "Faro"):
        memory.update(fact.id, scope="c1", fact=f"User lives in {city}")
        clock.advance(seconds=2)
    versions = memory.history(fact.id, scope="c1")
    assert [version.fact for version in versions] == [f"User lives in {city}" for city in ("Porto", "Braga", "Faro")]
    assert [event.type for event in memory.events("c1", id=fact.id)] == ["updated", "updated", "created"]
    assert said(memory) == said(memory, as_of=fact.valid_at) == ["User lives in Faro"]
    assert memory.verify().problems == ()


@pytest.mark.parametrize("between", [{"fact": "User lives in Braga"}, {"tags": ["home"]}], ids=["a text", "a tag"])
def test_a_clock_that_is_behind_the_last_change_loses_no_former_version_and_stores_nothing_twice(
    memory, clock, between
):
    fact = memory.remember_fact(scope="c1", fact="User lives in Porto")
    clock.advance(days=8)
    memory.update(fact.id, scope="c1", fact="User lives in Lyon")
    clock.advance(days=-7)
    memory.update(fact.id, scope="c1", **between)
    last = memory.get(fact.id, scope="c1").fact
    assert memory.remember_fact(scope="c1", fact=last).duplicate_of == fact.id
    memory.update(fact.id, scope="c1", fact="User lives in Faro")
    versions = [version.fact for version in memory.history(fact.id, scope="c1")]
    assert versions == list(dict.fromkeys(["User lives in Porto", "User lives in Lyon", last, "User lives in Faro"]))
    assert memory.verify().problems == ()


def test_a_clock_that_is_behind_ends_no_fact_before_it_begins(memory, clock):
    fact = memory.remember_fact(scope="c1", fact="User lives in Porto")
    clock.advance(seconds=-30)
    ended = memory.invalidate(fact.id, scope="c1")
    assert ended.invalid_at == ended.updated_at == fact.valid_at
    assert memory.get(fact.id, scope="c1") == ended


def test_a_fact_that_begins_later_and_is_invalidated_today_never_holds(memory, clock):
    beginning = clock.now() + timedelta(days=9)
    fact = memory.remember_fact(scope="c1", fact="User lives in Porto", valid_at=beginning)
    ended = memory.invalidate(fact.id, scope="c1")
    assert (ended.valid_at, ended.invalid_at, ended.updated_at) == (beginning, beginning, clock.now())
    assert memory.get(fact.id, scope="c1") == ended
    assert said(memory) == said(memory, as_of=beginning) == []


def test_the_specified_ranking_finds_former_versions_too(clock):
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, retrieval=RetrievalSettings.reference()) as memory:
        before = clock.now()
        fact = memory.remember_fact(scope="c1", fact="User lives in Porto")
        memory.remember_fact(scope="c1", fact="User likes coffee")
        clock.advance(days=1)
        memory.update(fact.id, scope="c1", fact="User lives in Braga")
        assert said(memory, as_of=before)[0] == "User lives in Porto"


@pytest.mark.parametrize("settings", [RetrievalSettings(), RetrievalSettings.reference()])
def test_a_changed_fact_ranks_as_one_that_was_mended_in_place(clock, keyword, settings):
    answers = []
    for correct in (False, True):
        options = {"embedder": HashEmbedder(), "clock": clock, "keyword": keyword, "retrieval": settings}
        with AgentMemory.in_memory(**options) as memory:
            for n, city in enumerate(("Porto", "Lyon", "Nantes")):
                memory.remember_fact(scope="c1", fact=f"User knows {city}", id=f"f{n}")
            memory.update("f1", scope="c1", fact="User lives in Porto", correct=correct)
            result = memory.retrieve("Who lives in Porto or Lyon?", scope="c1", record=False)
            answers.append([(hit.memory.id, hit.score, hit.explanation) for hit in result.semantic])
            assert memory.verify().ok
    assert answers[0] == answers[1]


def test_a_slip_is_mended_in_place_and_so_is_what_is_no_text(memory, clock):
    fact = memory.remember_fact(scope="c1", fact="User lives in Prto")
    clock.advance(days=1)
    memory.update(fact.id, scope="c1", fact="User lives in Porto", correct=True)
    memory.update(fact.id, scope="c1", category="identity", keywords=["home"], tags=["a"], metadata={"n": 1})
    (only,) = memory.history(fact.id, scope="c1")
    assert (only.fact, only.valid_at) == ("User lives in Porto", fact.valid_at)


def test_a_fact_that_no_longer_holds_or_not_yet_is_mended_in_place(memory, clock):
    past = memory.remember_fact(scope="c1", fact="User lived in Porto", id="past")
    memory.remember_fact(scope="c1", fact="User will live in Faro", id="soon", valid_at=DAYS[2].replace(year=2999))
    memory.invalidate("past", scope="c1")
    clock.advance(days=1)
    for its_id in ("past", "soon"):
        memory.update(its_id, scope="c1", fact="Something else")
        assert len(memory.history(its_id, scope="c1")) == 1
    assert memory.get("past", scope="c1").valid_at == past.valid_at


def test_forgetting_leaves_no_former_version(moved, memory, clock):
    ledger = inside(memory).ledger
    memory.remember_fact(scope="c1", fact="User is in town", id="short", expires_at=clock.now().replace(year=2027))
    clock.advance(days=1)
    memory.update("short", scope="c1", fact="User is at sea")
    memory.forget(moved.id, scope="c1")
    clock.advance(days=400)
    memory.purge()
    with ledger.contents() as contents:
        assert contents.counts["versions"] == 0
    assert said(memory, as_of=DAYS[0]) == ["User likes coffee"]


def test_history_tells_nothing_of_what_has_expired(moved, memory, clock):
    soon = clock.now() + timedelta(days=1)
    here = memory.remember_fact(scope="c1", fact="User is in town", replaces=moved.id, expires_at=soon)
    memory.update(here.id, scope="c1", fact="User is at sea")
    assert len(memory.history(moved.id, scope="c1")) == 5
    clock.advance(days=2)
    assert {version.id for version in memory.history(moved.id, scope="c1")} == {moved.id}
    with pytest.raises(NotFoundError):
        memory.history(here.id, scope="c1")


def test_a_scope_that_is_forgotten_or_moved_takes_its_versions_along(moved, memory):
    memory.manager.move([memory.get(moved.id, scope="c1")], target_scope="c2")
    assert said(memory, as_of=DAYS[0], scope="c2") == ["User lives in Porto"]
    assert said(memory, as_of=DAYS[0]) == ["User likes coffee"]
    assert len(memory.history(moved.id, scope="c2")) == 3
    memory.forget_scope("c2")
    with inside(memory).ledger.contents() as contents:
        assert contents.counts["versions"] == 0


def test_other_scopes_see_no_version(moved, memory):
    assert said(memory, as_of=DAYS[0], scope="c") == []
    with pytest.raises(NotFoundError):
        memory.history(moved.id, scope="c2")


def test_why_a_former_version_is_returned_is_explained(moved, memory):
    explained = memory.explain(QUESTION, scope="c1", as_of=DAYS[0])
    assert explained.semantic[0].text == "User lives in Porto"
    there = memory.explain_missing(moved.id, query=QUESTION, scope="c1", as_of=DAYS[0])
    assert str(there.outcome) == "returned"
    before = memory.explain_missing(moved.id, query=QUESTION, scope="c1", as_of=DAYS[0].replace(year=2020))
    assert str(before.outcome) == "not_valid_then"


def test_versions_are_embedded_anew_with_the_store(moved, memory):
    memory.reembed(HashEmbedder(64), embedder_id="small")
    assert memory.verify().ok
    assert said(memory, as_of=DAYS[0])[0] == "User lives in Porto"


def test_an_export_carries_versions(moved, memory, tmp_path, clock):
    memory.export(tmp_path / "file")
    with AgentMemory.import_(tmp_path / "file", into=tmp_path / "copy", embedder=HashEmbedder(), clock=clock) as copy:
        assert copy.history(moved.id, scope="c1") == memory.history(moved.id, scope="c1")
        assert said(copy, as_of=DAYS[0]) == said(memory, as_of=DAYS[0])
        assert copy.verify().ok
        copy.export(tmp_path / "again")
    assert (tmp_path / "file").read_bytes() == (tmp_path / "again").read_bytes()


def test_a_store_that_is_moved_takes_its_versions_along(moved, memory, clock):
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as target:
        migrate.move(inside(memory).ledger, inside(target).store)
        assert migrate.check(inside(memory).ledger, inside(target).store).ok
        assert target.history(moved.id, scope="c1") == memory.history(moved.id, scope="c1")


def test_damage_of_a_version_is_found(moved, memory):
    with inside(memory).ledger.database.write() as connection:
        connection.execute("UPDATE fact_versions SET invalid_at = valid_at - 1, keywords = '{'")
    assert len([problem for problem in memory.verify().problems if "a former version of memory" in problem]) == 2


def test_nothing_is_embedded_while_others_wait_to_write(clock):
    class Watching(HashEmbedder):
        database = None

        def embed_documents(self, texts):
            if self.database is not None:
                with self.database.read() as connection:
                    assert not connection.in_transaction
            return super().embed_documents(texts)

    embedder = Watching()
    with AgentMemory.in_memory(embedder=embedder, embedder_id="watching", clock=clock) as memory:
        fact = memory.remember_fact(scope="c1", fact="User lives in Porto")
        embedder.database = inside(memory).ledger.database
        memory.update(fact.id, scope="c1", fact="User lives in Braga")
        tools = LocalToolbox(ToolContext(memory=memory, root="c1"))
        for content in ("User lives in Faro", "User lives in Faro", "The user lives in Faro"):
            assert tools.call("memory_store", {"content": content}).artifact["success"]


def test_a_fact_that_is_told_again_is_known(memory, clock):
    first = memory.remember_fact(scope="c1", fact="User lives in Lyon", tags=["a"], metadata={"x": 1, "y": 1})
    clock.advance(days=1)
    again = memory.remember_fact(
        scope="c1", fact=" user lives in\nLyon. ", tags=["b"], metadata={"y": 2}, source_episodic_ids=["e1"]
    )
    assert again.duplicate_of == again.id == first.id
    (known,) = memory.list("c1").memories
    assert (known.fact, known.tags, known.metadata) == ("User lives in Lyon", ("a", "b"), {"x": 1, "y": 2})
    assert (known.source_episodic_ids, known.last_confirmed_at) == (("e1",), clock.now())
    assert known.duplicate_of is None
    assert first.duplicate_of is None


@pytest.mark.parametrize(
    "other",
    [
        {"id": "mine"},
        {"category": "identity"},
        {"fact": "User lives in Lyons"},
        {"scope": "c2"},
        {"expires_at": DAYS[0].replace(year=2999)},
        {"valid_at": DAYS[0].replace(year=2020)},
        {"allow_duplicates": True},
    ],
)
def test_what_differs_in_anything_but_its_form_is_another_fact(memory, other):
    told = {"scope": "c1", "fact": "User lives in Lyon"}
    first = memory.remember_fact(**told)
    second = memory.remember_fact(**told | other)
    assert second.duplicate_of is None
    assert second.key != first.key


@pytest.mark.parametrize(
    "fact",
    [
        "User's birthday is 4 May",
        "The project uses Python 3.12.",
        "User moved to Berlin in May 2019",
        "User has been vegan since March",
        "The plumber comes on the 25th",
        "User works at Siemens",
    ],
)
def test_a_day_that_is_the_same_tomorrow_is_no_other_fact(memory, clock, fact):
    first = memory.remember_fact(scope="c1", fact=fact)
    clock.advance(days=1)
    assert memory.remember_fact(scope="c1", fact=fact).duplicate_of == first.id


def test_tomorrow_is_another_day_tomorrow(memory, clock):
    fact = "User sees the dentist tomorrow"
    first = memory.remember_fact(scope="c1", fact=fact)
    assert memory.remember_fact(scope="c1", fact=fact).duplicate_of == first.id
    clock.advance(days=30)
    second = memory.remember_fact(scope="c1", fact=fact)
    assert second.duplicate_of is None
    assert second.valid_at == clock.now()
    assert memory.remember_fact(scope="c1", fact=fact).duplicate_of == second.id
    clock.advance(days=30)
    tools = LocalToolbox(ToolContext(memory=memory, root="c1"))
    for content in (fact, f"The {fact[:1].lower()}{fact[1:]}"):  # the second is near, and of the same day
        assert tools.call("memory_store", {"content": content}).artifact["success"]
        assert len(memory.list("c1").memories) == 3


def test_what_no_longer_holds_is_told_anew(memory):
    first = memory.remember_fact(scope="c1", fact="User lives in Lyon")
    memory.invalidate(first.id, scope="c1")
    assert memory.remember_fact(scope="c1", fact="User lives in Lyon").id != first.id


def test_many_at_once_are_known_once(memory):
    drafts = [SemanticMemory.new(scope="c1", fact=text, tags=(text[:1],)) for text in ("Tea", "Milk", "tea.")]
    tea, milk, again = memory.remember_many(drafts)
    assert (again.id, again.duplicate_of, milk.duplicate_of) == (tea.id, tea.id, None)
    assert tea.tags == ("T", "t")
    assert memory.stats("c1").facts == 2
    assert len(memory.remember_many(drafts, allow_duplicates=True)) == 3
    assert memory.stats("c1").facts == 5


def test_many_threads_that_tell_the_same_store_it_once(memory):
    start, ids = threading.Barrier(4), []

    def tell():
        start.wait()
        ids.append(memory.remember_fact(scope="c1", fact="User lives in Lyon").id)

    threads = [threading.Thread(target=tell) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids) == 4
    assert len(set(ids)) == memory.stats("c1").facts == 1


def test_what_somebody_else_tells_after_a_telling_has_begun_is_known_to_it(clock):
    class Interrupted(HashEmbedder):
        """While a text is embedded, somebody else tells the same, a second later."""

        told = None

        def embed_documents(self, texts):
            tell, self.told = self.told, None
            if tell is not None:
                clock.advance(seconds=1)
                tell()
            return super().embed_documents(texts)

    embedder = Interrupted()
    with AgentMemory.in_memory(embedder=embedder, clock=clock) as memory:
        memory.remember_fact(scope="c1", fact="The otter swims")
        other = []
        embedder.told = lambda: other.append(memory.remember_fact(scope="c1", fact="Ada keeps bees").id)
        assert memory.remember_fact(scope="c1", fact="Ada keeps bees").duplicate_of == other[0]
        assert memory.stats("c1").facts == 2


def test_facts_of_an_older_store_are_known_too(memory):
    first = memory.remember_fact(scope="c1", fact="User lives in Lyon")
    with inside(memory).ledger.database.write() as connection:
        connection.execute("UPDATE memories SET text_hash = NULL")
    assert memory.remember_fact(scope="c1", fact="User lives in Lyon").duplicate_of == first.id


def test_one_fact_replaces_another(memory, clock):
    old = memory.remember_fact(scope="c1", fact="User lives in Porto")
    clock.advance(days=10)
    new = memory.remember_fact(scope="c1", fact="User lives in Braga", replaces=old.id)
    assert new.near == ()
    assert [(each.id, each.invalid_at, each.replaced_by) for each in memory.history(old.id, scope="c1")] == [
        (old.id, clock.now(), new.id),
        (new.id, None, None),
    ]
    assert said(memory) == ["User lives in Braga"]
    with pytest.raises(ValidationError, match=f"was replaced by {new.id} already"):
        memory.remember_fact(scope="c1", fact="User lives in Faro", replaces=old.id)


def test_what_cannot_be_replaced_leaves_everything_as_it_was(memory):
    episode = memory.remember_episode(scope="c1", summary="They met.")
    other = memory.remember_fact(scope="c2", fact="User lives in Porto")
    for its_id, error in (("nobody", NotFoundError), (other.id, NotFoundError), (episode.id, ValidationError)):
        with pytest.raises(error):
            memory.remember_fact(scope="c1", fact="User lives in Braga", replaces=its_id)
    with pytest.raises(ValidationError, match="replacing"):
        memory.remember_many([SemanticMemory.new(scope="c1", fact="Tea")], replacing=[None, None])
    assert memory.stats("c1").facts == 0
    assert memory.get(other.id, scope="c2").invalid_at is None


def test_what_is_near_and_differs_is_named(memory):
    porto = memory.remember_fact(scope="c1", fact="User lives in Porto")
    memory.remember_fact(scope="c1", fact="User likes coffee")
    memory.remember_fact(scope="c2", fact="User lives in Faro")
    braga = memory.remember_fact(scope="c1", fact="User lives in Braga")
    assert [(near.id, near.fact) for near in braga.near] == [(porto.id, "User lives in Porto")]
    assert memory.get(porto.id, scope="c1").invalid_at is None
    assert memory.get(braga.id, scope="c1").near == ()
    married = memory.remember_fact(scope="c1", fact="User is married to Tom")
    divorced = memory.remember_fact(scope="c1", fact="User is divorced from Tom")
    assert [near.id for near in divorced.near] == [married.id]


def test_a_change_of_another_day_is_dated_with_what_it_changed(memory, clock):
    def lines():
        block = memory.retrieve("Does the user smoke?", scope="c1").to_markdown()
        return [line for line in block.splitlines() if line.startswith("- ")]

    memory.remember_fact(scope="c1", fact="User smokes ten cigarettes a day")
    at_once = memory.remember_fact(scope="c1", fact="User quit smoking")
    assert not any("as of" in line for line in lines())
    memory.forget(at_once.id, scope="c1")
    first = clock.now()
    clock.advance(days=10)
    memory.remember_fact(scope="c1", fact="User quit smoking")
    assert lines() == [
        f"- [note, as of {first:%Y-%m-%d}] User smokes ten cigarettes a day",
        f"- [note, as of {clock.now():%Y-%m-%d}] User quit smoking",
    ]


def test_a_block_tells_what_differs_in_the_order_of_time_and_nothing_twice(memory, clock):
    memory.remember_fact(scope="c1", fact="User lives in Porto")
    memory.remember_fact(scope="c1", fact="User likes coffee")
    memory.remember_fact(scope="c1", fact="User likes coffee", allow_duplicates=True)
    first = clock.now()
    clock.advance(days=10)
    memory.remember_fact(scope="c1", fact="User lives in Braga")
    block = memory.retrieve("Does the user live in Braga?", scope="c1").to_markdown()
    assert block.splitlines()[1:] == [
        f"- [note, as of {first:%Y-%m-%d}] User lives in Porto",
        f"- [note, as of {clock.now():%Y-%m-%d}] User lives in Braga",
        "- [note] User likes coffee",
    ]
