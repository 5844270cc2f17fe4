"""Foreign embedders brought into the package's shape, and what is said when they misbehave."""

import subprocess
import sys

import numpy as np
import pytest
from cases import tried_in_one
from chromadb import Documents, EmbeddingFunction
from langchain_core.embeddings import DeterministicFakeEmbedding
from llama_index.core.base.embeddings.base import BaseEmbedding

from memory_retrievers.backends.embeddings import adapt
from memory_retrievers.backends.embeddings.minilm import MiniLMEmbedder
from memory_retrievers.errors import ConfigurationError, EmbeddingError, ValidationError
from memory_retrievers.testing import HashEmbedder


class LlamaEmbedding(BaseEmbedding):
    """Documents point along (3, 4), queries along (4, 3)."""

    def _get_text_embedding(self, text):
        return [3.0, 4.0]

    def _get_query_embedding(self, query):
        return [4.0, 3.0]

    async def _aget_query_embedding(self, query):
        return self._get_query_embedding(query)


class OurShape:
    """What the package's own ``Embedder`` asks for, and nothing else."""

    id = "ours"

    def embed_documents(self, texts):
        return np.array([[0.6, 0.8]] * len(texts), dtype=np.float32)

    def embed_query(self, text):
        return self.embed_documents([text])[0]


class ChromaFunction(EmbeddingFunction[Documents]):
    """Documents point along (length, 4)."""

    def __init__(self):
        self.model_name = "ruler"

    def __call__(self, input):
        return [np.array([len(text), 4.0], dtype=np.float32) for text in input]


class ChromaFunctionWithQueries(ChromaFunction):
    """Queries point along (4, 3)."""

    def embed_query(self, input):
        return [np.array([4.0, 3.0], dtype=np.float32) for _ in input]


def ruler(texts):
    return [[len(text), 4] for text in texts]


def answering(answer):
    """An embedder that gives this answer whatever it is asked."""
    return adapt(lambda texts: answer, embedder_id="parrot")


def same(vectors, expected):
    return vectors.dtype == np.float32 and np.allclose(vectors, expected, atol=1e-6)


def test_a_langchain_embedding_fits():
    original = DeterministicFakeEmbedding(size=16)
    embedder = adapt(original)
    expected = np.array(original.embed_documents(["tea", "coffee"]))
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert same(embedder.embed_documents(["tea", "coffee"]), expected)
    assert same(embedder.embed_query("coffee"), expected[1])
    assert embedder.id == "DeterministicFakeEmbedding"


def test_a_langchain_embedding_with_an_id_of_its_own_is_checked_and_goes_by_it():
    class OfADeployment(DeterministicFakeEmbedding):
        id: str = "eu-west-1/embed-3"

    embedder = adapt(OfADeployment(size=8))
    assert embedder.id == "eu-west-1/embed-3"
    assert np.linalg.norm(embedder.embed_documents(["tea", "coffee"]), axis=1) == pytest.approx([1, 1])
    assert np.linalg.norm(embedder.embed_query("tea")) == pytest.approx(1)


def test_a_llama_index_embedding_fits():
    embedder = adapt(LlamaEmbedding(model_name="compass-small"))
    assert same(embedder.embed_documents(["tea", "coffee"]), [[0.6, 0.8]] * 2)
    assert same(embedder.embed_query("tea"), [0.8, 0.6])
    assert embedder.id == "LlamaEmbedding/compass-small"


def test_a_llama_index_embedding_without_a_model_name_goes_by_its_class():
    assert adapt(LlamaEmbedding()).id == "LlamaEmbedding"


def test_a_chroma_function_fits():
    embedder = adapt(ChromaFunction())
    assert same(embedder.embed_documents(["tea", "coke"])[0], [0.6, 0.8])
    assert same(embedder.embed_query("tea"), [0.6, 0.8])
    assert embedder.id == "ChromaFunction/ruler"


def test_a_chroma_function_with_its_own_queries_fits():
    assert same(adapt(ChromaFunctionWithQueries()).embed_query("tea"), [0.8, 0.6])


def test_a_plain_function_fits():
    embedder = adapt(ruler)
    assert same(embedder.embed_documents(("tea", "coke"))[0], [0.6, 0.8])
    assert same(embedder.embed_query("tea"), [0.6, 0.8])
    assert embedder.id == "ruler"


@pytest.mark.parametrize("answer", [np.array([[3, 4]]), np.array([[3.0, 4.0]], dtype=np.float16), ([3, 4],)])
def test_a_function_may_answer_with_any_rows_of_numbers(answer):
    assert same(answering(answer).embed_query("tea"), [0.6, 0.8])


def test_a_lambda_has_an_id_that_is_the_same_in_every_process():
    assert adapt(lambda texts: texts).id.endswith("<locals>.<lambda>")


def test_an_embedder_of_the_packages_own_shape_is_given_back_as_it_is():
    for embedder in (MiniLMEmbedder(), OurShape()):
        assert adapt(embedder) is embedder


def test_an_id_can_be_given_to_any_embedder():
    embedder = adapt(HashEmbedder(), embedder_id="mine")
    assert embedder.id == "mine"
    assert same(embedder.embed_query("tea"), HashEmbedder().embed_query("tea"))


def test_a_blank_id_is_refused():
    with pytest.raises(ConfigurationError, match="must not be blank"):
        adapt(ruler, embedder_id=" ")


@pytest.mark.parametrize("thing", ["text-embedding-3-small", None, object()])
def test_what_does_not_embed_is_refused_and_the_error_names_what_does(thing):
    accepted = "LangChain Embeddings, a LlamaIndex BaseEmbedding, a Chroma EmbeddingFunction, or a function"
    with pytest.raises(ConfigurationError, match=accepted):
        adapt(thing)


def test_a_coroutine_function_is_refused_before_anything_is_embedded():
    async def embed(texts):
        return [[1.0, 0.0] for _ in texts]

    with pytest.raises(ConfigurationError, match="embed is a coroutine function: give one that returns its vectors"):
        adapt(embed)


def test_a_class_in_place_of_its_instance_is_refused():
    with pytest.raises(ConfigurationError, match="LlamaEmbedding is a class: give an instance"):
        adapt(LlamaEmbedding)


def test_no_framework_is_imported():
    code = """
import sys
from memory_retrievers.backends.embeddings import adapt
adapt(lambda texts: [[1.0] for text in texts]).embed_query("tea")
print(sorted({"langchain_core", "llama_index", "chromadb", "onnxruntime"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_texts_are_no_vectors_and_ask_nobody():
    asked = []
    embedder = adapt(lambda texts: asked.append(texts) or [[1.0, 2.0]] * len(texts))
    assert embedder.embed_documents([]).shape == (0, 0)
    embedder.embed_query("tea")
    assert embedder.embed_documents([]).shape == (0, 2)
    assert asked == [["tea"]]


def test_a_single_text_in_place_of_a_list_is_refused():
    with pytest.raises(ValidationError, match="put it in a list"):
        adapt(ruler).embed_documents("tea")


def test_a_query_that_is_no_text_is_refused():
    with pytest.raises(ValidationError, match="must be a string, not NoneType"):
        adapt(ruler).embed_query(None)


@tried_in_one(
    "answer, problem",
    [
        ([[1.0, 2.0]], "gave 1 vectors for 2 texts"),
        ([[1.0]] * 3, "gave 3 vectors for 2 texts"),
        ([], "gave 0 vectors for 2 texts"),
        (None, "failed: TypeError"),
        ([[1.0, 2.0], [1.0, 2.0, 3.0]], "gave 3 numbers for text 1 and 2 before"),
        ([[1.0, 2.0], [1.0, float("nan")]], "text 1 that has NaN or infinity"),
        ([[float("inf"), 2.0], [1.0, 2.0]], "text 0 that has NaN or infinity"),
        ([[1.0, 2.0], [0.0, 0.0]], "text 1 that is zero"),
        ([[1.0, 2.0], []], r"text 1 that has the shape \(0,\)"),
        ([1.0, 2.0], r"text 0 that has the shape \(\)"),
        ([[[1.0]], [[1.0]]], r"text 0 that has the shape \(1, 1\)"),
        ([[1.0, 2.0], ["a", "b"]], "text 1 that is not made of numbers"),
        ([[1.0, 2.0], [1.0, [2.0]]], "text 1 that is not made of numbers"),
    ],
)
def test_an_unusable_answer_is_refused_and_the_error_names_the_text(answer, problem):
    with pytest.raises(EmbeddingError, match=f"the embedder parrot .*{problem}"):
        answering(answer).embed_documents(["tea", "coffee"])


def test_the_dimension_may_not_change_between_calls():
    embedder = adapt(lambda texts: [[1.0] * len(text) for text in texts])
    embedder.embed_query("tea")
    with pytest.raises(EmbeddingError, match="gave 6 numbers for text 0 and 3 before"):
        embedder.embed_query("coffee")


def test_numbers_whose_squares_overflow_single_precision_are_brought_to_length_one():
    assert same(answering([[3e30, 4e30]]).embed_query("tea"), [0.6, 0.8])


def test_an_exception_of_the_model_becomes_ours_and_keeps_its_cause():
    def broken(texts):
        raise ConnectionError("no route")

    with pytest.raises(EmbeddingError, match="failed: ConnectionError: no route") as raised:
        adapt(broken).embed_query("tea")
    assert isinstance(raised.value.__cause__, ConnectionError)


def test_an_error_of_the_package_passes_through_as_it_is(tmp_path):
    embedder = adapt(MiniLMEmbedder(directory=tmp_path), embedder_id="mine")
    with pytest.raises(EmbeddingError, match=r"^the bundled model cannot be read"):
        embedder.embed_query("tea")
