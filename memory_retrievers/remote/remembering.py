"""The part of ``RemoteMemory`` that stores: the arguments and answers are those of ``AgentMemory``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memory_retrievers import scopes
from memory_retrievers.errors import ValidationError
from memory_retrievers.models import AnyMemory, Draft, EpisodicDraft, EpisodicMemory, JsonObject, SemanticMemory
from memory_retrievers.remembering import RemembersByField
from memory_retrievers.remote.reading import read_episode, read_fact, understood
from memory_retrievers.remote.transport import Transport


class Remembering(RemembersByField):
    """Stores on the server."""

    _transport: Transport

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
