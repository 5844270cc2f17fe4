"""What the suites of a keyword index have in common: filling one, and asking it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest
from hypothesis import strategies as st

from contracts.samples import SCOPE, add, fact, facts_in, indexed, ranking
from memory_retrievers.backends.sql.keyword import PostingsKeywordIndex
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.models import AnyMemory, MemoryKey
from memory_retrievers.models.selection import Selection
from memory_retrievers.text.analysis import analyze

_FACTS: Final = facts_in()
_WORDS: Final = ("tea", "coffee", "milk", "sugar", "lemon", "honey")

texts_of_words = st.lists(
    st.lists(st.sampled_from(_WORDS), min_size=1, max_size=6).map(" ".join), min_size=1, max_size=6
)
queries_of_words = st.lists(st.sampled_from(_WORDS), min_size=1, max_size=4).map(" ".join)


def store(ledger: SQLLedger, index: PostingsKeywordIndex, memories: Sequence[AnyMemory]) -> list[int]:
    """Store memories in both, and give the ids of their passages."""
    with ledger.database.write():
        passages = add(ledger, memories)
        index.add(passages)
    return [passage.id for passage in passages]


def store_facts(
    ledger: SQLLedger, index: PostingsKeywordIndex, texts: Sequence[str], *, scope: str = SCOPE
) -> list[int]:
    """The same of new facts of these texts."""
    first = len(indexed(ledger, facts_in(scope)))
    return store(ledger, index, [fact(f"f{first + n}", text, scope=scope) for n, text in enumerate(texts)])


def remove(ledger: SQLLedger, index: PostingsKeywordIndex, scope: str, id: str) -> None:
    """Remove a memory from both."""
    with ledger.database.write():
        passages = ledger.passages_of(scope, id=id)
        index.remove(passages)
        ledger.remove([MemoryKey(scope=scope, id=id)])
    ledger.snapshots.forget([passage.id for passage in passages])


def search(
    index: PostingsKeywordIndex, query: str, selection: Selection = _FACTS, *, limit: int = 100
) -> dict[int, float]:
    """The passages found, best first, with their scores."""
    return ranking(index.search(analyze(query), selection, limit=limit))


def found(index: PostingsKeywordIndex, query: str, selection: Selection = _FACTS, *, limit: int = 100) -> list[int]:
    """The passages found, best first."""
    return list(search(index, query, selection, limit=limit))


def same(left: dict[int, float], right: dict[int, float]) -> bool:
    """Whether both have the same passages with the same scores in the same order."""
    return list(left) == list(right) and left == pytest.approx(right, rel=1e-9)
