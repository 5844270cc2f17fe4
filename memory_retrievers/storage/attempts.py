"""Work whose transactions wait for no embedder, hook or snapshot, since all others wait for a transaction to end.

Work of several steps may only know inside its transaction which texts it needs. So it is attempted: where something is
needed that has not been prepared, the transaction is undone, the embedder or hook is asked outside, or the snapshot
loaded, and the work begins again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memory_retrievers.models.selection import Embedded, Vector
    from memory_retrievers.protocols import Embedder
    from memory_retrievers.storage.embedder import ProbedEmbedder


class NotPrepared(BaseException):
    """Undoes a transaction in which something is needed that takes time."""

    def __init__(self, prepare: Callable[[], object]) -> None:
        super().__init__()
        self.prepare = prepare


class Attempt:
    """What has been prepared for the work of one thread.

    Args:
        now: The moment at which the work begins, which is that of all its attempts.

    Attributes:
        has_written: Whether a transaction of the running attempt was kept, so that it cannot begin again.
    """

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.has_written = False
        self._embedder: Embedder | None = None
        self._documents: dict[str, Embedded] = {}
        self._questions: dict[str, Vector] = {}
        self._admitted: dict[str, Any] = {}
        self._failures: dict[tuple[str, ...], Exception] = {}
        self._loaded: set[Hashable] = set()

    def require_loaded(self, key: Hashable, load: Callable[[], object]) -> None:
        """Have a part of the store loaded outside the transaction, where it is kept; once, if it cannot be.

        Raises:
            NotPrepared: It has not been loaded for this work.
        """
        if key not in self._loaded:
            self._loaded.add(key)
            raise NotPrepared(load)

    def documents(self, embedder: ProbedEmbedder, texts: Sequence[str]) -> list[Embedded]:
        """What an embedder makes of texts, in their order.

        Raises:
            NotPrepared: There are none yet of all of them by this embedder.
            EmbeddingError: It has failed.
        """
        self._begin_with(embedder)
        missing = tuple(text for text in dict.fromkeys(texts) if text not in self._documents)
        if missing:
            self._require(missing, lambda: self.prepare_documents(embedder, missing))
        return [self._documents[text] for text in texts]

    def prepare_documents(self, embedder: ProbedEmbedder, texts: Sequence[str]) -> None:
        """Embed texts that are not yet, outside a transaction."""
        self._begin_with(embedder)
        if wanted := [text for text in dict.fromkeys(texts) if text not in self._documents]:
            self._documents.update(zip(wanted, embedder.embed_passages(wanted), strict=True))

    def question(self, embedder: ProbedEmbedder, text: str) -> Vector:
        """Vector of a question, shape (d,); raises as :meth:`documents` does."""
        self._begin_with(embedder)
        if text not in self._questions:
            self._require((text,), lambda: self._questions.update({text: embedder.embed_query(text)}))
        return self._questions[text]

    def admitted(self, records: Sequence[Any], hook: Callable[[Any], Any]) -> list[Any]:
        """What the hook has made of records; raises what it raised.

        Raises:
            NotPrepared: It has not been asked about all of them.
        """
        keys = [_key_of(record) for record in records]
        for key in keys:
            if (failure := self._failures.pop((key,), None)) is not None:
                raise failure
            if key not in self._admitted:
                raise NotPrepared(lambda: self.prepare_admitted(records, hook))
        return [self._admitted[key] for key in keys]

    def prepare_admitted(self, records: Sequence[Any], hook: Callable[[Any], Any]) -> None:
        """Ask a hook about records, outside a transaction; what it raises is raised where they are used."""
        for record in records:
            if (key := _key_of(record)) not in self._admitted:
                try:
                    self._admitted[key] = hook(record)
                except Exception as error:  # noqa: BLE001 - raised later, in its place
                    self._failures[key,] = error

    def _require(self, wanted: tuple[str, ...], prepare: Callable[[], object]) -> None:
        """Raise ``NotPrepared``, or what the preparation raised."""
        if (failure := self._failures.pop(wanted, None)) is not None:
            raise failure

        def noting_failure() -> None:
            try:
                prepare()
            except Exception as error:  # noqa: BLE001 - raised in its place, when the work is done again
                self._failures[wanted] = error

        raise NotPrepared(noting_failure)

    def _begin_with(self, embedder: ProbedEmbedder) -> None:
        if embedder.embedder is not self._embedder:
            self._documents.clear()
            self._questions.clear()
            self._embedder = embedder.embedder


def _key_of(record: Any) -> str:  # noqa: ANN401 - a message, a draft or a memory
    return f"{type(record).__name__} {record.model_dump_json()}"
