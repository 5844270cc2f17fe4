"""What differs between two moments in what a scope knows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from memory_retrievers.models.memories import AnyMemory, EpisodicMemory, MemoryKey, SemanticMemory


class FactChange(NamedTuple):
    """A fact that said one thing and says another, or the fact that has replaced it."""

    before: SemanticMemory
    after: SemanticMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDiff:
    """What a scope knew at one moment and not, or otherwise, at a later one; each part in the order of time.

    What was forgotten is in no part: nothing of it is kept.

    Attributes:
        since: The first moment.
        until: The later one.
        added: Facts that hold at the later moment and did not at the first, and episodes begun in between.
        changed: Facts that say something else, each as it was and as it is.
        ended: Facts that held at the first moment and do not at the later one.
        is_complete: False if more changed than was asked for; what is here is then the part that changed first.
    """

    since: datetime
    until: datetime
    added: tuple[AnyMemory, ...] = ()
    changed: tuple[FactChange, ...] = ()
    ended: tuple[SemanticMemory, ...] = ()
    is_complete: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON has it."""
        return {
            "since": self.since.isoformat(),
            "until": self.until.isoformat(),
            "added": [memory.model_dump(mode="json") for memory in self.added],
            "changed": [
                {"before": before.model_dump(mode="json"), "after": after.model_dump(mode="json")}
                for before, after in self.changed
            ],
            "ended": [fact.model_dump(mode="json") for fact in self.ended],
            "is_complete": self.is_complete,
        }


def held(fact: SemanticMemory, moment: datetime) -> bool:
    """True if a fact, or a version of it, was valid at a moment."""
    return fact.valid_at <= moment and (fact.invalid_at is None or fact.invalid_at > moment)


def difference(
    versions: Iterable[SemanticMemory],
    episodes: Sequence[EpisodicMemory],
    *,
    since: datetime,
    until: datetime,
    is_complete: bool,
) -> MemoryDiff:
    """Compare what held at two moments.

    Args:
        versions: Facts that began or ceased to hold in between, with all former versions of each.
        episodes: Episodes begun in between.
        since: The first moment.
        until: The later one.
        is_complete: Whether these are all.
    """
    facts = list(versions)
    then, now = ({fact.key: fact for fact in facts if held(fact, moment)} for moment in (since, until))
    gone = {key: fact for key, fact in then.items() if key not in now}
    come = {key: fact for key, fact in now.items() if key not in then}
    changed = [FactChange(then[key], now[key]) for key in then.keys() & now.keys() if then[key].fact != now[key].fact]
    for key, fact in list(gone.items()):
        successor = MemoryKey(scope=fact.scope, id=fact.replaced_by or "")
        if successor in come:
            changed.append(FactChange(gone.pop(key), come.pop(successor)))
    return MemoryDiff(
        since=since,
        until=until,
        added=tuple(sorted((*come.values(), *episodes), key=_began)),
        changed=tuple(sorted(changed, key=lambda change: _began(change.after))),
        ended=tuple(sorted(gone.values(), key=lambda fact: (fact.invalid_at or until, fact.id))),
        is_complete=is_complete,
    )


def _began(memory: AnyMemory) -> tuple[datetime, str]:
    return (memory.start_at if isinstance(memory, EpisodicMemory) else memory.valid_at, memory.id)
