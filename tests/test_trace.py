"""A call passes no more files and asks the database no more than it did, as ``benchmarks/trace.py`` follows it."""

import importlib.util
import sys
from pathlib import Path

import pytest

TRACE = Path(__file__).parents[1] / "benchmarks" / "trace.py"

MOST = {
    "`AgentMemory.retrieve`": (15, 4),
    "`AgentMemory.remember_episode`": (26, 13),
    "LangChain `memory_store`": (41, 24),
}
"""Files and SQL statements at most: they may only come down."""


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    spec = importlib.util.spec_from_file_location("benchmark_trace", TRACE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module.traces(tmp_path_factory.mktemp("store"))
    del sys.modules[spec.name]


@pytest.mark.parametrize("call", MOST)
def test_a_call_passes_no_more_files_and_statements_than_it_did(traces, call):
    files, statements = MOST[call]
    asked = [each for each in traces[call].statements if each.split()[0] not in {"BEGIN", "COMMIT", "ROLLBACK"}]
    assert len(set(traces[call].files)) <= files, sorted(set(traces[call].files))
    assert len(asked) <= statements, asked
