"""The shelf: what is public, and what importing it costs."""

import re
import subprocess
import sys

import memory_retrievers


def loaded_after(statement):
    """The top-level packages a fresh interpreter holds after the statement."""
    code = f"import sys\n{statement}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_public_names_are_these():
    assert sorted(memory_retrievers.__all__) == [
        "AdoptionReport", "AgentMemory", "BackendError", "BatchOperationError", "Category", "CharacterState", "ConfigurationError", "DetailLevel", "DiskFullError", "EmbeddingError",
        "EmbeddingMismatchError", "EpisodicMemory", "Explanation", "IndexOutOfStepError", "IngestionSettings", "LanguageModelError",
        "MemoryRetrieversError", "Message", "MissingExtraError", "NotFoundError", "Page", "PendingReview", "Queued", "Rating", "RecentResult", "Report",
        "RetrievalResult", "RetrievalSettings", "RetrievedMemory", "ReviewSettings", "SceneDetails", "SceneEvent", "SceneSettings", "ScopeStatistics", "SemanticMemory", "StoreLockedError", "ToolSettings",
        "ValidationError", "VerificationReport",
    ]  # fmt: skip
    assert all(hasattr(memory_retrievers, name) for name in memory_retrievers.__all__)


def test_importing_the_package_loads_no_framework_no_chromadb_and_no_numpy():
    loaded = loaded_after("import memory_retrievers")
    heavy = {
        "numpy",
        "chromadb",
        "onnxruntime",
        "tokenizers",
        "rank_bm25",
        "langchain",
        "langchain_core",
        "langgraph",
        "llama_index",
    }
    assert not loaded & heavy


def test_the_langchain_adapter_loads_no_langgraph():
    loaded = loaded_after("from memory_retrievers.langchain import MemoryRetriever, RetrieveMemoryTool")
    assert "langchain_core" in loaded
    assert not loaded & {"langgraph", "langchain", "llama_index", "chromadb", "numpy"}


def test_opening_and_retrieving_loads_no_chromadb(tmp_path):
    loaded = loaded_after(
        "from memory_retrievers import AgentMemory\n"
        "from memory_retrievers.testing import HashEmbedder\n"
        f"memory = AgentMemory.open({str(tmp_path)!r}, embedder=HashEmbedder())\n"
        "memory.remember_fact(scope='c', fact='x'); memory.retrieve('x', scope='c'); memory.close()"
    )
    assert "chromadb" not in loaded
    assert "onnxruntime" not in loaded


def test_a_memory_that_searches_exactly_needs_neither_chromadb_nor_with_its_own_embedder_onnxruntime(tmp_path):
    loaded = loaded_after(
        "class NotInstalled:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name in {'chromadb', 'onnxruntime', 'tokenizers'}: raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, NotInstalled())\n"
        "from memory_retrievers import AgentMemory, RetrievalSettings\n"
        "from memory_retrievers.testing import HashEmbedder\n"
        f"memory = AgentMemory.open({str(tmp_path / 'store')!r}, embedder=HashEmbedder(), dense='exact',\n"
        "    retrieval=RetrievalSettings(exact_limit=5))\n"
        "for n in range(20): memory.remember_fact(scope='c', fact=f'fact number {n}')\n"
        "assert len(memory.retrieve('fact', scope='c').semantic) == 20\n"
        "assert memory.verify().ok\n"
        f"memory.backup({str(tmp_path / 'copy')!r}); memory.export({str(tmp_path / 'x.jsonl')!r})\n"
        "memory.forget_scope('c'); memory.purge(); memory.close()"
    )
    assert "memory_retrievers" in loaded


def test_every_error_derives_from_the_root():
    errors = [
        value
        for name in memory_retrievers.__all__
        if name.endswith("Error") and (value := getattr(memory_retrievers, name))
    ]
    assert len(errors) == 13
    assert all(issubclass(error, memory_retrievers.MemoryRetrieversError) for error in errors)


def test_the_error_tree_in_the_docstring_is_the_real_one():
    from memory_retrievers import errors

    drawn = set(re.findall(r"\w+Error\b", errors.__doc__)) - {"ValueError", "LookupError", "ImportError"}
    assert drawn == set(errors.__all__)


def test_a_missing_extra_names_the_command_that_mends_it():
    error = memory_retrievers.MissingExtraError("langchain-core", extra="langchain")
    assert 'pip install "memory-retrievers[langchain]"' in str(error)
    assert isinstance(error, ImportError)
