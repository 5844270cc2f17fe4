"""Windows on one store: threads, each with a process of its own that is asked for one thing after the other."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fleet_process import RATED, RATED_EPISODES, ROLES, WORDS
from windows_processes import GoneError, Process, StuckError

SOON: Final = 1.0
"""Seconds within which another process looks for what was written."""

IMPORTED: Final = "taken/in"
TAKEN_IN: Final = 500
"""Memories that an import brings at once."""


LONG: Final = ("reembed", "take in", "purge")
"""What goes through the whole store, or takes in much at once, and so takes its time without waiting for anybody."""


@dataclass(frozen=True, slots=True)
class Check:
    """A write that another process has yet to look for.

    Attributes:
        writer: Who wrote it.
        scope: The scope.
        fact: Id of the fact.
        text: What it says.
        is_there: Whether it must be found; what was forgotten must not be.
        since: When it was acknowledged.
    """

    writer: Window
    scope: str
    fact: str
    text: str
    is_there: bool
    since: float


@dataclass(slots=True)
class Account:
    """What all windows tell.

    Attributes:
        checks: Writes that have yet to be looked for.
        looked_after: Seconds from each acknowledgement to the search for it.
        refused: What a living process has answered with an error.
        wrong: Searches that did not find what was there, or found what was not.
        ended: Processes that ended although nobody killed them, or did not answer.
        waited: Seconds of the longest call, but for those of ``LONG``.
        took: Seconds of the longest call of each of ``LONG``.
        seconds: By what was done, the seconds of each acknowledged call.
    """

    checks: deque[Check] = field(default_factory=deque)
    looked_after: list[float] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    waited: float = 0.0
    took: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=dict)


class Window(threading.Thread):
    """Makes one call after the other; a process that was killed is replaced, and what it was doing not asked again.

    Args:
        name: Of its messages and facts.
        start: Starts a process.
        scopes: The scopes that the process serves.
        does: What it does, and how often beside the others.
        account: What all windows tell.
        ending: Set when it is to come to its end.

    Attributes:
        journal: A line for every call, as ``fleet_account`` reads it.
        process: What it asks now; None before the first has begun.
    """

    def __init__(
        self,
        name: str,
        start: Callable[[], Process],
        *,
        scopes: Sequence[str],
        does: Mapping[str, int],
        account: Account,
        ending: threading.Event,
    ) -> None:
        super().__init__(name=name)
        self.journal: list[dict[str, Any]] = []
        self.process: Process | None = None
        self.ready = threading.Event()
        self._start = start
        self._scopes, self._does = scopes, does
        self._account, self._ending = account, ending
        self._random = random.Random(name)
        self._settled: list[tuple[str, str, str]] = []
        self._count = 0

    def run(self) -> None:
        """Start a process, and another one whenever it is gone, until the end."""
        while not self._ending.is_set():
            try:
                self.process = self._start()
            except (GoneError, StuckError) as error:
                self._account.ended.append(f"{self.name} could not be started: {error!r}")
                return
            self.ready.set()
            try:
                while not self._ending.is_set():
                    self._step()
            except GoneError:
                code = self.process.close()
                if not self.process.was_killed:
                    self._account.ended.append(f"{self.name} ended by itself with {code}")
            except StuckError as error:
                self._account.ended.append(f"{self.name}: {error}")
                self.process.kill()
                self.process.close()
            else:
                if (code := self.process.close()) != 0 and not self.process.was_killed:
                    self._account.ended.append(f"{self.name} ended with {code} when it was to end")

    def _step(self) -> None:
        check = self._next_check()
        if check is not None:
            self._look(check)
            return
        (what,) = self._random.choices(list(self._does), list(self._does.values()))
        request = self._request(what)
        line: dict[str, Any] = {"did": "stored", "ok": False} | {
            name: value for name, value in request.items() if name != "do"
        }
        if request["do"] != "fact" or "fact" in request:  # the id of what a tool stores comes with the answer
            line["did"] = request["do"]
        if request["do"] == "forget":
            line.pop("text", None)  # there is to be none
        self.journal.append(line)
        answer = self._asked(request)
        if not answer["ok"]:
            self._account.refused.append(f"{self.name}, {request['do']}: {answer['told']}")
            return
        line |= {"did": request["do"], "ok": True}
        line |= {name: answer[name] for name in ("fact", "episodes", "reviews") if answer.get(name) is not None}
        if request["do"] in {"fact", "update", "forget"}:
            self._account.checks.append(
                Check(self, line["scope"], line["fact"], request["text"], request["do"] != "forget", time.monotonic())
            )

    def _next_check(self) -> Check | None:
        """The oldest that this process can look for."""
        for check in list(self._account.checks):
            if check.writer is not self and check.scope in self._scopes:
                try:
                    self._account.checks.remove(check)
                except ValueError:  # another window was faster
                    continue
                return check
        return None

    def _look(self, check: Check) -> None:
        self._account.looked_after.append(time.monotonic() - check.since)
        try:
            answer = self._asked({"do": "search", "scope": check.scope, "text": check.text})
        except BaseException:
            self._account.checks.appendleft(check)
            raise
        if not answer["ok"]:
            self._account.refused.append(f"{self.name}, search: {answer['told']}")
        elif any(check.text in text for text in answer["texts"]) != check.is_there:
            told = "not found by" if check.is_there else "forgotten and found by"
            self._account.wrong.append(f"{check.text!r} of {check.writer.name} in {check.scope} is {told} {self.name}")
        if check.is_there:
            check.writer._settled.append((check.scope, check.fact, check.text))  # noqa: SLF001 - of the same class

    def _asked(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self.process is not None
        began = time.monotonic()
        try:
            answer = self.process.ask(request)
        finally:
            seconds, what = time.monotonic() - began, request["do"]
            if what in LONG:
                self._account.took[what] = max(self._account.took.get(what, 0.0), seconds)
            else:
                self._account.waited = max(self._account.waited, seconds)
        if answer["ok"]:
            kind = f"{type(self.process).__name__} {request['do']}"
            self._account.seconds.setdefault(kind, []).append(answer["seconds"])
        return answer

    def _request(self, what: str) -> dict[str, Any]:
        scope = self._random.choice(self._scopes)
        if what in {"update", "forget"} and self._settled:
            scope, fact, text = self._settled.pop(self._random.randrange(len(self._settled)))
            return {"do": what, "scope": scope, "fact": fact, "text": text if what == "forget" else self._text()}
        match what:
            case "messages":
                texts = [self._text() for _ in range(self._random.randint(1, 4))]
                details: dict[str, Any] = {"texts": texts, "roles": [self._random.choice(ROLES) for _ in texts]}
            case "review":
                details = {"scope": RATED, "id": f"rated-{self._random.randrange(RATED_EPISODES)}"}
            case "search":
                details = {"text": " ".join(self._random.sample(WORDS, 3))}
            case "take in":
                details = {"texts": [self._text() for _ in range(TAKEN_IN)]}
            case "process" | "flush" | "reembed" | "purge":
                details = {}
            case "store":
                details = {"do": "fact", "text": self._text()}
            case _:
                text = self._text()
                details = {"do": "fact", "fact": f"fact-{text.split()[0]}", "text": text}
        return {"do": what, "scope": scope} | details

    def _text(self) -> str:
        self._count += 1
        return f"{self.name}x{self._count}q {' '.join(self._random.sample(WORDS, 4))}"


OF_APPLICATIONS: Final = {
    "fact": 20, "messages": 20, "search": 15, "process": 10, "flush": 2, "review": 8, "update": 8, "forget": 6,
}  # fmt: skip
"""What a process does that has opened the store itself, by how often."""

OF_SERVERS: Final = {"store": 25, "search": 20, "update": 6, "forget": 4}
"""Likewise of an MCP server, by its tools."""
