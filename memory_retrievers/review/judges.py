"""Who says how retrieved memories served a conversation: a language model, or the words and meanings themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

from memory_retrievers.messages import Message
from memory_retrievers.models import Rating
from memory_retrievers.prompts.review import SYSTEM_PROMPT, ReviewAnswer, user_prompt
from memory_retrievers.protocols import LanguageModel, ReviewedMemory
from memory_retrievers.text import analyze

if TYPE_CHECKING:
    from memory_retrievers.passages import Vectors

EASY_FROM: Final = 0.48
"""From this share on a memory carried the answer. The three borders part twenty hand-written conversations, embedded
with the bundled model, into the four ratings with two mistakes, both between "again" and "hard": what was vital lay
from 0.50 up, what was used from 0.32 to 0.44, and everything else below 0.19."""

GOOD_FROM: Final = 0.25
"""From this share on a memory was visibly used: halfway between what was and what was not."""

HARD_FROM: Final = 0.15
"""Below this share an answer has nothing of a memory; above, it is about the same things without telling its words."""

ASKED_SHARE: Final = 0.5
"""A message that has so much of the words of a search is where the search arose."""

_ASSISTANT: Final = "assistant"

_SPEAKERS: Final = "user assistant"
"""Summaries tell of these two all the time, so their names are no memory's own."""


class LanguageModelJudge:
    """A ``protocols.Judge`` that asks a language model.

    Args:
        language_model: The model; ``language_models.adapt`` makes one of what the frameworks have.
    """

    def __init__(self, language_model: LanguageModel) -> None:
        self._language_model = language_model

    def rate(
        self,
        conversation: Sequence[Message],
        memories: Sequence[ReviewedMemory],
        *,
        embed: Callable[[Sequence[str]], Vectors],  # noqa: ARG002 - other judges compare vectors
    ) -> Mapping[str, Rating]:
        """The first rating for each memory; what was not presented is ignored.

        Raises:
            LanguageModelError: The model failed, or its answer cannot be used.
        """
        question = user_prompt(conversation, memories)
        answer = self._language_model.generate(SYSTEM_PROMPT, question, ReviewAnswer)
        presented = {memory.id.casefold(): memory.id for memory in memories}
        ratings: dict[str, Rating] = {}
        for each in answer.ratings:
            id = presented.get(each.memory_id.strip().casefold())  # noqa: A001
            if id is not None:
                ratings.setdefault(id, each.rating)
        return ratings


class OfflineJudge:
    """A ``protocols.Judge`` that looks how much of a memory the assistant's answers carry, in words and in meaning.

    Words count that are the memory's own: no other memory has them, no search asked for them, and nobody but the
    assistant said them. Half of the share comes from how many of them are in the answers, half from the cosine of
    the summary with the nearest answer. Without an answer there is nothing to judge by.
    """

    def rate(
        self,
        conversation: Sequence[Message],
        memories: Sequence[ReviewedMemory],
        *,
        embed: Callable[[Sequence[str]], Vectors],
    ) -> Mapping[str, Rating]:
        """A rating for every memory whose searches the assistant said something after.

        Raises:
            EmbeddingError: The embedder failed.
        """
        answers = {memory.id: _answers_after(memory.queries, conversation) for memory in memories}
        judged = [memory for memory in memories if answers[memory.id]]
        if not judged:
            return {}
        said = list(dict.fromkeys(chain.from_iterable(answers.values())))
        vectors = embed([*said, *(memory.memory.summary for memory in judged)])
        cosines = vectors[len(said) :] @ vectors[: len(said)].T
        own_words = _own_words(judged, conversation)
        ratings = {}
        for row, memory in enumerate(judged):
            positions = [said.index(answer) for answer in answers[memory.id]]
            meaning = max(0.0, float(cosines[row, positions].max()))
            wording = _carried(own_words[memory.id], answers[memory.id])
            ratings[memory.id] = rating_of((wording + meaning) / 2)
        return ratings


def rating_of(share: float) -> Rating:
    """The rating of a memory of which the answers carry this share, 0 to 1."""
    if share >= EASY_FROM:
        return Rating.EASY
    if share >= GOOD_FROM:
        return Rating.GOOD
    return Rating.HARD if share >= HARD_FROM else Rating.AGAIN


def _answers_after(queries: Sequence[str], conversation: Sequence[Message]) -> list[str]:
    """What the assistant said after the first message that a search arose from; all of it if none can be told."""
    searches = [terms for terms in map(_terms, queries) if terms]
    start = next(
        (position for position, message in enumerate(conversation) if _asks(message, searches)),
        0,
    )
    return [message.content for message in conversation[start:] if _is_answer(message)]


def _asks(message: Message, searches: Sequence[Collection[str]]) -> bool:
    if _is_answer(message):
        return False
    terms = _terms(message.content)
    return any(len(terms.intersection(search)) >= ASKED_SHARE * len(search) for search in searches)


def _own_words(memories: Sequence[ReviewedMemory], conversation: Sequence[Message]) -> dict[str, frozenset[str]]:
    """The terms of each memory that nothing else accounts for."""
    terms = {memory.id: _terms(memory.memory.summary) for memory in memories}
    owners = Counter(chain.from_iterable(terms.values()))
    told = (message.content for message in conversation if not _is_answer(message))
    asked = chain.from_iterable(memory.queries for memory in memories)
    elsewhere = frozenset[str]().union(*map(_terms, chain(told, asked, [_SPEAKERS])))
    return {id: frozenset(term for term in its if owners[term] == 1) - elsewhere for id, its in terms.items()}  # noqa: A001


def _carried(words: Collection[str], answers: Sequence[str]) -> float:
    """The share of the words that are in the answers; none of none."""
    said = frozenset[str]().union(*map(_terms, answers))
    return len(said.intersection(words)) / len(words) if words else 0.0


def _terms(text: str) -> frozenset[str]:
    return frozenset(analyze(text))


def _is_answer(message: Message) -> bool:
    return message.role.lower() == _ASSISTANT
