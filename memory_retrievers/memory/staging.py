"""What remembers stories: events go in, their characters and the scene they have led to come out."""

from __future__ import annotations

from collections.abc import Sequence

from memory_retrievers import scopes
from memory_retrievers.errors import ValidationError
from memory_retrievers.memory.handle import Handle
from memory_retrievers.models import AnyMemory, EpisodicMemory
from memory_retrievers.rendering.scene import DEFAULT_BUDGET, scene_block
from memory_retrievers.retrieval.request import parse_limit
from memory_retrievers.scene.characters import updated
from memory_retrievers.scene.events import drafts_of
from memory_retrievers.scene.presence import known_to
from memory_retrievers.scene.relevance import relevance
from memory_retrievers.scene_records import CharacterState, SceneEvent
from memory_retrievers.settings import SceneSettings


class Staging(Handle):
    """The part of ``AgentMemory`` that remembers the story of a role play or of a companion."""

    def add_scene_events(self, scope: str, events: Sequence[SceneEvent]) -> list[EpisodicMemory]:
        """Store what happened in a story, in the order told, and how its characters stand after it: all or nothing.

        Each event becomes an episode: one star is a surprise and an importance of 0, five are 1. It is found as any
        episode is; facts are never made of it. What ``before_store`` holds back does not reach the characters.

        Args:
            scope: Whose story.
            events: Made by hand, or by ``memory_retrievers.scene.extraction``.

        Returns:
            The stored episodes, in the order given.

        Raises:
            ValidationError: The scope is malformed, an id is taken, or a name is too long; nothing was stored.
            EmbeddingError: The embedder failed; nothing was stored.
        """
        parsed = scopes.parse(scope)
        characters = self._store.ledger.characters

        def update_characters(stored: list[AnyMemory]) -> None:
            before = characters.all(parsed)
            known = {state.name: state for state in before}
            after = updated(before, _episodes(stored))
            characters.put(parsed, [state for state in after if state != known.get(state.name)])

        with self._written() as store:
            return _episodes(store.put(drafts_of(parsed, events), together=update_characters))

    def characters(self, scope: str) -> list[CharacterState]:
        """The characters of a scope's story, each as of its last event, in the order in which they appeared.

        Raises:
            ValidationError: The scope is malformed.
        """
        return self._store.ledger.characters.all(scopes.parse(scope))

    def scene(
        self,
        scope: str,
        *,
        chat_length: int,
        present: Sequence[str] = (),
        pov: Sequence[str] = (),
        budget: int = DEFAULT_BUDGET,
        query: str | None = None,
        settings: SceneSettings | None = None,
    ) -> str:
        """The ``<scene_memory>`` block: the story so far, what led up to this moment, and the current scene.

        Args:
            scope: Whose story; exactly this scope.
            chat_length: How many messages the chat has, counted as the events' ``message_ids`` are.
            present: The names of who is there.
            pov: From whose point of view it is told: only what these characters know, as far as they know anything;
                they are not named as present. Nobody is everybody.
            budget: So many tokens at most; the frame is told in any case.
            query: What the chat is about now; the events that bear on it are told first if not all fit. None, or a
                blank one, leaves it to ``settings.budget_policy``.
            settings: What is shown, and what gives way; None is ``SceneSettings()``.

        Raises:
            ValidationError: An argument breaks a rule.
            EmbeddingError: The embedder failed.
        """
        # 1. what is asked
        parsed, length = scopes.parse(scope), parse_limit("chat_length", chat_length)
        room, there, viewers = parse_limit("budget", budget), _names("present", present), _names("pov", pov)
        # 2. what happened, as far as it is known to whoever looks on
        states = self._store.ledger.characters.all(parsed)
        episodes = known_to(viewers, self._store.ledger.scenes(parsed, now=self._store.now()), characters=states)
        # 3. what of it matters now
        scores = None
        if query is not None and query.strip():
            scores = relevance(self._store, episodes, scope=parsed, query=query, chat_length=length)
        # 4. told
        return scene_block(
            episodes,
            chat_length=length,
            present=there,
            characters=states,
            pov=viewers,
            budget=room,
            settings=settings or SceneSettings(),
            scores=scores,
        )


def _episodes(memories: Sequence[AnyMemory]) -> list[EpisodicMemory]:
    return [memory for memory in memories if isinstance(memory, EpisodicMemory)]


def _names(argument: str, names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise ValidationError(f"{argument} must be a list of names")
    return tuple(names)
