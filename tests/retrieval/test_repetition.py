"""A question that was asked again and again does not hide its answer."""

import contextlib
from datetime import timedelta

import pytest

from memory_retrievers import AgentMemory, Message
from memory_retrievers.settings import RetrievalSettings
from memory_retrievers.testing import HashEmbedder

SCOPE = "user/ines"
QUESTION = "Where do I park?"


def spoken(messages):
    """A summary as rules make it of a few messages."""
    return " ".join(f"{message.role}: {message.content}" for message in messages)


@pytest.fixture
def make_memory(clock):
    """Make memories that are closed at the end."""
    with contextlib.ExitStack() as opened:
        yield lambda **settings: opened.enter_context(
            AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, retrieval=RetrievalSettings(**settings))
        )


@pytest.fixture
def life(make_memory, clock):
    """A memory that is told conversations, a day apart, the first of which tells where the car is."""

    def tell(memory, said, answer="I do not know.", **more):
        messages = [Message(role="user", content=said), Message(role="assistant", content=answer)]
        told = memory.remember_episode(
            scope=SCOPE, summary=spoken(messages), messages=messages, created_at=clock.now(), **more
        )
        clock.advance(days=1)
        return told.id

    def made(asked=8, **settings):
        memory = make_memory(**settings)
        told = tell(memory, "I park behind the old mill.", "Good to know.")
        for number in range(12):
            tell(memory, f"Tell me story {number} of a dragon.", f"Once upon a time, {number} times.")
        again = [tell(memory, QUESTION) for _ in range(asked)]
        return memory, told, again

    made.tell = tell
    return made


def ids(memory, question=QUESTION, **more):
    return [hit.memory.id for hit in memory.retrieve(question, scope=SCOPE, **more).episodic]


def test_the_newest_stands_for_all_and_what_was_told_comes_behind_it(life):
    memory, told, again = life()
    assert ids(memory)[:2] == [again[-1], told]


def test_without_it_each_stands_by_itself(life):
    memory, _, again = life(repetition_weight=0)
    assert set(ids(memory)) < set(again)


def test_the_older_ones_are_behind_and_not_gone(life):
    memory, told, again = life(asked=3)
    found = ids(memory, limit=20)
    assert set(again) <= set(found)
    assert found.index(told) < min(map(found.index, again[:-1]))


def test_more_of_them_than_are_looked_at_first_make_no_difference(life):
    memory, told, again = life(asked=90)
    assert ids(memory)[:2] == [again[-1], told]


@pytest.mark.parametrize("again", ["where do I park", "WHERE do I park?!", "  Where do I park ? "])
def test_letter_case_and_signs_are_no_other_words(life, again):
    memory, told, _ = life(asked=4)
    newest = life.tell(memory, again)
    assert ids(memory)[:2] == [newest, told]


def test_other_words_are_another_question(life):
    memory, _, asked = life(asked=1)
    other = life.tell(memory, "Where do I park today?")
    assert {other, *asked} <= set(ids(memory))


def test_the_same_words_of_somebody_else_are_no_repetition(life, clock):
    memory, _, asked = life(asked=1)
    messages = [Message(role="assistant", content=QUESTION), Message(role="user", content="Behind the mill.")]
    answered = memory.remember_episode(
        scope=SCOPE, summary=spoken(messages), messages=messages, created_at=clock.now()
    ).id
    assert {answered, *asked} <= set(ids(memory))


def test_two_of_one_moment_are_both_kept(life, clock):
    memory, _, _ = life(asked=0)
    now = clock.now()
    messages = [Message(role="user", content=QUESTION), Message(role="assistant", content="Ask Jo.")]
    twins = {
        memory.remember_episode(scope=SCOPE, summary=spoken(messages), messages=messages, created_at=now).id
        for _ in range(2)
    }
    assert set(ids(memory)[:2]) == twins


def test_what_else_was_said_in_an_older_one_still_counts(make_memory, clock):
    memory = make_memory()
    said = [QUESTION, "No idea.", "A riddle, please.", "What has keys?", "Ah, I park behind the old mill.", "Fine."]
    messages = [Message(role=("user", "assistant")[place % 2], content=text) for place, text in enumerate(said)]
    first = memory.remember_episode(scope=SCOPE, summary=spoken(messages), messages=messages, created_at=clock.now()).id
    for number in range(12):
        clock.advance(days=1)
        text = QUESTION if number % 2 else f"Tell me story {number} of a dragon."
        messages = [Message(role="user", content=text), Message(role="assistant", content="Well, well.")]
        memory.remember_episode(scope=SCOPE, summary=spoken(messages), messages=messages, created_at=clock.now())
    assert ids(memory)[1] == first


def test_a_question_for_a_time_is_answered_by_that_time(life, clock):
    memory, _, _ = life(asked=4)
    assert ids(memory, "Where do I park, three days ago?", limit=20)
    since = clock.now() - timedelta(days=3, hours=1)
    dated = memory.retrieve(f"{QUESTION} (on {since:%d %B %Y})", scope=SCOPE, limit=20).episodic
    assert "repetition" not in dated[0].explanation.stages


def test_a_repetition_lifts_nothing_above_a_floor(life):
    """Relevance falls with rank: what stands before a repetition is not as relevant as it for that."""
    memory, told, again = life()
    hits = memory.retrieve(QUESTION, scope=SCOPE, limit=20).episodic
    relevances = [hit.relevance for hit in hits]
    assert relevances == sorted(relevances, reverse=True)
    dragons = [hit.relevance for hit in hits if hit.memory.id not in {told, *again}]
    assert max(dragons) < relevances[0]


def test_the_stages_tell_of_it_and_add_up(life):
    memory, _, again = life(asked=3)
    explained = memory.explain(QUESTION, scope=SCOPE, limit=20).episodic
    by_id = {each.id: each for each in explained}
    older = {stage.name: stage for stage in by_id[again[0]].stages}
    assert older["repetition"].score < 0
    assert older["repetition"].rank is None
    for each in explained:
        assert sum(stage.score for stage in each.stages) == pytest.approx(each.score_before_forgetting)
    missing = memory.explain_missing(again[0], query=QUESTION, scope=SCOPE, limit=1)
    assert "a newer one repeats" in missing.reason


def test_a_scope_of_its_own_knows_no_repetition_in_another(make_memory, clock):
    memory = make_memory()
    messages = [Message(role="user", content=QUESTION), Message(role="assistant", content="No idea.")]
    for scope in (SCOPE, "user/bo"):
        memory.remember_episode(scope=scope, summary=spoken(messages), messages=messages, created_at=clock.now())
        clock.advance(days=1)
    assert "repetition" not in memory.retrieve(QUESTION, scope=SCOPE).episodic[0].explanation.stages


def test_a_store_without_messages_reads_nothing_more(clock):
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, retrieval=RetrievalSettings.light()) as memory:
        for _ in range(3):
            memory.remember_episode(scope=SCOPE, summary="Where do I park?", created_at=clock.now())
            clock.advance(days=1)
        assert len(memory.retrieve(QUESTION, scope=SCOPE).episodic) == 3
