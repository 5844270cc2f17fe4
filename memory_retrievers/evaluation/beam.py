"""Update questions of BEAM: whether an original and an updated statement are both found, and the newer one first.

BEAM (https://github.com/mohammadtavakoli78/BEAM) has a directory a chat, with ``chat.json`` and
``probing_questions/probing_questions.json``. Its data are no part of this package; whoever measures fetches them.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, TypeVar

import pydantic
from pydantic import BaseModel, TypeAdapter

from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.evaluation.conversations import Conversation, Session, Turn, read_text
from memory_retrievers.evaluation.measure import Score, ranked_turns
from memory_retrievers.evaluation.stores import FilledStores
from memory_retrievers.models.contents import Progress
from memory_retrievers.settings import RetrievalSettings

DEPTH: Final = 5
"""Messages among which both statements are looked for."""

CATEGORY: Final = "knowledge_update"

_QUESTIONS: Final = "probing_questions.json"
_CHAT: Final = "chat.json"
_BEGUN: Final = datetime(2024, 1, 1, tzinfo=UTC)
_DAY: Final = timedelta(days=1)
_PLACE: Final = re.compile(r"\s*->->\s*\d[\d,\s]*$")
"""What stands behind the words of the user: the place in the plan of the chat."""

ModelT = TypeVar("ModelT")


class _Message(BaseModel):
    role: str
    id: int
    content: str = ""
    time_anchor: str | None = None


class _Batch(BaseModel):
    time_anchor: str | None = None
    turns: list[list[_Message]]


class _Sources(BaseModel):
    original_info: list[int] = []
    updated_info: list[int] = []


class _Probe(BaseModel):
    question: str
    source_chat_ids: _Sources


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """A question about something that has changed.

    Attributes:
        text: The question.
        original: Ids of the turns that say what was.
        updated: Ids of the turns that say what is.
    """

    text: str
    original: frozenset[str]
    updated: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Chat:
    """A chat with its update questions; a batch of turns is a session.

    Attributes:
        conversation: What was said.
        updates: The questions.
    """

    conversation: Conversation
    updates: tuple[Update, ...]


def load(directory: Path) -> list[Chat]:
    """The chats below a directory that have update questions, by their paths.

    Questions whose statements are not in the chat, or are in the same message, are left out.

    Raises:
        ConfigurationError: There is no such question, or a file cannot be read.
        ValidationError: A file is not in the form, or longer than ``conversations.MAX_BYTES``.
    """
    files = sorted(directory.rglob(_QUESTIONS), key=lambda file: [(len(part), part) for part in file.parts])
    chats = [_chat(file, directory) for file in files]
    if not any(chat.updates for chat in chats):
        raise ConfigurationError(
            f"{directory} holds no update question: give a directory of BEAM's chats, in which each chat has {_CHAT} "
            f"and probing_questions/{_QUESTIONS}"
        )
    return [chat for chat in chats if chat.updates]


def measure(
    chats: Sequence[Chat], stores: FilledStores, settings: RetrievalSettings, *, progress: Progress
) -> list[Score]:
    """Ask every update question of its chat.

    Args:
        chats: The chats, whose conversations the stores hold.
        stores: The stores.
        settings: Settings of retrieval.
        progress: Called with how many questions have been asked, and of how many.

    Raises:
        EmbeddingError: The embedder failed.
        ValidationError: Only summaries are searched under these settings, and no messages.
    """
    scores: list[Score] = []
    number = sum(len(chat.updates) for chat in chats)
    with stores.opened(settings) as (memory, clock):
        for chat in chats:
            clock.moment = chat.conversation.asked_at
            for update in chat.updates:
                stores.embedder.embed_query(update.text)
                begun = time.perf_counter()
                result = memory.retrieve(update.text, scope=chat.conversation.scope, record=False)
                seconds = time.perf_counter() - begun
                turns = ranked_turns(chat.conversation, result)
                if turns is None:
                    raise ValidationError("update questions are measured by messages, which this profile does not rank")
                scores.append(Score(category=CATEGORY, values=_values(update, turns[:DEPTH]), seconds=seconds))
                progress(len(scores), number)
    return scores


def _values(update: Update, best: Sequence[str]) -> Mapping[str, float]:
    """What of an update is among the best turns.

    >>> update = Update(text="How many?", original=frozenset({"1"}), updated=frozenset({"2"}))
    >>> _values(update, ["2", "7", "1"])
    {'both@5': 1.0, 'newer first': 1.0, 'newer@5': 1.0}
    """
    older = next((place for place, turn in enumerate(best) if turn in update.original), None)
    newer = next((place for place, turn in enumerate(best) if turn in update.updated), None)
    both = older is not None and newer is not None
    is_first = older is not None and newer is not None and newer < older
    return {f"both@{DEPTH}": float(both), "newer first": float(is_first), f"newer@{DEPTH}": float(newer is not None)}


def _chat(file: Path, directory: Path) -> Chat:
    probes = _read(TypeAdapter(dict[str, list[object]]), file).get(CATEGORY, [])
    asked = [_checked(TypeAdapter(_Probe), each, file) for each in probes]
    chat = file.parent / _CHAT if (file.parent / _CHAT).exists() else file.parent.parent / _CHAT
    batches = _read(TypeAdapter(list[_Batch]), chat)
    name = "-".join(chat.parent.relative_to(directory).parts) or directory.name
    conversation = Conversation(scope=f"beam/{name}", sessions=tuple(_sessions(batches)), questions=())
    if not conversation.sessions:
        raise ValidationError(f"{chat} holds no message")
    return Chat(conversation=conversation, updates=tuple(_updates(asked, conversation)))


def _updates(asked: Sequence[_Probe], conversation: Conversation) -> Iterator[Update]:
    for probe in asked:
        original = frozenset(map(str, probe.source_chat_ids.original_info)) & conversation.turns.keys()
        updated = frozenset(map(str, probe.source_chat_ids.updated_info)) & conversation.turns.keys()
        if original - updated and updated and probe.question.strip():
            yield Update(text=probe.question, original=original - updated, updated=updated)


def _sessions(batches: Sequence[_Batch]) -> Iterator[Session]:
    at = _BEGUN
    for number, batch in enumerate(batches, start=1):
        messages = [message for group in batch.turns for message in group if message.content.strip()]
        anchors = [batch.time_anchor, *(message.time_anchor for message in messages)]
        at = next((moment for each in anchors if (moment := _moment(each)) is not None), at + _DAY)
        turns = tuple(
            Turn(id=str(each.id), speaker=each.role, text=_PLACE.sub("", each.content).strip() or "[nothing]")
            for each in messages
        )
        if turns:
            yield Session(id=f"session-{number}", at=at, turns=turns)


def _moment(written: str | None) -> datetime | None:
    """Parse a day such as ``March-15-2024``; None if it is none."""
    try:
        return datetime.strptime((written or "").strip(), "%B-%d-%Y").replace(tzinfo=UTC)
    except ValueError:
        return None


def _read(form: TypeAdapter[ModelT], file: Path) -> ModelT:
    text = read_text(file)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValidationError(f"{file} cannot be read as JSON: {error}") from error
    return _checked(form, content, file)


def _checked(form: TypeAdapter[ModelT], value: object, file: Path) -> ModelT:
    try:
        return form.validate_python(value)
    except pydantic.ValidationError as error:
        raise ValidationError(f"{file}: {ValidationError.from_pydantic(error)}") from error
