"""A collection becomes memories: every row whole, with its own vector, or counted as skipped."""

import chromadb
import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

from memory_retrievers import (
    AgentMemory,
    BackendError,
    ConfigurationError,
    EmbeddingMismatchError,
    IngestionSettings,
    NotFoundError,
    ReviewSettings,
    ToolSettings,
    ValidationError,
)
from memory_retrievers.models import Origin
from memory_retrievers.storage.chroma_sync.rows import Skip, unit
from memory_retrievers.testing import HashEmbedder, inside


def vector_of(memory, id, scope):
    ledger = inside(memory).ledger
    (passage,) = ledger.passages_of(scope, id=id)
    return ledger.vectors([passage.id])[1][0]


def test_every_row_becomes_a_fact_under_its_id_with_its_text_and_metadata(make_collection, fill, adopt, texts):
    metadatas = [{"page": number, "labels": ["a", "b"]} for number in range(len(texts))]
    memory = adopt(fill(make_collection(), metadatas=metadatas), category="identity")
    fact = memory.get("r2", scope="user/a")
    assert (fact.fact, fact.metadata, fact.category) == (texts[2], {"page": 2, "labels": ["a", "b"]}, "identity")
    assert fact.origin is Origin.IMPORT
    assert memory.adoption.adopted == memory.stats().facts == len(texts)


def test_the_source_is_as_it_was(collection, adopt, everything):
    before = everything(collection)
    memory = adopt(collection)
    memory.forget("r0", scope="user/a")
    memory.update("r1", scope="user/a", fact="Bob plays go")
    memory.sync_chroma(collection)
    memory.close()
    assert everything(collection) == before


@pytest.mark.parametrize("space", ["cosine", "l2", "ip"])
def test_vectors_are_taken_from_the_collection_at_unit_length_in_every_space(
    make_collection, fill, adopt, texts, space
):
    memory = adopt(fill(make_collection(space), factor=7.5))
    for number, text in enumerate(texts):
        expected = np.asarray(HashEmbedder().embed_query(text))
        assert np.allclose(vector_of(memory, f"r{number}", "user/a"), expected, atol=1e-6)
    found = memory.retrieve("who is allergic to nuts", scope="user/a").semantic
    assert found[0].memory.id == "r2"


def test_what_was_adopted_is_found_by_meaning_and_by_words_and_the_store_is_whole(collection, adopt):
    memory = adopt(collection)
    (best, *_) = memory.retrieve("green tea", scope="user/a").semantic
    assert (best.memory.id, best.explanation.dense_rank, best.explanation.bm25_rank) == ("r0", 1, 1)
    assert memory.verify().ok


def test_nothing_is_embedded_but_the_samples(collection, fill, make_collection, adopt):
    embedded = []

    class Counting(HashEmbedder):
        def embed_documents(self, texts):
            embedded.extend(texts)
            return super().embed_documents(texts)

    many = fill(make_collection(), [f"fact number {number}" for number in range(2_100)])
    assert adopt(many, embedder=Counting()).stats().facts == 2_100
    assert len(embedded) == 5


def test_progress_is_told_after_every_page(make_collection, fill, adopt):
    told = []
    many = fill(make_collection(), [f"fact number {number}" for number in range(2_100)])
    adopt(many, progress=lambda done, total: told.append((done, total)))
    assert told == [(1_000, 2_100), (2_000, 2_100), (2_100, 2_100)]


def test_a_store_on_disk_can_be_opened_again_without_the_collection(collection, adopt, tmp_path):
    adopt(collection, path=tmp_path / "store").close()
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder()) as memory:
        assert memory.get("r3", scope="user/a").fact == "Dora lives in Lyon"
        assert memory.adoption is None


def test_calling_again_doubles_nothing_and_takes_in_what_is_new_or_changed(collection, adopt, put, tmp_path):
    adopt(collection, path=tmp_path / "store").close()
    put(collection, "r0", "Alice likes black tea")
    put(collection, "r9", "Emil sings")
    collection.delete(ids=["r1"])
    memory = adopt(collection, path=tmp_path / "store")
    report = memory.adoption
    assert (report.adopted, report.updated, report.unchanged, report.forgotten) == (1, 1, 2, 0)
    assert memory.stats().facts == 5
    assert memory.get("r0", scope="user/a").fact == "Alice likes black tea"
    assert memory.verify().ok


def test_rows_that_cannot_be_memories_are_skipped_and_counted_by_reason(make_collection, adopt, skipped):
    collection = make_collection("l2")
    vector = HashEmbedder().embed_query("x")
    rows = {
        "good": ("fine", vector, {"user": "user/a"}),
        "number": ("fine", vector, {"user": 7}),
        "blank": ("  ", vector, {"user": "user/a"}),
        "none": (None, vector, {"user": "user/a"}),
        "zero": ("fine", [0.0] * len(vector), {"user": "user/a"}),
        "keyless": ("fine", vector, {"other": 1}),
        "truth": ("fine", vector, {"user": True}),
        "fraction": ("fine", vector, {"user": 1.5}),
        "slashes": ("fine", vector, {"user": "user//a"}),
        "long": ("x" * 1_000_001, vector, {"user": "user/a"}),
    }
    for id, (document, its_vector, metadata) in rows.items():
        documents = None if document is None else [document]
        collection.add(ids=[id], documents=documents, embeddings=[its_vector], metadatas=[metadata])
    memory = adopt(collection, scope_key="user", embedder=lambda texts: [vector] * len(texts))
    assert memory.scopes() == ["7", "user/a"]
    assert memory.adoption.adopted == 2
    assert skipped(memory.adoption) == {
        "no_text": (2, ("blank", "none")),
        "zero_vector": (1, ("zero",)),
        "no_scope": (3, ("keyless", "truth", "fraction")),
        "invalid_scope": (1, ("slashes",)),
        "invalid_record": (1, ("long",)),
    }


def test_a_vector_that_is_not_finite_is_told_from_a_zero_one():
    # Chroma refuses such vectors today; collections that older versions wrote may hold them
    assert unit(np.asarray([np.nan, 1], dtype="<f4")) is Skip.NON_FINITE_VECTOR
    assert unit(np.asarray([np.inf, 1], dtype="<f4")) is Skip.NON_FINITE_VECTOR
    assert unit(np.zeros(2, dtype="<f4")) is Skip.ZERO_VECTOR
    assert unit(np.asarray([3e38, 3e38], dtype="<f4")) == pytest.approx([0.5**0.5, 0.5**0.5])


def test_an_id_that_another_memory_of_the_scope_has_is_left_to_it(collection, adopt, skipped, tmp_path):
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder()) as memory:
        memory.remember_fact(scope="user/a", fact="mine", id="r0")
    memory = adopt(collection, path=tmp_path / "store", clock=None)
    assert skipped(memory.adoption) == {"id_taken": (1, ("r0",))}
    assert memory.get("r0", scope="user/a").fact == "mine"


def test_the_text_may_stand_under_a_metadata_key(make_collection, fill, adopt, texts, skipped):
    metadatas = [{"body": text} for text in texts[:3]] + [{"body": 4}]
    memory = adopt(fill(make_collection(), metadatas=metadatas), text_key="body")
    assert [memory.get(f"r{number}", scope="user/a").fact for number in range(3)] == texts[:3]
    assert skipped(memory.adoption) == {"no_text": (1, ("r3",))}


@hypothesis(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(scopes=st.lists(st.sampled_from(["user/1", "user/10", "user", "USER/1", 1, "1"]), min_size=1, max_size=12))
def test_each_row_is_seen_in_its_own_scope_and_in_no_other(make_collection, adopt, fill, scopes):
    collection = fill(make_collection(), ["tea"] * len(scopes), metadatas=[{"who": scope} for scope in scopes])
    memory = adopt(collection, scope_key="who")
    for scope in {str(scope) for scope in scopes}:
        own = {f"r{number}" for number, its in enumerate(scopes) if str(its) == scope}
        found = memory.retrieve("tea", scope=scope, semantic_limit=50).semantic
        assert {hit.memory.id for hit in found} == own
        assert {hit.memory.scope for hit in found} == {scope}
    memory.close()


def test_a_wrong_embedder_is_refused_before_anything_is_made(collection, adopt, tmp_path):
    with pytest.raises(EmbeddingMismatchError, match=r"gives vectors of 64 numbers, and it holds 256.*embedder="):
        adopt(collection, path=tmp_path / "store", embedder=HashEmbedder(64))
    with pytest.raises(EmbeddingMismatchError, match=r"other vectors than the ones in it \(median cosine -?0\.\d\d\)"):
        adopt(
            collection,
            path=tmp_path / "store",
            embedder=lambda texts: [np.roll(vector, 1) for vector in HashEmbedder().embed_documents(texts)],
        )
    assert not (tmp_path / "store").exists()


def test_one_odd_row_among_the_samples_does_not_refuse_an_embedder(collection, adopt):
    collection.update(ids=["r0"], embeddings=[HashEmbedder().embed_query("something else")])
    assert adopt(collection).adoption.adopted == 4


def test_an_empty_collection_gives_an_empty_memory(make_collection, adopt):
    assert adopt(make_collection()).adoption.adopted == 0


@pytest.mark.parametrize(
    "case",
    [
        ({"scope": None}, ConfigurationError, "give either scope=, for all rows, or scope_key="),
        ({"scope": "a", "scope_key": "b"}, ConfigurationError, "give either scope="),
        ({"scope": None, "scope_key": ""}, ConfigurationError, "must not be empty"),
        ({"text_key": ""}, ConfigurationError, "must not be empty"),
        ({"scope": "user//a"}, ValidationError, "malformed"),
        ({"category": "gossip"}, ValidationError, "unknown category 'gossip'; one of: identity"),
        ({"keyword": "lucene"}, ConfigurationError, "unknown keyword engine"),
    ],
)
def test_bad_input_is_refused_with_what_to_do(collection, adopt, tmp_path, case):
    arguments, error, message = case
    with pytest.raises(error, match=message):
        adopt(collection, path=tmp_path / "store", **arguments)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("thing", [None, "documents", object(), HashEmbedder()])
def test_what_is_no_collection_is_refused(adopt, thing):
    with pytest.raises(ConfigurationError, match=r"not a Chroma collection: give what client.get_collection"):
        adopt(thing)


def test_a_store_follows_one_collection_in_one_way(collection, make_collection, fill, adopt, tmp_path):
    adopt(collection, path=tmp_path / "store").close()
    with pytest.raises(ConfigurationError, match=r"has adopted the collection .* already: give another path"):
        adopt(fill(make_collection()), path=tmp_path / "store")
    with pytest.raises(ConfigurationError, match="was adopted with scope='user/a'"):
        adopt(collection, path=tmp_path / "store", scope="user/b")
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder()) as memory:
        assert memory.scopes() == ["user/a"]


def test_a_collection_that_fails_is_an_error_of_ours(make_collection, fill, adopt, tmp_path):
    client = chromadb.PersistentClient(tmp_path / "chroma", settings=chromadb.Settings(anonymized_telemetry=False))
    collection = fill(client.create_collection("gone", embedding_function=None))
    client.delete_collection("gone")
    with pytest.raises(BackendError, match="the Chroma collection 'gone' failed"):
        adopt(collection)
    client.close()


def test_before_store_sees_every_row_and_its_text_is_found_by_a_vector_of_its_own(collection, adopt, skipped, put):
    def without_names(record):
        if "Dora" in record.fact:
            return None
        return record.model_copy(update={"fact": record.fact.replace("Alice", "Somebody")})

    memory = adopt(collection, before_store=without_names)
    assert skipped(memory.adoption) == {"held_back": (1, ("r3",))}
    assert memory.get("r0", scope="user/a").fact == "Somebody likes green tea"
    with pytest.raises(NotFoundError):
        memory.get("r3", scope="user/a")
    embedded = HashEmbedder().embed_query("note: Somebody likes green tea")
    assert vector_of(memory, "r0", "user/a") == pytest.approx(embedded, abs=1e-6)
    put(collection, "r1", "Alice plays chess")
    memory.sync_chroma(collection)
    assert memory.get("r1", scope="user/a").fact == "Somebody plays chess"


def test_the_memory_is_the_one_that_open_gives_with_the_same_settings(collection, adopt, tmp_path, clock):
    same = {
        "embedder": HashEmbedder(),
        "dense": "exact",
        "clock": clock,
        "ingestion": IngestionSettings(keep_messages_days=3),
        "review": ReviewSettings(),
        "tools": ToolSettings(audit_days=3),
        "language_model": RuleModel(),
        "before_store": lambda record: record,
    }
    adopted = adopt(collection, path=tmp_path / "store", **same)
    with AgentMemory.open(tmp_path / "store", **same) as memory:  # other settings would be refused
        assert memory.scopes() == adopted.scopes() == ["user/a"]


class RuleModel:
    id = "rules"

    def generate(self, system, user, schema):
        return schema()
