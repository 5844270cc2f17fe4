"""A token never sees or touches another root, on any route."""

from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_retrievers import AgentMemory
from memory_retrievers.testing import FixedClock, HashEmbedder

from .conftest import ALICE, ALICE_READS, TOKENS, by, fill, serving

OF_BOB = ("zebra", "user/bob", "fact-zebra", "episode-zebra")
OUTSIDE = ("user/bob", "user/bob/work", "user", "user/alicea", "user/nobody", "other", "user/alice2/work")
INSIDE = ("user/alice", "user/alice/work", "user/alice/session/s1")
WORDS = st.sampled_from(
    ["zebra", "user/bob", "../bob", "user/alice/../bob", "*", ".", "fact-zebra", "episode-zebra", "fact-otter", "otter", "", "full",
     "get", "delete", "export", "import", "list", "cleanup", "create", "high", "long_term", "identity", "overwrite"]
)  # fmt: skip
VALUES = st.one_of(
    WORDS, st.booleans(), st.integers(-1, 50), st.floats(-1, 1), st.lists(WORDS, max_size=2), st.none(),
    st.just([{"role": "user", "content": "A zebra?"}]), st.just({"role": "user", "content": "A zebra?"}),
)  # fmt: skip


@pytest.fixture(scope="module")
def both():
    """The memory, a client of it, and for each path the fields that its body may have."""
    with AgentMemory.in_memory(
        embedder=HashEmbedder(), clock=FixedClock(datetime(2026, 3, 1, 9, tzinfo=UTC))
    ) as memory:
        fill(memory, "user/alice", word="otter")
        fill(memory, "user/bob", word="zebra")
        with serving(memory, tokens=TOKENS, allow_scopes=True) as client:
            yield memory, client, _fields(client.app.openapi())


def _fields(openapi):
    schemas = openapi["components"]["schemas"]
    posts = {path: item["post"]["requestBody"] for path, item in openapi["paths"].items() if "post" in item}
    bodies = {path: body["content"]["application/json"]["schema"]["$ref"] for path, body in posts.items()}
    return {path: schemas[name.rpartition("/")[2]]["properties"] for path, name in bodies.items()}


def _held_by_bob(memory):
    return [each.model_dump() for each in memory.list("user/bob").memories], memory.stats("user/bob")


def _drawn(data, fields):
    """A body that mostly fits the route."""
    body = {}
    for name, schema in fields.items():
        if name == "arguments":
            body[name] = _drawn(data, schema["properties"])
        elif name in {"query", "content", "id", "memory_id"}:
            body[name] = data.draw(WORDS, label=name)
        elif name != "conversation_id" and data.draw(st.integers(0, 3)) == 0:
            body[name] = data.draw(VALUES, label=name)
    return body


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_token_never_sees_or_touches_another_root_on_any_route(both, data):
    memory, client, fields = both
    path = data.draw(st.sampled_from(sorted(fields)))
    body = _drawn(data, fields[path]) | {"conversation_id": data.draw(st.sampled_from(INSIDE))}
    before = _held_by_bob(memory)
    answer = client.post(path, json=body, headers=by(data.draw(st.sampled_from([ALICE, ALICE_READS]))))
    # what the request itself says may come back in a complaint or as what it has just stored
    said = str(body)
    assert [word for word in OF_BOB if word in answer.text and word not in said and not _was_told(memory, word)] == []
    assert "keeps a zebra" not in answer.text
    assert "spoke of a zebra" not in answer.text
    assert answer.status_code < 500 or answer.status_code == 501
    assert _held_by_bob(memory) == before


def _was_told(memory, word):
    """Whether an earlier request of Alice's has put the word into her own memories, or into what they said before."""
    scopes = [scope for scope in memory.scopes() if scope.startswith("user/alice")]
    own = [each for scope in scopes for each in memory.list(scope, limit=1000).memories]
    former = [each for fact in own if fact.kind == "semantic" for each in memory.history(fact.id, scope=fact.scope)]
    told = any(word in str(each) for each in (*own, *former))
    return told or any(memory.stats(scope).queued_messages for scope in scopes)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_route_refuses_every_scope_outside_in_the_same_words(both, data):
    memory, client, fields = both
    path = data.draw(st.sampled_from([path for path in sorted(fields) if "conversation_id" in fields[path]]))
    body = {"query": "zebra", "message": {"role": "user", "content": "x"}, "messages": [], "arguments": {}}
    body |= {"id": "fact-zebra", "fact_id": "fact-zebra", "rating": "good", "chat_length": 1, "events": []}
    body |= {"since": "2026-01-01"}
    body = {name: value for name, value in body.items() if name in fields[path]}
    before = _held_by_bob(memory)
    answers = [
        client.post(path, json=body | {"conversation_id": scope}, headers=by(ALICE))
        for scope in ("user/bob", data.draw(st.sampled_from(OUTSIDE)))
    ]
    assert {(answer.status_code, answer.text) for answer in answers} == {(403, answers[0].text)}
    assert "bob" not in answers[0].text
    assert _held_by_bob(memory) == before
