"""Bring a store to what is to be searched of its episodes: their messages, or only what stands for them as a whole.

What an episode lacks is embedded and added, and what is too much goes, some episodes at a time and each of them whole.
Whatever is searched meanwhile finds an episode as it was, or as it is to be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from memory_retrievers.contents import Progress
from memory_retrievers.models import EpisodicMemory
from memory_retrievers.passages import Passage
from memory_retrievers.store import MemoryStore
from memory_retrievers.turn_passages import PassageText, passage_texts, turn_place, with_vectors

PAGE: Final = 16
"""Episodes that are embedded and written at a time: what a crash can lose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gap:
    """What an episode is to be given, and which of its passages are not to be there, or say something else now."""

    episode: EpisodicMemory
    missing: tuple[PassageText, ...]
    wrong: frozenset[str]


def reindex(store: MemoryStore, *, progress: Progress | None = None) -> int:
    """Give every episode the passages that the store's settings ask for, and no others of its messages.

    What is done is kept: after a crash or an error, another call goes on where it was.

    Args:
        store: What to bring up to date; it may be written and searched meanwhile.
        progress: Told after every page how many episodes have been looked at, and of how many.

    Returns:
        How many episodes were changed.

    Raises:
        EmbeddingError: The embedder failed; what was done before stays.
        BackendError: The store cannot be written; likewise.
    """
    total, done, changed, last = store.ledger.statistics(None).episodes, 0, 0, 0
    while rows := store.ledger.episode_rows(after=last, limit=PAGE):
        changed += _brought_up_to_date(store, rows)
        done, last = done + len(rows), rows[-1]
        if progress is not None:
            progress(done, max(done, total))
    return changed


def _brought_up_to_date(store: MemoryStore, rows: Sequence[int]) -> int:
    """Close the gaps of some episodes in one transaction, and tell how many had any."""
    while True:
        gaps = _gaps(store, rows)
        if not gaps:
            return 0
        embedder = store.embedder.current()
        passages = with_vectors([gap.missing for gap in gaps], embedder.embed_documents)
        gone: list[Passage] = []
        with store.ledger.transaction(*{gap.episode.scope for gap in gaps}):
            if not store.embedder.admits(embedder) or _gaps(store, rows) != gaps:
                continue  # the store has moved to another embedder, or an episode has changed meanwhile
            for gap, its_passages in zip(gaps, passages, strict=True):
                outdated = store.unindexed(gap.episode.scope, id=gap.episode.id, parts=gap.wrong)
                store.ledger.remove_passages([passage.id for passage in outdated])
                store.keyword.add(store.ledger.put_passages(gap.episode, its_passages))
                gone += outdated
        store.let_go(gone)
        return len(gaps)


def _gaps(store: MemoryStore, rows: Sequence[int]) -> list[_Gap]:
    memories = store.ledger.load(rows)
    found = (_gap(store, memory) for memory in memories.values() if isinstance(memory, EpisodicMemory))
    return [gap for gap in found if gap is not None]


def _gap(store: MemoryStore, episode: EpisodicMemory) -> _Gap | None:
    wanted = {text.part: text for text in passage_texts(episode, searched=store.searched)}
    stored = {passage.part: passage for passage in store.ledger.passages_of(episode.scope, id=episode.id)}
    right = {part for part, passage in stored.items() if part in wanted and passage.text == wanted[part].text}
    ours = {part for part in stored if part == episode.kind or turn_place(part) is not None}
    missing, wrong = tuple(text for part, text in wanted.items() if part not in right), frozenset(ours - right)
    return _Gap(episode=episode, missing=missing, wrong=wrong) if missing or wrong else None
