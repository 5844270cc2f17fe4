import subprocess
import sys

import pytest

import memory_retrievers.langchain as adapter

FORBIDDEN = ("langgraph", "langchain", "llama_index", "chromadb")


def run(code):
    return subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120)


def test_the_public_names_are_sorted_and_all_there():
    assert adapter.__all__ == sorted(adapter.__all__) == dir(adapter)
    assert all(getattr(adapter, name).__name__ == name for name in adapter.__all__)


def test_another_name_is_not_there():
    with pytest.raises(AttributeError, match=r"module 'memory_retrievers\.langchain' has no attribute 'Retriever'"):
        _ = adapter.Retriever


def test_importing_the_package_loads_no_framework():
    result = run("import sys, memory_retrievers.langchain; assert 'langchain_core' not in sys.modules")
    assert result.returncode == 0, result.stderr


def test_retriever_and_tools_need_nothing_but_langchain_core():
    result = run(
        f"""
import sys
for name in {FORBIDDEN}:
    sys.modules[name] = None  # importing it fails
from memory_retrievers.langchain import MemoryRetriever, RegistryTool, RetrieveMemoryTool
assert not [name for name in sys.modules if name.partition(".")[0] in {FORBIDDEN} and sys.modules[name]]
"""
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("missing", "hidden"),
    [
        (["langchain_classic"], {"ConversationMemory"}),
        (["langchain"], {"AgentMemoryMiddleware"}),
        (["langchain", "langgraph"], {"AgentMemoryMiddleware", "MemoryStoreAdapter"}),
    ],
)
def test_a_star_asks_for_no_extra_that_is_missing(missing, hidden):
    result = run(
        f"""
import sys
sys.modules.update(dict.fromkeys({missing}))
from memory_retrievers.langchain import *
print(*sorted(set(dir()) & set({adapter.__all__})))
"""
    )
    assert result.stdout.split() == [name for name in adapter.__all__ if name not in hidden], result.stderr


def test_a_package_that_somebody_has_stood_in_for_counts_as_installed():
    result = run(
        """
import sys
from types import ModuleType
sys.modules["langgraph"] = ModuleType("langgraph")
from memory_retrievers.langchain import MemoryRetriever
import memory_retrievers.langchain
print("MemoryStoreAdapter" in memory_retrievers.langchain.__all__)
"""
    )
    assert result.stdout.strip() == "True", result.stderr


def test_without_langchain_core_the_error_names_the_command_that_mends_it():
    result = run(
        """
import sys
sys.modules["langchain_core"] = None
import memory_retrievers.langchain
from memory_retrievers.errors import MissingExtraError
try:
    from memory_retrievers.langchain import MemoryRetriever
except MissingExtraError as error:
    print(error)
"""
    )
    assert result.stdout.strip() == (
        'langchain-core is not installed; run: pip install "memory-retrievers[langchain]"'
    ), result.stderr


@pytest.mark.parametrize(
    ("name", "module", "package", "extra"),
    [
        ("AgentMemoryMiddleware", "langchain", "langchain", "agents"),
        ("AgentMemoryMiddleware", "langgraph", "langgraph", "agents"),
        ("MemoryStoreAdapter", "langgraph", "langgraph", "agents"),
        ("ConversationMemory", "langchain_classic", "langchain-classic", "classic"),
    ],
)
def test_what_needs_more_says_which_extra_brings_it(name, module, package, extra):
    result = run(
        f"""
import sys
sys.modules[{module!r}] = None
import memory_retrievers.langchain as adapter
from memory_retrievers.errors import MissingExtraError
try:
    adapter.{name}
except MissingExtraError as error:
    print(error)
"""
    )
    assert result.stdout.strip() == f'{package} is not installed; run: pip install "memory-retrievers[{extra}]"', (
        result.stderr
    )


def test_another_missing_module_is_reported_as_what_it_is():
    result = run(
        """
import sys
sys.modules["memory_retrievers.retrieval.documents"] = None
from memory_retrievers.langchain import MemoryRetriever
"""
    )
    assert "ModuleNotFoundError: import of memory_retrievers.retrieval.documents halted" in result.stderr
