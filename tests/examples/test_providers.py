"""An example goes on with the model of a provider once one line is changed to what its comment says."""

import re

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms import MockFunctionCallingLLM

COMMENT = re.compile(r"^( +\w+ = ).+  # (?:.+; )?or ((?:init_chat_model|OpenAI)\(.+\))$", re.MULTILINE)
EXAMPLES = [
    *("langchain_agent_middleware.py", "langchain_agent_tool.py", "langchain_retriever_lcel.py"),
    *("llama_index_agent_memory_block.py", "llama_index_query_engine.py", "memory_tools.py"),
]

# LlamaIndex's workflows look at every attribute of an agent, deprecated ones of pydantic included.
pytestmark = pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")


class AnyChatModel(GenericFakeChatModel):
    """Knows nothing of the script, as the model of a provider would not."""

    def bind_tools(self, tools, **options):
        return self


def init_chat_model(name):
    assert name.startswith("openai:")
    return AnyChatModel(messages=(AIMessage("I see.") for _ in range(99)))


def OpenAI(*, model):  # noqa: N802 - LlamaIndex calls it so
    assert model
    return MockFunctionCallingLLM(
        response_generator=lambda *_, **__: ChatMessage(role="assistant", content="I see."), is_chat_model=True
    )


def test_these_are_all_that_name_a_provider_beside_a_model(examples):
    naming = {path.name for path in examples.glob("*.py") if COMMENT.search(path.read_text("utf-8"))}
    assert naming == set(EXAMPLES)


@pytest.mark.parametrize("file", EXAMPLES)
def test_one_changed_line_is_all_it_takes(file, examples, run_file, tmp_path):
    text, changes = COMMENT.subn(r"\1\2", (examples / file).read_text("utf-8"))
    assert changes == 1
    (tmp_path / file).write_text(text, "utf-8")
    names = {"init_chat_model": init_chat_model, "OpenAI": OpenAI}
    assert "I see." in run_file(tmp_path / file, names=names)
