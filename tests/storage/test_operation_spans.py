"""Spans and durations of searches and changes, read by the real SDK; nothing is imported without it."""

import subprocess
import sys

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.testclient import TestClient

from memory_retrievers import AgentMemory
from memory_retrievers.errors import NotFoundError
from memory_retrievers.langchain import MemoryToolkit
from memory_retrievers.llama_index import MemoryToolSpec
from memory_retrievers.server import ServerSettings, create_app
from memory_retrievers.storage.tracing import CAPTURES_CONTENT, DURATION
from memory_retrievers.testing import HashEmbedder
from memory_retrievers.tools.registry import REGISTRY
from memory_retrievers.tools.tool import ToolPolicy, run_tool

ALICE = "user/alice"


@pytest.fixture
def spans(monkeypatch):
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    monkeypatch.delenv(CAPTURES_CONTENT, raising=False)

    def told():
        return [(span.name, dict(span.attributes)) for span in exporter.get_finished_spans()]

    return told


@pytest.fixture
def memory():
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        yield memory


def attributes(operation, **more):
    return {"gen_ai.operation.name": operation, "gen_ai.memory.store.id": ALICE} | more


def test_searches_and_changes_are_spans_without_any_content(memory, spans):
    fact = memory.remember_fact(scope=ALICE, fact="Alice lives in Lyon")
    memory.retrieve("Where does Alice live?", scope=ALICE)
    memory.update(fact.id, scope=ALICE, tags=["home"])
    memory.add_messages(ALICE, [{"role": "user", "content": "Hi"}], conversation="monday")
    memory.forget(fact.id, scope=ALICE)
    known = {"gen_ai.memory.record.id": fact.id}
    assert spans() == [
        ("upsert_memory", attributes("upsert_memory")),
        ("search_memory", attributes("search_memory")),
        ("update_memory", attributes("update_memory", **known)),
        ("upsert_memory", attributes("upsert_memory", **{"gen_ai.conversation.id": "monday"})),
        ("delete_memory", attributes("delete_memory", **known)),
    ]
    assert "Lyon" not in str(spans())


def test_content_is_told_where_it_is_asked_for(memory, spans, monkeypatch):
    memory.remember_fact(scope=ALICE, fact="Alice lives in Lyon")
    monkeypatch.setenv(CAPTURES_CONTENT, "true")
    memory.retrieve("Where does Alice live?", scope=ALICE)
    [_, (_, told)] = spans()
    assert told["gen_ai.memory.query.text"] == "Where does Alice live?"
    assert "Alice lives in Lyon" in told["gen_ai.memory.records"]


def test_tools_are_spans_and_errors_have_a_type(memory, spans):
    context = ToolPolicy().context(memory, scope=ALICE)
    run_tool(REGISTRY["memory_store"], context, {"content": "Alice likes tea"})
    run_tool(REGISTRY["memory_search"], context, {"query": "tea"})
    run_tool(REGISTRY["memory_update"], context, {"id": "none", "tags": ["drink"]})
    with pytest.raises(NotFoundError):
        memory.forget("none", scope=ALICE)
    assert [name for name, _ in spans()] == ["upsert_memory", "search_memory", "update_memory", "delete_memory"]
    assert [told.get("error.type") for _, told in spans()] == [None, None, "NotFoundError", "NotFoundError"]


def test_what_is_remembered_names_its_scope_where_it_has_one(memory, spans):
    memory.remember_fact(scope=ALICE, fact="Alice lives in Lyon")
    memory.remember_episode(scope=ALICE, summary="They talked about Lyon.")
    several = [{"scope": ALICE, "fact": "Alice likes tea"}, {"scope": "user/bo", "fact": "Bo likes tea"}]
    memory.remember_many(several)
    memory.remember_many([])
    told = [each.get("gen_ai.memory.store.id") for _, each in spans()]
    assert told == [ALICE, ALICE, None, None]


def test_tools_of_both_frameworks_are_spans(memory, spans):
    of_langchain = {tool.name: tool for tool in MemoryToolkit(memory, scope=ALICE).get_tools()}
    of_llama_index = {tool.metadata.name: tool for tool in MemoryToolSpec(memory, scope=ALICE).to_tool_list()}
    of_langchain["memory_store"].invoke({"content": "Alice likes tea"})
    of_langchain["memory_delete"].invoke({"id": "none"})
    of_llama_index["memory_store"](content="Alice likes coffee")
    assert spans() == [
        ("upsert_memory", attributes("upsert_memory")),
        ("delete_memory", attributes("delete_memory", **{"gen_ai.memory.record.id": "none"})),
        ("upsert_memory", attributes("upsert_memory")),
    ]


def test_a_tool_that_is_asked_over_http_is_a_span(memory, spans):
    app = create_app(memory, settings=ServerSettings(worker=False))
    with TestClient(app, base_url="http://127.0.0.1:8000") as client:
        body = {"conversation_id": ALICE, "arguments": {"content": "Alice likes tea"}}
        assert client.post("/api/v0/tools/memory_store", json=body).json()["success"]
    assert spans() == [("upsert_memory", attributes("upsert_memory"))]


def test_durations_are_measured(memory, monkeypatch):
    reader = InMemoryMetricReader()
    monkeypatch.setattr(metrics, "get_meter", MeterProvider(metric_readers=[reader]).get_meter)
    memory.retrieve("Where does Alice live?", scope=ALICE)
    [resource] = reader.get_metrics_data().resource_metrics
    [metric] = resource.scope_metrics[0].metrics
    [point] = metric.data.data_points
    assert (metric.name, metric.unit, point.count) == (DURATION, "s", 1)
    assert dict(point.attributes) == {"gen_ai.operation.name": "search_memory"}


def test_a_program_that_does_not_trace_imports_nothing_of_it():
    code = """
import sys
from memory_retrievers import AgentMemory
with AgentMemory.in_memory() as memory:
    memory.remember_fact(scope="user/alice", fact="Alice lives in Lyon")
    memory.retrieve("Lyon", scope="user/alice")
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
