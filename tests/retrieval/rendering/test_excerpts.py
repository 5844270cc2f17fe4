"""Excerpts: the turns that match, dated, under their episode, in words that cannot become structure."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rendered import retrieved_block

from memory_retrievers.errors import ValidationError
from memory_retrievers.models import DetailLevel, SummaryBy
from memory_retrievers.models.messages import Message
from memory_retrievers.models.results import Match
from memory_retrievers.retrieval.documents import documents
from memory_retrievers.retrieval.excerpts import MOST_TURNS, MatchedTurn, matched_turns
from memory_retrievers.retrieval.results import RetrievalResult
from memory_retrievers.text.analysis import one_line

from .test_markdown import _blocks, _forced, nasty_text

MOVE, PARTY = datetime(2026, 2, 8, 20, tzinfo=UTC), datetime(2025, 12, 31, 23, 59, tzinfo=UTC)


def matching(hit, *scores):
    """The hit with a passage for each of its messages that has a score."""
    found = [
        Match(part="turn", messages=(place,), score=score) for place, score in enumerate(scores) if score is not None
    ]
    return replace(hit, matches=tuple(sorted(found, key=lambda match: -match.score)))


@pytest.fixture
def move(make_episode):
    said = [("Ann", "I have\nfound a flat."), ("Bo", "Where?"), ("Ann", 'In "Nantes".')]
    hit = make_episode("Moving house", rank=1, messages=said, start_at=MOVE, end_at=MOVE)
    return matching(hit, 0.6, None, 0.9)


@pytest.fixture
def party(make_episode):
    messages = [Message(role="Bo", content="Midnight soon!", timestamp=PARTY), Message(role="Ann", content="A toast.")]
    hit = make_episode("A party that went on until the next morning", rank=2, messages=[], start_at=MOVE)
    return matching(_forced(hit, messages=tuple(messages)), 0.95, 0.2)


def excerpts(facts, episodes, now, **options):
    return retrieved_block(facts, episodes, now=now, detail=DetailLevel.EXCERPTS, **options)


def test_excerpts_are_dated_under_their_episode_the_best_first_and_each_in_story_order(make_fact, move, party, now):
    assert excerpts([make_fact()], [move, party], now) == (
        "## Semantic Memory\n"
        "- [identity] User lives in Lyon (sources: 1 conversation)\n"
        "\n"
        "## Episodic Memories\n"
        "\n"
        "### 31 December 2025\n"
        "- Bo: Midnight soon!\n"
        "\n"
        "### 8 February 2026: Moving house\n"
        "- Ann: I have found a flat.\n"
        '- Ann: In "Nantes".'
    )


def test_an_episode_without_matches_is_told_by_its_summary(make_episode, now):
    hit = make_episode("", summary="The user\nmoved.", messages=[("user", "Hello")], start_at=MOVE, end_at=MOVE)
    assert excerpts([], [hit], now) == "## Episodic Memories\n\n### 8 February 2026\nSummary: The user moved."


def test_a_title_by_rules_stands_above_a_summary_alone_since_the_turns_say_it(move, now):
    ruled = _forced(move, summary_by=SummaryBy.RULES)
    assert "\n### 8 February 2026\n- Ann: I have found a flat.\n" in excerpts([], [ruled], now)
    unmatched = replace(ruled, matches=())
    assert "\n### 8 February 2026: Moving house\nSummary: " in excerpts([], [unmatched], now)


def test_what_was_said_over_several_days_is_dated_from_the_first_to_the_last(make_episode, now):
    hit = make_episode("", messages=[("Ann", "Hello")], start_at=PARTY, end_at=MOVE)
    assert "### 31 December 2025 to 8 February 2026\n- Ann: Hello" in excerpts([], [matching(hit, 1.0)], now)


def test_nothing_retrieved_is_nothing(now):
    assert excerpts([], [], now) == ""


def test_matches_that_are_no_longer_there_are_passed_over(make_episode, now):
    erased = matching(make_episode(messages=[]), 0.9, 0.8)
    assert matched_turns([erased]) == []
    assert "\nSummary: The user moved." in excerpts([], [erased], now)


def test_a_turn_counts_by_its_best_passage_and_a_little_less_for_every_better_one_of_its_episode(make_episode):
    passages = (
        Match(part="window", messages=(0, 1), score=0.5),
        Match(part="turn", messages=(1,), score=0.8),
        Match(part="turn", messages=(2,), score=0.6),
    )
    hit = replace(make_episode(messages=[("a", "x")] * 3), matches=passages)
    assert matched_turns([hit]) == [
        MatchedTurn(episode=0, message=1, value=0.8),
        MatchedTurn(episode=0, message=2, value=0.6 * 0.985),
        MatchedTurn(episode=0, message=0, value=pytest.approx(0.5 * 0.985**2)),
    ]


def test_where_a_list_is_asked_for_more_episodes_are_told_of_in_the_same_room(make_episode, now):
    long = "x" * 200
    first = matching(make_episode(rank=1, messages=[("a", f"first {n} {long}") for n in range(3)]), 0.9, 0.89, 0.88)
    second = matching(make_episode(rank=2, messages=[("a", f"second {n} {long}") for n in range(3)]), 0.85, 0.84, 0.1)

    def shown(query):
        result = RetrievalResult(query=query, scope="c1", now=now, episodic=(first, second))
        block = result.to_markdown("excerpts", max_tokens=215)
        return [line.split(" x")[0] for line in block.splitlines() if line.startswith("- a: ")]

    assert shown("What did Ruth read?") == ["- a: first 0", "- a: first 1", "- a: first 2"]
    assert shown("What books did Ruth read?") == ["- a: first 0", "- a: first 1", "- a: second 0"]


def test_without_a_budget_the_best_turns_are_told_and_of_every_episode_one(make_episode, now):
    long = matching(make_episode(rank=1, messages=[("a", f"long {n}.") for n in range(60)]), *[0.9] * 60)
    weak = matching(make_episode(rank=2, messages=[("a", f"weak {n}.") for n in range(3)]), 0.1, 0.2, 0.1)
    block = excerpts([], [long, weak], now)
    assert block.count("- a: long") == MOST_TURNS
    assert [line for line in block.splitlines() if "weak" in line] == ["- a: weak 1."]


def test_turns_that_answer_less_than_half_as_well_as_the_best_are_left_out(make_episode, now):
    hit = matching(make_episode(messages=[("a", "best"), ("a", "half"), ("a", "less")]), 0.8, 0.41, 0.39)
    assert excerpts([], [hit], now).splitlines()[-2:] == ["- a: best", "- a: half"]


def test_documents_of_excerpts_bring_the_turns_that_match(move, party):
    found = documents([], [move, party], detail=DetailLevel.EXCERPTS)
    assert found[0].text == 'Moving house\nThe user moved.\n- Ann: I have found a flat.\n- Ann: In "Nantes".'
    assert found[1].text.endswith("The user moved.\n- Bo: Midnight soon!")


def test_documents_of_excerpts_tell_of_more_episodes_where_a_list_is_asked_for(make_episode):
    long = matching(make_episode(rank=1, messages=[("a", f"long {n}.") for n in range(60)]), *[0.9] * 60)
    other = matching(make_episode(rank=2, messages=[("a", f"other {n}.") for n in range(3)]), 0.5, 0.49, 0.48)

    def told(query):
        found = documents([], [long, other], query=query, detail=DetailLevel.EXCERPTS)
        return [document.text.count("- a: ") for document in found]

    assert told("What did Ruth read?") == [MOST_TURNS, 1]
    assert told("What books did Ruth read?") == [14, 2]


def test_a_result_gives_excerpts_and_refuses_a_budget_that_is_none(move, now):
    result = RetrievalResult(query="where?", scope="c1", now=now, episodic=(move,))
    assert result.to_markdown(" Excerpts ") == excerpts([], [move], now)
    for budget in (-1, 2.5, True, "many"):
        with pytest.raises(ValidationError, match="max_tokens must be a whole number from 0 on"):
            result.to_markdown("excerpts", max_tokens=budget)


talk = st.lists(st.tuples(nasty_text, nasty_text, st.none() | st.floats(0, 1)), max_size=4)


@given(st.lists(st.tuples(nasty_text, nasty_text, talk), max_size=3))
def test_any_content_gives_the_blocks_of_harmless_content(make_episode, now, stories):
    def shown(harmless):
        hits = [
            matching(
                _forced(
                    make_episode("harmless", rank=rank),
                    title="harmless" if harmless or not one_line(title) or len(one_line(title)) > 24 else title,
                    summary="harmless" if harmless else summary,
                    messages=tuple(
                        Message.model_construct(
                            role="user" if harmless else role, content="Hello" if harmless else content, timestamp=None
                        )
                        for role, content, _ in said
                    ),
                ),
                *(score for *_, score in said),
            )
            for rank, (title, summary, said) in enumerate(stories, start=1)
        ]
        return excerpts([], hits, now)

    block, harmless = shown(harmless=False), shown(harmless=True)
    assert _blocks(block) == _blocks(harmless)
    assert len(block.splitlines()) == len(harmless.splitlines())
    assert "</memory" not in block.lower()
    block.encode()
