"""An embedder that embeds each text once: settings are compared on the same vectors, and only search is timed."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memory_retrievers.errors import ConfigurationError

if TYPE_CHECKING:
    from memory_retrievers.passages import Vector, Vectors
    from memory_retrievers.protocols import Embedder


class RememberedVectors:
    """Another embedder under its own name, asked once for each text.

    Args:
        embedder: What embeds.
        file: Where vectors are kept from one run to the next, an ``.npz`` file; None keeps them for this run.

    Raises:
        ConfigurationError: The file is there and holds no vectors of this embedder.
    """

    def __init__(self, embedder: Embedder, *, file: Path | None = None) -> None:
        self._embedder = embedder
        self._file = file
        self._lock = threading.Lock()
        self._documents: dict[str, Vector] = {}
        self._queries: dict[str, Vector] = {}
        if file is not None and file.exists():
            self._load(file)

    @property
    def id(self) -> str:
        """The name of the embedder that is asked."""
        return self._embedder.id

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """One unit vector per text.

        Raises:
            EmbeddingError: The embedder failed.
        """
        import numpy as np

        keys = [_key(text) for text in texts]
        with self._lock:
            new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._documents}
            if new or not keys:
                vectors = self._embedder.embed_documents(list(new.values()))
                self._documents.update(zip(new, vectors, strict=True))
                if not keys:
                    return vectors
            return np.array([self._documents[key] for key in keys])

    def embed_query(self, text: str) -> Vector:
        """The unit vector of a question.

        Raises:
            EmbeddingError: The embedder failed.
        """
        key = _key(text)
        with self._lock:
            if key not in self._queries:
                self._queries[key] = self._embedder.embed_query(text)
            return self._queries[key]

    def save(self) -> None:
        """Keep the vectors in the file, if there is one, whole or not at all.

        Raises:
            ConfigurationError: It cannot be written.
        """
        import numpy as np

        if self._file is None or not (self._documents and self._queries):
            return
        unfinished = self._file.with_name(f"{self._file.name}.unfinished")
        try:
            with unfinished.open("wb") as opened:
                np.savez(
                    opened,
                    embedder=np.array(self.id),
                    document_keys=np.array(list(self._documents)),
                    documents=np.array(list(self._documents.values())),
                    query_keys=np.array(list(self._queries)),
                    queries=np.array(list(self._queries.values())),
                )
            unfinished.replace(self._file)
        except OSError as error:
            raise ConfigurationError(f"{self._file} cannot be written: {error.strerror}") from error

    def _load(self, file: Path) -> None:
        import numpy as np

        try:
            with np.load(file, allow_pickle=False) as kept:
                embedder = str(kept["embedder"])
                documents = dict(zip(kept["document_keys"].tolist(), kept["documents"], strict=True))
                queries = dict(zip(kept["query_keys"].tolist(), kept["queries"], strict=True))
        except Exception as error:
            raise ConfigurationError(f"{file} holds no vectors of an evaluation: remove it") from error
        if embedder != self.id:
            raise ConfigurationError(f"{file} holds vectors of {embedder}, not of {self.id}: name another file")
        self._documents, self._queries = documents, queries


def _key(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
