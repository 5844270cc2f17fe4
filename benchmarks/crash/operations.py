"""What the writer does to a store, in an order that a seed decides; every change is announced and acknowledged."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from crash.journal import record_of
from memory_retrievers import AgentMemory, EpisodicMemory, SemanticMemory
from memory_retrievers.models import AnyMemory, Draft
from memory_retrievers.testing import FixedClock

SCOPES = ("team", "user/0", "user/0/work", "user/1", "user/2", "user/3")
WORDS = (
    "tea",
    "coffee",
    "Lyon",
    "train",
    "garden",
    "music",
    "deadline",
    "sister",
    "allergy",
    "bicycle",
    "winter",
    "v2.1",
)
MAX_MEMORIES = 600
"""A scope is forgotten when the store holds more than so many, so that a long run stays a fast one."""


Say: TypeAlias = Callable[[dict[str, Any]], None]
"""Tells whoever keeps the account; what was said has arrived even if the process dies right then."""


class Operations:
    """Changes to a memory.

    Args:
        memory: What is changed.
        clock: Its clock, which moves on with every change.
        name: What new ids begin with; another one in every process.
        random: Decides what comes next.
        known: What the store holds already.
        say: Announces and acknowledges.
        within: The scope that all is in; empty for the whole store.
    """

    def __init__(
        self,
        memory: AgentMemory,
        *,
        clock: FixedClock,
        name: str,
        random: random.Random,
        known: Sequence[AnyMemory],
        say: Say,
        within: str = "",
    ) -> None:
        self._say = say
        self._memory = memory
        self._clock = clock
        self._name = name
        self._random = random
        self._known = {(each.scope, each.id): each for each in known}
        self._made = 0
        self._scopes = [f"{within}/{scope}" if within else scope for scope in SCOPES]

    def step(self) -> None:
        """Do the next thing."""
        self._clock.advance(seconds=1)
        if len(self._known) > MAX_MEMORIES:
            self.forget_scope()
            return
        actions: dict[Callable[[], None], int] = {
            self.add: 40, self.add_many: 10, self.retrieve: 15, self.rewrite: 12, self.retouch: 6,
            self.invalidate: 6, self.forget: 10, self.forget_scope: 1,
        }  # fmt: skip
        self._random.choices(list(actions), weights=list(actions.values()))[0]()

    def add(self) -> None:
        """Store one memory."""
        self._put("add", [self._draft()])

    def add_many(self, count: int | None = None) -> None:
        """Store several in one transaction."""
        self._put("add_many", [self._draft() for _ in range(count or self._random.randint(2, 12))])

    def rewrite(self) -> None:
        """Give a memory another text, which replaces its passage."""
        if (memory := self._any()) is not None:
            field = "fact" if isinstance(memory, SemanticMemory) else "summary"
            self._change("rewrite", memory, {field: self._text()}, also=self._version_of(memory))

    def retouch(self) -> None:
        """Change what stands beside the text: what a vector index outside may keep, and what it does not."""
        if (memory := self._any()) is not None:
            self._made += 1
            fields: dict[str, Any] = {"importance": self._random.random(), "metadata": {"at": [self._name, self._made]}}
            if isinstance(memory, SemanticMemory):
                fields["category"] = self._random.choice(("note", "goal", "preference"))
            self._change("retouch", memory, fields)

    def invalidate(self) -> None:
        """Mark a fact as no longer true."""
        memory = self._any()
        if isinstance(memory, SemanticMemory) and memory.invalid_at is None:
            now = _json(self._clock.now())
            self._announce("invalidate", {(memory.scope, memory.id): {"invalid_at": now, "updated_at": now}})
            self._done([self._memory.invalidate(memory.id, scope=memory.scope)])

    def forget(self) -> None:
        """Remove one memory."""
        if (memory := self._any()) is not None:
            self._announce("forget", {(memory.scope, memory.id): None})
            self._memory.forget(memory.id, scope=memory.scope)
            del self._known[memory.scope, memory.id]
            self._done([])

    def forget_scope(self) -> None:
        """Remove all of a scope and of those below it."""
        self._forget_scope(self._random.choice(self._scopes))

    def clear(self) -> None:
        """Remove everything, scope by scope."""
        for scope in self._scopes:
            self._forget_scope(scope)

    def _forget_scope(self, scope: str) -> None:
        gone = [key for key in self._known if key[0] == scope or key[0].startswith(f"{scope}/")]
        self._announce("forget_scope", dict.fromkeys(gone))
        self._memory.forget_scope(scope)
        for key in gone:
            del self._known[key]
        self._done([])

    def retrieve(self) -> None:
        """Search, which feeds what feeds on searches and files a review."""
        self._announce("retrieve", {})
        self._memory.retrieve(self._text(), scope=self._random.choice(self._scopes))
        self._done([])

    def _put(self, name: str, drafts: list[Draft]) -> None:
        given = (each.model_dump(mode="json", exclude_unset=True) for each in drafts)
        self._announce(name, {(each["scope"], each["id"]): each for each in given})
        self._done(self._memory.remember_many(drafts))

    def _version_of(self, memory: AnyMemory) -> dict[str, Any]:
        """What another text changes beside it: a fact that holds gets a new version, which holds from now on."""
        if not isinstance(memory, SemanticMemory) or memory.invalid_at is not None:
            return {}
        return {"valid_at": _json(self._clock.now()), "last_confirmed_at": None}

    def _change(
        self, name: str, memory: AnyMemory, fields: dict[str, Any], *, also: Mapping[str, Any] | None = None
    ) -> None:
        expected = fields | {"updated_at": _json(self._clock.now())} | dict(also or {})
        self._announce(name, {(memory.scope, memory.id): expected})
        self._done([self._memory.update(memory.id, scope=memory.scope, **fields)])

    def _announce(self, name: str, expected: dict[tuple[str, str], dict[str, Any] | None]) -> None:
        self._say({"begin": name, "expected": [[*key, fields] for key, fields in expected.items()]})

    def _done(self, memories: Sequence[AnyMemory]) -> None:
        self._known |= {(each.scope, each.id): each for each in memories}
        self._say({"done": True, "memories": [record_of(each) for each in memories]})

    def _any(self) -> AnyMemory | None:
        return self._random.choice(list(self._known.values())) if self._known else None

    def _draft(self) -> Draft:
        scope, text, now = self._random.choice(self._scopes), self._text(), self._clock.now()
        its_id, expires_at = f"{self._name}-{self._made}", self._random.choice((None, now + timedelta(days=9_999)))
        if self._random.random() < 0.5:
            return SemanticMemory.new(scope=scope, id=its_id, fact=text, expires_at=expires_at, keywords=("kept",))
        return EpisodicMemory.new(scope=scope, id=its_id, summary=text, expires_at=expires_at, surprise=0.5)

    def _text(self) -> str:
        """A sentence with a word that no other has."""
        self._made += 1
        return f"{' '.join(self._random.sample(WORDS, 4))} {self._name}n{self._made}"


def _json(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
