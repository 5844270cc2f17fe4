"""The processes of ``windows.py``: started, asked one thing at a time, killed at any moment, and started again."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from windows_worker import EMBEDDER, EMBEDDER_ID

PATIENCE: Final = 90.0
"""Seconds after which a process that does not answer is stuck; it is killed, and the run has failed."""

_AT_ONCE: Final = 1 << 16
_COMMAND: Final = Path(sys.executable).parent / "memory-retrievers"
_HERE: Final = Path(__file__).parent


class GoneError(Exception):
    """The process ended before it answered."""


class StuckError(Exception):
    """The process did not answer in time."""


class Process(ABC):
    """A process that answers requests in order, a line each.

    Args:
        store: The directory of the store.
        scope: The scope it serves, where it serves a single one.
        log: The file that gets what it says on standard error.
    """

    def __init__(self, store: Path, *, scope: str, log: Path) -> None:
        self.was_killed = False
        self._rest = b""
        with log.open("ab") as errors:
            self._popen = subprocess.Popen(  # noqa: S603 - our own
                self._command(store, scope), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, bufsize=0
            )
        self._greet()

    @abstractmethod
    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Do one thing, as ``windows_worker`` names it, and give its answer: ``ok``, and ``told`` if it is False.

        Raises:
            GoneError: It has ended.
            StuckError: It does not answer.
        """

    def kill(self) -> None:
        """End it at once, whatever it is doing."""
        self.was_killed = True
        self._popen.send_signal(signal.SIGKILL)

    def close(self) -> int | None:
        """Let it end by itself, and give how it ended; None if it had to be killed."""
        for pipe in (self._popen.stdin, self._popen.stdout):
            if pipe is not None:
                pipe.close()
        try:
            return self._popen.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
            return None

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._popen.pid

    @abstractmethod
    def _command(self, store: Path, scope: str) -> list[str]: ...

    @abstractmethod
    def _greet(self) -> None: ...

    def _say(self, line: Mapping[str, object]) -> None:
        assert self._popen.stdin is not None
        try:
            self._popen.stdin.write(json.dumps(line).encode() + b"\n")
        except BrokenPipeError as error:
            raise GoneError from error

    def _hear(self) -> dict[str, Any]:
        assert self._popen.stdout is not None
        deadline, output = time.monotonic() + PATIENCE, self._popen.stdout.fileno()
        while b"\n" not in self._rest:
            if not select.select([output], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise StuckError(f"process {self.pid} gave no answer in {PATIENCE:.0f} s")
            part = os.read(output, _AT_ONCE)
            if not part:
                raise GoneError
            self._rest += part
        line, self._rest = self._rest.split(b"\n", 1)
        heard: dict[str, Any] = json.loads(line)
        return heard


class Library(Process):
    """A process that has opened the store by ``AgentMemory.open``."""

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self._say(request)
        return self._hear()

    def _command(self, store: Path, scope: str) -> list[str]:  # noqa: ARG002 - it is asked about any scope
        return [sys.executable, str(_HERE / "windows_worker.py"), str(store)]

    def _greet(self) -> None:
        self._hear()


class Server(Process):
    """``memory-retrievers mcp`` over standard input and output, as every window of a coding agent starts one."""

    _last = 0

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Like the method of the class; what a server is asked are calls of tools."""
        began = time.perf_counter()
        answer = self._call(*_TOOLS[request["do"]](request))
        seconds = time.perf_counter() - began
        text = "\n".join(part["text"] for part in answer["content"])
        if answer.get("isError"):
            return {"ok": False, "told": text, "seconds": seconds}
        if request["do"] == "search":
            return {"ok": True, "texts": text.splitlines(), "seconds": seconds}
        told = json.loads(text)
        return {"ok": True, "fact": told.get("memory_id"), "duplicate": told.get("duplicate_of"), "seconds": seconds}

    def _command(self, store: Path, scope: str) -> list[str]:
        named = ["--embedder", EMBEDDER, "--embedder-id", EMBEDDER_ID]
        return [str(_COMMAND), "mcp", "--store", str(store), "--scope", scope, *named]

    def _greet(self) -> None:
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "windows", "version": "1"}}
        self._asked("initialize", about)
        self._say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _call(self, name: str, arguments: Mapping[str, object]) -> dict[str, Any]:
        return self._asked("tools/call", {"name": name, "arguments": arguments})

    def _asked(self, method: str, parameters: Mapping[str, object]) -> dict[str, Any]:
        self._last += 1
        self._say({"jsonrpc": "2.0", "id": self._last, "method": method, "params": parameters})
        while (heard := self._hear()).get("id") != self._last:
            pass  # a notification
        if "error" in heard:
            return {"content": [{"text": json.dumps(heard["error"])}], "isError": True}
        answer: dict[str, Any] = heard["result"]
        return answer


_Call: TypeAlias = tuple[str, dict[str, object]]
_BRIEFLY: Final = {"response_level": "minimal"}
_TOOLS: Final[Mapping[str, Callable[[Mapping[str, Any]], _Call]]] = {
    "fact": lambda asked: ("memory_store", {"content": asked["text"]} | _BRIEFLY),
    "update": lambda asked: ("memory_update", {"id": asked["fact"], "content": asked["text"]} | _BRIEFLY),
    "forget": lambda asked: ("memory_delete", {"id": asked["fact"]} | _BRIEFLY),
    "search": lambda asked: ("retrieve_memory", {"query": asked["text"]}),
}
"""What a client calls for each request."""
