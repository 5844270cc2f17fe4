"""How much, and how often."""

import asyncio

import pytest

from memory_retrievers.server.intake import BodyLimiter, RateLimit
from memory_retrievers.server.responses import HTTPError
from memory_retrievers.server.settings import TrafficSettings

from .conftest import ALICE, BOB, TOKENS, by, error_of, of_alice, serving

ASKED = of_alice(query="otter")


def test_a_body_that_is_too_large_is_a_413_announced_or_not(memory):
    with serving(memory, max_body_bytes=1_000) as client:
        big = ASKED | {"query": "x" * 1_000}
        assert error_of(client.post("/api/v0/retrieve_memory", json=big)) == (413, "TooLarge")
        chunks = client.post("/api/v0/retrieve_memory", content=(b" " * 400 for _ in range(3)))
        assert error_of(chunks) == (413, "TooLarge")
        assert client.post("/api/v0/retrieve_memory", json=ASKED).status_code == 200


@pytest.mark.parametrize("path", ["/healthz", "/api/v0/profile?conversation_id=user/alice"])
def test_headers_that_are_too_large_are_a_400_also_where_they_arrive_at_once(memory, path):
    with serving(memory) as client:
        assert error_of(client.get(path, headers={"x-more": "x" * 17_000})) == (400, "BadRequest")
        assert client.get(path, headers={"x-more": "x" * 15_000}).status_code == 200


async def test_a_body_that_does_not_come_is_a_408():
    async def never():
        await asyncio.sleep(60)

    with pytest.raises(HTTPError) as refused:
        await BodyLimiter(TrafficSettings(body_seconds=0.01)).read({}, never)
    assert refused.value.status == 408


def test_who_asks_too_often_is_told_when_to_come_back_and_others_are_not_held_up(memory):
    with serving(memory, tokens=TOKENS, requests_per_minute=1, burst=3) as client:
        answers = [client.post("/api/v0/retrieve_memory", json=ASKED, headers=by(ALICE)) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert error_of(answers[3]) == (429, "RateLimited")
        assert 1 <= int(answers[3].headers["Retry-After"]) <= 60
        assert client.post("/api/v0/retrieve_memory", json=ASKED, headers=by(BOB)).status_code == 403  # and not 429
        assert client.get("/healthz").status_code == 200


def test_guessing_tokens_is_limited_too(memory):
    with serving(memory, tokens=TOKENS, requests_per_minute=1, burst=3) as client:
        guesses = [client.post("/api/v0/retrieve_memory", headers=by(f"guess-{number}")) for number in range(4)]
        assert [answer.status_code for answer in guesses] == [401, 401, 401, 429]


def test_the_allowance_fills_up_steadily():
    now = [0.0]
    limit = RateLimit(per_minute=60, burst=2, clock=lambda: now[0])
    limit.take("a")
    limit.take("a")
    with pytest.raises(HTTPError) as refused:
        limit.take("a")
    assert refused.value.headers == {"Retry-After": "1"}
    now[0] = 1.0
    limit.take("a")
    with pytest.raises(HTTPError):
        limit.take("a")
    now[0] = 100.0
    limit.take("a")
    limit.take("a")
    with pytest.raises(HTTPError):
        limit.take("a")
