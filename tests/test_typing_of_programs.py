"""What a program of yours writes passes ``mypy --strict`` as it is, without a plugin: the documented forms of arguments."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

PROGRAM = """
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool

from memory_retrievers import AgentMemory, Message
from memory_retrievers.langchain import ConversationMemory, MemoryRetriever, MemoryToolkit, RetrieveMemoryTool
from memory_retrievers.llama_index import LongTermMemoryBlock
from memory_retrievers.llama_index import MemoryRetriever as NodeRetriever


def build(memory: AgentMemory, config: RunnableConfig) -> list[BaseTool]:
    memory.add_messages("user/alice", [{"role": "user", "content": "Hi"}, Message(role="assistant", content="Hello")])
    of_each: BaseRetriever = MemoryRetriever(memory=memory)
    print(of_each.invoke("Where does she live?", config)[0].page_content)
    MemoryRetriever(memory=memory, scope="user/alice", detail="low", category="identity", since="2026-01-01", until=memory.now())
    NodeRetriever(memory, scope="user/alice", detail="low", category="identity", since="2026-01-01")
    ConversationMemory(memory=memory, scope="user/alice", detail="low")
    LongTermMemoryBlock(memory=memory, scope="user/alice", detail="low")
    return [RetrieveMemoryTool(memory=memory), *MemoryToolkit(memory, scope="user/alice").get_tools()]
"""


def test_what_the_documentation_writes_passes_mypy_without_a_plugin(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    arguments = ["--strict", "--follow-imports=silent", "--config-file=", "--cache-dir=cache", "program.py"]
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", *arguments],
        cwd=tmp_path,
        env=os.environ | {"MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.stdout.strip() == "Success: no issues found in 1 source file", checked.stdout + checked.stderr
