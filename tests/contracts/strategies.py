"""Hypothesis strategies for memories with every field filled in every way a store has to bear."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import strategies as st

from memory_retrievers.models import AnyMemory, Category, ContentType, EpisodicMemory, Origin, SemanticMemory, Tier
from memory_retrievers.models.messages import Message
from memory_retrievers.models.scenes import (
    MOST_SHIFTS,
    CharacterState,
    EmotionShift,
    EventType,
    MessageSpan,
    SceneDetails,
)


def texts(*, min_size: int = 0) -> st.SearchStrategy[str]:
    """Any text UTF-8 can write, control characters and all."""
    return st.text(st.characters(exclude_categories=["Cs"]), min_size=min_size, max_size=50)


def words() -> st.SearchStrategy[str]:
    """Texts that are not blank."""
    return texts(min_size=1).filter(str.strip)


def moments() -> st.SearchStrategy[datetime]:
    """Any moment, to the microsecond."""
    return st.datetimes(timezones=st.just(UTC))


def memories() -> st.SearchStrategy[AnyMemory]:
    """Episodes and facts."""
    return st.one_of(_episodes(), _facts())


def _episodes() -> st.SearchStrategy[EpisodicMemory]:
    return st.builds(
        EpisodicMemory,
        **_shared(),
        summary=words(),
        title=texts(),
        messages=_tuples(st.builds(Message, role=words(), content=words(), timestamp=_optional(moments()))),
        surprise=_unit_interval(),
        start_at=moments(),
        end_at=moments(),
        stability=st.floats(min_value=0, exclude_min=True, allow_infinity=False),
        difficulty=st.floats(min_value=1, max_value=10),
        last_reviewed_at=moments(),
        consolidated_at=_optional(moments()),
        is_flashbulb=st.booleans(),
        scene=_optional(_scenes()),
    )


def _scenes() -> st.SearchStrategy[SceneDetails]:
    return st.builds(
        SceneDetails,
        importance=st.integers(min_value=1, max_value=5),
        message_ids=_tuples(_message_numbers()),
        sequence=_optional(_message_numbers()),
        is_secret=st.booleans(),
        witnesses=_tuples(words()),
        characters_involved=_tuples(words()),
        emotional_impact=st.dictionaries(words(), words(), max_size=3),
        relationship_impact=_json_objects(),
        location=_optional(words()),
        event_type=st.sampled_from(EventType),
    )


def characters() -> st.SearchStrategy[CharacterState]:
    """Characters of stories."""
    return st.builds(
        CharacterState,
        name=words(),
        current_emotion=words(),
        emotion_intensity=st.integers(min_value=1, max_value=10),
        known_events=_tuples(words()),
        emotion_from_messages=_optional(st.builds(MessageSpan, min=_message_numbers(), max=_message_numbers())),
        shifts=st.lists(
            st.builds(EmotionShift, emotion=words(), message_id=_optional(_message_numbers())), max_size=MOST_SHIFTS
        ).map(tuple),
    )


def _message_numbers() -> st.SearchStrategy[int]:
    return st.integers(min_value=0, max_value=2**53 - 1)


def _facts() -> st.SearchStrategy[SemanticMemory]:
    return st.builds(
        SemanticMemory,
        **_shared(),
        fact=words(),
        category=st.sampled_from(Category),
        keywords=_tuples(texts()),
        source_episodic_ids=_tuples(texts()),
        valid_at=moments(),
        invalid_at=_optional(moments()),
    )


def _shared() -> dict[str, st.SearchStrategy[object]]:
    return {
        "scope": st.just("user/1"),
        "id": words().filter(lambda text: "\0" not in text),
        "created_at": moments(),
        "updated_at": moments(),
        "expires_at": _optional(moments()),
        "tier": st.sampled_from(Tier),
        "tags": _tuples(texts()),
        "metadata": _json_objects(),
        "content_type": st.sampled_from(ContentType),
        "agent_id": _optional(words()),
        "origin": st.sampled_from(Origin),
        "importance": _unit_interval(),
        "importance_pinned": st.booleans(),
        "access_count": st.integers(min_value=0, max_value=2**53),
        "last_accessed_at": _optional(moments()),
        "consolidated_from": _tuples(words()),
    }


def _optional(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.none() | strategy


def _tuples(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(strategy, max_size=3).map(tuple)


def _unit_interval() -> st.SearchStrategy[float]:
    return st.floats(min_value=0, max_value=1)


def _json_objects() -> st.SearchStrategy[dict[str, object]]:
    leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts()
    values = st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(), inner, max_size=3), max_leaves=8
    )
    return st.dictionaries(texts(), values, max_size=3)
