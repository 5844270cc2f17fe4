"""The framework's own suites."""

import pytest
from langchain_tests.integration_tests import RetrieversIntegrationTests, ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests

from memory_retrievers.langchain import MemoryRetriever, RegistryTool, RetrieveMemoryTool
from memory_retrievers.tools.registry import REGISTRY
from memory_retrievers.tools.tool import ToolPolicy


@pytest.fixture(autouse=True)
def _memory_for_the_suite(request, memory):
    request.instance.memory = memory


class TestMemoryRetriever(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self):
        return MemoryRetriever

    @property
    def retriever_constructor_params(self):
        return {"memory": self.memory, "scope": "user/alice"}

    @property
    def retriever_query_example(self):
        return "What happened in Lyon?"


class _RetrieveMemoryTool:
    @property
    def tool_constructor(self):
        return RetrieveMemoryTool

    @property
    def tool_constructor_params(self):
        return {"memory": self.memory, "scope": "user/alice"}

    @property
    def tool_invoke_params_example(self):
        return {"query": "Lyon", "episodic_limit": 2, "detail": "high"}


class TestRetrieveMemoryToolAsUnit(_RetrieveMemoryTool, ToolsUnitTests):
    pass


class TestRetrieveMemoryToolIntegrated(_RetrieveMemoryTool, ToolsIntegrationTests):
    pass


class _ToolOfTheRegistry:
    """One tool, with arguments that fit what the memory holds."""

    name: str

    @pytest.fixture(autouse=True)
    def _stocked(self, memory, stock, tool_examples):
        if isinstance(self, ToolsIntegrationTests):  # the other suite calls no tool
            stock(memory, "user/alice")
        self.example = next(arguments for name, _, arguments in tool_examples if name == self.name)

    @property
    def tool_constructor(self):
        rules = ToolPolicy(allow_scopes=True)
        return RegistryTool(spec=REGISTRY[self.name], memory=self.memory, scope="user/alice", rules=rules)

    @property
    def tool_invoke_params_example(self):
        return self.example


for _name in REGISTRY:
    for _suite in (ToolsUnitTests, ToolsIntegrationTests):
        _test = type(f"Test_{_name}_{_suite.__name__}", (_ToolOfTheRegistry, _suite), {"name": _name})
        globals()[_test.__name__] = _test
