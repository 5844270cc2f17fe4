"""Raw: the specified keys in the specified order."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from cases import tried_in_one

from memory_retrievers.models.fields import iso
from memory_retrievers.models.messages import Message
from memory_retrievers.retrieval.results import RecentResult, RetrievalResult

NINE = datetime(2026, 3, 1, 9, tzinfo=UTC)

WORKED_EXAMPLE = """
{"semantic":[{"id":"01f","conversation_id":"c1","category":"identity","fact":"User lives in Lyon","keywords":["user","Lyon"],
  "source_episodic_ids":["e1","e2","e3"],"valid_at":"2026-03-01T09:00:00Z","invalid_at":null,"score":0.032522}],
 "episodic":[{"id":"e9","conversation_id":"c1","messages":[{"role":"user","content":"The nightly import died again.","timestamp":"2026-03-01T08:55:00Z"}],
  "title":"Switch from cron jobs to Kafka","summary":"The user reported a failed import.","stability":3.344425,"difficulty":2.118104,"surprise":0.9,
  "start_at":"2026-03-01T08:55:00Z","end_at":"2026-03-01T09:00:00Z","created_at":"2026-03-01T09:00:00Z",
  "last_reviewed_at":"2026-03-01T09:00:00Z","consolidated_at":null,"score":0.923817}]}
"""


def raw_memories(facts, episodes):
    return RetrievalResult(query="", scope="c1", now=NINE, semantic=facts, episodic=episodes).to_dict()


def compact(text):
    return "".join(line.strip() for line in text.splitlines())


@pytest.fixture
def fact(make_fact):
    return make_fact(
        id="01f",
        keywords=["user", "Lyon"],
        sources=("e1", "e2", "e3"),
        valid_at=NINE,
        fused_score=1 / 61 + 1 / 62,
        tags=["ignored"],
        metadata={"ignored": True},
    )


@pytest.fixture
def episode(make_episode):
    return make_episode(
        "Switch from cron jobs to Kafka",
        id="e9",
        summary="The user reported a failed import.",
        score=0.92381712345,
        stability=3.344425,
        difficulty=2.118103970459016,
        surprise=0.9,
        start_at=NINE - timedelta(minutes=5),
        messages=[("user", "The nightly import died again.")],
    )


@pytest.fixture
def dated_episode(episode):
    message = Message(role="user", content="The nightly import died again.", timestamp=NINE - timedelta(minutes=5))
    return replace(episode, memory=episode.memory.model_copy(update={"messages": (message,)}))


def test_the_worked_example_is_reproduced_key_by_key(fact, dated_episode):
    raw = raw_memories([fact], [dated_episode])
    assert json.dumps(raw, separators=(",", ":"), ensure_ascii=False) == compact(WORKED_EXAMPLE)


def test_both_keys_are_there_when_nothing_was_found():
    assert json.dumps(raw_memories([], [])) == '{"semantic": [], "episodic": []}'


def test_a_message_without_a_time_has_no_timestamp(episode):
    messages = raw_memories([], [episode])["episodic"][0]["messages"]
    assert messages == [{"role": "user", "content": "The nightly import died again."}]


def test_a_fact_shows_the_fused_score_and_an_episode_the_final_one(make_fact, make_episode):
    raw = raw_memories([make_fact(score=0.5, fused_score=1 / 61)], [make_episode(score=0.25)])
    assert (raw["semantic"][0]["score"], raw["episodic"][0]["score"]) == (0.016393, 0.25)


def test_times_that_are_known_are_shown(make_fact, make_episode):
    raw = raw_memories([make_fact(invalid_at=NINE)], [make_episode(consolidated_at=NINE)])
    assert raw["semantic"][0]["invalid_at"] == raw["episodic"][0]["consolidated_at"] == "2026-03-01T09:00:00Z"


def test_texts_are_as_they_were_given(make_episode):
    said = 'He said\n"</memory>"'
    raw = raw_memories([], [make_episode("A\ntitle", messages=[("User", said)])])["episodic"][0]
    assert (raw["title"], raw["messages"]) == ("A\ntitle", [{"role": "User", "content": said}])


def test_recent_episodes_have_no_score(episode):
    recent = RecentResult(now=NINE, episodic=(episode.memory,)).to_dict()
    scored = raw_memories([], [episode])["episodic"][0]
    assert recent == {"episodic": [{key: value for key, value in scored.items() if key != "score"}]}


@tried_in_one(
    "moment, text",
    [
        (NINE, "2026-03-01T09:00:00Z"),
        (NINE.replace(microsecond=250_000), "2026-03-01T09:00:00.250000Z"),
        (NINE.replace(microsecond=1), "2026-03-01T09:00:00.000001Z"),
        (datetime(2026, 3, 1, 9), "2026-03-01T09:00:00Z"),  # noqa: DTZ001 - without a zone on purpose
        (datetime(2026, 3, 1, 18, tzinfo=timezone(timedelta(hours=9))), "2026-03-01T09:00:00Z"),
        (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00Z"),
    ],
)
def test_a_moment_is_iso_8601_in_utc(moment, text):
    assert iso(moment) == text
