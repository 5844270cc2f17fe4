"""Readers of the public data sets LoCoMo, REALTALK and BEAM, which are not part of this package.

LoCoMo (https://github.com/snap-research/locomo, CC BY-NC 4.0) is one published file, or a list of turns with gold ids.
REALTALK (https://github.com/danny911kr/REALTALK) has the same layout, with a file ``Chat_*.json`` per conversation.
BEAM (https://github.com/mohammadtavakoli78/BEAM) has a directory for each chat, with ``chat.json`` and
``probing_questions/probing_questions.json``. Its update questions measure whether the original and the updated
statement are both found, and the newer one first.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import pydantic
from pydantic import BaseModel, BeforeValidator, Field, TypeAdapter

from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.evaluation.conversations import Conversation, FilledStores, Question, Session, Turn, read_text
from memory_retrievers.evaluation.measure import Score, ranked_turns
from memory_retrievers.models.contents import Progress
from memory_retrievers.settings import RetrievalSettings

CATEGORIES: Final[Mapping[int, str]] = {
    1: "multi-hop",
    2: "temporal",
    3: "open-domain",
    4: "single-hop",
    5: "adversarial",
}
"""Names of the category numbers in the file."""

_EVIDENCE: Final = re.compile(r"D:?(\d{1,9}):(\d{1,9})(?!\d)")
_SESSION: Final = re.compile(r"session_(\d{1,9})")
_WHEN: Final = ("%I:%M %p on %d %B, %Y", "%d.%m.%Y, %H:%M:%S")
_ROOM: Final = timedelta(days=366)  # behind it there is time for a session and its questions

FormT = TypeVar("FormT")
Optional: TypeAlias = Annotated[str, BeforeValidator(lambda value: value or "")]


class _Turn(BaseModel):
    dia_id: str
    speaker: str
    text: Annotated[str, Field(validation_alias=pydantic.AliasChoices("clean_text", "text"))]
    caption: Annotated[Optional, Field(validation_alias=pydantic.AliasChoices("blip_caption", "caption"))] = ""


class _DatedTurn(_Turn):
    session: int
    date_time: str


class _Question(BaseModel):
    question: str
    category: int
    evidence: Annotated[list[str], Field(validation_alias=pydantic.AliasChoices("gold", "evidence"))] = []


class _Sample(BaseModel):
    sample_id: str = ""
    conversation: dict[str, Any]
    qa: list[_Question]


class _Listed(BaseModel):
    """A conversation as one list of turns, each with its session and time."""

    sample_id: str = ""
    turns: list[_DatedTurn]
    qa: list[_Question]


def load_locomo(path: Path) -> list[Conversation]:
    """Load the conversations of a file, in its order, or of the files ``Chat_*.json`` of a directory, by name.

    Evidence is normalised ("D8:6; D9:17" are two turns, "D30:05" is D30:5). Evidence that matches no turn is left out,
    and so are questions without evidence.

    Raises:
        ConfigurationError: There is no such file, or none in the directory.
        ValidationError: It has none of the formats, or is longer than ``conversations.MAX_BYTES``.
    """
    if path.is_dir():
        if not (files := sorted(path.glob("Chat_*.json"))):
            raise ConfigurationError(f"{path} holds no file Chat_*.json: give LoCoMo's file, or REALTALK's directory")
        return [conversation for file in files for conversation in load_locomo(file)]
    content = _json_of(path)
    if isinstance(content, list):
        samples = [_parsed(_Sample, each, path, number) for number, each in enumerate(content, start=1)]
        return [_conversation(each.sample_id, list(_sessions(each, path)), each.qa, path) for each in samples]
    if isinstance(content, dict) and isinstance(content.get("conversations"), list):
        listed = [_parsed(_Listed, each, path, number) for number, each in enumerate(content["conversations"], 1)]
        return [_conversation(each.sample_id, list(_grouped(each.turns)), each.qa, path) for each in listed]
    if isinstance(content, dict) and "qa" in content and any(map(_SESSION.fullmatch, content)):
        chat = _parsed(_Sample, {"sample_id": path.stem, "conversation": content, "qa": content["qa"]}, path, 1)
        return [_conversation(chat.sample_id, list(_sessions(chat, path)), chat.qa, path)]
    raise ValidationError(f"{path} is not a LoCoMo file: it must be a list of samples, as locomo10.json is")


def _parsed(model: type[FormT], value: object, path: Path, number: int) -> FormT:
    return _checked(TypeAdapter(model), value, f"{path}: conversation {number}")


def _sessions(sample: _Sample, path: Path) -> Iterator[tuple[int, str, list[_Turn]]]:
    """Yield number, time and turns of each session that has turns."""
    names = [match for name in sample.conversation if (match := _SESSION.fullmatch(name))]
    for match in sorted(names, key=lambda match: int(match[1])):
        spoken = sample.conversation[match[0]]
        if not isinstance(spoken, list) or not spoken:
            continue
        number = int(match[1])
        turns = [_parsed(_Turn, turn, path, number) for turn in spoken]
        of_turns = spoken[0].get("date_time", "")  # where only the turns have times
        yield number, str(sample.conversation.get(f"{match[0]}_date_time", of_turns)), turns


def _grouped(turns: Sequence[_DatedTurn]) -> Iterator[tuple[int, str, Sequence[_Turn]]]:
    for (number, when), session in groupby(turns, key=lambda turn: (turn.session, turn.date_time)):
        yield number, when, list(session)


def _conversation(
    name: str, sessions: Iterable[tuple[int, str, Sequence[_Turn]]], asked: Sequence[_Question], path: Path
) -> Conversation:
    held = tuple(
        Session(id=f"session-{number}", at=_moment(when, path), turns=tuple(map(_turn, turns)))
        for number, when, turns in sessions
    )
    if not held:
        raise ValidationError(f"{path}: the conversation {name!r} has no session")
    known = {turn.id for session in held for turn in session.turns}
    questions = (
        Question(
            text=each.question,
            category=CATEGORIES.get(each.category, str(each.category)),
            gold=frozenset(known.intersection(_ids(each.evidence))),
        )
        for each in asked
    )
    return Conversation(
        scope=f"locomo/{name or 'conversation'}",
        sessions=held,
        questions=tuple(question for question in questions if question.gold),
    )


def _turn(turn: _Turn) -> Turn:
    said = turn.text.strip()
    photo = f"[photo: {turn.caption.strip()}]" if turn.caption.strip() else ""
    ids = _ids([turn.dia_id])
    return Turn(id=ids[0] if ids else turn.dia_id, speaker=turn.speaker, text=f"{said} {photo}".strip() or "[nothing]")


def _ids(texts: Iterable[str]) -> list[str]:
    """Return the turns that the texts name, normalised.

    >>> _ids(["D8:6; D9:17", "D:11:26", "D30:05", "D"])
    ['D8:6', 'D9:17', 'D11:26', 'D30:5']
    """
    return [f"D{int(match[1])}:{int(match[2])}" for text in texts for match in _EVIDENCE.finditer(text)]


def _moment(when: str, path: Path) -> datetime:
    for form in _WHEN:
        try:
            moment = datetime.strptime(when.strip(), form).replace(tzinfo=UTC)
            _ = moment + _ROOM
        except (ValueError, OverflowError):
            continue
        return moment
    raise ValidationError(f'{path}: {when!r} is not a time such as "1:56 pm on 8 May, 2023"')


DEPTH: Final = 5  # messages among which both statements are looked for

CATEGORY: Final = "knowledge_update"

_QUESTIONS: Final = "probing_questions.json"
_CHAT: Final = "chat.json"
_BEGUN: Final = datetime(2024, 1, 1, tzinfo=UTC)
_DAY: Final = timedelta(days=1)
_PLACE: Final = re.compile(r"\s*->->\s*\d[\d,\s]*$")
"""Suffix of user messages: the position in the plan of the chat."""


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
class Update(Question):
    """A question about something that has changed; both what was and what is are its gold turns."""

    updated: frozenset[str]  # ids of the turns that say what is


def load_beam(directory: Path) -> list[Conversation]:
    """Load the chats below a directory that have update questions, ordered by path; each batch of turns is a session.

    Questions whose statements are not in the chat, or are in the same message, are left out.

    Raises:
        ConfigurationError: There is no such question, or a file cannot be read.
        ValidationError: A file has another format, or is longer than ``conversations.MAX_BYTES``.
    """
    files = sorted(directory.rglob(_QUESTIONS), key=lambda file: [(len(part), part) for part in file.parts])
    chats = [_chat(file, directory) for file in files]
    if not any(chat.questions for chat in chats):
        raise ConfigurationError(
            f"{directory} holds no update question: give a directory of BEAM's chats, in which each chat has {_CHAT} "
            f"and probing_questions/{_QUESTIONS}"
        )
    return [chat for chat in chats if chat.questions]


def measure_updates(stores: FilledStores, settings: RetrievalSettings, *, progress: Progress) -> list[Score]:
    """Ask every update question in its chat.

    Args:
        stores: The chats.
        settings: Settings of retrieval.
        progress: Called with the number of questions asked, and of all.

    Raises:
        ValidationError: These settings search summaries only, and no messages.
    """
    scores: list[Score] = []
    asked = [(chat, each) for chat in stores.conversations for each in chat.questions if isinstance(each, Update)]
    with stores.opened(settings) as (memory, clock):
        for chat, update in asked:
            clock.moment = chat.asked_at
            stores.embedder.embed_query(update.text)
            begun = time.perf_counter()
            result = memory.retrieve(update.text, scope=chat.scope, record=False)
            seconds = time.perf_counter() - begun
            turns = ranked_turns(chat, result)
            if turns is None:
                raise ValidationError("update questions are measured by messages, which this profile does not rank")
            scores.append(Score(category=CATEGORY, values=_values(update, turns[:DEPTH]), seconds=seconds))
            progress(len(scores), len(asked))
    return scores


def _values(update: Update, best: Sequence[str]) -> Mapping[str, float]:
    """Return which statements of an update are among the best turns.

    >>> update = Update(text="How many?", category=CATEGORY, gold=frozenset({"1", "2"}), updated=frozenset({"2"}))
    >>> _values(update, ["2", "7", "1"])
    {'both@5': 1.0, 'newer first': 1.0, 'newer@5': 1.0}
    """
    older = next((place for place, turn in enumerate(best) if turn in update.gold - update.updated), None)
    newer = next((place for place, turn in enumerate(best) if turn in update.updated), None)
    both = older is not None and newer is not None
    is_first = older is not None and newer is not None and newer < older
    return {f"both@{DEPTH}": float(both), "newer first": float(is_first), f"newer@{DEPTH}": float(newer is not None)}


def _chat(file: Path, directory: Path) -> Conversation:
    probes = _checked(TypeAdapter(dict[str, list[object]]), _json_of(file), file).get(CATEGORY, [])
    asked = [_checked(TypeAdapter(_Probe), each, file) for each in probes]
    chat = file.parent / _CHAT if (file.parent / _CHAT).exists() else file.parent.parent / _CHAT
    batches = _checked(TypeAdapter(list[_Batch]), _json_of(chat), chat)
    name = "-".join(chat.parent.relative_to(directory).parts) or directory.name
    said = Conversation(scope=f"beam/{name}", sessions=tuple(_batches(batches)), questions=())
    if not said.sessions:
        raise ValidationError(f"{chat} holds no message")
    return replace(said, questions=tuple(_updates(asked, said)))


def _updates(asked: Sequence[_Probe], conversation: Conversation) -> Iterator[Update]:
    for probe in asked:
        original = frozenset(map(str, probe.source_chat_ids.original_info)) & conversation.turns.keys()
        updated = frozenset(map(str, probe.source_chat_ids.updated_info)) & conversation.turns.keys()
        if original - updated and updated and probe.question.strip():
            yield Update(text=probe.question, category=CATEGORY, gold=original | updated, updated=updated)


def _batches(batches: Sequence[_Batch]) -> Iterator[Session]:
    at = _BEGUN
    for number, batch in enumerate(batches, start=1):
        messages = [message for group in batch.turns for message in group if message.content.strip()]
        anchors = [batch.time_anchor, *(message.time_anchor for message in messages)]
        at = next((moment for each in anchors if (moment := _day(each)) is not None), at + _DAY)
        turns = tuple(
            Turn(id=str(each.id), speaker=each.role, text=_PLACE.sub("", each.content).strip() or "[nothing]")
            for each in messages
        )
        if turns:
            yield Session(id=f"session-{number}", at=at, turns=turns)


def _day(written: str | None) -> datetime | None:
    """Parse a day such as ``March-15-2024``; None if it is none."""
    try:
        return datetime.strptime((written or "").strip(), "%B-%d-%Y").replace(tzinfo=UTC)
    except ValueError:
        return None


def _json_of(file: Path) -> Any:  # noqa: ANN401 - what it holds
    text = read_text(file)
    try:
        return json.loads(text)
    except RecursionError:
        raise ValidationError(f"{file} is nested too deeply to be read") from None
    except ValueError as error:
        raise ValidationError(f"{file} cannot be read as JSON: {error}") from error


def _checked(form: TypeAdapter[FormT], value: object, place: object) -> FormT:
    try:
        return form.validate_python(value)
    except pydantic.ValidationError as error:
        raise ValidationError(f"{place}: {ValidationError.from_pydantic(error)}") from error
