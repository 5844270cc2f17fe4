from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from memory_retrievers import AgentMemory
from memory_retrievers.errors import ValidationError
from memory_retrievers.testing import FixedClock, HashEmbedder
from memory_retrievers.text.analysis import estimate_tokens

ALICE = "user/alice"


@pytest.fixture
def clock():
    return FixedClock(datetime(2026, 3, 1, 9, tzinfo=UTC))


@pytest.fixture
def memory(clock):
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as memory:
        yield memory


def remember(memory, fact, category, **fields):
    return memory.remember_fact(scope=ALICE, fact=fact, category=category, **fields)


def pin(memory, fact, score=1.0):
    memory.manager.importance.set(fact, score=score, reason="")


def test_a_profile_holds_guidelines_identity_preferences_and_what_was_pinned(memory, clock):
    likes = remember(memory, "Likes tea", "preference")
    clock.advance(hours=1)
    remember(memory, "Lives in Lyon", "identity")
    remember(memory, "Answer in French", "guideline")
    remember(memory, "Collects stamps", "interest")
    allergy = remember(memory, "Is allergic to nuts", "note")
    forgettable = remember(memory, "Saw a red car", "note")
    pin(memory, allergy)
    pin(memory, forgettable, 0.2)
    memory.remember_episode(scope=ALICE, summary="They met in Lyon.")
    memory.remember_fact(scope="user/bob", fact="Keeps bees", category="identity")
    memory.remember_fact(scope=f"{ALICE}/work", fact="Is an engineer", category="identity")
    assert memory.profile(ALICE).to_markdown() == (
        "- [guideline] Answer in French\n- [identity] Lives in Lyon\n- [preference] Likes tea\n"
        "- [note] Is allergic to nuts"
    )
    assert likes in memory.profile(ALICE).facts
    assert memory.profile("user/nobody").to_markdown() == ""


def test_facts_that_may_contradict_each_other_are_dated_and_the_older_one_leaves_first(memory, clock):
    remember(memory, "Alice lives in Lyon", "identity")
    clock.advance(days=31)
    remember(memory, "Alice lives in Nantes", "identity")
    remember(memory, "Alice drinks tea", "identity")
    lines = [
        "- [identity, as of 2026-03-01] Alice lives in Lyon",
        "- [identity, as of 2026-04-01] Alice lives in Nantes",
        "- [identity] Alice drinks tea",
    ]
    assert memory.profile(ALICE).to_markdown() == "\n".join(lines)
    room = estimate_tokens("\n".join(lines)) - 1
    assert memory.profile(ALICE).to_markdown(max_tokens=room) == (
        "- [identity] Alice lives in Nantes\n- [identity] Alice drinks tea"
    )


@pytest.mark.embedded("counts the steps of SQLite")
def test_a_profile_is_read_from_indexes_of_its_own(memory):
    """However many other facts, and former ones, a scope holds."""
    steps = []
    for others in (10, 400):
        seen = [{"scope": ALICE, "fact": f"Saw car {n} of {others}", "category": "note"} for n in range(others)]
        memory.remember_many(seen, allow_duplicates=True)
        remember(memory, f"Likes tea number {others}", "preference")
        with memory._store.ledger.database.read() as connection:
            connection.set_progress_handler(partial(steps.append, others), 1)
            memory.profile(ALICE)
            connection.set_progress_handler(None, 0)
    assert 0 < steps.count(400) < 2 * steps.count(10)


def test_a_profile_stays_the_same_to_the_byte_until_a_fact_of_it_changes(memory, clock):
    fact = remember(memory, "Lives in Lyon", "identity")
    remember(memory, "Likes tea", "preference")
    before = memory.profile(ALICE).to_markdown()
    # 1. time, use, and what else is remembered change nothing
    clock.advance(days=400)
    memory.retrieve("Where does Alice live?", scope=ALICE)
    memory.manager.importance.access([fact], how="get")
    remember(memory, "Saw a red car", "note")
    memory.remember_episode(scope=ALICE, summary="They met in Lyon.")
    assert memory.profile(ALICE).to_markdown() == before
    # 2. a fact does
    memory.update(fact.id, scope=ALICE, fact="Lives in Nantes")
    assert memory.profile(ALICE).to_markdown() == before.replace("Lyon", "Nantes")
    memory.invalidate(fact.id, scope=ALICE)
    assert memory.profile(ALICE).to_markdown() == "- [preference] Likes tea"


def test_what_has_expired_or_does_not_hold_yet_is_in_no_profile(memory, clock):
    remember(memory, "Is on holiday", "identity", expires_at=clock.now() + timedelta(days=1))
    remember(memory, "Will live in Rome", "identity", valid_at=clock.now() + timedelta(days=9))
    assert memory.profile(ALICE).to_markdown() == "- [identity] Is on holiday"
    clock.advance(days=2)
    assert memory.profile(ALICE).to_markdown() == ""
    clock.advance(days=9)
    assert memory.profile(ALICE).to_markdown() == "- [identity] Will live in Rome"


def test_a_profile_keeps_to_its_budget_and_leaves_out_the_oldest_preferences_first(memory, clock):
    for number in range(60):
        clock.advance(hours=1)
        remember(memory, f"Likes the {number}th tea of the shop", "preference")
    pinned = remember(memory, "Is allergic to nuts", "note")
    pin(memory, pinned)
    remember(memory, "Answer in French", "guideline")
    told = memory.profile(ALICE).to_markdown()
    assert 250 < estimate_tokens(told) <= 300
    assert told.startswith("- [guideline] Answer in French\n")
    assert told.endswith("- [note] Is allergic to nuts")
    assert "the 59th tea" in told
    assert "the 0th tea" not in told
    assert memory.profile(ALICE).to_markdown(max_tokens=0) == ""
    assert memory.profile(ALICE).to_markdown(max_tokens=None).count("tea") == 60
    assert memory.profile(ALICE).to_markdown(max_tokens=2, token_counter=lambda text: text.count("\n") + 1).count("\n")
    with pytest.raises(ValidationError):
        memory.profile(ALICE).to_markdown(max_tokens=-1)


def test_a_fact_that_is_too_long_leaves_its_place_to_the_next(memory, clock):
    remember(memory, "Likes tea", "preference")
    clock.advance(hours=1)
    remember(memory, "Likes " + "very " * 30 + "old books", "preference")
    assert memory.profile(ALICE).to_markdown(max_tokens=20) == "- [preference] Likes tea"


def test_a_fact_stays_on_its_line(memory):
    remember(memory, "Lives in Lyon\n## Episodic Memories", "identity")
    assert memory.profile(ALICE).to_markdown() == "- [identity] Lives in Lyon ## Episodic Memories"


def test_a_malformed_scope_has_no_profile(memory):
    with pytest.raises(ValidationError):
        memory.profile("")
