"""Reader of LoCoMo: the published file (https://github.com/snap-research/locomo), or a list of turns with gold ids.

REALTALK (https://github.com/danny911kr/REALTALK) has the same layout, with a file ``Chat_*.json`` a conversation. The
data of LoCoMo are CC BY-NC 4.0 and no part of this package; whoever measures with them fetches them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import pydantic
from pydantic import BaseModel, BeforeValidator, Field

from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.evaluation.conversations import Conversation, Question, Session, Turn, read_text

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

ModelT = TypeVar("ModelT", bound=BaseModel)
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
    """A conversation of the published file."""

    sample_id: str = ""
    conversation: dict[str, Any]
    qa: list[_Question]


class _Listed(BaseModel):
    """A conversation whose turns are one list, each with its session and its time."""

    sample_id: str = ""
    turns: list[_DatedTurn]
    qa: list[_Question]


def load(path: Path) -> list[Conversation]:
    """The conversations of a file, in its order, or of the files ``Chat_*.json`` of a directory, by name.

    Evidence is brought into one form ("D8:6; D9:17" are two turns, "D30:05" is D30:5); what points to no turn is
    left out, and so is a question without any evidence that is left.

    Raises:
        ConfigurationError: There is no such file, or none in the directory.
        ValidationError: It is not in one of the forms, or longer than ``files.MAX_BYTES``.
    """
    if path.is_dir():
        if not (files := sorted(path.glob("Chat_*.json"))):
            raise ConfigurationError(f"{path} holds no file Chat_*.json: give LoCoMo's file, or REALTALK's directory")
        return [conversation for file in files for conversation in load(file)]
    text = read_text(path)
    try:
        content = json.loads(text)
    except RecursionError:
        raise ValidationError(f"{path} is nested too deeply for a LoCoMo file") from None
    except json.JSONDecodeError as error:
        raise ValidationError(f"{path} is no JSON: {error}") from error
    except ValueError as error:  # a number of thousands of digits
        raise ValidationError(f"{path} cannot be read as JSON: {error}") from error
    if isinstance(content, list):
        samples = [_parsed(_Sample, each, path, number) for number, each in enumerate(content, start=1)]
        return [_conversation(each.sample_id, list(_sessions(each, path)), each.qa, path) for each in samples]
    if isinstance(content, dict) and isinstance(content.get("conversations"), list):
        listed = [_parsed(_Listed, each, path, number) for number, each in enumerate(content["conversations"], 1)]
        return [_conversation(each.sample_id, list(_grouped(each.turns)), each.qa, path) for each in listed]
    if isinstance(content, dict) and "qa" in content and any(map(_SESSION.fullmatch, content)):
        chat = _parsed(_Sample, {"sample_id": path.stem, "conversation": content, "qa": content["qa"]}, path, 1)
        return [_conversation(chat.sample_id, list(_sessions(chat, path)), chat.qa, path)]
    raise ValidationError(f"{path} is no LoCoMo file: it must be a list of samples, as locomo10.json is")


def _parsed(model: type[ModelT], value: object, path: Path, number: int) -> ModelT:
    try:
        return model.model_validate(value)
    except pydantic.ValidationError as error:
        raise ValidationError(f"{path}: conversation {number}: {ValidationError.from_pydantic(error)}") from error


def _sessions(sample: _Sample, path: Path) -> Iterator[tuple[int, str, list[_Turn]]]:
    """Number, time and turns of each session; some sessions of the file have a time and no turns."""
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
    """The turns that the texts name, each in one form.

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
    raise ValidationError(f'{path}: {when!r} is no time such as "1:56 pm on 8 May, 2023"')
