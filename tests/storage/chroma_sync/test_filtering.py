"""``where=``: only a part of a collection is adopted and followed."""

import pytest

from memory_retrievers import AdoptionReport, AgentMemory, BackendError, ConfigurationError, ValidationError
from memory_retrievers.testing import HashEmbedder, inside

TEAM_A = {"team": "a"}


@pytest.fixture
def teams(make_collection, fill):
    """Rows r0 … r3 of the team a, r4 … r9 of the team b."""
    metadatas = [{"team": "a" if number < 4 else "b", "year": 2020 + number} for number in range(10)]
    return fill(make_collection(), [f"fact number {number}" for number in range(10)], metadatas=metadatas)


@pytest.fixture
def add(teams):
    def add(id, **metadata):
        vectors = HashEmbedder().embed_documents([f"new {id}"])
        teams.upsert(ids=[id], embeddings=vectors, documents=[f"new {id}"], metadatas=[metadata])

    return add


def ids(memory):
    return {each.id for each in memory.list("user/a").memories}


def test_only_rows_that_the_filter_selects_are_adopted_and_followed(teams, adopt, add):
    told = []
    memory = adopt(teams, where=TEAM_A, progress=lambda *told_of: told.append(told_of))
    assert ids(memory) == {"r0", "r1", "r2", "r3"}
    assert (memory.adoption, told) == (AdoptionReport(adopted=4), [(4, 4)])
    add("new a", team="a")
    add("new b", team="b")
    teams.delete(ids=["r9"])
    assert memory.sync_chroma(teams) == AdoptionReport(adopted=1, unchanged=4)
    assert ids(memory) == {"r0", "r1", "r2", "r3", "new a"}


def test_the_store_remembers_the_filter_and_takes_no_other(teams, adopt, add, tmp_path):
    adopt(teams, where=TEAM_A, path=tmp_path / "store").close()
    add("new a", team="a")
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder(), dense="exact") as memory:
        assert memory.sync_chroma(teams) == AdoptionReport(adopted=1, unchanged=4)
    assert adopt(teams, where=TEAM_A, path=tmp_path / "store").adoption.unchanged == 5
    for other in (None, {"team": "b"}):
        with pytest.raises(ConfigurationError, match=r"was adopted with .*where=\{'team': 'a'\}: give the same"):
            adopt(teams, where=other, path=tmp_path / "store")


def test_a_store_that_was_adopted_before_there_were_filters_is_followed_as_a_whole(teams, adopt, tmp_path):
    import json

    memory = adopt(teams, path=tmp_path / "store")
    note = json.loads(inside(memory).ledger.notes()["adoption"])
    assert note.pop("where") is None
    inside(memory).ledger.write_notes({"adoption": json.dumps(note)})
    memory.close()
    assert adopt(teams, path=tmp_path / "store").sync_chroma(teams) == AdoptionReport(unchanged=10)


def test_a_row_that_leaves_the_filter_is_forgotten_and_one_that_enters_it_is_adopted(teams, adopt):
    memory = adopt(teams, where=TEAM_A)
    teams.update(ids=["r0", "r5"], metadatas=[{"team": "b"}, {"team": "a"}])
    assert memory.sync_chroma(teams) == AdoptionReport(adopted=1, forgotten=1, unchanged=3)
    assert ids(memory) == {"r1", "r2", "r3", "r5"}


def test_the_guard_counts_what_has_left_the_filter_and_nothing_that_was_never_in_it(teams, adopt):
    memory = adopt(teams, where=TEAM_A)
    teams.delete(ids=[f"r{number}" for number in range(4, 10)])
    assert memory.sync_chroma(teams) == AdoptionReport(unchanged=4)
    teams.update(ids=["r0", "r1", "r2"], metadatas=[{"team": "b"}] * 3)
    with pytest.raises(ValidationError, match="3 of the 4 adopted memories are gone"):
        memory.sync_chroma(teams)
    assert ids(memory) == {"r0", "r1", "r2", "r3"}
    assert memory.sync_chroma(teams, confirm=True).forgotten == 3


def test_what_was_made_or_changed_here_outside_of_the_filter_is_not_taken_for_gone(teams, adopt):
    memory = adopt(teams, where=TEAM_A, write_through=True)
    memory.remember_fact(scope="user/a", fact="Emil sings", id="new")
    memory.update("r0", scope="user/a", metadata={"team": "c"})
    assert teams.get(ids=["r0"])["metadatas"][0] == {"team": "c"}
    assert memory.sync_chroma(teams).forgotten == 0
    assert ids(memory) == {"r0", "r1", "r2", "r3", "new"}
    teams.delete(ids=["new"])
    assert memory.sync_chroma(teams).forgotten == 1


def test_a_call_can_be_narrowed_and_leaves_the_rest_as_it_is(teams, adopt, add):
    memory = adopt(teams, where=TEAM_A)
    add("new a", team="a", year=2030)
    add("old a", team="a", year=2010)
    add("new b", team="b", year=2030)
    add("r0", team="a", year=2011)
    assert memory.sync_chroma(teams, where={"year": {"$gt": 2022}}) == AdoptionReport(adopted=1, unchanged=1)
    assert ids(memory) == {"r0", "r1", "r2", "r3", "new a"}
    assert memory.get("r0", scope="user/a").fact == "fact number 0"
    teams.delete(ids=["r1"])  # what is deleted is gone, whatever is looked at
    assert memory.sync_chroma(teams, where={"year": 2030}).forgotten == 1
    assert memory.sync_chroma(teams, where=TEAM_A) == AdoptionReport(adopted=1, updated=1, unchanged=3)


def test_rows_outside_of_the_filter_may_be_of_another_model(make_collection, adopt):
    collection = make_collection()
    embedders = {"ours": HashEmbedder(), "theirs": HashEmbedder()}
    for number in range(12):
        name = "ours" if number == 11 else "theirs"
        vector = embedders[name].embed_query(f"fact {number}" if name == "ours" else "something else")
        collection.add(
            ids=[f"r{number}"], embeddings=[vector], documents=[f"fact {number}"], metadatas=[{"model": name}]
        )
    memory = adopt(collection, where={"model": "ours"})
    assert ids(memory) == {"r11"}
    assert memory.sync_chroma(collection).unchanged == 1


def nested(depth):
    where = {"team": "a"}
    for _ in range(depth):
        where = {"$and": [where, TEAM_A]}
    return where


@pytest.mark.parametrize(
    "where",
    [
        {},
        [],
        "team",
        {"team": {"$near": 1}},
        {"team": None},
        {"team": "a", "year": 2020},
        {"$and": [TEAM_A]},
        {"year": {"$in": []}},
        {"year": float("nan")},
        {1: "a"},
        {"team": object()},
        {"team": "x" * 20_000},
        nested(200),
    ],
    ids=range(13),
)
def test_what_chroma_does_not_take_is_refused_before_anything_is_made(teams, adopt, tmp_path, where):
    with pytest.raises(ValidationError, match=r"where="):
        adopt(teams, where=where, path=tmp_path / "store")
    assert not (tmp_path / "store").exists()
    memory = adopt(teams)
    with pytest.raises(ValidationError, match=r"where="):
        memory.sync_chroma(teams, where=where)


def test_a_filter_of_any_depth_is_refused(teams, adopt):
    where = nested(100_000)
    with pytest.raises(ValidationError, match=r"where="):
        adopt(teams, where=where)


def test_a_collection_that_fails_is_not_taken_for_a_wrong_filter(make_collection, adopt):
    class Failing:
        def __init__(self, collection):
            self.id, self.name, self.count = collection.id, collection.name, collection.count

        def get(self, **arguments):
            raise ConnectionError("no route to the server")

    with pytest.raises(BackendError, match="no route to the server"):
        adopt(Failing(make_collection()), where=TEAM_A)
