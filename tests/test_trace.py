"""A call passes no more files and asks the database no more than it did, as ``benchmarks/trace.py`` follows it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

TRACE = Path(__file__).parents[1] / "benchmarks" / "trace.py"

MOST = {
    "`AgentMemory.retrieve`": (15, 4),
    "`AgentMemory.remember_episode`": (26, 13),
    "LangChain `memory_store`": (41, 24),
}
"""Files and SQL statements at most: they may only come down."""


IN_A_PROCESS_OF_ITS_OWN = """
import json, pathlib, runpy, sys
traces = runpy.run_path(sys.argv[1])["traces"](pathlib.Path(sys.argv[2]))
print(json.dumps({name: [trace.files, trace.statements] for name, trace in traces.items()}))
"""
"""Here the memories of other tests, whichever moment they are closed at, take nothing of what is remembered along."""


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    command = [sys.executable, "-c", IN_A_PROCESS_OF_ITS_OWN, str(TRACE), str(tmp_path_factory.mktemp("store"))]
    return json.loads(subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE).stdout)


@pytest.mark.parametrize("call", MOST)
def test_a_call_passes_no_more_files_and_statements_than_it_did(traces, call):
    most_files, most_statements = MOST[call]
    files, statements = traces[call]
    asked = [each for each in statements if each.split()[0] not in {"BEGIN", "COMMIT", "ROLLBACK"}]
    assert len(set(files)) <= most_files, sorted(set(files))
    assert len(asked) <= most_statements, asked
