"""Every failure is the one error object with its status, and none is a traceback."""

import json
import logging

import pytest
from cases import tried_in_one

from memory_retrievers import AgentMemory
from memory_retrievers.errors import (
    BackendError,
    BatchOperationError,
    ConfigurationError,
    DiskFullError,
    EmbeddingError,
    IndexOutOfStepError,
    LanguageModelError,
    MemoryRetrieversError,
    MissingExtraError,
    NotFoundError,
    StoreLockedError,
    ValidationError,
)
from memory_retrievers.server.responses import ERRORS, status_of
from memory_retrievers.testing import HashEmbedder

from .conftest import error_of, of_alice, serving

ASKED = of_alice(query="otter")


@tried_in_one(
    "error, status",
    [
        (ValidationError("x"), 422),
        (BatchOperationError("x"), 422),
        (NotFoundError("x"), 404),
        (ConfigurationError("x"), 409),
        (StoreLockedError("x"), 503),
        (BackendError("x"), 503),
        (DiskFullError("x"), 503),
        (IndexOutOfStepError("x"), 503),
        (LanguageModelError("x"), 502),
        (EmbeddingError("x"), 502),
        (MissingExtraError("x", extra="y"), 501),
        (NotImplementedError("x"), 501),
        (MemoryRetrieversError("x"), 500),
    ],
)
def test_every_error_of_the_package_has_its_status(error, status):
    assert status_of(error) == status


def test_every_route_tells_the_statuses_of_errors_in_openapi(client):
    for path, item in client.app.openapi()["paths"].items():
        for operation in item.values():
            assert set(map(str, ERRORS)) <= set(operation["responses"]), path
            schemas = [
                operation["responses"][str(status)]["content"]["application/json"]["schema"] for status in ERRORS
            ]
            assert all(schema == {"$ref": "#/components/schemas/ErrorObject"} for schema in schemas), path
    assert client.app.openapi()["components"]["schemas"]["ErrorObject"]["required"] == ["error_type", "message"]


def test_no_model_of_an_error_is_compiled_for_every_route_and_status():
    assert [status for status, described in ERRORS.items() if "model" in described] == []


@pytest.mark.parametrize("path", ["retrieve_memory", "retrieve_memory/raw", "context_pre_retrieve"])
def test_a_query_that_is_too_long_is_a_422(client, path):
    assert client.post(f"/api/v0/{path}", json=of_alice(query="x" * 8_000)).status_code < 300
    answer = client.post(f"/api/v0/{path}", json=of_alice(query="x" * 8_001))
    assert error_of(answer) == (422, "ValidationError")
    assert "query is too long: 8001 characters, at most 8000 are allowed" in answer.json()["message"]


class Breaking(HashEmbedder):
    """Embeds until it is broken."""

    broken = None

    def embed_query(self, text):
        if self.broken is not None:
            raise self.broken
        return super().embed_query(text)


@pytest.mark.parametrize(
    ("broken", "status", "error_type"),
    [
        (LanguageModelError("no answer"), 502, "LanguageModelError"),
        (StoreLockedError("held"), 503, "StoreLockedError"),
        (BackendError("the disk is busy"), 503, "BackendError"),
    ],
)
def test_what_fails_underneath_is_answered_with_its_status(broken, status, error_type):
    embedder = Breaking()
    with AgentMemory.in_memory(embedder=embedder) as memory, serving(memory) as client:
        memory.remember_fact(scope="user/alice", fact="The otter is well")
        embedder.broken = broken
        for route in ("retrieve_memory", "retrieve_memory/raw", "context_pre_retrieve"):
            answer = client.post(f"/api/v0/{route}", json=ASKED)
            assert error_of(answer) == (status, error_type)
            assert ("Retry-After" in answer.headers) == (status == 503)
        tool = client.post("/api/v0/tools/retrieve_memory", json=of_alice(arguments={"query": "otter"}))
        assert error_of(tool) == (status, error_type)


def test_a_failing_language_model_is_a_502_and_what_it_was_to_do_stays_due(clock):
    class Failing:
        def generate(self, system, user, schema):
            raise RuntimeError("secret words of the model")

    with (
        AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, language_model=Failing()) as memory,
        serving(memory) as client,
    ):
        client.post("/api/v0/add_message", json=of_alice(message={"role": "user", "content": "Hello."}))
        answer = client.post("/api/v0/flush", json=of_alice())
        assert error_of(answer) == (502, "LanguageModelError")
        assert memory.stats("user/alice").queued_messages == 1


def test_a_mistake_of_the_server_tells_and_logs_no_memory(memory, caplog, monkeypatch):
    def retrieve(*_, **__):
        raise RuntimeError("My otter is well.")

    with serving(memory) as client, caplog.at_level(logging.DEBUG):
        monkeypatch.setattr(type(memory), "retrieve", retrieve)
        answer = client.post("/api/v0/retrieve_memory", json=ASKED)
    assert error_of(answer) == (500, "InternalError")
    assert "otter" not in answer.text + caplog.text
    assert "RuntimeError" in caplog.text


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"query": ' + b"9" * 5_000 + b"}"]
)
def test_a_body_that_is_no_json_object_is_refused(client, content):
    answer = client.post("/api/v0/retrieve_memory", content=content, headers={"content-type": "application/json"})
    status, _ = error_of(answer)
    assert status in {400, 422}


def test_a_body_that_is_no_json_is_told_as_that_with_the_place(client):
    as_json = {"content-type": "application/json"}
    for content, place in ((b'{"query": }', 10), (b"query=x", 0)):
        answer = client.post("/api/v0/retrieve_memory", content=content, headers=as_json)
        assert error_of(answer) == (422, "ValidationError")
        assert answer.json()["message"] == f"the body is not JSON, at character {place}: Expecting value"


@pytest.mark.parametrize("content_type", ["application/x-www-form-urlencoded", "text/plain", None])
def test_a_body_that_is_not_sent_as_json_is_told_the_header_it_lacks(client, content_type):
    body = b'{"conversation_id": "user/alice", "query": "tea"}'  # as curl -d sends it
    headers = {} if content_type is None else {"content-type": content_type}
    answer = client.post("/api/v0/retrieve_memory", content=body, headers=headers)
    assert error_of(answer) == (422, "ValidationError")
    assert "Content-Type: application/json" in answer.json()["message"]


def test_a_slash_too_many_leads_nowhere(client):
    answer = client.post("/api/v0/retrieve_memory/", json=of_alice(query="otter"), follow_redirects=False)
    assert error_of(answer) == (404, "NotFoundError")


def test_unknown_addresses_and_methods_are_answered_in_the_same_shape(client):
    unknown = client.get("/api/v1/retrieve_memory")
    assert error_of(unknown) == (404, "NotFoundError")
    assert "/openapi.json" in unknown.json()["message"]
    wrong = client.get("/api/v0/retrieve_memory")
    assert error_of(wrong) == (405, "MethodNotAllowed")
    assert (wrong.headers["Allow"], wrong.json()["message"]) == ("POST", "this route only takes POST")
    probed = client.post("/healthz")  # which is two routes
    assert (probed.headers["Allow"], probed.json()["message"]) == ("GET, HEAD", "this route only takes GET, HEAD")
    assert client.put("/api/v0/profile").headers["Allow"] == "GET, POST"


@pytest.mark.parametrize("asked", ["max_token=5", "max_tokens=5&max_tokens=6", "conversation_id=user/alice"])
def test_a_query_that_a_route_does_not_know_or_has_twice_is_refused(client, asked):
    answer = client.get(f"/api/v0/profile?conversation_id=user/alice&{asked}")
    assert error_of(answer) == (422, "ValidationError")
    name = asked.partition("=")[0]
    known = "there is no parameter max_token: there are conversation_id, max_tokens"
    assert answer.json()["message"] == (known if name == "max_token" else f"query.{name} is given twice")


def test_a_query_that_a_write_does_not_know_does_nothing(client, memory):
    answer = client.post("/api/v0/forget_scope?dry_run=true", json=of_alice())
    assert answer.json()["message"] == "there is no parameter dry_run: there are none"
    assert memory.get("fact-otter", scope="user/alice")


def test_the_document_says_how_many_tags_a_filter_takes(client):
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    assert {schemas[name]["properties"]["tags"]["maxItems"] for name in ("RetrieveBody", "ContextBody")} == {16}


MUCH = {str(n): n for n in range(17)}


@pytest.mark.parametrize("path", ["retrieve_memory", "context_pre_retrieve", "explain"])
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"metadata": MUCH}, "metadata has 17 conditions: give at most 16"),
        ({"tags": [*MUCH]}, "tags has 17 conditions: give at most 16"),
        ({"metadata": {"a": [1]}}, "metadata is compared with texts, finite numbers, true, false and None, not list"),
        ({"min_relevance": 2}, "min_relevance must be a number from 0 to 1, or 'auto', not '2'"),
    ],
)
def test_a_wrong_filter_is_told_as_in_python(client, path, given, told):
    answer = client.post(f"/api/v0/{path}", json=ASKED | given)
    assert (error_of(answer), answer.json()["message"]) == ((422, "ValidationError"), told)


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b'"x"', b"5"])
def test_a_body_that_is_no_object_is_told_to_be_one(client, body):
    answer = client.post("/api/v0/remember", content=body, headers={"Content-Type": "application/json"})
    assert answer.json()["message"] == "the body must be a JSON object"


def test_an_unknown_field_is_told_with_those_there_are(client):
    answer = client.post("/api/v0/now", json={"zone": "UTC"})
    assert error_of(answer) == (422, "ValidationError")
    message = client.post("/api/v0/forget_scope", json={"scope": "user/alice"}).json()["message"]
    assert message == "there is no field scope: there are conversation_id, include_child_scopes"
    assert client.post("/api/v0/now", json={"zone": None}).status_code == 200  # what a newer client does not ask for
    nested = client.post("/api/v0/remember", json=of_alice(facts=[{"fact": "x", "mood": "good"}])).json()["message"]
    assert nested.startswith("facts.0: there is no field mood: there are ")


def test_openapi_tells_attributes_where_they_stand_and_shows_a_filter(client):
    text = client.get("/openapi.json").text
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    assert not [name for name, each in schemas.items() if "\n" in each.get("description", "")]
    assert ":meth:" not in text
    assert schemas["Queued"]["description"] == "Outcome of adding messages to a queue."
    assert schemas["Queued"]["properties"]["due"]["description"].startswith("Whether ``process_due`` would do")
    assert schemas["FactBody"]["properties"]["fact"]["description"] == "One sentence in natural language."
    assert schemas["RetrieveBody"]["properties"]["where"]["examples"][0]["not"] == {"tags": "old"}


def test_an_unknown_field_that_is_no_text_is_refused(client):
    body = json.dumps(ASKED)[:-1] + ', "\\ud800": 1}'
    answer = client.post("/api/v0/retrieve_memory", content=body, headers={"Content-Type": "application/json"})
    assert error_of(answer) == (422, "ValidationError")
