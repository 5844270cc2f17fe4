"""A memory on a server: asked over HTTP as from any language, and used in place of an ``AgentMemory``.

Run it with ``python examples/http_client.py``; it needs ``pip install "memory-retrievers[server,langchain]"``. It
starts a server of its own on this machine, and ends it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from memory_retrievers.langchain import MemoryRetriever
from memory_retrievers.remote import RemoteMemory

COMMAND = str(Path(sys.executable).parent / "memory-retrievers")
TOKEN = "only-for-this-example"  # noqa: S105 - a server of your own takes one of your own
SCOPE = "user/alice"


def main() -> None:
    """Talk to a server that lets this token write below one scope, and nowhere else."""
    with TemporaryDirectory() as store, serving(store) as url:  # or nullcontext("https://memory.example.com")
        # 1. as from any language
        headers = {"Authorization": f"Bearer {TOKEN}"}
        with httpx.Client(base_url=f"{url}/api/v0", headers=headers, timeout=60) as client:
            fact = {"fact": "Alice is allergic to peanuts", "category": "identity"}
            client.post("/remember", json={"conversation_id": SCOPE, "facts": [fact]}).raise_for_status()
            asked = {"conversation_id": SCOPE, "query": "What must I not cook for her?"}
            print(client.post("/retrieve_memory", json=asked).raise_for_status().text)
            other = client.post("/retrieve_memory", json=asked | {"conversation_id": "user/bo"})
            print(f"Bo's memory: {other.status_code}, {other.json()['error_type']}")
        # 2. from Python, in place of an AgentMemory
        with RemoteMemory(url, TOKEN) as memory:
            memory.remember_fact(scope=SCOPE, fact="Alice likes Thai food", category="preference")
            retriever = MemoryRetriever(memory=memory, scope=SCOPE, k=2)
            for document in retriever.invoke("What does Alice like to eat?"):
                print(f"{document.metadata['category']}: {document.page_content}")


@contextmanager
def serving(store: str) -> Iterator[str]:
    """What ``memory-retrievers serve`` does in a terminal, and its address."""
    environment = os.environ | {"MEMORY_RETRIEVERS_TOKENS": f"{TOKEN} read-write {SCOPE}"}
    command = [COMMAND, "serve", "--store", store, "--port", "0"]  # any port that is free
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            assert process.stdout is not None  # noqa: S101 - it is a pipe
            yield process.stdout.readline().split()[-1]  # "serving ./store at http://127.0.0.1:54321"
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
