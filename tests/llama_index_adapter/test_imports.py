import subprocess
import sys

import pytest

import memory_retrievers.llama_index as adapter


def run(code):
    return subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120)


def test_the_public_names_are_sorted_and_all_there():
    assert adapter.__all__ == sorted(adapter.__all__) == dir(adapter)
    assert all(getattr(adapter, name).__name__ == name for name in adapter.__all__)


def test_another_name_is_not_there():
    with pytest.raises(AttributeError, match=r"module 'memory_retrievers\.llama_index' has no attribute 'Memory'"):
        _ = adapter.Memory


def test_importing_the_package_loads_no_framework():
    result = run("import sys, memory_retrievers.llama_index; assert 'llama_index' not in sys.modules")
    assert result.returncode == 0, result.stderr


def test_everything_does_without_langchain():
    result = run(
        """
import sys
for name in ("langchain_core", "langchain", "langgraph"):
    sys.modules[name] = None  # importing it fails
from memory_retrievers.llama_index import ConversationMemory, LongTermMemoryBlock, MemoryRetriever, MemoryToolSpec
"""
    )
    assert result.returncode == 0, result.stderr


def test_without_llama_index_the_error_names_the_command_that_mends_it():
    result = run(
        """
import sys
sys.modules["llama_index"] = None
import memory_retrievers.llama_index
from memory_retrievers.errors import MissingExtraError
try:
    from memory_retrievers.llama_index import MemoryToolSpec
except MissingExtraError as error:
    print(error)
"""
    )
    assert result.stdout.strip() == (
        'llama-index-core is not installed; run: pip install "memory-retrievers[llama-index]"'
    ), result.stderr
