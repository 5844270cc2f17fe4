import math
from datetime import UTC, datetime, timedelta

import pytest
from cases import tried_in_one
from hypothesis import given
from hypothesis import strategies as st

from memory_retrievers.models import SemanticMemory
from memory_retrievers.models.management import AssociationType
from memory_retrievers.tools import associate
from memory_retrievers.tools.responses import association_level

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def memory(id="a", *, scope="work", hours=0.0, tags=(), metadata=None):
    at = NOON + timedelta(hours=hours)
    return SemanticMemory(
        id=id,
        scope=scope,
        fact=f"fact {id}",
        tags=tags,
        metadata=metadata or {},
        created_at=at,
        updated_at=at,
        valid_at=at,
    )


ELSEWHERE = "elsewhere"  # a root from which every scope is seen whole


def strengths(first, second, cosine, root=ELSEWHERE):
    found = associate.strengths(first, second, cosine=cosine, root=root)
    return {str(way): round(strength, 4) for way, strength in found.items()}


@tried_in_one(
    "first, second, strength",
    [
        ("work/projects/a", "work/projects/b", 0.6667),
        ("work/projects", "work/projects/b", 0.6667),
        ("work", "personal", 0.0),
        ("work", "workshop", 0.0),
        ("work/a", "work/a", 1.0),
        (".", ".", 1.0),
        (".", "work", 0.0),
        ("a/b/c/d", "a/x/c/d", 0.25),
    ],
)
def test_scopes_are_as_near_as_their_common_beginning_is_long(first, second, strength):
    assert round(associate.scope_strength(first, second), 4) == strength
    assert round(associate.scope_strength(second, first), 4) == strength


@tried_in_one(
    "strength, level",
    [
        (0.0, "weak"),
        (0.2999, "weak"),
        (0.3, "moderate"),
        (0.6999, "moderate"),
        (0.7, "strong"),
        (1.0, "strong"),
    ],
)
def test_a_strength_has_a_word(strength, level):
    assert association_level(strength) == level


@tried_in_one(
    "first, second, may",
    [
        ("session/a", "session/a", True),
        ("session/a", "session/b", False),
        ("session/a", "session/a/deeper", False),
        ("session/a", "global", False),
        ("session/a", "work", True),
        ("global", "work", True),
        ("global", "global", True),
        ("sessions/a", "sessions/b", True),
    ],
)
def test_a_session_keeps_to_itself(first, second, may):
    assert associate.may_associate(first, second) is may
    assert associate.may_associate(second, first) is may


@tried_in_one("hours, strength", [(0, 1.0), (6, 0.75), (12, 0.5), (24, 0.0), (48, 0.0), (-6, 0.75)])
def test_time_wears_off_within_a_day(hours, strength):
    assert associate.temporal_strength(memory(), memory("b", hours=hours)) == pytest.approx(strength)


@tried_in_one(
    "first, second, strength",
    [
        (memory(tags=("a", "b"), scope="x"), memory("b", tags=("b", "c", "d"), scope="y"), 0.5 / 3),
        (memory(scope="x", metadata={"k": 1, "l": 2}), memory("b", scope="y", metadata={"k": 1, "l": 3, "m": 4}), 0.15),
        (memory(scope="work/projects/a"), memory("b", scope="work/projects/b"), 0.2 * 2 / 3),
        (memory(tags=("a",), metadata={"k": 1}), memory("b", tags=("a",), metadata={"k": 1}), 1.0),
        (memory(scope="x", metadata={"k": True}), memory("b", scope="y", metadata={"k": 1}), 0.0),
        (memory(scope="x"), memory("b", scope="y"), 0.0),
    ],
)
def test_context_is_tags_and_metadata_and_scopes(first, second, strength):
    assert associate.contextual_strength(first, second, root=ELSEWHERE) == pytest.approx(strength)
    assert associate.contextual_strength(second, first, root=ELSEWHERE) == pytest.approx(strength)


def test_all_five_ways_at_once():
    cause, effect = memory(tags=("ops",)), memory("b", hours=6, tags=("ops", "night"))
    assert strengths(cause, effect, 0.9) == {
        "semantic": 0.9,
        "temporal": 0.75,
        "causal": 0.675,
        "similar": round(1 - math.sqrt(0.1), 4),
        "contextual": 0.45,
    }


def test_only_the_earlier_one_is_a_cause():
    assert "causal" in strengths(memory(), memory("b", hours=1), 0.6)
    assert "causal" not in strengths(memory("b", hours=1), memory(), 0.6)
    assert "causal" not in strengths(memory(), memory("b"), 0.6)
    assert "causal" not in strengths(memory(), memory("b", hours=1), 0.59)
    assert "causal" not in strengths(memory(), memory("b", hours=19.2), 0.9)


@pytest.mark.parametrize(
    ("cosine", "ways"), [(0.7, {"semantic"}), (0.69, set()), (0.75, {"semantic", "similar"}), (0.74, {"semantic"})]
)
def test_meaning_counts_from_a_floor_on(cosine, ways):
    far = memory("b", scope="personal", hours=100)
    assert set(strengths(memory(), far, cosine)) == ways


def test_what_is_a_tenth_or_less_is_nothing():
    assert strengths(memory(scope="x"), memory("b", scope="y", hours=21.6), 0.0) == {}
    assert strengths(memory(scope="x"), memory("b", scope="y", hours=21.5), 0.0) == {"temporal": 0.1042}
    assert strengths(memory(scope="x"), memory("b", scope="y", hours=30), 0.0) == {}


def test_scopes_are_seen_from_the_root():
    first, second = memory(scope="user/alice/work"), memory("b", scope="user/alice/home")
    assert associate.contextual_strength(first, second, root="user/alice") == 0.0
    assert associate.contextual_strength(first, second, root=ELSEWHERE) == pytest.approx(0.2 * 2 / 3)
    one, other = memory(scope="user/alice/session/a"), memory("b", scope="user/alice/session/b")
    assert strengths(one, other, 0.9, root="user/alice") == {}


def test_the_same_id_in_two_scopes_is_two_memories():
    assert max(strengths(memory(scope="x"), memory(scope="y"), 0.8).values()) == 1.0


some_memory = st.builds(
    memory,
    id=st.sampled_from("abcdef"),
    scope=st.sampled_from(["work", "work/a", "work/a/b", "session/a", "session/b", "global", "x"]),
    hours=st.floats(-60, 60),
    tags=st.lists(st.sampled_from("pqrs"), unique=True, max_size=4).map(tuple),
    metadata=st.dictionaries(st.sampled_from("kl"), st.sampled_from([1, "1", True, None]), max_size=2),
)


@given(some_memory, some_memory, st.floats(-1, 1.000001))
def test_every_strength_is_above_a_tenth_and_at_most_one(first, second, cosine):
    found = associate.strengths(first, second, cosine=cosine, root=ELSEWHERE)
    assert all(0.1 < strength <= 1 for strength in found.values())


@given(some_memory, some_memory, st.floats(-1, 1))
def test_all_but_the_cause_is_as_strong_from_either_side(first, second, cosine):
    one, other = (
        associate.strengths(*pair, cosine=cosine, root=ELSEWHERE) for pair in ((first, second), (second, first))
    )
    for found in (one, other):
        found.pop(AssociationType.CAUSAL, None)
    assert one == other


@given(some_memory, some_memory, st.floats(-1, 1))
def test_the_cause_is_never_the_strongest_way(first, second, cosine):
    found = associate.strengths(first, second, cosine=cosine, root=ELSEWHERE)
    assert not found or max(found, key=found.get) is not AssociationType.CAUSAL
