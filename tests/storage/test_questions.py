"""The vectors of the last questions are remembered: of one embedder each, and until something is forgotten."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from memory_retrievers import AgentMemory, EmbeddingError
from memory_retrievers.storage.embedder import REMEMBERED_CHARACTERS, REMEMBERED_QUESTIONS
from memory_retrievers.testing import HashEmbedder, inside


class Asked(HashEmbedder):
    """Keeps the questions it was asked; ``reuses`` gives the same array for every question."""

    def __init__(self, dimension=64, *, reuses=False):
        super().__init__(dimension)
        self.questions = []
        self.fails = False
        self.array = np.zeros(dimension) if reuses else None

    def embed_query(self, text):
        if self.fails:
            raise RuntimeError("away")
        self.questions.append(text)
        vector = super().embed_query(text)
        if self.array is None:
            return vector
        self.array[:] = vector
        return self.array

    def embed_documents(self, texts):
        return [HashEmbedder.embed_query(self, text) for text in texts]


class AsItIs(Asked):
    """Has the shape of our own protocol, so that nothing stands between it and the store."""

    id = "as it is"

    def embed_query(self, text):
        return np.asarray(super().embed_query(text), np.float32) if self.array is None else super().embed_query(text)

    def embed_documents(self, texts):
        return np.array(super().embed_documents(texts), np.float32)


@pytest.fixture
def embedder():
    return Asked()


@pytest.fixture
def memory(embedder, tmp_path):
    with AgentMemory.open(tmp_path / "store", embedder=embedder, embedder_id="asked") as memory:
        memory.remember_fact(scope="c1", fact="User likes green tea", id="tea")
        memory.remember_fact(scope="c1", fact="User plays chess", id="chess")
        yield memory


def vector_of(memory, question):
    return inside(memory).store.embedder.current().embed_query(question)


def test_a_question_is_embedded_once_whoever_asks_it(memory, embedder):
    first = memory.retrieve("green tea", scope="c1")
    asked = list(embedder.questions)
    again = memory.retrieve("green tea", scope="c1")
    elsewhere = memory.retrieve("green tea", scope="c2")
    assert asked.count("green tea") == 1
    assert embedder.questions == asked
    assert [(hit.memory.id, hit.score) for hit in first.semantic] == [
        (hit.memory.id, hit.score) for hit in again.semantic
    ]
    assert not elsewhere.semantic


def test_the_least_recently_asked_goes_first(memory, embedder):
    questions = [f"question {number}" for number in range(REMEMBERED_QUESTIONS)]
    for question in questions:
        vector_of(memory, question)
    vector_of(memory, questions[0])  # from now on the latest
    vector_of(memory, "one more")
    embedder.questions.clear()
    for question in (questions[0], *questions[2:], "one more"):
        vector_of(memory, question)
    assert embedder.questions == []
    vector_of(memory, questions[1])
    assert embedder.questions == [questions[1]]


def test_a_very_long_question_is_not_remembered(memory, embedder):
    longest, longer = "a" * REMEMBERED_CHARACTERS, "a" * (REMEMBERED_CHARACTERS + 1)
    embedder.questions.clear()
    for question in (longest, longest, longer, longer):
        vector_of(memory, question)
    assert embedder.questions == [longest, longer, longer]


def test_another_embedder_is_asked_again(memory, embedder):
    before = vector_of(memory, "green tea")
    other = Asked(32)
    memory.reembed(other, embedder_id="other")
    other.questions.clear()
    after = vector_of(memory, "green tea")
    assert other.questions == ["green tea"]
    assert (len(before), len(after)) == (64, 32)
    memory.reembed(embedder, embedder_id="asked")
    embedder.questions.clear()
    assert vector_of(memory, "green tea").tolist() == before.tolist()
    assert embedder.questions == ["green tea"]


def test_two_stores_share_no_vector(memory, embedder):
    vector_of(memory, "green tea")
    other = Asked()
    with AgentMemory.in_memory(embedder=other, embedder_id="asked") as beside:
        beside.remember_fact(scope="c1", fact="User likes green tea")
        other.questions.clear()
        vector_of(beside, "green tea")
    assert other.questions == ["green tea"]


def test_a_vector_cannot_be_written_to(memory):
    for _ in range(2):
        with pytest.raises(ValueError, match="read-only"):
            vector_of(memory, "green tea")[0] = 1.0


@pytest.mark.parametrize("make", [Asked, AsItIs])
def test_an_embedder_that_uses_its_array_again_changes_no_vector(tmp_path, make):
    with AgentMemory.open(tmp_path, embedder=make(reuses=True), embedder_id="asked") as memory:
        first = vector_of(memory, "green tea")
        expected = first.tolist()
        vector_of(memory, "chess")
        assert first.tolist() == vector_of(memory, "green tea").tolist() == expected
        assert expected == pytest.approx(HashEmbedder(64).embed_query("green tea"), abs=1e-6)


def test_a_failure_is_not_remembered(memory, embedder):
    embedder.fails = True
    with pytest.raises(EmbeddingError):
        vector_of(memory, "green tea")
    embedder.fails = False
    assert len(vector_of(memory, "green tea")) == 64


def test_forgetting_and_purging_change_no_answer(memory, embedder):
    question = "green tea"
    assert memory.retrieve(question, scope="c1").semantic
    memory.forget_scope("c1")
    memory.purge()
    assert not memory.retrieve(question, scope="c1").semantic
    memory.remember_fact(scope="c1", fact="User likes green tea", id="new")
    assert memory.retrieve(question, scope="c1").semantic[0].memory.id == "new"


def test_no_question_is_written_to_the_store(memory, tmp_path):
    memory.retrieve("unmistakable", scope="elsewhere")
    assert not [
        file for file in (tmp_path / "store").rglob("*") if file.is_file() and b"unmistakable" in file.read_bytes()
    ]


def test_a_closed_store_remembers_none(memory, embedder):
    known = inside(memory).store.embedder.current()
    known.embed_query("green tea")
    memory.close()
    embedder.questions.clear()
    known.embed_query("green tea")
    assert embedder.questions == ["green tea"]


def test_threads_get_the_vectors_of_their_own_questions(memory):
    questions = [f"question {number % 400}" for number in range(4_000)]
    expected = {question: HashEmbedder(64).embed_query(question) for question in set(questions)}
    with ThreadPoolExecutor(8) as threads:
        vectors = list(threads.map(lambda question: vector_of(memory, question), questions))
    for question, vector in zip(questions, vectors, strict=True):
        assert vector.tolist() == pytest.approx(expected[question], abs=1e-6)
