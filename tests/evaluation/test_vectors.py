import numpy as np
import pytest

from memory_retrievers import AgentMemory
from memory_retrievers.backends.embeddings import adapt
from memory_retrievers.backends.embeddings.minilm import MiniLMEmbedder
from memory_retrievers.errors import ConfigurationError
from memory_retrievers.evaluation.conversations import RememberedVectors
from memory_retrievers.testing import HashEmbedder


class Counting(HashEmbedder):
    def __init__(self):
        super().__init__()
        self.asked = []

    def embed_documents(self, texts):
        self.asked += texts
        return [super(Counting, self).embed_query(text) for text in texts]

    def embed_query(self, text):
        self.asked.append(text)
        return super().embed_query(text)


@pytest.fixture
def counting():
    return Counting()


def test_each_text_is_embedded_once(counting):
    vectors = RememberedVectors(adapt(counting))
    vectors.embed_documents(["bees", "boats", "bees"])
    vectors.embed_documents(["boats", "hives"])
    vectors.embed_query("bees")
    vectors.embed_query("bees")
    assert counting.asked == ["bees", "boats", "hives", "bees"]


def test_vectors_are_those_of_the_embedder_in_the_order_of_the_texts(counting):
    plain, vectors = adapt(HashEmbedder()), RememberedVectors(adapt(counting))
    vectors.embed_documents(["hives"])
    texts = ["boats", "hives", "boats", "bees"]
    np.testing.assert_array_equal(vectors.embed_documents(texts), plain.embed_documents(texts))
    np.testing.assert_array_equal(vectors.embed_query("bees"), plain.embed_query("bees"))
    assert vectors.embed_documents([]).shape[0] == 0
    assert vectors.id == adapt(counting).id


def test_a_further_run_takes_the_vectors_from_the_file(counting, tmp_path):
    file = tmp_path / "vectors.npz"
    first = RememberedVectors(adapt(counting), file=file)
    expected = first.embed_documents(["bees", "boats"])
    asked = first.embed_query("who keeps bees?")
    first.save()
    counting.asked.clear()
    second = RememberedVectors(adapt(counting), file=file)
    np.testing.assert_array_equal(second.embed_documents(["bees", "boats"]), expected)
    np.testing.assert_array_equal(second.embed_query("who keeps bees?"), asked)
    assert counting.asked == []


def test_a_further_run_takes_tokens_from_the_file_too(tmp_path, monkeypatch):
    file = tmp_path / "vectors.npz"
    first = RememberedVectors(MiniLMEmbedder(), file=file)
    texts = ["Ruth keeps bees.", "Ömer sails: …", "the"]
    documents, queries = first.embed_tokens(texts), first.embed_tokens(texts[:1], is_query=True)
    first.save()
    second = RememberedVectors(MiniLMEmbedder(), file=file)
    monkeypatch.setattr(MiniLMEmbedder, "embed_tokens", lambda *_, **__: pytest.fail("it was embedded again"))
    found = [*second.embed_tokens(texts), *second.embed_tokens(texts[:1], is_query=True)]
    np.testing.assert_array_equal([each.vector for each in found], [each.vector for each in (*documents, *queries)])
    assert [each[1:] for each in found] == [each[1:] for each in (*documents, *queries)]
    assert all(each.tokens and each.words for each in found)


def test_vectors_of_another_embedder_are_refused(counting, tmp_path):
    file = tmp_path / "vectors.npz"
    first = RememberedVectors(adapt(counting), file=file)
    first.embed_documents(["bees"])
    first.embed_query("bees")
    first.save()
    with pytest.raises(ConfigurationError, match="not of another"):
        RememberedVectors(adapt(counting, embedder_id="another"), file=file)


def test_a_file_that_holds_something_else_is_refused_and_left_alone(counting, tmp_path):
    file = tmp_path / "vectors.npz"
    file.write_text("a letter")
    with pytest.raises(ConfigurationError, match="remove it"):
        RememberedVectors(adapt(counting), file=file)
    assert file.read_text() == "a letter"


def test_a_place_that_cannot_be_written_is_told(counting, tmp_path):
    vectors = RememberedVectors(adapt(counting), file=tmp_path / "nowhere" / "vectors.npz")
    vectors.embed_documents(["bees"])
    vectors.embed_query("bees")
    with pytest.raises(ConfigurationError, match="cannot be written"):
        vectors.save()


def test_a_store_takes_it_for_the_embedder_it_remembers(counting, tmp_path):
    with AgentMemory.open(tmp_path / "store", embedder=counting) as memory:
        memory.remember_fact(scope="user/ruth", fact="Ruth keeps bees")
    with AgentMemory.open(tmp_path / "store", embedder=RememberedVectors(adapt(counting))) as memory:
        assert memory.retrieve("bees", scope="user/ruth").semantic
