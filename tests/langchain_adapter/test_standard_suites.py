"""The framework's own suites."""

import pytest
from langchain_tests.integration_tests import RetrieversIntegrationTests, ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests

from memory_retrievers.langchain import MemoryRetriever, RegistryTool, RetrieveMemoryTool
from memory_retrievers.tools.registry import REGISTRY


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


class _RecentMemoryTool:
    @property
    def tool_constructor(self):
        return RegistryTool(spec=REGISTRY["recent_memory"], memory=self.memory, scope="user/alice")

    @property
    def tool_invoke_params_example(self):
        return {"limit": 3}


class TestRecentMemoryToolAsUnit(_RecentMemoryTool, ToolsUnitTests):
    pass


class TestRecentMemoryToolIntegrated(_RecentMemoryTool, ToolsIntegrationTests):
    pass
