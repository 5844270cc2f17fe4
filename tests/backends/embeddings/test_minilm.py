"""The bundled embedder against the fp32 model it was made from, and what it does when something is wrong."""

import hashlib
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

from memory_retrievers.backends.embeddings import minilm
from memory_retrievers.backends.embeddings.minilm import MODEL_DIRECTORY, MiniLMEmbedder
from memory_retrievers.errors import EmbeddingError, ValidationError

LOWEST_COSINE = 0.98  # what int8, in whatever batch and on whatever CPU, may cost


@pytest.fixture(scope="module")
def embedder():
    return MiniLMEmbedder()


@pytest.fixture(scope="module")
def golden():
    with np.load(Path(__file__).with_name("minilm_reference.npz")) as reference:
        return [str(text) for text in reference["texts"]], reference["vectors"]


def cosines(left, right):
    """Row by row; all vectors here have length 1."""
    return np.sum(left * right, axis=-1)


def test_each_golden_text_on_its_own_is_close_to_the_original_model(embedder, golden):
    texts, expected = golden
    vectors = np.stack([embedder.embed_query(text) for text in texts])
    assert cosines(vectors, expected).min() >= LOWEST_COSINE


@pytest.mark.parametrize("size", [2, 3, 7, 16, 42])
def test_each_golden_text_in_any_batch_is_close_to_the_original_model(embedder, golden, size):
    texts, expected = golden
    order = np.random.default_rng(size).permutation(len(texts))
    for batch in np.array_split(order, range(size, len(order), size)):
        vectors = embedder.embed_documents([texts[index] for index in batch])
        assert cosines(vectors, expected[batch]).min() >= LOWEST_COSINE


def test_paraphrases_are_nearer_than_strangers(embedder):
    home, abode, bread = embedder.embed_documents(["She lives in Paris.", "Her home is in Paris.", "I bake sourdough."])
    assert cosines(home, abode) > 0.7
    assert cosines(home, bread) < 0.3


def test_vectors_come_in_the_order_of_the_texts(embedder):
    texts = [f"{'very ' * (index * 37 % 100)}interesting fact number {index}" for index in range(80)]
    vectors = embedder.embed_documents(texts)
    backwards = embedder.embed_documents(texts[::-1])
    assert vectors.shape == (80, 384)
    assert (np.argmax(vectors @ backwards.T, axis=1) == np.arange(80)[::-1]).all()


def test_every_text_is_in_one_batch_and_no_batch_is_too_large():
    lengths = [*range(2, 257), *[256] * 20, *[3] * 100]
    batches = [list(batch) for batch in minilm._batches_of_like_length(lengths)]
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    assert max(len(batch) for batch in batches) == 32
    assert max(len(batch) * max(lengths[index] for index in batch) for batch in batches) <= 2048


def test_a_batch_is_padded_to_its_longest_text_and_no_further():
    tokens, mask = minilm._padded([[101, 102], [101, 7, 8, 102]])
    assert tokens.tolist() == [[101, 102, 0, 0], [101, 7, 8, 102]]
    assert mask.tolist() == [[1, 1, 0, 0], [1, 1, 1, 1]]


def test_padding_changes_a_vector_no_more_than_int8_does(embedder):
    alone = embedder.embed_query("tea")
    beside_a_long_text = embedder.embed_documents(["tea", "a long story " * 100])[0]
    assert cosines(alone, beside_a_long_text) >= LOWEST_COSINE


def test_what_stands_after_256_tokens_is_not_seen(embedder):
    full = "garden " * 254  # and two tokens that open and close the text
    expected = embedder.embed_query(full)
    assert np.array_equal(embedder.embed_query(full + "submarine"), expected)
    assert not np.array_equal(embedder.embed_query("garden " * 253 + "submarine"), expected)


def test_vectors_are_single_precision_and_have_length_one(embedder, golden):
    texts, _ = golden
    vectors = embedder.embed_documents(texts)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)


def test_a_query_is_one_vector(embedder):
    vector = embedder.embed_query("Where does the user live?")
    assert vector.shape == (384,)
    assert vector.dtype == np.float32


def test_no_texts_are_no_vectors_and_load_nothing():
    embedder = MiniLMEmbedder(directory=Path("nowhere"))
    assert embedder.embed_documents([]).shape == (0, 384)


def test_the_id_names_the_model_and_its_precision(embedder):
    assert embedder.id == "all-MiniLM-L6-v2-int8"


def test_half_an_emoji_can_be_embedded(embedder):
    assert np.isfinite(embedder.embed_query("nice \ud83d")).all()


@pytest.mark.parametrize("texts", ["a single text", [b"bytes"], ["text", None], [["nested"]]])
def test_what_is_not_a_list_of_texts_is_refused(embedder, texts):
    with pytest.raises(ValidationError, match="string"):
        embedder.embed_documents(texts)


def test_a_query_that_is_no_text_is_refused(embedder):
    with pytest.raises(ValidationError, match="must be a string, not int"):
        embedder.embed_query(4711)


def test_nothing_is_loaded_before_the_first_embedding():
    code = """
import sys
from memory_retrievers.backends.embeddings.minilm import MiniLMEmbedder
def loaded(): return sorted({"onnxruntime", "tokenizers"} & set(sys.modules))
embedder = MiniLMEmbedder()
embedder.id, embedder.embed_documents([])
print(loaded())
embedder.embed_query("now")
print(loaded())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "['onnxruntime', 'tokenizers']"]


@pytest.fixture
def copied(tmp_path):
    """The model in a directory of its own, so that it is not the one that others have loaded."""
    for name in ("model.onnx", "tokenizer.json"):
        shutil.copyfile(MODEL_DIRECTORY / name, tmp_path / name)
    return tmp_path


def test_eight_threads_load_it_once_and_get_what_one_would_get(embedder, golden, monkeypatch, copied):
    texts, _ = golden
    serial, loads = embedder.embed_documents(texts), []  # by a model that is loaded before loads are counted

    class CountedModel(minilm._Model):
        def __init__(self, directory):
            loads.append(directory)
            super().__init__(directory)

    monkeypatch.setattr(minilm, "_Model", CountedModel)
    fresh, start = [MiniLMEmbedder(directory=copied) for _ in range(8)], Barrier(8)

    def embed(shift):
        start.wait()
        return fresh[shift].embed_documents(texts[shift:] + texts[:shift])

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(embed, range(8)))

    assert len(loads) == 1
    for shift, vectors in enumerate(answers):
        assert cosines(vectors, np.roll(serial, -shift, axis=0)).min() >= LOWEST_COSINE


@pytest.mark.parametrize("damaged", ["model.onnx", "tokenizer.json"])
def test_a_damaged_file_is_refused_with_what_to_do(copied, damaged):
    (copied / damaged).write_bytes((copied / damaged).read_bytes()[:-1])
    with pytest.raises(EmbeddingError, match=rf"{damaged} is not the file that was shipped; run: pip install"):
        MiniLMEmbedder(directory=copied).embed_query("tea")


def test_a_missing_file_is_reported_with_what_to_do(tmp_path):
    with pytest.raises(EmbeddingError, match=r"cannot be read .* run: pip install") as raised:
        MiniLMEmbedder(directory=tmp_path).embed_query("tea")
    assert isinstance(raised.value.__cause__, FileNotFoundError)


def test_an_intact_copy_elsewhere_works(copied, embedder):
    elsewhere = MiniLMEmbedder(directory=copied)
    assert np.array_equal(elsewhere.embed_query("tea"), embedder.embed_query("tea"))


def test_what_the_runtime_cannot_load_is_our_error(tmp_path, monkeypatch):
    shutil.copyfile(MODEL_DIRECTORY / "tokenizer.json", tmp_path / "tokenizer.json")
    (tmp_path / "model.onnx").write_bytes(b"no model")
    monkeypatch.setattr(minilm, "MODEL_SHA256", hashlib.sha256(b"no model").hexdigest())
    with pytest.raises(EmbeddingError, match="cannot load the bundled model") as raised:
        MiniLMEmbedder(directory=tmp_path).embed_query("tea")
    assert raised.value.__cause__ is not None


@pytest.mark.parametrize(("part", "problem"), [("_tokenizer", "cannot tokenize"), ("_session", "failed on a batch")])
def test_what_fails_underneath_is_our_error(part, problem, copied):
    embedder = MiniLMEmbedder(directory=copied)
    setattr(embedder._model(), part, None)
    with pytest.raises(EmbeddingError, match=problem) as raised:
        embedder.embed_query("tea")
    assert isinstance(raised.value.__cause__, AttributeError)
