"""``RemoteToolbox``: the memory tools of a server, called by name."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from memory_retrievers import scopes
from memory_retrievers.remote.memory import RemoteMemory
from memory_retrievers.remote.transport import DEFAULT_TIMEOUT
from memory_retrievers.tools.spec import ToolContext, ToolOutput
from memory_retrievers.tools.toolbox import LocalToolbox


class RemoteToolbox:
    """All tools of the registry, on the memory of a server; answers as a ``LocalToolbox`` does.

    Args:
        url: Where the server is.
        token: The bearer token; None sends none.
        scope: Whose memory the tools work on; nothing a model says can leave it.
        allow_scopes: Whether models may name scopes below it; the server has to allow that too.
        timeout: Seconds to connect, to send, and between two pieces of an answer.
        retries: How often a request is tried again at most.
        sleep: Waits between attempts.

    Attributes:
        memory: The memory of the server.

    Raises:
        ConfigurationError: The URL is not one, or a number is not positive.
        ValidationError: The scope is malformed.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        scope: str,
        allow_scopes: bool = False,
        timeout: float = DEFAULT_TIMEOUT,
        retries: int = 3,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        scopes.parse(scope)
        self.memory = RemoteMemory(url, token, timeout=timeout, retries=retries, sleep=sleep)
        self._tools = LocalToolbox(ToolContext(memory=self.memory, root=scope, allow_scopes=allow_scopes))

    def call(self, name: str, arguments: Mapping[str, object]) -> ToolOutput:
        """Run a tool. What goes wrong is answered with the error object, a server that is silent included."""
        return self._tools.call(name, arguments)

    def close(self) -> None:
        """Let go of the connections."""
        self.memory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
