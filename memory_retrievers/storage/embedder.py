"""The embedder of a store: what it embeds, what it remembers, and that its vectors are never mixed with another's."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, cast

from memory_retrievers.errors import ConfigurationError, EmbeddingError, EmbeddingMismatchError, ZeroVectorError
from memory_retrievers.models.selection import MOST_TOKEN_BYTES, Embedded, Vector, Vectors
from memory_retrievers.models.storage import HELD_UNTIL, PROBE, Fingerprint
from memory_retrievers.protocols import Embedder, TokenEmbedder
from memory_retrievers.storage.tracing import advance
from memory_retrievers.text.analysis import analyze

if TYPE_CHECKING:
    from memory_retrievers.backends.sql.ledger import SQLLedger

EMBEDDED_TEXTS: Final = 128
"""Texts that an embedder gets at once: enough for a batch of a model or for one request over a network. The bundled
model cuts them up further."""

EMBEDDED_CHARACTERS: Final = 250_000
"""The same for long texts, of which an embedder holds copies and lists of words; one text may be longer."""

HELD: Final = 10.0  # seconds that writers are held at most, while the last of a store's vectors are made anew

_LOOK_AGAIN: Final = 0.01  # seconds
_NEARLY_ONE: Final = 1e-2  # how far the square of a unit vector's length may be from 1, as halves of floats are

REMEMBERED_QUESTIONS: Final = 256
"""Questions whose vectors are remembered: an agent often asks the same by its middleware and by its tools."""

REMEMBERED_CHARACTERS: Final = 4_000
"""A longer question is not remembered: so all of them are at most a million characters and 256 vectors."""


class _State(NamedTuple):
    """Version of a store's vectors: how often all were recreated, and the probe of their embedder."""

    reembedded: int
    probe: str | None

    @classmethod
    def noted(cls, notes: Mapping[str, str]) -> _State:
        return cls(int(notes.get("reembedded", 0)), notes.get("probe"))


@dataclass(frozen=True)
class ProbedEmbedder:
    """An embedder with its fingerprint; all its vectors have the probe's dimension."""

    embedder: Embedder
    fingerprint: Fingerprint
    state: _State | None = None
    with_tokens: bool = False

    @functools.cached_property
    def questions(self) -> functools._lru_cache_wrapper[Embedded]:
        """What :meth:`embed_query` remembers until something is forgotten; it is written nowhere."""
        return functools.lru_cache(maxsize=REMEMBERED_QUESTIONS)(self._asker())

    @classmethod
    def probed(cls, embedder: Embedder, *, with_tokens: bool = False) -> ProbedEmbedder:
        """Compute the fingerprint of an embedder, by its first embedding.

        Raises:
            EmbeddingError: It failed, or gave the zero vector, which is near to nothing.
            ConfigurationError: It promised unit vectors by its id, and gives others.
        """
        try:
            probe = embedder.embed_query(PROBE)
        except ZeroVectorError as error:
            raise _unknowable(embedder.id) from error
        if not any(probe):
            raise _unknowable(embedder.id)
        if not hasattr(probe, "dtype") or abs(float(probe @ probe) - 1) > _NEARLY_ONE:
            raise ConfigurationError(
                f"the embedder {embedder.id!r} has an id of its own and does not return unit vectors as numpy arrays: "
                f"give embedder_id={embedder.id!r} as well, and lists and vectors of any length are accepted"
            )
        by_tokens = with_tokens and _by_tokens(embedder) is not None
        return cls(embedder, Fingerprint.of(embedder.id, probe), with_tokens=by_tokens)

    def embed_query(self, query: str) -> Vector:
        """Embed a question as a unit vector that cannot be written to: shape (d,); the last ones are remembered."""
        return self.question(query).vector

    def question(self, query: str) -> Embedded:
        """Embed a question as :meth:`embed_query` does, with its tokens if there are any."""
        return self.questions(query) if len(query) <= REMEMBERED_CHARACTERS else self._asker()(query)

    def _asker(self) -> Callable[[str], Embedded]:
        by_tokens = _by_tokens(self.embedder) if self.with_tokens else None
        # a function that holds no reference to this object: no cycle, so that all of it goes at once
        return functools.partial(_asked, self.embedder, by_tokens, self.fingerprint.dimension)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts in batches: shape (number of texts, d); errors as for :meth:`embed_query`."""
        made, done = [], 0
        for batch in _batches(texts):
            vectors = self.embedder.embed_documents(batch)
            _require_dimension(self.embedder, self.fingerprint.dimension, vectors.shape[1])
            made.append(vectors)
            done += len(batch)
            advance(done, len(texts))
        if len(made) == 1:
            return made[0]
        import numpy as np  # here, so that importing the package loads no numpy

        return np.concatenate(made)

    def embed_passages(self, texts: Sequence[str]) -> list[Embedded]:
        """Embed texts in batches, with their tokens if there are any; errors as for :meth:`embed_query`."""
        embedder = _by_tokens(self.embedder)
        if embedder is None or not self.with_tokens:
            return [Embedded(vector) for vector in self.embed_documents(texts)]
        found: list[Embedded] = []
        for batch in _batches(texts):
            found += embedder.embed_tokens(batch)
            advance(len(found), len(texts))
        for each in found:
            _require_dimension(embedder, self.fingerprint.dimension, len(each.vector))
            if len(each.tokens or b"") > MOST_TOKEN_BYTES:
                raise EmbeddingError(
                    f"the embedder {embedder.id!r} gave {len(each.tokens or b''):,} bytes of token vectors for a text: "
                    f"it may give {MOST_TOKEN_BYTES:,}"
                )
        return found


def _by_tokens(embedder: Embedder) -> TokenEmbedder | None:
    return cast("TokenEmbedder", embedder) if callable(getattr(embedder, "embed_tokens", None)) else None


def _asked(embedder: Embedder, by_tokens: TokenEmbedder | None, dimension: int, query: str) -> Embedded:
    import numpy as np  # here, so that importing the package loads no numpy

    asked = (
        Embedded(embedder.embed_query(query))
        if by_tokens is None
        else by_tokens.embed_tokens([query], is_query=True)[0]
    )
    vector = np.array(asked.vector)  # a copy: the embedder may go on with its own
    _require_dimension(embedder, dimension, len(vector))
    vector.setflags(write=False)
    terms = tuple([tuple(analyze(word)) for word in asked.words])
    return Embedded(vector, asked.tokens, asked.words, terms)


def _require_dimension(embedder: Embedder, expected: int, given: int) -> None:
    if given != expected:
        raise EmbeddingMismatchError(
            f"the embedder {embedder.id!r} gave a vector of {given} numbers, and before {expected}: use a model whose "
            "vectors all have the same length"
        )


class LetGoEmbedder:
    """Takes the place of the embedder in a closed store, which may be kept for long: all it holds is the name."""

    def __init__(self, id: str) -> None:
        self.id = id

    def embed_documents(self, _: object) -> NoReturn:
        """Refuse: the store is closed."""
        raise ConfigurationError("this memory is closed; open it again")

    embed_query = embed_documents


class StoreEmbedder:
    """The embedder a store is filled with and searched by.

    Whoever embeds takes :meth:`current`, and asks :meth:`holds` or :meth:`admits` once the vectors have been used:
    all vectors of the store may have been made anew meanwhile, here or by the process that writes it.

    Args:
        ledger: Whose notes say what the store was filled with.
        embedder: Must be that one.
        with_tokens: Texts are embedded by their tokens as well, if it can.

    Attributes:
        id: Name of the embedder.
        relevance_note: What the store says, as it was last read, of the relevance that its vectors tell; None if it
            says nothing of them.
    """

    def __init__(self, ledger: SQLLedger, embedder: Embedder, *, with_tokens: bool = False) -> None:
        self._ledger = ledger
        self.with_tokens: Final = with_tokens
        self._embedder = embedder
        self.id = embedder.id
        self.relevance_note: str | None = None
        self._known: ProbedEmbedder | None = None
        self._lock = threading.Lock()  # also held while the ledger's vectors may be new, and the embedder the old one
        _refuse_other_name(Fingerprint.noted(ledger.notes()), embedder.id)
        ledger.snapshots.forgetting.append(self.forget_questions)

    @property
    def is_probed(self) -> bool:
        """Whether :meth:`current` embeds nothing."""
        return self._known is not None

    @property
    def gives_tokens(self) -> bool:
        """Whether the embedder, as it was last seen to be, gives vectors of tokens."""
        known = self._known
        return known is not None and known.with_tokens

    def latest(self) -> ProbedEmbedder:
        """Return the embedder as last seen; whoever uses it must ask :meth:`holds` afterwards anyway."""
        known = self._known
        if known is None or known.state is None or known.state.probe is None:  # the store held no vectors then
            return self.current()
        return known

    def current(self) -> ProbedEmbedder:
        """Return the embedder, compared with the vectors the store holds now.

        Its name is known when the store is opened; its vectors only now, so that opening loads no model.
        """
        while True:
            known, notes = self._known, self._ledger.notes()
            if known is not None and known.state == _State.noted(notes):
                return known
            with self._lock:
                if self._known is known:  # else it changed since the notes were read
                    self._known = self._checked(notes)

    def question(self, query: str) -> Embedded | None:
        """What is remembered of a question that a search has just embedded; None if it is too long for that."""
        known = self._known
        return None if known is None or len(query) > REMEMBERED_CHARACTERS else known.question(query)

    def hold_writers(self) -> None:
        """Keep others from storing vectors for a moment, so that re-embedding the store comes to an end.

        They wait outside of transactions, until :meth:`replace` is done, or for ten seconds if it never is.
        """
        self._ledger.write_notes({HELD_UNTIL: str(time.time() + HELD)})

    def wait_while_held(self) -> None:
        """Wait, outside a transaction, while writers are held."""
        while _is_held(self._ledger.notes()):
            time.sleep(_LOOK_AGAIN)

    def holds(self, embedder: ProbedEmbedder) -> bool:
        """Return True if the store's vectors are those it had when :meth:`current` returned this embedder."""
        notes = self._ledger.notes()
        self.relevance_note = notes.get(_relevance_key(notes))
        return embedder.state == _State.noted(notes)

    def note_relevance(self, note: str) -> None:
        """Note the relevance that was calibrated for the store's vectors; it is not read for another embedder's."""
        with self._ledger.database.write():
            self._ledger.write_notes({_relevance_key(self._ledger.notes()): note})

    def admits(self, embedder: ProbedEmbedder, *, can_wait: bool = False) -> bool:
        """Like :meth:`holds`, inside a write transaction; records the fingerprint if the store has none.

        A caller that can leave the transaction and wait is also refused while writers are held.
        """
        notes = self._ledger.notes()
        if embedder.state != _State.noted(notes) or (can_wait and _is_held(notes)):
            return False
        if "embedder_id" in notes:
            return True
        own = embedder.fingerprint.notes()
        self._ledger.write_notes(own, replace=False)  # another process may store its first vectors elsewhere
        return own.items() <= self._ledger.notes().items()

    def replace(self, embedder: ProbedEmbedder, take_over: Callable[[], bool]) -> bool:
        """Make another embedder the store's, in one transaction with its vectors.

        ``take_over`` puts these in the place of the old; it, and then this, gives False if that cannot be done yet.
        """
        with contextlib.ExitStack() as held:
            with self._ledger.database.write():
                held.enter_context(self._lock)  # not before: who has the transaction may ask for the embedder in it
                if not take_over():
                    return False
                reembedded = _State.noted(self._ledger.notes()).reembedded + 1
                notes = {**embedder.fingerprint.notes(), "reembedded": str(reembedded)}
                self._ledger.write_notes(notes)
            try:
                self._ledger.snapshots.forget(None)
            finally:
                self._embedder, self.id = embedder.embedder, embedder.embedder.id
                self._known = replace(embedder, state=_State.noted(notes))
        return True

    def close(self) -> None:
        """Forget the questions that were asked, and the embedder; waits for no model that is being loaded."""
        self._embedder = LetGoEmbedder(self._embedder.id)
        self.forget_questions()
        self._known = None

    def forget_questions(self) -> None:
        """Remember none of the questions that were asked, of which one may repeat what was forgotten."""
        if (known := self._known) is not None:
            vars(known).pop("questions", None)  # what is just being embedded goes with it

    def _checked(self, notes: Mapping[str, str]) -> ProbedEmbedder:
        noted, state = Fingerprint.noted(notes), _State.noted(notes)
        _refuse_other_name(noted, self._embedder.id)
        probed = self._known or ProbedEmbedder.probed(self._embedder, with_tokens=self.with_tokens)
        _refuse_other_vectors(noted, probed.fingerprint)
        if probed.state is not None and probed.state.reembedded != state.reembedded:
            self._ledger.snapshots.forget(None)  # the process that writes the store has made all vectors anew
        return replace(probed, state=state)


def _relevance_key(notes: Mapping[str, str]) -> str:
    """Name of the note on relevance for the embedder with the fingerprint that is noted."""
    return _named_by("\n".join([notes.get(name, "") for name in ("embedder_id", "dimension", "probe")]))


@functools.lru_cache(maxsize=16)
def _named_by(fingerprint: str) -> str:
    return f"relevance {hashlib.blake2b(fingerprint.encode(), digest_size=16).hexdigest()}"


def _is_held(notes: Mapping[str, str]) -> bool:
    now = time.time()
    return now < float(notes.get(HELD_UNTIL, 0)) <= now + HELD  # a clock that was set back holds nobody


def _batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Split texts into batches for an embedder, in order; no texts give one empty batch."""
    begun = size = 0
    for place, text in enumerate(texts):
        if place - begun == EMBEDDED_TEXTS or (place > begun and size + len(text) > EMBEDDED_CHARACTERS):
            time.sleep(0)  # other threads may want the interpreter for a question: a batch can take as long as hundreds
            yield texts[begun:place]
            begun, size = place, 0
        size += len(text)
    if len(texts) > 1:  # one alone takes no longer than a question
        time.sleep(0)
    yield texts[begun:]


def _unknowable(embedder_id: str) -> ZeroVectorError:
    return ZeroVectorError(
        f"the embedder {embedder_id!r} gives the zero vector for {PROBE!r}, the sentence that embedders are told "
        "apart by: let it have a number for the words it does not know, which it needs for questions too"
    )


def _refuse_other_name(noted: Fingerprint | None, embedder_id: str) -> None:
    if noted is not None and noted.embedder_id != embedder_id:
        raise EmbeddingMismatchError(
            f"this store was filled with the embedder {noted.embedder_id!r}, not {embedder_id!r}: open it with that "
            f"one (or, if it is the same model under another name, with embedder_id={noted.embedder_id!r}). "
            f"{_way_to_another(noted)}"
        )


def _refuse_other_vectors(noted: Fingerprint | None, given: Fingerprint) -> None:
    if noted is None or noted.has_vectors_like(given):
        return
    problem = (
        f"vectors of {given.dimension} numbers, and this store holds {noted.dimension}"
        if given.dimension != noted.dimension
        else "other vectors than the ones this store was filled with"
    )
    raise EmbeddingMismatchError(
        f"the embedder {given.embedder_id!r} gives {problem}: open the store with the embedder it was filled with. "
        f"{_way_to_another(noted)}"
    )


def _way_to_another(noted: Fingerprint) -> str:
    return (
        f"To move it to another embedder, even without the old one: AgentMemory.open(path, embedder=new, "
        f"embedder_id={noted.embedder_id!r}), then memory.reembed(new)"
    )
