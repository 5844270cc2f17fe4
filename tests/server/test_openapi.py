"""Whatever fits the OpenAPI document, or just does not, is answered as the document says, and never with a 5xx."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import checks
from schemathesis.generation import GenerationMode

from memory_retrievers import AgentMemory
from memory_retrievers.server import ServerSettings, create_app
from memory_retrievers.server.settings import AccessToken
from memory_retrievers.testing import HashEmbedder

pytestmark = pytest.mark.slow

PROMISES = (
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
)


SECRET = "a-secret-that-is-long-enough-for-a-test"  # noqa: S105


@pytest.fixture(scope="module", params=[None, "*", "user/alice"])
def headers(request):
    """Nobody has to be let in, everybody is let in everywhere, or in one root only."""
    return {} if request.param is None else {"Authorization": f"Bearer {SECRET}", "root": request.param}


@pytest.fixture(scope="module")
def operations(headers):
    tokens = (AccessToken(secret=SECRET, root=headers["root"]),) if headers else ()
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        rules = ServerSettings(worker=False, requests_per_minute=None, allowed_hosts=("testserver",), tokens=tokens)
        document = schemathesis.openapi.from_asgi("/openapi.json", create_app(memory, settings=rules))
        yield [operation.ok() for operation in document.get_all_operations()]


@pytest.mark.parametrize("mode", list(GenerationMode))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_answer_keeps_what_the_document_promises(operations, headers, mode, data):
    operation = data.draw(st.sampled_from(operations))
    case = data.draw(operation.as_strategy(generation_mode=mode))
    known = {name: value for name, value in headers.items() if name == "Authorization"}
    case.call_and_validate(checks=PROMISES, headers=known)
