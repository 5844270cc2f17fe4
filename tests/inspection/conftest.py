"""What the inspection tests start from: a store with something of everything, hostile texts, and a real browser."""

import json
import os
import select
import shutil
import subprocess
import time
from datetime import timedelta

import pytest

from memory_retrievers import AgentMemory, EpisodicMemory, Message, SceneEvent, SemanticMemory
from memory_retrievers.testing import HashEmbedder

HOSTILE = (
    "</script><script>window.hacked=1</script>"
    "<!--<script><img src=http://127.0.0.1:9/x onerror=window.hacked=1>"
    "<svg/onload=window.hacked=1>\"'&amp;${title}$title\u2028\u2029\u202eevil\x00\x1b[31m"
)


HOSTILE_SCOPE = "user/<script>alert(1)<|script>\"'&${data}"


class Browser:
    """A tab of headless Chromium, spoken to over a pair of pipes; no socket is opened."""

    def __init__(self, process, commands, answers):
        self._process, self._commands, self._answers = process, commands, answers
        self._buffer, self._last, self._session = b"", 0, None
        self.events = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method, **parameters):
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._last:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, file):
        """Show a file and wait until it has loaded."""
        self.events.clear()
        self.ask("Page.navigate", url=file.as_uri())
        while not self.told("Page.loadEventFired"):
            self.events.append(self._next())
        return self

    def run(self, script):
        """What an expression of JavaScript gives in the page."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def told(self, *methods):
        return [event["params"] for event in self.events if event["method"] in methods]

    @property
    def complaints(self):
        """Everything that the console would show."""
        return self.told("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")

    @property
    def requests(self):
        return [request["request"]["url"] for request in self.told("Network.requestWillBeSent")]

    def _next(self):
        deadline = time.monotonic() + 60
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], max(deadline - time.monotonic(), 0))
            assert ready, "the browser says nothing"
            read = os.read(self._answers, 1 << 20)
            assert read, "the browser has ended"
            self._buffer += read
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Headless Chromium; where there is none, the test is skipped."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("there is no Chromium here")
    commands_in, commands = os.pipe()
    answers, answers_out = os.pipe()
    profile = tmp_path_factory.mktemp("chromium")
    process = subprocess.Popen(
        [  # 3 is where Chromium reads, 4 where it writes
            *("bash", "-c", f'exec "$@" 3<&{commands_in} 4>&{answers_out}', "bash"),
            *(found, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
            *("--disable-background-networking", f"--user-data-dir={profile}", "--remote-debugging-pipe"),
        ],
        pass_fds=(commands_in, answers_out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for end in (commands_in, answers_out):
        os.close(end)
    try:
        yield Browser(process, commands, answers)
    finally:
        for end in (commands, answers):  # without its pipes Chromium ends
            os.close(end)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture
def stocked(clock):
    """A memory in which there is something of everything that a page shows."""
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as memory:
        now = clock.now()
        memory.remember_episode(
            scope="user/ruth",
            id="bees",
            title="Ruth buys bees",
            summary="Ruth bought two hives at the market in Lyon.",
            messages=[
                Message(role="user", content="I bought two hives today."),
                Message(role="assistant", content="What a plan!"),
            ],
            surprise=0.8,
            created_at=now - timedelta(days=10),
            last_reviewed_at=now - timedelta(days=4),
            tags=["garden"],
        )
        wedding = EpisodicMemory.new(scope="user/ruth", id="wedding", summary="The wedding day", is_flashbulb=True)
        memory.remember_many([wedding])
        old = memory.remember_fact(scope="user/ruth", fact="Ruth lives in Lyon", category="identity")
        memory.invalidate(old.id, scope="user/ruth")
        memory.remember_fact(scope="user/ruth", fact="Ruth lives in Nantes", category="identity", keywords=["Nantes"])
        memory.remember_fact(scope="user/tom", fact="Tom keeps goats", category="interest")
        memory.retrieve("hives", scope="user/ruth")
        memory.add_messages("user/new", [Message(role="user", content="Hello, I am new.")])
        memory.add_scene_events(
            "story",
            [
                SceneEvent(
                    summary="Oren hid the key",
                    importance=5,
                    message_ids=[1],
                    characters_involved=["Oren"],
                    emotional_impact={"Oren": "afraid"},
                    location="the mill",
                )
            ],
        )
        yield memory


@pytest.fixture
def hostile_text():
    """A text that does all it can to become more than a text."""
    return HOSTILE


@pytest.fixture
def hostile_scope():
    """A scope that does."""
    return HOSTILE_SCOPE


@pytest.fixture
def hostile(clock):
    """A memory that has a hostile text wherever one can be stored."""
    shown = HOSTILE.replace("\x00", "")
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as memory:
        shared = {"scope": HOSTILE_SCOPE, "tags": [shown], "metadata": {shown: [shown, {shown: 1}]}, "agent_id": shown}
        memory.remember_many(
            [
                EpisodicMemory.new(
                    **shared,
                    id=f"e{shown}",
                    title=HOSTILE,
                    summary=HOSTILE,
                    messages=[Message(role=shown, content=HOSTILE)],
                ),
                SemanticMemory.new(
                    **shared, id=f"f{shown}", fact=HOSTILE, keywords=[shown], source_episodic_ids=[f"e{shown}"]
                ),
            ]
        )
        memory.retrieve(HOSTILE, scope=HOSTILE_SCOPE)
        memory.add_messages(HOSTILE_SCOPE, [Message(role=shown, content=HOSTILE)])
        memory.add_scene_events(
            HOSTILE_SCOPE,
            [
                SceneEvent(
                    summary=HOSTILE,
                    id=f"s{shown}",
                    message_ids=[1],
                    characters_involved=[shown],
                    emotional_impact={shown: shown},
                    location=shown,
                )
            ],
        )
        yield memory
