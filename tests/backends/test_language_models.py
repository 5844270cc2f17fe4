"""Any language model answers with an object that fits, or fails in one way."""

import json
import logging
import traceback
from types import SimpleNamespace

import pytest
from cases import tried_in_one
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import BaseChatModel, FakeListLLM, GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from llama_index.core.base.llms.types import ChatMessage, CompletionResponse, ToolCallBlock
from llama_index.core.llms import MockFunctionCallingLLM, MockLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from pydantic import BaseModel, Field, model_validator

from memory_retrievers.backends.language_models import adapt, structured
from memory_retrievers.errors import ConfigurationError, LanguageModelError
from memory_retrievers.testing import ScriptedLanguageModel


class Tea(BaseModel):
    """What is in the cup."""

    name: str
    minutes: int = Field(ge=1)


GREEN = Tea(name="green {tea}", minutes=2)
FITS = GREEN.model_dump()
SYSTEM, USER = 'Name a {tea} in JSON: {"name": …}', "It is for {user}, {system} and {{others}}."


class Plain:
    """Anything with ``generate``: gives what is in its script, whatever that is."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def generate(self, system, user, schema):
        self.asked.append((system, user, schema))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return schema.model_validate(answer[0]) if isinstance(answer, tuple) else answer


class ToolCallingModel(BaseChatModel):
    """A LangChain chat model that answers with the messages of a script; ``bind_tools`` makes structured output work."""

    script: list
    asked: list = Field(default_factory=list)

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, *, tool_choice=None, **kwargs):
        return self.bind(tools=[tool.__name__ for tool in tools])

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        self.asked.append((messages, kwargs.get("tools")))
        answer = self.script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return ChatResult(generations=[ChatGeneration(message=answer)])


class TextModel(MockLLM):
    """A LlamaIndex LLM that completes with the texts of a script."""

    script: list = Field(default_factory=list)
    asked: list = Field(default_factory=list)

    def __init__(self, *script):
        super().__init__()
        self.script = list(script)

    @llm_completion_callback()
    def complete(self, prompt, formatted=False, **kwargs):
        self.asked.append(prompt)
        return CompletionResponse(text=self.script.pop(0))


def tool_call(arguments, name="Tea"):
    return AIMessage(content="", tool_calls=[{"name": name, "args": arguments, "id": "1"}])


def tool_calling_llm(*script):
    """A LlamaIndex function-calling LLM, with the messages that it was given."""
    answers, asked = list(script), []

    def respond(messages, **kwargs):
        asked.append(([str(message.content) for message in messages], bool(kwargs.get("tools"))))
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, str):
            return ChatMessage(role="assistant", content=answer)
        return ChatMessage(role="assistant", blocks=[ToolCallBlock(tool_name="Tea", tool_kwargs=answer)])

    return MockFunctionCallingLLM(response_generator=respond), asked


class TestPlainObjects:
    @pytest.mark.parametrize("answer", [GREEN, FITS, json.dumps(FITS), SimpleNamespace, ScriptedLanguageModel])
    def test_an_answer_that_fits_comes_back_whatever_its_form(self, answer):
        if answer is SimpleNamespace:  # another model with the same fields
            answer = type("Other", (BaseModel,), {"__annotations__": {"name": str, "minutes": int}})(**FITS)
        model = ScriptedLanguageModel([FITS]) if answer is ScriptedLanguageModel else Plain(answer)
        assert adapt(model).generate(SYSTEM, USER, Tea) == GREEN

    def test_the_prompts_arrive_as_they_were_given(self):
        model = Plain(FITS)
        adapt(model).generate(SYSTEM, USER, Tea)
        assert model.asked == [(SYSTEM, USER, Tea)]

    @tried_in_one("answer", [None, "I do not know.", {"name": "x"}, {"name": "x", "minutes": 0}, 7, ({"name": "x"},)])
    def test_an_answer_that_does_not_fit_is_asked_for_once_more(self, answer):
        model = Plain(answer, FITS)
        assert adapt(model).generate(SYSTEM, USER, Tea) == GREEN
        (_, first, _), (system, second, schema) = model.asked
        assert (system, schema) == (SYSTEM, Tea)
        assert second.startswith(f"{first}\n\nAn answer to this was given before and could not be used: ")

    @pytest.mark.parametrize(
        ("answer", "raw"),
        [
            ("My SECRET.", "My SECRET."),
            ({"name": "SECRET"}, '{"name": "SECRET"}'),
            ({"name": "SECRET", "minutes": "SECRET"}, '{"name": "SECRET", "minutes": "SECRET"}'),
            ('{"name": "SECRET"', '{"name": "SECRET"'),
            (None, None),
        ],
    )
    def test_the_second_answer_that_does_not_fit_is_kept_but_told_to_nobody(self, answer, raw, caplog):
        caplog.set_level(logging.DEBUG)
        with pytest.raises(LanguageModelError, match="Plain gave no usable Tea, twice") as raised:
            adapt(Plain("first", answer, FITS)).generate(SYSTEM, USER, Tea)
        assert raised.value.raw == raw
        assert "SECRET" not in "".join(traceback.format_exception(raised.value))
        assert not caplog.records

    def test_an_exception_of_the_model_is_wrapped_once(self):
        failure = TimeoutError("too\nslow")
        with pytest.raises(LanguageModelError, match="Plain failed: TimeoutError: too slow") as raised:
            adapt(Plain(failure, FITS)).generate(SYSTEM, USER, Tea)
        assert raised.value.__cause__ is failure
        assert raised.value.raw is None

    def test_an_error_of_ours_passes_as_it_is(self):
        failure = LanguageModelError("no quota")
        with pytest.raises(LanguageModelError) as raised:
            adapt(Plain(failure, FITS)).generate(SYSTEM, USER, Tea)
        assert raised.value is failure

    def test_what_is_adapted_is_not_adapted_again(self):
        model = adapt(Plain())
        assert adapt(model) is model

    @tried_in_one("thing", [object(), "gpt", None, SimpleNamespace(generate="x"), Plain, MockLLM])
    def test_what_is_no_language_model_is_refused(self, thing):
        with pytest.raises(ConfigurationError, match=r": give an? "):
            adapt(thing)


class TestJsonInText:
    @tried_in_one(
        "text",
        [
            '{"name": "green {tea}", "minutes": 2}',
            ' \n{"name": "green {tea}", "minutes": 2}\n',
            '```json\n{"name": "green {tea}", "minutes": 2}\n```',
            '```\n{"name": "green {tea}", "minutes": 2}\n```',
            'Sure {smiles}! Here: {"name": "green {tea}", "minutes": 2}. Anything {else}?',
            '<think>{"name": "black", "minutes": 9}</think>{"name": "green {tea}", "minutes": 2}',
            '{"name": "green {tea}", "minutes": 2} and not {"name": "black"}',
            '{"schema": {"name": "no", "minutes": 1}} {"name": "green {tea}", "minutes": 2}',
            '{"name": "green {tea}", "minutes": "2", "mood": NaN}',
        ],
    )
    def test_the_object_is_found(self, text):
        assert adapt(Plain(text)).generate(SYSTEM, USER, Tea) == GREEN

    def test_a_line_break_within_a_string_is_forgiven(self):
        assert adapt(Plain('{"name": "a\nb", "minutes": 1}')).generate("", "", Tea).name == "a\nb"

    @pytest.mark.parametrize("text", ["", "{", "[]", "{" * 100_000, '{"a":' * 100_000, '{"a":[' * 50_000 + '"'])
    def test_text_without_one_is_refused_at_once(self, text):
        with pytest.raises(LanguageModelError, match="holds no JSON object") as raised:
            adapt(Plain(text, text)).generate(SYSTEM, USER, Tea)
        assert raised.value.raw == text

    def test_of_objects_without_end_only_some_are_tried(self):
        tried = []

        class Counted(Tea):
            @model_validator(mode="before")
            @classmethod
            def count(cls, value):
                tried.append(value)
                return value

        endless = GREEN.model_dump_json() + '{}{"name": "black"}' * 1_000
        assert adapt(Plain(endless)).generate(SYSTEM, USER, Counted).name == GREEN.name
        assert tried == [{"name": "black"}, {}, FITS]
        tried.clear()
        others = "".join(f'{{"minutes": {number}}}' for number in range(1_000))
        with pytest.raises(LanguageModelError, match="name"):
            adapt(Plain(others, others)).generate(SYSTEM, USER, Counted)
        assert len(tried) == 2 * structured.MAX_OBJECTS

    @given(st.text(), st.text(alphabet=st.characters(exclude_characters="{")), st.text(), st.integers(1, 99))
    def test_it_is_found_whatever_is_in_it_and_behind_it(self, name, before, after, minutes):
        text = f"{before}{json.dumps({'name': name.encode('utf-8', 'replace').decode(), 'minutes': minutes})}{after}"
        tea = adapt(Plain(text)).generate("", "", Tea)
        assert (tea.name, tea.minutes) == (name.encode("utf-8", "replace").decode(), minutes)


class TestLangChain:
    def test_structured_output_is_used_and_braces_are_text(self):
        model = ToolCallingModel(script=[tool_call(FITS)])
        assert adapt(model).generate(SYSTEM, USER, Tea) == GREEN
        assert model.asked == [([SystemMessage(SYSTEM), HumanMessage(USER)], ["Tea"])]

    def test_json_in_the_text_is_taken_where_no_tool_was_called(self):
        model = ToolCallingModel(script=[AIMessage(f"Here: {json.dumps(FITS)}")])
        assert adapt(model).generate(SYSTEM, USER, Tea) == GREEN

    def test_a_call_of_a_tool_of_another_name_is_taken_if_it_fits(self):
        assert adapt(ToolCallingModel(script=[tool_call(FITS, name="Coffee")])).generate(SYSTEM, USER, Tea) == GREEN

    def test_json_in_blocks_of_text_is_taken_too(self):
        blocks = [{"type": "text", "text": '{"name": "green {tea}",'}, {"type": "text", "text": ' "minutes": 2}'}]
        assert adapt(ToolCallingModel(script=[AIMessage(blocks)])).generate(SYSTEM, USER, Tea) == GREEN

    @pytest.mark.parametrize("first", [AIMessage("No idea."), tool_call({"name": "x"}), ValueError("bad tool call")])
    def test_after_an_answer_that_does_not_fit_json_is_asked_for_in_plain_words(self, first):
        model = ToolCallingModel(script=[first, AIMessage(f"```json\n{json.dumps(FITS)}\n```")])
        assert adapt(model).generate(SYSTEM, USER, Tea) == GREEN
        _, (messages, tools) = model.asked
        assert tools is None
        assert messages[0].content.startswith(SYSTEM)
        assert json.loads(messages[0].content.splitlines()[-1]) == Tea.model_json_schema()
        assert messages[1].content.startswith(f"{USER}\n\nAn answer to this was given before")

    def test_the_second_answer_that_does_not_fit_is_kept(self):
        model = ToolCallingModel(script=[AIMessage("No idea."), AIMessage("Still none.")])
        with pytest.raises(LanguageModelError, match="ToolCallingModel gave no usable Tea") as raised:
            adapt(model).generate(SYSTEM, USER, Tea)
        assert raised.value.raw == "Still none."

    def test_a_broken_tool_call_is_kept_as_it_came(self):
        broken = AIMessage("", invalid_tool_calls=[{"name": "Tea", "args": '{"name": ', "id": "1", "error": None}])
        with pytest.raises(LanguageModelError) as raised:
            adapt(ToolCallingModel(script=[broken, broken])).generate(SYSTEM, USER, Tea)
        assert raised.value.raw == '{"name": '

    def test_a_model_without_structured_output_is_asked_in_plain_words_twice(self):
        model = GenericFakeChatModel(messages=iter(["Hm.", f"{json.dumps(FITS)} is my choice."]))
        assert adapt(model).generate(SYSTEM, USER, Tea) == GREEN

    def test_a_model_that_completes_text_answers_too(self):
        assert adapt(FakeListLLM(responses=[json.dumps(FITS)])).generate(SYSTEM, USER, Tea) == GREEN

    def test_its_failure_is_wrapped_once(self):
        failure = ConnectionError("no route")
        with pytest.raises(LanguageModelError, match="ToolCallingModel failed: ConnectionError: no route") as raised:
            adapt(ToolCallingModel(script=[failure])).generate(SYSTEM, USER, Tea)
        assert raised.value.__cause__ is failure

    @pytest.mark.parametrize("answer", [GREEN, FITS])
    def test_a_runnable_that_does_not_tell_the_raw_answer_is_understood(self, answer):
        runnable = SimpleNamespace(invoke=lambda _messages, _config: answer)
        model = SimpleNamespace(with_structured_output=lambda _schema, *, include_raw: runnable)
        assert adapt(model).generate(SYSTEM, USER, Tea) == GREEN

    def test_what_it_says_stays_out_of_the_token_stream_of_an_agent(self):
        from langgraph.graph import StateGraph

        inner = GenericFakeChatModel(messages=iter([json.dumps(FITS)]))
        outer = GenericFakeChatModel(messages=iter(["Hello there"]))

        def turn(state):
            adapt(inner).generate(SYSTEM, USER, Tea)
            return {"said": outer.invoke("hi").content}

        graph = StateGraph(dict).add_node("turn", turn).set_entry_point("turn").set_finish_point("turn").compile()
        streamed = "".join(chunk.content for chunk, _ in graph.stream({}, stream_mode="messages"))
        assert streamed == "Hello there"


class TestLlamaIndex:
    def test_a_tool_call_is_the_answer_and_braces_are_text(self):
        model, asked = tool_calling_llm(FITS)
        assert adapt(model).generate(SYSTEM, USER, Tea) == GREEN
        assert asked == [([SYSTEM, USER], True)]

    @pytest.mark.parametrize("first", ["No idea.", {"name": "x"}])
    def test_after_an_answer_that_does_not_fit_json_is_asked_for_in_plain_words(self, first):
        model, asked = tool_calling_llm(first, f"```json\n{json.dumps(FITS)}\n```")
        assert adapt(model).generate(SYSTEM, USER, Tea) == GREEN
        (system, user), has_tools = asked[1]
        assert not has_tools
        assert system.startswith(SYSTEM)
        assert json.loads(system.splitlines()[-1]) == Tea.model_json_schema()
        assert user.startswith(f"{USER}\n\nAn answer to this was given before")

    def test_the_second_answer_that_does_not_fit_is_kept(self):
        model, _ = tool_calling_llm("No idea.", "Still none.")
        with pytest.raises(LanguageModelError, match="MockFunctionCallingLLM gave no usable Tea") as raised:
            adapt(model).generate(SYSTEM, USER, Tea)
        assert raised.value.raw == "Still none."

    @pytest.mark.parametrize("text", [json.dumps(FITS), f"Here:\n```json\n{json.dumps(FITS)}\n```"])
    def test_a_model_that_completes_text_answers_with_json(self, text):
        model = TextModel(text)
        assert adapt(model).generate(SYSTEM, USER, Tea) == GREEN
        assert USER in model.asked[0]

    def test_a_model_that_completes_text_is_asked_again_and_prose_is_searched(self):
        model = TextModel("{No} idea {yet}", f"Well {{then}}: {json.dumps(FITS)}")
        assert adapt(model).generate(SYSTEM, USER, Tea) == GREEN

    def test_its_failure_is_wrapped_once(self):
        failure = ConnectionError("no route")
        model, _ = tool_calling_llm(failure)
        with pytest.raises(LanguageModelError, match="failed: ConnectionError: no route") as raised:
            adapt(model).generate(SYSTEM, USER, Tea)
        assert raised.value.__cause__ is failure


class Strong(Tea):
    """A kind of tea that has more to it."""

    strength: object = 3


UNCHECKED = [
    Tea.model_construct(name=["not", "a", "name"], minutes="soon"),
    Tea.model_construct(name="green", minutes=-5),
    Tea.model_construct(minutes=2),
    Tea.model_construct(),
    Strong.model_construct(name=5, minutes=2, strength=object()),
    GREEN.model_copy(update={"minutes": 0}),
    {"name": "green", "minutes": {"deep": [1]}},
    {3: object(), ("a", "b"): {1, 2}},
    [GREEN],
    object(),
]


@pytest.mark.parametrize("unchecked", UNCHECKED, ids=lambda unchecked: type(unchecked).__name__)
def test_an_object_of_the_right_class_is_checked_as_well(unchecked):
    model = Plain(unchecked, FITS)
    assert adapt(model).generate(SYSTEM, USER, Tea) == GREEN
    assert "could not be used" in model.asked[1][1]
    with pytest.raises(LanguageModelError, match="no usable Tea, twice") as failure:
        adapt(Plain(unchecked, unchecked)).generate(SYSTEM, USER, Tea)
    assert failure.value.raw is not None


def test_an_object_that_holds_itself_is_an_answer_that_cannot_be_used():
    circle = {"name": "green"}
    circle["minutes"] = circle
    for answer in (circle, Tea.model_construct(name="green", minutes=circle)):
        with pytest.raises(LanguageModelError, match="no usable Tea, twice"):
            adapt(Plain(answer, answer)).generate(SYSTEM, USER, Tea)


def test_a_subclass_that_fits_is_taken_for_what_was_asked_for():
    answer = adapt(Plain(Strong(name="green {tea}", minutes=2))).generate(SYSTEM, USER, Tea)
    assert (type(answer), answer) == (Tea, GREEN)
