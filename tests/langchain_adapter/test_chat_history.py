"""A conversation of a scope as a LangChain chat message history."""

import asyncio

import pytest
from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import ConfigurableFieldSpec, RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory

from memory_retrievers import AgentMemory, IngestionSettings
from memory_retrievers.errors import ValidationError
from memory_retrievers.langchain import MemoryChatHistory
from memory_retrievers.testing import HashEmbedder

ALICE = "user/alice"
TALK = [
    HumanMessage("The boiler was repaired on Monday."),
    AIMessage("Good to know."),
    HumanMessage("My dentist moved to Bergen."),
    AIMessage("Noted."),
]


def history_of(memory, conversation="monday", *, scope=ALICE, **options):
    return MemoryChatHistory(memory, scope, conversation, process="never", **options)


def chain_over(memory, heard):
    """A chain whose model keeps the prompts that it was given."""

    def answer(prompt):
        heard.append([message.content for message in prompt.messages])
        return AIMessage(f"answer {len(heard)}")

    def history(user_id, session_id):
        return history_of(memory, session_id, scope=user_id)

    prompt = ChatPromptTemplate.from_messages(
        [("system", "Be kind."), MessagesPlaceholder("past"), ("human", "{said}")]
    )
    fields = [ConfigurableFieldSpec(id=name, annotation=str) for name in ("user_id", "session_id")]
    return RunnableWithMessageHistory(
        prompt | RunnableLambda(answer),
        history,
        input_messages_key="said",
        history_messages_key="past",
        history_factory_config=fields,
    )


def test_what_is_added_is_told_in_order_also_when_it_has_become_an_episode(memory):
    history = history_of(memory)
    history.add_messages(TALK[:2])
    assert memory.flush(ALICE, "monday").episodes
    history.add_messages(TALK[2:])
    assert history.messages == TALK
    memory.flush(ALICE, "monday")
    assert history.messages == TALK
    assert asyncio.run(history.aget_messages()) == TALK
    assert str(history).splitlines()[0] == "Human: The boiler was repaired on Monday."


def test_it_survives_a_restart(tmp_path):
    for said in TALK:
        with AgentMemory.open(tmp_path / "memory", embedder=HashEmbedder()) as memory:
            history_of(memory).add_message(said)
            memory.flush(ALICE) if said is TALK[1] else None
    with AgentMemory.open(tmp_path / "memory", embedder=HashEmbedder(), read_only=True) as memory:
        assert history_of(memory).messages == TALK


def test_conversations_and_scopes_are_kept_apart(memory):
    history_of(memory).add_messages(TALK)
    history_of(memory, "tuesday").add_messages([HumanMessage("Tuesday")])
    history_of(memory, None).add_messages([HumanMessage("Unnamed")])
    memory.flush(ALICE)
    history_of(memory, None).add_messages([HumanMessage("Still unnamed")])
    assert history_of(memory).messages == TALK
    assert [each.content for each in history_of(memory, "tuesday").messages] == ["Tuesday"]
    assert [each.content for each in history_of(memory, None).messages] == ["Unnamed", "Still unnamed"]
    assert history_of(memory, scope="user/bob").messages == []
    assert history_of(memory, scope="user").messages == []


def test_cleared_is_the_conversation_and_nothing_else(memory):
    before = {each.id for each in memory.list(ALICE).memories}
    for name in ("monday", "tuesday"):
        history_of(memory, name).add_messages(TALK)
    memory.flush(ALICE, "monday")
    history_of(memory).add_messages([HumanMessage("And the garden needs rain.")])
    history_of(memory, scope="user/bob").add_messages(TALK)
    history_of(memory).clear()
    assert history_of(memory).messages == []
    assert history_of(memory, "tuesday").messages == history_of(memory, scope="user/bob").messages == TALK
    assert {each.id for each in memory.list(ALICE).memories} == before
    asyncio.run(history_of(memory, "tuesday").aclear())
    found = memory.retrieve("Where did the dentist move, and what does the garden need?", scope=ALICE, record=False)
    assert not any(hit.memory.messages for hit in found.episodic if hit.memory.conversation_id)
    assert memory.verify().ok


def test_what_it_hears_is_known_to_every_search(memory):
    history_of(memory).add_messages(TALK)
    found = memory.retrieve("When was the boiler repaired?", scope=ALICE, record=False)
    assert TALK[0].content in found.to_markdown("high")


def test_the_last_messages_are_told(memory):
    history_of(memory).add_messages(TALK)
    memory.flush(ALICE)
    history_of(memory).add_messages([HumanMessage("x"), AIMessage("y")])
    assert [each.content for each in history_of(memory, limit=3).messages] == ["Noted.", "x", "y"]
    assert [each.content for each in history_of(memory, limit=1).messages] == ["y"]
    for limit in (0, 1_001, True):
        with pytest.raises(ValidationError):
            history_of(memory, limit=limit)


def test_instructions_and_tools_are_left_out_and_people_have_their_names(memory):
    history = history_of(memory)
    history.add_messages(
        [SystemMessage("Be kind."), ChatMessage("I am Mia.", role="Mia"), ToolMessage("7", tool_call_id="1")]
    )
    history.add_messages([HumanMessage("And I Tom.", name="Tom"), AIMessage("Hello, you two", name="helper")])
    history.add_user_message("Hello")
    assert history.messages == [  # no provider takes the name of a person for a role
        HumanMessage("I am Mia.", name="Mia"),
        HumanMessage("And I Tom.", name="Tom"),
        AIMessage("Hello, you two"),
        HumanMessage("Hello"),
    ]


@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainDeprecationWarning")
def test_a_chain_with_history_has_the_sessions_of_many_users(memory):
    heard = []
    chain = chain_over(memory, heard)
    alices = {"configurable": {"user_id": ALICE, "session_id": "s"}}
    bobs = {"configurable": {"user_id": "user/bob", "session_id": "s"}}
    chain.invoke({"said": "one"}, alices)
    chain.invoke({"said": "other"}, bobs)
    memory.flush(ALICE)
    assert asyncio.run(chain.ainvoke({"said": "two"}, alices)).content == "answer 3"
    assert heard == [
        ["Be kind.", "one"],
        ["Be kind.", "other"],
        ["Be kind.", "one", "answer 1", "two"],
    ]
    told = history_of(memory, "s").messages
    assert [each.content for each in told] == ["one", "answer 1", "two", "answer 3"]


@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainDeprecationWarning")
def test_a_chain_gets_no_more_than_the_limit_and_keeps_each_message_once(memory):
    def history(session_id):
        return history_of(memory, session_id, limit=2)

    chain = RunnableWithMessageHistory(RunnableLambda(lambda messages: AIMessage(str(len(messages)))), history)
    for text in ("a", "b", "c"):
        chain.invoke([HumanMessage(text)], {"configurable": {"session_id": "s"}})
    assert [each.content for each in history_of(memory, "s").messages] == ["a", "1", "b", "3", "c", "3"]


def test_without_conversations_a_scope_is_one_history():
    settings = IngestionSettings(by_conversation=False)
    with AgentMemory.in_memory(embedder=HashEmbedder(), ingestion=settings) as memory:
        history_of(memory).add_messages(TALK)
        memory.flush(ALICE)
        assert history_of(memory, "tuesday").messages == TALK
        history_of(memory, "tuesday").clear()
        assert history_of(memory).messages == []


def test_the_worker_makes_episodes_while_the_history_is_told(memory_on_disk):
    history = MemoryChatHistory(memory_on_disk, ALICE, "long")
    said = [HumanMessage(f"Message {number} about the garden.") for number in range(60)]
    for start in range(0, 60, 6):
        history.add_messages(said[start : start + 6])
        assert history.messages == said[: start + 6]
    memory_on_disk.flush(ALICE)
    assert history.messages == said


def test_what_langchain_takes_for_messages_is_added_as_such(memory):
    history = history_of(memory)
    history.add_messages([("user", "The boiler was repaired."), {"role": "assistant", "content": "Good."}])
    history.add_message("And now?")
    history.add_messages("Hello?")
    history.add_messages(HumanMessage("Hello!"))
    history.add_messages({"role": "user", "content": "One."})
    history.add_messages(("assistant", "Two."))
    said = ["The boiler was repaired.", "Good.", "And now?", "Hello?", "Hello!", "One.", "Two."]
    assert [message.content for message in history.messages] == said


def calling(*calls):
    return [{"role": "assistant", "content": "sk-123", "tool_calls": calls}]


@pytest.mark.parametrize(
    "wrong",
    [
        [{"who": "user", "secret": "sk-123"}],
        [3],
        [("user",)],
        3,
        None,
        calling({}),
        calling({"name": "sk-123"}),
        calling({"function": None, "id": "1"}),
        calling(None),
        calling("sk-123"),
        [{"role": "tool", "content": "sk-123"}],  # of no call
        [{"role": ["user"], "content": "sk-123"}],
    ],
)
def test_what_is_no_message_is_refused_without_a_word_of_it(memory, wrong):
    with pytest.raises(ValidationError, match=r"^LangChain cannot read this as a message") as refused:
        history_of(memory).add_messages(wrong)
    assert "sk-123" not in str(refused.value)
    assert history_of(memory).messages == []
