"""A language model of 135 million parameters, run here, asked through both frameworks: its answers fit, wise or not."""

import json
from datetime import UTC, datetime, timedelta
from typing import Literal

import pytest
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel

from memory_retrievers import AgentMemory, Message
from memory_retrievers.backends.language_models import adapt
from memory_retrievers.errors import LanguageModelError
from memory_retrievers.ingestion.segmenters import LanguageModelSegmenter
from memory_retrievers.langchain import AgentMemoryMiddleware
from memory_retrievers.protocols import SegmentationContext

pytestmark = [pytest.mark.llm, pytest.mark.timeout(600)]

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
CONVERSATION = [
    Message(role=role, content=content, timestamp=START + timedelta(minutes=minute))
    for minute, (role, content) in enumerate(
        [
            ("user", "My sourdough starter died."),
            ("assistant", "Feed it twice a day."),
            ("user", 'By the way, my flight to {Lyon} was "cancelled"!'),
            ("assistant", "Oh no. Shall I look for a train?"),
        ]
    )
]


class Capital(BaseModel):
    """The capital of a country."""

    city: Literal["Paris", "Rome", "Oslo"]
    country: str


def test_an_object_of_the_schema_comes_back_at_once(model, requests):
    answer = adapt(model).generate("You know geography.", "What is the capital of France?", Capital)
    assert isinstance(answer, Capital)
    assert answer.city == "Paris"
    assert len(requests) == 1


def test_a_conversation_is_divided_into_segments(model):
    context = SegmentationContext(previous_summary="The user bakes bread.", recent=(), embed=None)
    segments = LanguageModelSegmenter(adapt(model)).segment(CONVERSATION, context)
    assert sum(segment.messages for segment in segments) == len(CONVERSATION)
    assert all(segment.messages >= 1 and segment.surprise in {0.2, 0.6, 0.9} for segment in segments)
    assert all("\n" not in segment.title + segment.summary for segment in segments)


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/v1"])  # where nobody listens
def test_a_server_that_is_gone_is_an_error_of_ours(model, address, requests):
    with pytest.raises(LanguageModelError, match=r"failed: .*Connection error") as raised:
        adapt(model).generate("You know geography.", "What is the capital of France?", Capital)
    assert raised.value.__cause__ is not None
    assert len(requests) == 1


SESSIONS = {
    "monday": ["I live in Porto with my cat Nico.", "Nico is allergic to chicken."],
    "tuesday": ["We have moved: Nico and I live in Braga now.", "What should I not feed to Nico?"],
    "friday": ["In which town do I live now?"],
}
EVIDENCE = {
    "What should I not feed to Nico?": "Nico is allergic to chicken.",
    "In which town do I live now?": "We have moved: Nico and I live in Braga now.",
}


def test_three_sessions_by_middleware_have_the_evidence_of_each_answer_in_the_prompt(
    langchain_model, requests, tmp_path
):
    prompts = {}
    for thread, said in SESSIONS.items():  # each session in a store that is opened anew, as after a restart
        with AgentMemory.open(tmp_path) as memory:
            agent = create_agent(
                langchain_model, middleware=[AgentMemoryMiddleware(memory=memory)], checkpointer=InMemorySaver()
            )
            config = {"configurable": {"user_id": "user/ines", "thread_id": thread}}
            for text in said:
                answer = agent.invoke({"messages": [{"role": "user", "content": text}]}, config)["messages"][-1]
                assert answer.text.strip()
                prompts[text] = json.loads(requests[-1].content)["messages"]
    for question, evidence in EVIDENCE.items():
        assert evidence in json.dumps(prompts[question])
    # nothing of another session is in the history: the evidence came from the memory, behind the question
    assert [message["role"] for message in prompts["In which town do I live now?"]] == ["user"]
    assert len(requests) == sum(map(len, SESSIONS.values()))
