"""A query has a bound, wherever it is asked; what a user says to an agent has none, and is asked by both its ends."""

import json
import time

import pytest
from cases import tried_in_one

from memory_retrievers import AgentMemory, IngestionSettings, Message, RetrievalSettings
from memory_retrievers.errors import ValidationError
from memory_retrievers.models.management import MemoryFilter, SearchRequest
from memory_retrievers.retrieval.request import asked_by, fitting
from memory_retrievers.testing import HashEmbedder
from memory_retrievers.tools.registry import LocalToolbox
from memory_retrievers.tools.tool import ToolContext

SCOPE = "user/alice"
MOST = 8_000
LONG = "word " * 1_599 + "words"
TOO_LONG = LONG + "!"


@pytest.fixture
def memory(clock):
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, dense="exact") as memory:
        memory.remember_fact(scope=SCOPE, fact="green tea", id="m1")
        yield memory


ASKING = {
    "retrieve": lambda memory, query: memory.retrieve(query, scope=SCOPE),
    "context": lambda memory, query: memory.context(query, scope=SCOPE),
    "explain": lambda memory, query: memory.explain(query, scope=SCOPE),
    "explain_missing": lambda memory, query: memory.explain_missing("m1", query=query, scope=SCOPE),
    "scene": lambda memory, query: memory.scene(SCOPE, chat_length=1, query=query),
    "manager": lambda memory, query: memory.manager.search(SearchRequest(query, MemoryFilter(scope=SCOPE), top_k=1)),
    "read_only": lambda memory, query: memory.manager.read_only().search(
        SearchRequest(query, MemoryFilter(scope=SCOPE), top_k=1)
    ),
}


@pytest.mark.parametrize("asking", ASKING)
def test_a_query_has_at_most_8000_characters(memory, asking):
    assert len(LONG) == MOST
    ASKING[asking](memory, LONG)
    with pytest.raises(ValidationError, match="query is too long: 8001 characters, at most 8000 are allowed"):
        ASKING[asking](memory, TOO_LONG)


@pytest.mark.parametrize("asking", ASKING)
def test_how_long_it_may_be_is_a_setting(clock, asking):
    settings = RetrievalSettings(query_characters=10)
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, dense="exact", retrieval=settings) as memory:
        memory.remember_fact(scope=SCOPE, fact="green tea", id="m1")
        ASKING[asking](memory, "green tea?")
        with pytest.raises(ValidationError, match="at most 10 are allowed"):
            ASKING[asking](memory, "green tea??")


def test_a_long_row_of_marks_within_a_word_is_asked_at_once(clock):
    settings = RetrievalSettings(query_characters=40_000)
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, retrieval=settings) as memory:
        memory.remember_fact(scope=SCOPE, fact="green tea")
        began = time.process_time()
        memory.retrieve("a" + "." * 39_998 + "b", scope=SCOPE)
        assert time.process_time() - began < 2  # from each mark to the last would be ten seconds


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("retrieve_memory", {}),
        ("context_pre_retrieve", {}),
        ("memory_search", {"search_mode": "semantic"}),
        ("memory_search", {"search_mode": "keyword"}),
        ("memory_search", {"search_mode": "hybrid", "diversify": True}),
        ("scene", {"chat_length": 1}),
    ],
)
def test_no_tool_takes_a_longer_one(memory, tool, given):
    toolbox = LocalToolbox(ToolContext(memory=memory, root=SCOPE))
    assert not toolbox.call(tool, {"query": LONG, **given}).is_error
    refused = toolbox.call(tool, {"query": TOO_LONG, **given})
    assert refused.is_error
    assert "query is too long: 8001 characters" in refused.content
    assert len(json.dumps(refused.artifact)) < 500


def test_what_is_stored_may_be_longer_and_is_looked_up_whole(memory):
    toolbox = LocalToolbox(ToolContext(memory=memory, root=SCOPE))
    content = "The minutes of the meeting. " * 1_000
    first = toolbox.call("memory_store", {"content": content}).artifact
    again = toolbox.call("memory_store", {"content": content, "allow_duplicates": False}).artifact
    assert again["duplicate_of"] == first["memory_id"]
    refused = toolbox.call("memory_store", {"content": content, "duplicate_threshold": 0.9})
    assert "Duplicate content detected" in refused.content
    found = toolbox.call("memory_discover_associations", {"memory_id": first["memory_id"]})
    assert not found.is_error


def test_a_long_summary_does_not_keep_an_episode_from_becoming_facts(clock):
    asked = []

    class Model:
        def generate(self, system, user, schema):
            asked.append(user)
            return schema.model_validate({"facts": []})

    with AgentMemory.in_memory(
        embedder=HashEmbedder(),
        clock=clock,
        dense="exact",
        language_model=Model(),
        ingestion=IngestionSettings(consolidate_from=1),
    ) as memory:
        memory.remember_fact(scope=SCOPE, fact="Alice drinks green tea")
        memory.remember_episode(
            scope=SCOPE, title="Tea", summary="Tea. " * 4_000, messages=[Message(role="user", content="Tea!")]
        )
        memory.flush(SCOPE)
    assert any("Alice drinks green tea" in user for user in asked)


def test_of_a_longer_text_the_beginning_and_the_end_are_asked():
    text = "What did I plant? " + "x" * 20_000 + " That was the question."
    asked = fitting(text, most=MOST)
    assert len(asked) == MOST
    assert asked.startswith("What did I plant? x")
    assert asked.endswith("x That was the question.")
    assert fitting(f"  {LONG}  ", most=MOST) == f"  {LONG}  "


@tried_in_one("most", [1, 2, 3, 10, 11, MOST])
def test_what_is_asked_never_has_more_characters_than_are_taken(most):
    assert len(fitting("word " * 20_000, most=most)) <= most


def test_each_memory_is_asked_what_it_takes(clock):
    settings = RetrievalSettings(query_characters=100)
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, dense="exact", retrieval=settings) as memory:
        assert len(asked_by(memory, TOO_LONG)) == 100
        memory.retrieve(asked_by(memory, TOO_LONG), scope=SCOPE)
    assert len(asked_by(object(), TOO_LONG)) == MOST


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("And at what time?", "When do I see the dentist?\nAnd at what time?"),
        ("Welche Praxis?", "When do I see the dentist?\nWelche Praxis?"),
        ("Where do I live?", "Where do I live?"),
        ("thanks!", "thanks!"),
        ("Who sang at the wedding?", "Who sang at the wedding?"),
        ("How was the weekend?", "How was the weekend?"),
    ],
)
def test_a_message_that_says_little_is_asked_with_the_one_before(memory, said, asked):
    before = [("user", "My cat is ill"), ("user", "When do I see the dentist?"), ("assistant", "Soon."), ("user", "ok")]
    messages = [Message(role=role, content=content) for role, content in [*before, ("user", said)]]
    assert asked_by(memory, said, said=messages) == asked_by(memory, said, said=messages[:-1]) == asked
    assert asked_by(memory, said, said=messages[-1:]) == said
