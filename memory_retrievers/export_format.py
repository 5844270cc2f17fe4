"""The lines of an export: how a header, a memory or a pending review is written, and read again with care.

The first line is a header: format, version, embedder and counts. Then comes one line per memory with every field and
its passages, whose vectors are base64 of little-endian float32; then one line per pending review, and one per scope in
which messages wait, those of ``export_associations``, and at last one per character of a story. A field that is added
to a memory raises the version.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from pydantic import Field, FiniteFloat, TypeAdapter

from memory_retrievers import scopes
from memory_retrievers.contents import Contents, StoredCharacter, StoredMemory, StoredQueue
from memory_retrievers.errors import BackendError, ConfigurationError, ValidationError
from memory_retrievers.export_associations import Key, Line, key_of, named, parse_association, parse_audit
from memory_retrievers.fields import NonBlankText, ShortText, Text, UTCDateTime
from memory_retrievers.managed import Association, AuditEntry
from memory_retrievers.messages import Message
from memory_retrievers.models import AnyMemory, EpisodicMemory, JsonObject, SemanticMemory
from memory_retrievers.passages import NewPassage
from memory_retrievers.retrieved import PendingReview
from memory_retrievers.scene_records import CharacterState
from memory_retrievers.turn_passages import passage_text

if TYPE_CHECKING:
    from memory_retrievers.passages import Vector

FORMAT: Final = "memory-retrievers export"
VERSION: Final = 4

Record: TypeAlias = StoredMemory | PendingReview | StoredQueue | Association | AuditEntry | StoredCharacter
"""What a line behind the header holds."""


class Header(Line):
    """The first line."""

    format: Literal["memory-retrievers export"] = FORMAT
    version: Literal[1, 2, 3, 4] = VERSION
    embedder_id: str | None
    dimension: Annotated[int, Field(ge=1)] | None
    probe: tuple[FiniteFloat, ...] | None
    memories: Annotated[int, Field(ge=0)]
    pending_reviews: Annotated[int, Field(ge=0)]
    queues: Annotated[int, Field(ge=0)] = 0
    associations: Annotated[int, Field(ge=0)] = 0
    audit: Annotated[int, Field(ge=0)] = 0
    characters: Annotated[int, Field(ge=0)] = 0

    def counts(self) -> dict[str, int]:
        """How many lines of each type follow."""
        return {
            "memories": self.memories,
            "pending_reviews": self.pending_reviews,
            "queues": self.queues,
            "associations": self.associations,
            "audit": self.audit,
            "characters": self.characters,
        }

    def notes(self) -> dict[str, str]:
        """What a store remembers about its embedder; nothing if it never had one."""
        if self.embedder_id is None or self.dimension is None or self.probe is None:
            return {}
        return {
            "embedder_id": self.embedder_id,
            "dimension": str(self.dimension),
            "probe": json.dumps(self.probe),
        }


class _Passage(Line):
    part: Text
    text: Text
    vector: str
    speaker: ShortText | None = None
    tells_time: bool | None = None


class _QueuedMessage(Line):
    id: ShortText
    role: ShortText
    content: NonBlankText
    timestamp: UTCDateTime


class _Queue(Line):
    scope: str
    messages: tuple[_QueuedMessage, ...]
    window_doubled: bool
    previous_summary: Text | None


class _Character(CharacterState):
    scope: str


class _Review(Line):
    scope: str
    query: str
    memories: tuple[Key, ...]
    created_at: UTCDateTime


_PASSAGES: Final = TypeAdapter(tuple[_Passage, ...])
_MODELS: Final[dict[object, type[EpisodicMemory | SemanticMemory]]] = {
    str(model.kind): model for model in (EpisodicMemory, SemanticMemory)
}


def header_of(contents: Contents) -> Header:
    """The header that goes before these contents."""
    notes = contents.notes
    return Header(
        embedder_id=notes.get("embedder_id"),
        dimension=int(notes["dimension"]) if "dimension" in notes else None,
        probe=json.loads(notes["probe"]) if "probe" in notes else None,
        memories=contents.memory_count,
        pending_reviews=contents.review_count,
        queues=contents.queue_count,
        associations=contents.association_count,
        audit=contents.audit_count,
        characters=contents.character_count,
    )


def memory_line(stored: StoredMemory, dimension: int | None) -> JsonObject:
    """A memory's line.

    Raises:
        BackendError: A vector has not ``dimension`` numbers.
    """
    require_whole(stored, dimension)
    memory, passages = stored.memory, list(map(_passage_line, stored.passages))
    return {"type": "memory", "kind": memory.kind, **memory.model_dump(mode="json"), "passages": passages}


def require_whole(stored: StoredMemory, dimension: int | None) -> None:
    """Refuse a memory with a vector that has not ``dimension`` numbers, with a ``BackendError``."""
    memory = stored.memory
    if any(len(passage.vector) != dimension for passage in stored.passages):
        raise BackendError(f"memory {memory.id!r} in scope {memory.scope!r} has a damaged vector: verify() tells more")


def _passage_line(passage: NewPassage) -> JsonObject:
    line = {
        "part": passage.part,
        "text": passage.text,
        "vector": base64.b64encode(passage.vector.astype("<f4").tobytes()).decode(),
    }
    return line if passage.speaker is None else {**line, "speaker": passage.speaker, "tells_time": passage.tells_time}


def review_line(review: PendingReview) -> JsonObject:
    """A pending review's line."""
    keys = tuple(map(named, review.memories))
    line = _Review(scope=review.scope, query=review.query, memories=keys, created_at=review.created_at)
    return {"type": "pending_review", **line.model_dump(mode="json")}


def queue_line(queue: StoredQueue) -> JsonObject:
    """A queue's line."""
    messages = [{"id": its_id, **message.model_dump(mode="json")} for its_id, message in queue.messages]
    return {
        "type": "queue",
        "scope": queue.scope,
        "messages": messages,
        "window_doubled": queue.window_doubled,
        "previous_summary": queue.previous_summary,
    }


def character_line(character: StoredCharacter) -> JsonObject:
    """A character's line."""
    return {"type": "character", "scope": character.scope, **character.state.model_dump(mode="json")}


def encode(line: JsonObject) -> bytes:
    """The line as UTF-8, with its end."""
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _parse_json(text: bytes) -> JsonObject:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValidationError(f"this is no whole line of JSON: {error}") from error
    if not isinstance(line, dict):
        raise ValidationError("this is no JSON object")
    return line


def parse_header(text: bytes) -> Header:
    """Read the first line.

    Raises:
        ValidationError: It is no header; pydantic's own error where only a field is wrong.
        ConfigurationError: A newer version wrote it.
    """
    try:
        line = _parse_json(text)
    except ValidationError:
        line = {}
    if line.get("format") != FORMAT:
        raise ValidationError("this is not a file that export wrote")
    version = line.get("version")
    if isinstance(version, int) and version > VERSION:
        raise ConfigurationError(
            f"a newer version of memory-retrievers wrote this file (format {version}, this one reads {VERSION}): "
            "upgrade the package"
        )
    return Header.model_validate(line)


def parse_line(text: bytes, dimension: int | None) -> Record:
    """Read any other line.

    Raises:
        ValidationError: It is not one; pydantic's own error where only a field is wrong.
    """
    line = _parse_json(text)
    match line.pop("type", None):
        case "memory":
            return _parse_memory(line, dimension)
        case "pending_review":
            review = _Review.model_validate(line)
            keys = tuple(map(key_of, review.memories))
            return PendingReview(
                scope=scopes.parse(review.scope), query=review.query, memories=keys, created_at=review.created_at
            )
        case "queue":
            queue = _Queue.model_validate(line)
            return StoredQueue(
                scope=scopes.parse(queue.scope),
                messages=tuple(
                    (each.id, Message(role=each.role, content=each.content, timestamp=each.timestamp))
                    for each in queue.messages
                ),
                window_doubled=queue.window_doubled,
                previous_summary=queue.previous_summary,
            )
        case "association":
            return parse_association(line)
        case "audit":
            return parse_audit(line)
        case "character":
            character = _Character.model_validate(line)
            state = CharacterState(**character.model_dump(exclude={"scope"}))
            return StoredCharacter(scope=scopes.parse(character.scope), state=state)
        case other:
            raise ValidationError(f"unknown type of line: {other!r}")


def _parse_memory(line: JsonObject, dimension: int | None) -> StoredMemory:
    model = _MODELS.get(line.pop("kind", None))
    if model is None:
        raise ValidationError("kind: must be episodic or semantic")
    passages = _PASSAGES.validate_python(line.pop("passages", ()))
    memory = model.model_validate(line)
    scopes.parse(memory.scope)
    return StoredMemory(
        memory=memory,
        passages=tuple(_parse_passage(passage, memory, dimension) for passage in passages),
    )


def _parse_passage(line: _Passage, memory: AnyMemory, dimension: int | None) -> NewPassage:
    """What the line leaves out of a message is taken from the memory."""
    told = None if line.speaker is not None or line.part == memory.kind else passage_text(memory, line.part)
    return NewPassage(
        part=line.part,
        text=line.text,
        vector=_parse_vector(line.vector, dimension),
        speaker=line.speaker if told is None else told.speaker,
        tells_time=bool(line.tells_time) if told is None else told.tells_time,
    )


def _parse_vector(text: str, dimension: int | None) -> Vector:
    import numpy as np  # here, so that importing the package loads no numpy

    try:
        vector = np.frombuffer(base64.b64decode(text, validate=True), dtype="<f4")
    except ValueError as error:
        raise ValidationError(f"vector: is no base64 of float32: {error}") from error
    if len(vector) != dimension:
        raise ValidationError(f"vector: has {len(vector)} numbers, and the header says {dimension}")
    if not np.isfinite(vector).all():
        raise ValidationError("vector: has NaN or infinity in it")
    return vector
