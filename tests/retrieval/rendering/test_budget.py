"""Budget: never a token too many, and within it the best there is."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rendered import retrieved_block

from memory_retrievers.models import DetailLevel
from memory_retrievers.models.results import Match
from memory_retrievers.retrieval.budget import fitted, steps
from memory_retrievers.retrieval.excerpts import matched_turns
from memory_retrievers.retrieval.markdown import RenderPlan
from memory_retrievers.text.analysis import estimate_tokens

SPECIFIED_LEVELS = [level for level in DetailLevel if level is not DetailLevel.EXCERPTS]
COUNTERS = {
    "characters": len,
    "quarters": estimate_tokens,
    "words": lambda text: len(text.split()),
    "at least one": lambda text: max(1, len(text) // 4),
    "bytes and lines": lambda text: len(text.encode()) + 5 * text.count("\n"),
    "whimsical": lambda text: (len(text) * 7) % 50,
}
counters = st.sampled_from(sorted(COUNTERS)).map(COUNTERS.get)
scores = st.floats(0, 1, width=16)
talks = st.lists(st.tuples(st.text(min_size=1, max_size=60), st.none() | scores), max_size=6)
stories = st.lists(st.tuples(st.text(max_size=80), st.floats(0.01, 1), st.booleans(), talks), max_size=4)
knowledge = st.lists(
    st.tuples(st.text("ab ", min_size=1, max_size=60).filter(str.strip), st.floats(0.01, 1)), max_size=4
)
budgets = st.sampled_from([0, 1, 2, 5]) | st.integers(0, 700)


@pytest.fixture(scope="session")
def recalled(make_fact, make_episode):
    """Hits made of what hypothesis draws."""

    def recall(knowledge, stories):
        told = sorted(knowledge, key=lambda fact: -fact[1])
        facts = [make_fact(text, rank=rank, score=score) for rank, (text, score) in enumerate(told, start=1)]
        ranked = sorted(stories, key=lambda story: -story[1])
        return facts, [_episode(make_episode, rank, story) for rank, story in enumerate(ranked, start=1)]

    return recall


def _episode(make_episode, rank, story):
    summary, score, surprising, talk = story
    hit = make_episode(
        rank=rank,
        score=score,
        surprise=0.9 if surprising else 0.1,
        summary=summary.strip() or "Small talk.",
        messages=[("user", text.strip() or "Hm.") for text, _ in talk],
    )
    found = [Match(part="turn", messages=(at,), score=match) for at, (_, match) in enumerate(talk) if match is not None]
    return replace(hit, matches=tuple(sorted(found, key=lambda match: -match.score)))


@given(knowledge, stories, st.sampled_from(DetailLevel), budgets, counters)
def test_the_budget_is_never_exceeded_by_any_counter(recalled, now, knowledge, stories, detail, budget, counter):
    facts, episodes = recalled(knowledge, stories)
    block = retrieved_block(facts, episodes, now=now, detail=detail, max_tokens=budget, token_counter=counter)
    assert block == "" or counter(block) <= budget


@given(knowledge, stories, st.sampled_from(SPECIFIED_LEVELS))
def test_where_everything_fits_the_specified_levels_are_told_byte_for_byte(recalled, now, knowledge, stories, detail):
    facts, episodes = recalled(knowledge, stories)
    whole = retrieved_block(facts, episodes, now=now, detail=detail)
    for counter in (len, estimate_tokens, lambda text: len(text.split())):
        shown = retrieved_block(
            facts, episodes, now=now, detail=detail, max_tokens=counter(whole), token_counter=counter
        )
        assert shown == whole


@given(knowledge, stories)
def test_a_budget_without_end_tells_every_turn_that_matched(recalled, now, knowledge, stories):
    facts, episodes = recalled(knowledge, stories)
    block = retrieved_block(facts, episodes, now=now, detail=DetailLevel.EXCERPTS, max_tokens=10**9)
    assert sum(line.startswith("- user: ") for line in block.splitlines()) == len(matched_turns(episodes))
    assert block.count("\nSummary: ") == sum(not episode.matches for episode in episodes)


@given(knowledge, stories, st.sampled_from(DetailLevel), budgets, counters)
def test_nothing_more_than_the_level_tells_gets_in(recalled, now, knowledge, stories, detail, budget, counter):
    facts, episodes = recalled(knowledge, stories)
    block = retrieved_block(facts, episodes, now=now, detail=detail, max_tokens=budget, token_counter=counter)
    everything = retrieved_block(facts, episodes, now=now, detail=detail, max_tokens=10**9)
    # the summary stands in for turns that do not fit
    summaries = {f"Summary: {' '.join(episode.memory.summary.split())}" for episode in episodes}
    if detail is not DetailLevel.EXCERPTS:
        assert set(block.splitlines()) <= set(everything.splitlines())
    elif block:
        extra = set(block.splitlines()) - set(everything.splitlines())
        assert {line for line in extra if not line.startswith("### ")} <= summaries


@given(knowledge, stories, st.sampled_from(DetailLevel), st.integers(0, 300))
def test_no_step_that_would_fit_next_is_left_out(recalled, now, knowledge, stories, detail, budget):
    facts, episodes = recalled(knowledge, stories)
    every = steps(facts, episodes, detail=detail, turns=matched_turns(episodes))
    made = {}

    def as_list(plan):
        told = [*plan.facts, *plan.episodes, *(m for messages in plan.episodes.values() for m in messages)]
        text = "x " * len(told)
        made[text] = plan
        return text

    words = fitted(every, block=as_list, token_counter=lambda text: len(text.split()), max_tokens=budget)
    assert len(words.split()) <= budget
    if len(words.split()) < budget:  # a word is a step here, and a turn of a new episode two: only texts can hinder
        left = [step for step in every if not _told(step, made[words])]
        assert all(len(step.text.split()) + len(step.messages) + 1 > budget - len(words.split()) for step in left)


def _told(step, plan):
    if step.fact is not None:
        return step.fact in plan.facts
    return step.messages <= plan.episodes.get(step.episode, frozenset()) and step.episode in plan.episodes


def _with_matches(hit, *scores):
    return replace(
        hit, matches=tuple(Match(part="turn", messages=(at,), score=score) for at, score in enumerate(scores))
    )


def test_facts_summaries_and_turns_are_taken_by_what_a_line_of_them_is_worth(make_fact, make_episode):
    facts = [make_fact("a", rank=1, score=0.8), make_fact("b", rank=2, score=0.3)]
    episodes = [
        _with_matches(make_episode(rank=1, messages=[("u", "x"), ("u", "y"), ("u", "z")]), 0.9, 0.4),
        make_episode(rank=2, score=0.7, messages=[("u", "v"), ("u", "w")]),
    ]
    order = steps(facts, episodes, detail=DetailLevel.HIGH, turns=matched_turns(episodes))
    assert [(step.fact, step.episode, sorted(step.messages), pytest.approx(step.value)) for step in order] == [
        (None, 0, [0], 0.9),
        (0, None, [], 0.8),
        (None, 0, [], 0.45),
        (None, 0, [1], 0.4 * 0.985),
        (None, 1, [], 0.35),
        (1, None, [], 0.3),
        (None, 1, [0, 1], 0.175),
        (None, 0, [2], 0.0),
    ]


def test_a_summary_stands_in_for_a_turn_that_is_too_long(make_episode, now):
    hit = _with_matches(make_episode(messages=[("user", "long " * 500)]), 0.9)
    shown = retrieved_block([], [hit], now=now, detail=DetailLevel.EXCERPTS, max_tokens=40)
    assert shown.endswith("\nSummary: The user moved.")


def test_what_is_too_long_makes_way_for_what_fits(make_fact, make_episode, now):
    hits = [
        _with_matches(make_episode(rank=1, messages=[("user", "long " * 500), ("user", "short")]), 0.9, 0.5),
        _with_matches(make_episode(rank=2, messages=[("user", "brief")]), 0.4),
    ]
    shown = retrieved_block([make_fact("Lyon")], hits, now=now, detail=DetailLevel.EXCERPTS, max_tokens=60)
    assert "- [identity] Lyon" in shown
    assert "- user: short" in shown
    assert "- user: brief" in shown
    assert "long" not in shown


def test_at_level_high_a_budget_keeps_the_messages_that_match(make_episode, now):
    said = [("user", f"Something about the weather, number {n}.") for n in range(20)]
    hit = replace(make_episode(messages=said), matches=(Match(part="turn", messages=(7,), score=0.9),))
    shown = retrieved_block([], [hit], now=now, detail=DetailLevel.HIGH, max_tokens=50)
    assert shown.splitlines()[-3:] == ["", "**Details:**", '- user: "Something about the weather, number 7."']
    assert "**Summary:** The user moved." in shown


def test_at_level_none_no_message_is_told_however_large_the_budget(make_episode, now):
    hit = _with_matches(make_episode(surprise=1.0, messages=[("user", "Hello")]), 0.9)
    assert "Hello" not in retrieved_block([], [hit], now=now, detail=DetailLevel.NONE, max_tokens=10_000)


def test_no_more_text_is_made_than_a_few_times_the_budget(make_episode, now):
    hits = [
        _with_matches(make_episode(rank=rank, messages=[("user", "word " * 20)] * 50), *[0.5] * 50)
        for rank in range(1, 101)
    ]
    counted = []

    def counter(text):
        counted.append(len(text))
        return math.ceil(len(text) / 4)

    retrieved_block([], hits, now=now, detail=DetailLevel.EXCERPTS, max_tokens=500, token_counter=counter)
    assert max(counted) <= 4 * 4 * 500
    assert len(counted) < 150


def test_an_empty_plan_is_never_counted():
    assert (
        fitted(
            [],
            block=lambda plan: "" if plan == RenderPlan(facts=frozenset(), episodes={}) else "x",
            token_counter=None,
            max_tokens=0,
        )
        == ""
    )


@pytest.mark.parametrize("detail", [DetailLevel.AUTO, DetailLevel.EXCERPTS, DetailLevel.HIGH])
def test_a_message_too_long_for_the_budget_is_told_by_what_answers(make_episode, detail):
    log = "".join(
        f"12:{minute:02d} worker {minute % 7} has finished in {minute * 13 % 97} ms\n" for minute in range(60)
    )
    said = f"What is wrong?\n{log}12:59 worker 3: no connection slots are left\n{log}"
    messages = [("user", said), ("assistant", "Raise max_connections.")]
    hit = make_episode(messages=messages, summary_by="rules")
    hit = replace(
        hit, matches=(Match(part="turn", messages=(0,), score=0.9), Match(part="turn", messages=(1,), score=0.5))
    )

    block = retrieved_block(
        (), [hit], query="Which slots were left?", now=hit.memory.end_at, detail=detail, max_tokens=600
    )

    assert "no connection slots are left" in block
    assert "Raise max_connections." in block
    assert estimate_tokens(block) <= 600
