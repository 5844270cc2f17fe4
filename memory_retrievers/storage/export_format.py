"""The line formats of an export, version by version."""

from __future__ import annotations

import base64
import json
from codecs import BOM_UTF8
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, TypeAdapter, model_validator
from pydantic_core import from_json

from memory_retrievers.errors import BackendError, ConfigurationError, ValidationError
from memory_retrievers.models import AnyMemory, Category, EpisodicMemory, JsonObject, MemoryKey, SemanticMemory, scopes
from memory_retrievers.models.contents import Contents, FactVersion, Record, StoredCharacter, StoredMemory, StoredQueue
from memory_retrievers.models.fields import NonBlankText, ShortText, Text, UTCDateTime, json_extent, storable_json
from memory_retrievers.models.management import (
    MOST_ACTOR,
    Association,
    AssociationType,
    AuditEntry,
    AuditType,
    Channel,
    MemoryEvent,
    MemoryEventType,
)
from memory_retrievers.models.memories import ANSWER_FIELDS
from memory_retrievers.models.messages import Message
from memory_retrievers.models.results import PendingReview
from memory_retrievers.models.scenes import CharacterState
from memory_retrievers.models.selection import MAX_LENGTH_ERROR, MOST_TOKEN_BYTES, TOKEN_WIDTHS, NewPassage, Vector
from memory_retrievers.models.storage import QueuedMessage, ReviewJob
from memory_retrievers.text.passages import passage_text, passage_texts, turn_place


class Line(BaseModel):
    """A line with a fixed set of fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    @classmethod
    def of(cls, record: object, **others: object) -> Self:
        """Build the line of a record from its attributes, but for those that are given."""
        return cls(**{name: others[name] if name in others else getattr(record, name) for name in cls.model_fields})


class _Association(Line):
    source: MemoryKey
    target: MemoryKey
    type: Annotated[AssociationType, Field(alias="association_type")]
    strength: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    auto_generated: bool
    created_at: UTCDateTime


class _AuditEntry(Line):
    memory: MemoryKey
    type: Annotated[AuditType, Field(alias="action")]
    at: UTCDateTime
    old: FiniteFloat
    new: FiniteFloat
    reason: Text | None


class _Event(Line):
    scope: str
    id: ShortText | None
    type: Annotated[MemoryEventType, Field(alias="event")]
    at: UTCDateTime
    channel: Channel
    actor: Annotated[Text, Field(max_length=MOST_ACTOR)] | None
    fields: Annotated[tuple[Annotated[str, Field(pattern=r"^[a-z_]{1,60}$")], ...], Field(max_length=100)]


FORMAT: Final = "memory-retrievers export"
VERSION: Final = 8
CHECKSUM: Final = b'{"type":"checksum","sha256":"%b"}\n'  # the last line, with the digest of all bytes before it

MOST_VALUES: Final = 5_000_000
"""Values in one line: up to format 6 a million messages that wait, with 5 each, were one; half a gigabyte, read."""

DEEPEST: Final = 300  # how deep they may be nested: the metadata of a memory may be 255 deep
_DEEP: Final = 200  # what pydantic_core reads no more
_MOST_SHOWN: Final = 60  # characters of what is wrong


class Header(Line):
    """The first line."""

    format: Literal["memory-retrievers export"] = FORMAT
    version: Literal[1, 2, 3, 4, 5, 6, 7, 8] = VERSION
    embedder_id: str | None
    dimension: Annotated[int, Field(ge=1)] | None
    probe: tuple[FiniteFloat, ...] | None
    memories: Annotated[int, Field(ge=0)]
    versions: Annotated[int, Field(ge=0)] = 0
    pending_reviews: Annotated[int, Field(ge=0)]
    review_jobs: Annotated[int, Field(ge=0)] = 0
    queues: Annotated[int, Field(ge=0)] = 0
    associations: Annotated[int, Field(ge=0)] = 0
    audit: Annotated[int, Field(ge=0)] = 0
    events: Annotated[int, Field(ge=0)] = 0
    characters: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _whole_embedder(self) -> Self:
        known = [each is not None for each in (self.embedder_id, self.dimension, self.probe)]
        if any(known) and not all(known):  # else vectors would be taken without asking whose they are
            raise ValueError("embedder_id, dimension and probe tell the embedder together: some of them are missing")
        return self

    def counts(self) -> dict[str, int]:
        """Number of lines that follow, by type."""
        return self.model_dump(exclude={"format", "version", "embedder_id", "dimension", "probe"})

    def notes(self) -> dict[str, str]:
        """Metadata of the store about its embedder; empty if it never had one."""
        if self.embedder_id is None or self.dimension is None or self.probe is None:
            return {}
        return {"embedder_id": self.embedder_id, "dimension": str(self.dimension), "probe": json.dumps(self.probe)}


class _Passage(Line):
    part: Text
    text: Text
    vector: str
    tokens: Annotated[str, Field(max_length=2 * MOST_TOKEN_BYTES)] | None = None
    speaker: ShortText | None = None
    tells_time: bool | None = None


class _Version(Line):
    scope: str
    id: ShortText
    fact: NonBlankText
    category: Category
    keywords: tuple[Text, ...]
    valid_at: UTCDateTime
    invalid_at: UTCDateTime
    vector: str | None


class _QueuedMessage(Line):
    id: ShortText
    role: ShortText
    content: NonBlankText
    timestamp: UTCDateTime


class _Queue(Line):
    scope: str
    conversation: ShortText | None = None
    messages: tuple[_QueuedMessage, ...]
    window_doubled: bool
    previous_summary: Text | None


class _Character(CharacterState):
    scope: str


class _JobReview(Line):
    query: Text
    memories: tuple[MemoryKey, ...]
    created_at: UTCDateTime


class _Review(_JobReview):
    scope: str


class _ReviewJob(Line):
    scope: str
    reviewed_at: UTCDateTime
    conversation: tuple[Message, ...]
    reviews: tuple[_JobReview, ...]


_LINES: Final[dict[str, tuple[type[Line], type[Association | AuditEntry | MemoryEvent | PendingReview]]]] = {
    "association": (_Association, Association),
    "audit": (_AuditEntry, AuditEntry),
    "event": (_Event, MemoryEvent),
    "pending_review": (_Review, PendingReview),
}
"""Lines that have the fields of their record."""

_PASSAGES: Final = TypeAdapter(tuple[_Passage, ...])
_MODELS: Final[dict[object, type[EpisodicMemory | SemanticMemory]]] = {
    str(model.kind): model for model in (EpisodicMemory, SemanticMemory)
}


def header_of(contents: Contents) -> Header:
    """Build the header for these contents."""
    notes = contents.notes
    return Header(
        embedder_id=notes.get("embedder_id"),
        dimension=int(notes["dimension"]) if "dimension" in notes else None,
        probe=json.loads(notes["probe"]) if "probe" in notes else None,
        **contents.counts,
    )


def line_of(record: Record) -> JsonObject:
    """Encode a record as a line, without loss.

    Raises:
        BackendError: It is a memory with a field of another type, which no import would take.
    """
    line: Line
    match record:
        case StoredMemory():
            return _memory_line(record)
        case FactVersion():
            vector = None if record.vector is None else _encode_vector(record.vector)
            name, line = "version", _Version.of(record, vector=vector)
        case ReviewJob():
            name, line = "review_job", _ReviewJob.of(record, reviews=tuple(map(_JobReview.of, record.reviews)))
        case StoredQueue():
            messages = [{"id": its_id, **dict(message)} for its_id, message in record.messages]
            name, line = "queue", _Queue.of(record, messages=messages)
        case StoredCharacter():
            return {"type": "character", "scope": record.scope, **record.state.model_dump(mode="json")}
        case _:
            name, line = next((one, model.of(record)) for one, (model, kind) in _LINES.items() if kind is type(record))
    return {"type": name, **line.model_dump(mode="json", by_alias=True)}


def _memory_line(stored: StoredMemory) -> JsonObject:
    memory, passages = stored.memory, list(map(_passage_line, stored.passages))
    try:
        fields = memory.model_dump(mode="json", warnings="error", exclude=set(ANSWER_FIELDS))
    except ValueError as error:  # which tells the value, and that is nobody's business here
        raise BackendError(
            f"memory {memory.id!r} in scope {memory.scope!r} is damaged: a field has a value of another type. "
            "Restore a backup, or forget this memory"
        ) from error
    return {"type": "memory", "kind": memory.kind, **fields, "passages": passages}


def require_whole(stored: StoredMemory, header: Header) -> None:
    """Reject a memory with a vector that no import accepts.

    Raises:
        BackendError: A vector has another number of them, or is not finite or not of unit length, or one of a token
            is cut off.
    """
    try:
        for passage in stored.passages:
            _check_vector(passage.vector, header.dimension)
        check_tokens(stored, header)
    except ValidationError as error:
        memory = stored.memory
        raise BackendError(
            f"memory {memory.id!r} in scope {memory.scope!r} has a damaged vector ({error}): verify() tells more, "
            "and reembed replaces all vectors"
        ) from error


def _passage_line(passage: NewPassage) -> JsonObject:
    line = {"part": passage.part, "text": passage.text, "vector": _encode_vector(passage.vector)}
    if passage.tokens is not None:
        line["tokens"] = base64.b64encode(passage.tokens).decode()
    return line if passage.speaker is None else {**line, "speaker": passage.speaker, "tells_time": passage.tells_time}


def _encode_vector(vector: Vector) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()


def encode(line: JsonObject) -> bytes:
    """Encode a line as UTF-8 with its line break."""
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def parse_json(text: bytes) -> JsonObject:
    """Read a line as an object within bounds, which :func:`parse_record` reads.

    Raises:
        ValidationError: It is none, or too large.
    """
    extent = json_extent(text)
    if extent.values > MOST_VALUES or extent.depth > DEEPEST:
        raise ValidationError(
            f"this line has {extent.values} values, nested {extent.depth} deep, and a record has at most "
            f"{MOST_VALUES}, {DEEPEST} deep: the file is damaged, or made to use up memory"
        )
    try:
        if extent.depth < _DEEP:  # it takes half the memory: it makes no text of the whole, of 4 bytes a character
            line = from_json(storable_json(text.removeprefix(BOM_UTF8)))
        else:  # of bytes it would guess UTF-16, which json_extent does not count
            line = json.loads(text.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ValidationError(f"this is not a complete line of JSON in UTF-8: {error}") from error
    if not isinstance(line, dict):
        raise ValidationError("this is not a JSON object")
    return line


def parse_header(text: bytes) -> Header:
    """Read the first line.

    Raises:
        ValidationError: It is no header; pydantic's own error where only a field is wrong.
        ConfigurationError: A newer version wrote it.
    """
    try:
        line = parse_json(text)
    except ValidationError:
        line = {}
    if line.get("format") != FORMAT:
        raise ValidationError("this is not a file that export wrote")
    if isinstance(version := line.get("version"), int) and version > VERSION:
        raise ConfigurationError(
            f"a newer version of memory-retrievers wrote this file (format {version}, this one reads {VERSION}): "
            "upgrade the package"
        )
    return Header.model_validate(line)


def parse_record(line: JsonObject, dimension: int | None) -> Record:
    """Decode what a line holds, consuming it.

    Raises:
        ValidationError: It is no record that verify would pass; pydantic's own error where only a field is wrong.
    """
    match line.pop("type", None):
        case "memory" | "version" as name:
            return (_parse_memory if name == "memory" else _parse_version)(line, dimension)
        case "queue":
            queue = _Queue.model_validate(line)
            said = [dict(each) for each in queue.messages]
            messages = tuple(QueuedMessage(each.pop("id"), Message(**each)) for each in said)
            return StoredQueue(**_fields(queue) | {"messages": messages})
        case str(name) if name in _LINES:
            model, record = _LINES[name]
            return record(**_fields(model.model_validate(line)))
        case "review_job":
            job = _ReviewJob.model_validate(line)
            reviews = (_fields(each) | {"scope": job.scope} for each in job.reviews)
            return ReviewJob(**_fields(job) | {"reviews": tuple(PendingReview(**each) for each in reviews)})
        case "character":
            character = _Character.model_validate(line)
            state = CharacterState(**character.model_dump(exclude={"scope"}))
            return StoredCharacter(scope=scopes.parse(character.scope), state=state)
        case "checksum":
            raise ValidationError("this checksum is that of another text: delete it if you have edited the file")
        case other:
            raise ValidationError(f"unknown type of line: {other!r}")


def _fields(line: Line) -> dict[str, Any]:
    """The fields of a line, whose scopes keep to the rules."""
    fields = dict(line)
    if "scope" in fields:
        scopes.parse(fields["scope"])
    for value in fields.values():
        for each in value if isinstance(value, tuple) else [value]:
            if isinstance(each, MemoryKey):
                scopes.parse(each.scope)
    return fields


def _parse_version(line: JsonObject, dimension: int | None) -> FactVersion:
    version = _Version.model_validate(line)
    if version.valid_at > version.invalid_at:
        raise ValidationError("invalid_at: this version of a fact held until before it began")
    vector = None if version.vector is None else _parse_vector(version.vector, dimension)
    return FactVersion(**dict(version) | {"scope": scopes.parse(version.scope), "vector": vector})


def _parse_memory(line: JsonObject, dimension: int | None) -> StoredMemory:
    kind = line.pop("kind", None)
    model = _MODELS.get(kind) if isinstance(kind, str) else None
    if model is None:
        raise ValidationError("kind: must be episodic or semantic")
    passages = _PASSAGES.validate_python(line.pop("passages", ()))
    memory = model.model_validate(line)
    if isinstance(memory, EpisodicMemory) and memory.is_open:
        raise ValidationError("is_open: an episode that is still open is not stored; what waits for it is a queue")
    scopes.parse(memory.scope)
    read = tuple(_parse_passage(passage, memory, dimension) for passage in passages)
    _check_passages(memory, passages)
    return StoredMemory(memory=memory, passages=read)


def _check_passages(memory: AnyMemory, passages: Sequence[_Passage]) -> None:
    """Reject passages that ``verify`` would report: of another memory, or incomplete."""
    parts = [passage.part for passage in passages]
    if len(set(parts)) < len(parts):
        raise ValidationError("passages: a part of the memory is listed twice")
    for passage in passages:
        made = passage_text(memory, passage.part)
        if made is None or made.part != passage.part:
            raise ValidationError(f"passages: {passage.part[:_MOST_SHOWN]!r} is not a part of this memory")
        if made.text != passage.text or passage.speaker not in {None, made.speaker}:
            raise ValidationError(f"passages: {passage.part!r} has another text or speaker than its memory")
    if memory.is_searchable and memory.kind not in parts:
        raise ValidationError(f"passages: {str(memory.kind)!r} is missing, so that no search would find the memory")
    if any(turn_place(part) is not None for part in parts) and not {
        text.part for text in passage_texts(memory, searched="turns")
    } <= set(parts):
        raise ValidationError("passages: some messages of the memory have one, and others have none")


def _parse_passage(line: _Passage, memory: AnyMemory, dimension: int | None) -> NewPassage:
    """Decode a passage; what a line leaves out for a message is taken from the memory."""
    made = None if line.speaker is not None or line.part == memory.kind else passage_text(memory, line.part)
    return NewPassage(
        part=line.part,
        text=line.text,
        vector=_parse_vector(line.vector, dimension),
        speaker=line.speaker if made is None else made.speaker,
        tells_time=bool(line.tells_time) if made is None else made.tells_time,
        tokens=None if line.tokens is None else _parse_tokens(line.tokens),
    )


def _parse_tokens(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise ValidationError(f"tokens: are not base64: {error}") from error


def check_tokens(record: Record, header: Header) -> None:
    """Reject token vectors that ``verify`` would report: of another width than those of its embedder, if known."""
    width = TOKEN_WIDTHS.get(header.embedder_id or "", 1)
    for passage in record.passages if isinstance(record, StoredMemory) else ():
        if passage.tokens is not None and len(passage.tokens) % width:
            raise ValidationError(f"tokens: have {len(passage.tokens)} bytes, which is not a multiple of {width}")


def _parse_vector(text: str, dimension: int | None) -> Vector:
    import numpy as np  # here, so that importing the package loads no numpy

    try:
        vector = np.frombuffer(base64.b64decode(text, validate=True), dtype="<f4")
    except ValueError as error:
        raise ValidationError(f"vector: is not base64 of float32: {error}") from error
    _check_vector(vector, dimension)
    return vector


def _check_vector(vector: Vector, dimension: int | None) -> None:
    """Reject a vector that ``verify`` would report."""
    import numpy as np

    if len(vector) != dimension:
        raise ValidationError(f"vector: has {len(vector)} numbers instead of {dimension}")
    if not np.isfinite(vector).all():
        raise ValidationError("vector: has NaN or infinity in it")
    length = float(np.linalg.norm(vector.astype(np.float64)))
    if abs(length - 1) > MAX_LENGTH_ERROR:
        raise ValidationError(f"vector: has the length {length:.4g} instead of 1")
