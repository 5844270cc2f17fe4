"""The short examples for LangChain and LlamaIndex show what they promise."""

import json

import pytest

# LlamaIndex's workflows look at every attribute of an agent, deprecated ones of pydantic included.
pytestmark = pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")


def test_one_chain_answers_each_user_from_a_memory_of_their_own(told):
    sections = told("langchain_retriever_lcel.py")
    question = "Answer: What must I not cook for them?"
    assert sections == {
        "user/alice": ["Known of the user:", "- Alice is allergic to peanuts", question],
        "user/bo": ["Known of the user:", "- Bo eats no meat", question],
    }


def test_the_tool_of_an_agent_finds_what_its_user_said_and_nothing_of_another(run_example):
    assert run_example("langchain_agent_tool.py").splitlines() == [
        "human: What must I not cook for Alice?",
        "ai calls retrieve_memory: {'query': 'food allergies'}",
        "tool: ## Semantic Memory",
        "- [identity] Alice is allergic to peanuts",
        "ai: No peanuts for Alice: she is allergic to them.",
    ]


def test_what_was_said_in_one_thread_is_in_the_prompt_of_the_next(told):
    monday, tuesday = told("langchain_agent_middleware.py").values()
    assert monday == ["human: The door code of the workshop is 4711.", "ai: 4711, noted."]
    assert tuesday[0] == "<memory>"
    assert '- user: "The door code of the workshop is 4711."' in tuesday
    assert tuesday[-3:] == ["</memory>", "human: How do I get into the workshop?", "ai: With the code 4711."]


def test_what_was_said_in_one_session_is_in_the_block_of_the_next(told):
    monday, tuesday = told("llama_index_agent_memory_block.py").values()
    assert monday == ["user: The door code of the workshop is 4711.", "assistant: 4711, noted."]
    assert tuesday[:3] == ["user: How do I get into the workshop?", "<memory>", "<long_term_memory>"]
    assert '- user: "The door code of the workshop is 4711."' in tuesday
    assert tuesday[-3:] == ["</long_term_memory>", "</memory>", "assistant: With the code 4711."]


def test_a_query_engine_answers_from_facts_and_episodes(told):
    sections = told("llama_index_query_engine.py")
    prompt = sections["The answer"]
    fact, title = "Bo's staging database is restored every Friday", "A shop that goes down with every restore"
    assert prompt.index(title) < prompt.index(fact)  # by relevance, as LlamaIndex sorts nodes
    assert '- user: "The shop is down again!"' in prompt
    assert "Query: Why does the shop go down on Fridays?" in prompt
    assert sections["It stands on"] == [f"episodic: {title}", f"semantic: {fact}"]


def test_an_agent_stores_finds_and_replaces_with_tools(told):
    store, search, replace, again = told("memory_tools.py").values()
    answers = [
        [json.loads(line.removeprefix("tool: ")) for line in run if line.startswith("tool: ")]
        for run in (store, search, replace, again)
    ]
    ((stored,), (found,), (unknown, deleted, _), (found_again,)) = answers
    assert [hit["content"] for hit in found["results"]] == ["The door code of the workshop is 4711"]
    assert found["results"][0]["id"] == stored["memory_id"]
    assert unknown["error_type"] == "NotFoundError"
    assert deleted["deleted_ids"] == [stored["memory_id"]]
    assert [hit["content"] for hit in found_again["results"]] == ["The door code of the workshop is 1234"]
    assert again[-1] == "ai: With the code 1234."
