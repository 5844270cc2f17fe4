"""The bundled embedder: all-MiniLM-L6-v2 as int8 ONNX, run locally, without download or API key.

The model works best in English. ``scripts/build_minilm.py`` made the files in ``model/`` and documents how.
"""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from memory_retrievers.backends.embeddings import checked_texts
from memory_retrievers.errors import EmbeddingError
from memory_retrievers.models.selection import Embedded, Vector, Vectors
from memory_retrievers.text.analysis import STOP_WORDS

if TYPE_CHECKING:
    from tokenizers import Encoding


MODEL_DIRECTORY: Final = Path(__file__).parent / "model"
MODEL_SHA256: Final = "ebbf2ba52fa2a261cd76bfd607cd52fadfc6c673505cb15edf5bd796db5d7662"
TOKENIZER_SHA256: Final = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
PROJECTION_SHA256: Final = "933a9a258a5e4ed802cf4e81f4cb503a62ce8391990ace16c7afaae1f273d696"

DIMENSION: Final = 384
TOKEN_DIMENSION: Final = 64
KEPT_TOKENS: Final = 64  # token vectors of a text at most: 4 kB; a message has 16 on average
MAXIMUM_TOKENS: Final = 256  # what the model was trained with; what a text has beyond is not seen
BATCH_SIZE: Final = 32
BATCH_TOKENS: Final = 8 * MAXIMUM_TOKENS  # long texts in smaller batches: the same speed in half the memory
NO_TELEMETRY: Final = "ORT_DISABLE_TELEMETRY"
"""What onnxruntime asks for as it is imported: from 1.32 on it keeps an id of this machine under ``~/.cache`` on Linux,
and looks its makers' collector up; to tell it later is too late. A value that the user has set stays."""

MAXIMUM_THREADS: Final = 4  # a model this small gains nothing from more


class Pass(NamedTuple):
    """What the model gives for a batch of b texts."""

    places: NDArray[np.intp]  # the places of the texts
    encodings: list[Encoding]  # how each was cut into tokens
    token_vectors: NDArray[np.float32]  # shape (b, t, 384), with padding
    vectors: Vectors  # their means, at length 1: shape (b, 384)


_NO_TOKENS: Final = np.empty((0, TOKEN_DIMENSION), np.int8)


class MiniLMEmbedder:
    """Sentence embeddings of all-MiniLM-L6-v2: unit vectors of 384 dimensions.

    The model is loaded by the first embedding, not before, and once in a process: all embedders of a directory share
    it, and the last one of them takes it along. A text's vector depends a little on the batch it is
    embedded in (cosine at least 0.98 to the original model in any batch), so store vectors and never compare them for
    equality. Safe to use from several threads.

    Methods that embed raise a ValidationError for a text that is no string, and an EmbeddingError where the model
    cannot be loaded or fails.

    Args:
        directory: Where ``model.onnx`` and ``tokenizer.json`` are; None is the copy inside the package.
    """

    def __init__(self, *, directory: Path | None = None) -> None:
        self._directory = MODEL_DIRECTORY if directory is None else directory
        self._lock = threading.Lock()
        self._loaded: _Model | None = None

    @property
    def id(self) -> str:
        """Name of the model and its precision."""
        return "all-MiniLM-L6-v2-int8"

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts as unit vectors in the order given: shape (number of texts, 384)."""
        checked = checked_texts(texts)
        vectors = np.empty((len(checked), DIMENSION), dtype=np.float32)
        for each in self.passes(checked):
            vectors[each.places] = each.vectors
        return vectors

    def embed_tokens(self, texts: Sequence[str], *, is_query: bool = False) -> list[Embedded]:
        """Embed texts, each as a whole (384 numbers) and by its tokens (at most 64, of 64 bytes), in one pass.

        A query keeps the tokens of stop words and punctuation, which are left out of what is stored.
        """
        checked = checked_texts(texts)
        found: dict[int, Embedded] = {}
        for each in self.passes(checked):
            for row, (place, encoding) in enumerate(zip(each.places.tolist(), each.encodings, strict=True)):
                kept, words = kept_tokens(encoding, checked[place], is_query=is_query)
                tokens = self._model().projected(each.token_vectors[row, kept]) if kept else _NO_TOKENS
                found[place] = Embedded(each.vectors[row], tokens.tobytes(), words)
        return [found[place] for place in range(len(checked))]

    def passes(self, texts: list[str]) -> Iterator[Pass]:
        """Run texts through the model, in batches."""
        if not texts:
            return
        model = self._model()
        encodings = model.tokenize(texts)
        for batch in _batches_of_like_length([len(encoding) for encoding in encodings]):
            its_encodings = [encodings[index] for index in batch]
            yield Pass(batch, its_encodings, *model.run([encoding.ids for encoding in its_encodings]))

    def embed_query(self, text: str) -> Vector:
        """Embed one text as a unit vector: shape (384,)."""
        return cast("Vector", self.embed_documents([text])[0])

    def _model(self) -> _Model:
        with self._lock:
            if self._loaded is None:
                self._loaded = _shared_model(self._directory)
            return self._loaded


class _Model:
    """The tokenizer and the network, verified and in memory."""

    def __init__(self, directory: Path) -> None:
        tokenizer = _verified(directory / "tokenizer.json", TOKENIZER_SHA256)
        network = _verified(directory / "model.onnx", MODEL_SHA256)
        self._directory = directory
        os.environ.setdefault(NO_TELEMETRY, "1")
        try:
            import onnxruntime
            from tokenizers import Tokenizer

            onnxruntime.disable_telemetry_events()  # on by default in its Windows builds
            self._tokenizer = Tokenizer.from_buffer(tokenizer)
            self._tokenizer.enable_truncation(MAXIMUM_TOKENS)
            self._tokenizer.no_padding()
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 3  # errors only
            options.intra_op_num_threads = min(MAXIMUM_THREADS, os.cpu_count() or 1)
            # Spinning threads halve the speed of everything else on a busy machine, and of the next query.
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
            self._session = onnxruntime.InferenceSession(network, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise EmbeddingError(f"onnxruntime or tokenizers cannot load the bundled model: {error}") from error

    def tokenize(self, texts: list[str]) -> list[Encoding]:
        """The tokens of each text, at most 256.

        One by one: in a batch, tokenizers starts threads of its own, and warns of them whenever the process forks.
        """
        try:
            # lone surrogates, as half an emoji leaves behind, have no UTF-8 and would be refused
            return [self._tokenizer.encode(text.encode("utf-8", "replace").decode()) for text in texts]
        except Exception as error:
            raise EmbeddingError(f"the bundled model cannot tokenize a text: {error}") from error

    def run(self, batch: list[list[int]]) -> tuple[NDArray[np.float32], Vectors]:
        """The token vectors of b texts, shape (b, t, 384) with padding, and their mean at length 1, shape (b, 384)."""
        tokens, mask = _padded(batch)
        try:
            (token_vectors,) = self._session.run(None, {"input_ids": tokens, "attention_mask": mask})
        except Exception as error:
            raise EmbeddingError(f"the bundled model failed on a batch of {len(batch)} texts: {error}") from error
        sums = np.einsum("btd,bt->bd", token_vectors, mask.astype(np.float32))
        return token_vectors, sums / np.linalg.norm(sums, axis=1, keepdims=True)

    @cached_property
    def _projection(self) -> NDArray[np.float32]:
        """What ``scripts/fit_tokens.py`` has made, shape (384, 64)."""
        content = _verified(self._directory / "tokens.bin", PROJECTION_SHA256)
        return np.frombuffer(content, "<f2").reshape(DIMENSION, TOKEN_DIMENSION).astype(np.float32)

    def projected(self, token_vectors: Vectors) -> NDArray[np.int8]:
        """Token vectors in few numbers, each token by its own peak: shape (t, 384) in, (t, 64) out."""
        few = (token_vectors / np.linalg.norm(token_vectors, axis=1, keepdims=True)) @ self._projection
        numbers: NDArray[np.int8] = np.rint(few * (127 / np.abs(few).max(axis=1, keepdims=True))).astype(np.int8)
        return numbers


def kept_tokens(encoding: Encoding, text: str, *, is_query: bool) -> tuple[list[int], tuple[str, ...]]:
    """Places of the tokens that are kept, and the word that each is of; all are, if nothing but stop words is there."""
    words = [
        (place, text[slice(*(encoding.word_to_chars(word) or (0, 0)))].casefold())
        for place, word in enumerate(encoding.word_ids)
        if word is not None
    ]
    content = [(place, word) for place, word in words if word.isalnum() and word not in STOP_WORDS]
    kept = (words if is_query else content or words)[:KEPT_TOKENS]
    return [place for place, _ in kept], tuple(word for _, word in kept)


_sharing = threading.Lock()
_shared: weakref.WeakValueDictionary[Path, _Model] = weakref.WeakValueDictionary()
"""The models in memory, by directory; each goes with the last embedder that holds it."""


def _shared_model(directory: Path) -> _Model:
    with _sharing:
        place = directory.resolve()
        model = _shared.get(place)
        if model is None:
            model = _shared[place] = _Model(directory)
        return model


def _share_nothing_of_parent() -> None:
    """In a forked child: the threads of the parent's models do not run there, and its lock may be held for ever."""
    global _sharing, _shared
    _sharing, _shared = threading.Lock(), weakref.WeakValueDictionary()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_share_nothing_of_parent)


def _verified(path: Path, expected: str) -> bytes:
    """Read a file and verify its checksum; the verified bytes are the ones that are loaded."""
    mend = 'run: pip install --force-reinstall --no-deps "memory-retrievers"'
    try:
        content = path.read_bytes()
    except OSError as error:
        raise EmbeddingError(f"the bundled model cannot be read ({error}); {mend}") from error
    if hashlib.sha256(content).hexdigest() != expected:
        raise EmbeddingError(f"the bundled model is damaged: {path} is not the file that was shipped; {mend}")
    return content


def _batches_of_like_length(lengths: list[int]) -> Iterator[NDArray[np.intp]]:
    """Group text indices into batches, longest texts first, so that little is padded."""
    order = np.argsort([-length for length in lengths], kind="stable")
    while len(order):
        size = min(BATCH_SIZE, BATCH_TOKENS // lengths[order[0]])
        yield order[:size]
        order = order[size:]


def _padded(batch: list[list[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Token ids as a matrix padded to the longest text, and the mask of real tokens."""
    lengths = np.array([len(text) for text in batch])
    mask = np.arange(lengths.max()) < lengths[:, np.newaxis]
    tokens = np.zeros(mask.shape, dtype=np.int64)
    tokens[mask] = np.concatenate(batch)
    return tokens, mask.astype(np.int64)
