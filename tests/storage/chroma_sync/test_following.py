"""``sync_chroma``: the memories follow their rows."""

import numpy as np
import pytest

from memory_retrievers import (
    AdoptionReport,
    AgentMemory,
    ConfigurationError,
    EmbeddingMismatchError,
    NotFoundError,
    ValidationError,
)
from memory_retrievers.testing import HashEmbedder, inside


def test_it_takes_in_what_is_new_updates_what_changed_and_forgets_what_is_gone(collection, adopt, put, clock):
    memory = adopt(collection)
    before = memory.get("r0", scope="user/a")
    clock.advance(days=1)
    put(collection, "r0", "Alice likes rooibos")
    put(collection, "r4", "Emil sings")
    collection.delete(ids=["r1"])
    report = memory.sync_chroma(collection)
    assert report == AdoptionReport(adopted=1, updated=1, forgotten=1, unchanged=2)
    after = memory.get("r0", scope="user/a")
    assert (after.fact, after.created_at, after.updated_at) == (
        "Alice likes rooibos",
        before.created_at,
        clock.now(),
    )
    with pytest.raises(NotFoundError):
        memory.get("r1", scope="user/a")
    assert memory.retrieve("rooibos", scope="user/a").semantic[0].memory.id == "r0"
    assert memory.verify().ok
    assert memory.sync_chroma(collection) == AdoptionReport(unchanged=4)


@pytest.mark.parametrize("what", ["vector", "metadata"])
def test_a_row_has_changed_also_if_only_its_vector_or_its_metadata_has(collection, adopt, what):
    memory = adopt(collection)
    other = HashEmbedder().embed_query("a fisherman mends his nets")
    change = {"embeddings": [other]} if what == "vector" else {"metadatas": [{"page": 1}]}
    collection.update(ids=["r2"], **change)
    assert memory.sync_chroma(collection) == AdoptionReport(updated=1, unchanged=3)
    if what == "vector":
        (best, *_) = memory.retrieve("a fisherman mends his nets", scope="user/a").semantic
        assert (best.memory.id, best.explanation.dense_rank) == ("r2", 1)
    else:
        assert memory.get("r2", scope="user/a").metadata == {"page": 1}


def test_what_was_changed_here_stays_until_the_row_changes(collection, adopt, put):
    memory = adopt(collection)
    memory.update("r0", scope="user/a", fact="Alice likes water", tags=["drinks"])
    assert memory.sync_chroma(collection).unchanged == 4
    assert memory.get("r0", scope="user/a").fact == "Alice likes water"
    put(collection, "r0", "Alice likes milk")
    memory.sync_chroma(collection)
    assert memory.get("r0", scope="user/a").fact == "Alice likes milk"
    assert memory.get("r0", scope="user/a").tags == ("drinks",)


def test_memories_that_are_not_from_the_collection_are_left_alone(collection, adopt):
    memory = adopt(collection)
    memory.remember_fact(scope="user/a", fact="mine", id="own")
    collection.delete(ids=["r0"])
    assert memory.sync_chroma(collection).forgotten == 1
    assert memory.get("own", scope="user/a").fact == "mine"


def test_a_row_that_moves_to_another_scope_leaves_no_trace_in_the_first(make_collection, fill, adopt):
    collection = fill(make_collection(), metadatas=[{"who": who} for who in ("a", "a", "b", "b")])
    memory = adopt(collection, scope_key="who")
    collection.update(ids=["r0", "r1"], metadatas=[{"who": "b"}, {"who": None}])
    assert memory.sync_chroma(collection).updated == 1
    assert memory.scopes() == ["b"]
    assert not memory.retrieve("tea", scope="a").semantic
    assert memory.get("r0", scope="b").fact == "Alice likes green tea"


def test_a_row_that_moves_onto_a_memory_of_ours_is_skipped_and_gone_from_its_scope(
    make_collection, fill, adopt, skipped
):
    collection = fill(make_collection(), metadatas=[{"who": "a"}] * 4)
    memory = adopt(collection, scope_key="who")
    memory.remember_fact(scope="b", fact="mine", id="r0")
    collection.update(ids=["r0"], metadatas=[{"who": "b"}])
    report = memory.sync_chroma(collection)
    assert (report.forgotten, skipped(report)) == (1, {"id_taken": (1, ("r0",))})
    assert memory.get("r0", scope="b").fact == "mine"
    with pytest.raises(NotFoundError):
        memory.get("r0", scope="a")


def test_a_row_that_is_of_no_use_any_more_is_forgotten(collection, adopt, skipped):
    memory = adopt(collection)
    collection.update(ids=["r3"], documents=[" "], embeddings=[HashEmbedder().embed_query("x")])
    report = memory.sync_chroma(collection)
    assert (report.forgotten, skipped(report)) == (1, {"no_text": (1, ("r3",))})


def test_forgetting_more_than_half_must_be_confirmed_and_nothing_is_changed_before(collection, adopt, put):
    memory = adopt(collection)
    put(collection, "r9", "new")
    collection.delete(ids=["r0", "r1"])
    assert memory.sync_chroma(collection).forgotten == 2  # half is not more than half
    put(collection, "r8", "newer")
    collection.delete(ids=["r2", "r3"])
    with pytest.raises(
        ValidationError, match=r"2 of the 3 adopted memories .* sync_chroma\(collection, confirm=True\)"
    ):
        memory.sync_chroma(collection)
    assert {each.id for each in memory.list("user/a").memories} == {"r2", "r3", "r9"}
    report = memory.sync_chroma(collection, confirm=True)
    assert (report.adopted, report.forgotten) == (1, 2)


def test_another_collection_must_be_confirmed_even_under_the_same_name(collection, make_collection, fill, adopt):
    memory = adopt(collection)
    other = fill(make_collection())
    with pytest.raises(ConfigurationError, match=r"not the collection that was adopted.*confirm=True"):
        memory.sync_chroma(other)
    assert memory.sync_chroma(other, confirm=True) == AdoptionReport(unchanged=4)
    assert memory.sync_chroma(other) == AdoptionReport(unchanged=4)


def test_vectors_of_another_model_are_refused(collection, adopt, texts):
    memory = adopt(collection)
    turned = [np.roll(vector, 1).tolist() for vector in HashEmbedder().embed_documents(texts)]
    collection.update(ids=[f"r{number}" for number in range(4)], embeddings=turned)
    with pytest.raises(EmbeddingMismatchError, match="nothing was changed"):
        memory.sync_chroma(collection)


def test_a_store_opened_by_its_path_follows_too(collection, adopt, put, tmp_path):
    adopt(collection, path=tmp_path / "store").close()
    put(collection, "r4", "Emil sings")
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder()) as memory:
        told = []
        assert memory.sync_chroma(collection, progress=lambda *told_of: told.append(told_of)).adopted == 1
        assert told == [(5, 5)]


def test_a_store_that_adopted_nothing_says_how_to(memory, collection):
    with pytest.raises(ConfigurationError, match=r"AgentMemory\.from_chroma"):
        memory.sync_chroma(collection)


def test_a_store_that_is_only_looked_into_is_not_changed(collection, adopt, put, tmp_path):
    adopt(collection, path=tmp_path / "store").close()
    put(collection, "r4", "Emil sings")
    with (
        AgentMemory.open(tmp_path / "store", embedder=HashEmbedder(), read_only=True) as memory,
        pytest.raises(ConfigurationError, match="read-only"),
    ):
        memory.sync_chroma(collection)


def test_forgetting_and_purging_leave_no_trace_of_an_adopted_row(collection, adopt, tmp_path):
    memory = adopt(collection, path=tmp_path / "store")
    memory.forget("r2", scope="user/a")
    memory.purge()
    assert inside(memory).adopted.known(["r0", "r2"]).keys() == {"r0"}
    memory.close()
    assert all(b"allergic" not in file.read_bytes() for file in (tmp_path / "store").rglob("*") if file.is_file())
