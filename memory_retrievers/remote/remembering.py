"""The part of ``RemoteMemory`` that stores: the arguments and answers are those of ``AgentMemory``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Final

import pydantic

from memory_retrievers import scopes
from memory_retrievers.errors import ValidationError
from memory_retrievers.models import (
    AnyMemory,
    Category,
    Draft,
    EpisodicDraft,
    EpisodicMemory,
    JsonObject,
    Message,
    SemanticMemory,
)
from memory_retrievers.remote.reading import read_episode, read_fact, understood
from memory_retrievers.remote.transport import Transport

_HELD_BACK: Final = "before_store has held this back; nothing was stored"


class Remembering:
    """Stores on the server."""

    _transport: Transport

    def remember_episode(
        self,
        *,
        scope: str,
        summary: str,
        messages: Sequence[Message] = (),
        title: str = "",
        surprise: float = 0.0,
        id: str | None = None,
        tags: Sequence[str] = (),
        metadata: JsonObject | None = None,
        importance: float = 0.5,
        expires_at: datetime | None = None,
        start_at: datetime | None = None,
        end_at: datetime | None = None,
        created_at: datetime | None = None,
        last_reviewed_at: datetime | None = None,
        stability: float | None = None,
        difficulty: float | None = None,
    ) -> EpisodicMemory:
        """Store one episode; see ``AgentMemory.remember_episode``."""
        with _our_errors():
            draft = EpisodicMemory.new(
                scope=scope,
                summary=summary,
                messages=tuple(messages),
                title=title,
                surprise=surprise,
                id=id,
                tags=tuple(tags),
                metadata=metadata or {},
                importance=importance,
                expires_at=expires_at,
                start_at=start_at,
                end_at=end_at,
                created_at=created_at,
                last_reviewed_at=last_reviewed_at,
                stability=stability,
                difficulty=difficulty,
            )
        episodes, _ = self._remember([draft])
        if not episodes:
            raise ValidationError(_HELD_BACK)
        return episodes[0]

    def remember_fact(
        self,
        *,
        scope: str,
        fact: str,
        category: Category | str = Category.NOTE,
        keywords: Sequence[str] = (),
        source_episodic_ids: Sequence[str] = (),
        id: str | None = None,
        tags: Sequence[str] = (),
        metadata: JsonObject | None = None,
        importance: float = 0.5,
        expires_at: datetime | None = None,
        created_at: datetime | None = None,
        valid_at: datetime | None = None,
        invalid_at: datetime | None = None,
    ) -> SemanticMemory:
        """Store one fact; see ``AgentMemory.remember_fact``."""
        with _our_errors():
            draft = SemanticMemory.new(
                scope=scope,
                fact=fact,
                category=category,
                keywords=tuple(keywords),
                source_episodic_ids=tuple(source_episodic_ids),
                id=id,
                tags=tuple(tags),
                metadata=metadata or {},
                importance=importance,
                expires_at=expires_at,
                created_at=created_at,
                valid_at=valid_at,
                invalid_at=invalid_at,
            )
        _, facts = self._remember([draft])
        if not facts:
            raise ValidationError(_HELD_BACK)
        return facts[0]

    def remember_many(self, drafts: Sequence[Draft]) -> list[AnyMemory]:
        """Store many memories of one scope: all of them or none.

        Args:
            drafts: From ``EpisodicMemory.new(...)`` and ``SemanticMemory.new(...)``.

        Returns:
            The stored memories, complete, in the order given; where some were held back, episodes come first.

        Raises:
            ValidationError: The drafts are of several scopes, a scope is malformed, or an id is taken; nothing was
                stored.
        """
        if not drafts:
            return []
        episodes, facts = self._remember(drafts)
        if len(episodes) + len(facts) < len(drafts):
            return [*episodes, *facts]
        left: dict[bool, Iterator[AnyMemory]] = {True: iter(episodes), False: iter(facts)}
        return [next(left[isinstance(draft, EpisodicDraft)]) for draft in drafts]

    def _remember(self, drafts: Sequence[Draft]) -> tuple[list[EpisodicMemory], list[SemanticMemory]]:
        named = {draft.scope for draft in drafts}
        if len(named) > 1:
            raise ValidationError("a server stores the memories of one scope at once: call it for each scope")
        body: JsonObject = {"conversation_id": scopes.parse(named.pop())}
        body["episodes"] = [_sent(draft) for draft in drafts if isinstance(draft, EpisodicDraft)]
        body["facts"] = [_sent(draft) for draft in drafts if not isinstance(draft, EpisodicDraft)]
        answer = self._transport.write("/remember", body)
        with understood():
            return [read_episode(each) for each in answer["episodes"]], [read_fact(each) for each in answer["facts"]]


def _sent(draft: Draft) -> JsonObject:
    return draft.model_dump(mode="json", exclude={"scope"}, exclude_none=True)


@contextmanager
def _our_errors() -> Iterator[None]:
    """Turn pydantic's complaint about a record into ours."""
    try:
        yield
    except pydantic.ValidationError as error:
        raise ValidationError.from_pydantic(error) from error
