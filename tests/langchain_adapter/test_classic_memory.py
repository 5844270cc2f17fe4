"""A memory for the chains of LangChain classic."""

import warnings

import pytest
from langchain_classic.chains import ConversationChain, LLMChain
from langchain_classic.memory import CombinedMemory, ConversationBufferWindowMemory
from langchain_core._api import LangChainDeprecationWarning
from langchain_core.load import dumps
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate
from langchain_core.runnables import RunnableLambda

from memory_retrievers.errors import ConfigurationError, LanguageModelError, ValidationError
from memory_retrievers.langchain import ConversationMemory

PROMPT = PromptTemplate.from_template("{history}\n\nQuestion: {question}")


@pytest.fixture
def classic(memory):
    return ConversationMemory(memory=memory, scope="user/alice")


@pytest.fixture
def deprecated():
    """The chains say that they are deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LangChainDeprecationWarning)
        yield


def recorded(memory, scope="user/alice"):
    return [(message.role, message.content) for episode in memory.flush(scope).episodes for message in episode.messages]


def test_it_brings_what_answers_the_input(classic, memory):
    assert classic.memory_variables == ["history"]
    (block,) = classic.load_memory_variables({"question": "Where does Alice live?"}).values()
    assert "Alice lives in Lyon" in block
    assert "Bergen" not in block
    assert [review.query for review in memory.pending_reviews("user/alice")] == ["Where does Alice live?"]


def test_it_brings_nothing_where_there_is_nothing(memory):
    classic = ConversationMemory(memory=memory, scope="user/nobody")
    assert classic.load_memory_variables({"question": "Who?"}) == {"history": ""}
    assert classic.load_memory_variables({"question": " "}) == {"history": ""}
    messages = classic.model_copy(update={"return_messages": True})
    assert messages.load_memory_variables({"question": "Who?"}) == {"history": []}


def test_as_messages_it_is_one_system_message(memory):
    classic = ConversationMemory(memory=memory, scope="user/alice", return_messages=True, memory_key="notes")
    ((message,),) = classic.load_memory_variables({"question": "Where does Alice live?"}).values()
    assert isinstance(message, SystemMessage)
    assert "Alice lives in Lyon" in message.content


def test_the_recall_can_be_bounded(memory):
    facts = ConversationMemory(memory=memory, scope="user/alice", recall="facts", semantic_limit=1)
    block = facts.load_memory_variables({"question": "Where does Alice live?"})["history"]
    assert "Alice lives in Lyon" in block
    assert "metric" not in block
    assert "import" not in block
    assert memory.pending_reviews("user/alice") == []


def test_what_was_said_is_queued_once(classic, memory):
    classic.save_context({"question": "Tea?", "history": "old notes", "stop": ["\n"]}, {"text": "Yes."})
    assert recorded(memory) == [("user", "Tea?"), ("assistant", "Yes.")]


def test_messages_and_other_values_can_be_said_too(classic, memory):
    classic.save_context({"question": HumanMessage("Tea?")}, {"text": AIMessage([{"type": "text", "text": "Yes."}])})
    classic.save_context({"question": 42}, {"text": ""})
    assert recorded(memory) == [("user", "Tea?"), ("assistant", "Yes."), ("user", "42")]


def test_where_there_are_several_inputs_and_outputs_the_keys_say_which(memory):
    classic = ConversationMemory(memory=memory, scope="user/alice", input_key="question", output_key="answer")
    inputs, outputs = {"question": "Where does Alice live?", "style": "terse"}, {"answer": "Lyon.", "sources": "none"}
    assert "Lyon" in classic.load_memory_variables(inputs)["history"]
    classic.save_context(inputs, outputs)
    assert recorded(memory) == [("user", "Where does Alice live?"), ("assistant", "Lyon.")]


@pytest.mark.parametrize(
    ("inputs", "outputs", "complaint"),
    [
        (
            {"question": "a", "style": "b"},
            {"text": "c"},
            "which input counts is not clear: set input_key to one of question, style",
        ),
        ({}, {"text": "c"}, "which input counts is not clear"),
        (
            {"question": "a"},
            {"text": "b", "sources": "c"},
            "which output counts is not clear: set output_key to one of sources, text",
        ),
    ],
)
def test_what_is_not_clear_is_an_error_that_says_what_to_set(classic, memory, inputs, outputs, complaint):
    with pytest.raises(ConfigurationError, match=complaint):
        classic.save_context(inputs, outputs)
    assert memory.stats("user/alice").queued_messages == 0


def test_a_key_that_is_not_there_is_an_error(memory):
    classic = ConversationMemory(memory=memory, scope="user/alice", input_key="query")
    with pytest.raises(ConfigurationError, match="there is no input 'query': set input_key to one of question"):
        classic.load_memory_variables({"question": "Who?"})


def test_alone_it_tells_the_running_conversation_from_turn_to_turn(memory, saying, deprecated):
    model = saying("Nice.", "In the north.")
    classic = ConversationMemory(memory=memory, scope="user/nobody")
    chain = ConversationChain(llm=model, memory=classic)
    chain.invoke({"input": "I have rented a cabin."})
    chain.invoke({"input": "Guess where."})
    asked = model.heard[1][0].content
    assert "Human: I have rented a cabin.\nAI: Nice.\nHuman: Guess where." in asked
    assert asked.count("rented a cabin") == 1  # it is not recalled beside


def test_as_messages_the_last_turns_stand_behind_what_is_recalled(memory):
    classic = ConversationMemory(memory=memory, scope="user/alice", return_messages=True, turns=1)
    for question, answer in (("Tea?", "Yes."), ("Where does Alice live?", "In Lyon.")):
        classic.save_context({"question": question}, {"text": answer})
    (block, *turns) = classic.load_memory_variables({"question": "Where does Alice live?"})["history"]
    assert "Alice lives in Lyon" in block.content
    assert turns == [HumanMessage("Where does Alice live?"), AIMessage("In Lyon.")]


def test_running_conversations_are_kept_apart(memory):
    classic = ConversationMemory(memory=memory, recall="none")
    save = RunnableLambda(lambda said: classic.save_context(*said))
    load = RunnableLambda(classic.load_memory_variables)

    def run(user, thread):
        return {"configurable": {"user_id": user, "thread_id": thread}}

    save.invoke(({"question": "Tea?"}, {"text": "Yes."}), run("user/alice", "one"))
    assert load.invoke({"question": "And?"}, run("user/alice", "one")) == {"history": "Human: Tea?\nAI: Yes."}
    for user, thread in (("user/alice", "two"), ("user/bob", "one"), ("user/bob", "two")):
        assert load.invoke({"question": "And?"}, run(user, thread)) == {"history": ""}


def test_clear_ends_the_running_conversations_of_the_scope(memory):
    classic = ConversationMemory(memory=memory, scope="user/nobody", recall="none")
    classic.save_context({"question": "Tea?"}, {"text": "Yes."})
    classic.clear()
    assert classic.load_memory_variables({"question": "And?"}) == {"history": ""}


def test_clear_forgets_the_scope_and_no_other(classic, memory):
    memory.remember_fact(scope="user/alice/work", fact="Alice mends imports")
    classic.save_context({"question": "Tea?"}, {"text": "Yes."})
    classic.clear()
    statistics = memory.stats("user/alice")
    assert (statistics.episodes, statistics.facts, statistics.queued_messages) == (0, 0, 0)
    assert memory.stats("user/alice/work").facts == 1
    assert memory.stats("user/bob").facts == 1


def test_without_a_scope_it_is_that_of_the_run(memory):
    classic = ConversationMemory(memory=memory)
    with pytest.raises(ConfigurationError, match="whose memory is this"):
        classic.load_memory_variables({"question": "Who?"})
    step = RunnableLambda(classic.load_memory_variables)
    found = step.invoke({"question": "Who lives in Bergen?"}, {"configurable": {"user_id": "user/bob"}})
    assert "Bob lives in Bergen" in found["history"]


def test_a_scope_is_checked_when_the_memory_is_made(memory):
    with pytest.raises(ValidationError, match="malformed"):
        ConversationMemory(memory=memory, scope="user/")
    with pytest.raises(ValidationError, match=r"^k: Extra inputs .*; ConversationMemory takes "):
        ConversationMemory(memory=memory, scope="user/alice", k=3)


def test_the_live_memory_is_in_no_dump(classic, memory):
    assert "memory" not in classic.model_dump()
    assert repr(memory) not in repr(classic)
    assert "not_implemented" in dumps(classic)


def test_messages_that_cannot_be_processed_now_wait(memory, caplog):
    class WithoutModel:
        """A memory whose language model is away."""

        add_messages, retrieve = memory.add_messages, memory.retrieve

        def process_due(self, scope=None):
            raise LanguageModelError("secret")

    classic = ConversationMemory(memory=WithoutModel(), scope="user/alice", process="due")
    for number in range(11):
        classic.save_context({"question": f"Is {number} a number?"}, {"text": "Yes."})
    assert memory.stats("user/alice").queued_messages == 22
    assert set(caplog.messages) == {"messages stay queued, since the memory failed (LanguageModelError)"}


def test_a_chain_recalls_and_remembers(classic, memory, saying, deprecated):
    model = saying("In Lyon.", "Metric.")
    chain = LLMChain(llm=model, prompt=PROMPT, memory=classic)
    assert chain.invoke({"question": "Where does Alice live?"})["text"] == "In Lyon."
    chain.invoke({"question": "Which units?"})
    assert "Alice lives in Lyon" in model.heard[0][0].content
    assert [content for _, content in recorded(memory)] == [
        *("Where does Alice live?", "In Lyon.", "Which units?", "Metric."),
    ]


async def test_an_asynchronous_chain_does_the_same_and_holds_up_nothing(
    memory_on_disk, saying, deprecated, no_blocking
):
    model = saying("In Bergen.")
    classic = ConversationMemory(memory=memory_on_disk, scope="user/bob")
    await LLMChain(llm=model, prompt=PROMPT, memory=classic).ainvoke({"question": "Where does Bob live?"})
    assert "Bob lives in Bergen" in model.heard[0][0].content
    await classic.aclear()
    assert await classic.aload_memory_variables({"question": "Where does Bob live?"}) == {"history": ""}


def test_the_running_conversation_stands_beside_it_in_a_combined_memory(memory, saying, deprecated):
    recent = ConversationBufferWindowMemory(k=2, memory_key="recent", input_key="input", return_messages=True)
    notes = ConversationMemory(
        memory=memory, scope="user/alice", memory_key="notes", input_key="input", return_messages=True, turns=0
    )
    prompt = ChatPromptTemplate([MessagesPlaceholder("notes"), MessagesPlaceholder("recent"), ("human", "{input}")])
    model = saying("In Lyon.", "Yes.")
    chain = ConversationChain(llm=model, prompt=prompt, memory=CombinedMemory(memories=[notes, recent]))
    chain.invoke({"input": "Where does Alice live?"})
    chain.invoke({"input": "In Lyon, really?"})
    assert "Alice lives in Lyon" in model.heard[1][0].content
    assert [message.content for message in model.heard[1][1:]] == [
        "Where does Alice live?",
        "In Lyon.",
        "In Lyon, really?",
    ]
    assert len(recorded(memory)) == 4


def test_of_an_input_longer_than_a_query_both_ends_are_asked(classic, memory):
    said = "Where does Alice live? " + "lorem ipsum " * 2_000 + " Where in Lyon?"
    (block,) = classic.load_memory_variables({"question": said}).values()
    assert "Alice lives in Lyon" in block
    (review,) = memory.pending_reviews("user/alice")
    assert len(review.query) == memory.query_characters == 8_000
    assert review.query.startswith("Where does Alice live? lorem")
    assert review.query.endswith("Where in Lyon?")
