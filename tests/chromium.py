"""A real browser for the tests of pages."""

import contextlib
import json
import os
import select
import shutil
import subprocess
import time

import pytest
from patience import PATIENCE, until

KEYS = {  # name: code, number, and the text that it gives
    **{name: (name, number, "") for name, number in [("Tab", 9), ("Escape", 27), ("PageUp", 33), ("PageDown", 34)]},
    **{name: (name, number, "") for name, number in [("End", 35), ("Home", 36), ("ArrowLeft", 37), ("ArrowUp", 38)]},
    **{name: (name, number, "") for name, number in [("ArrowRight", 39), ("ArrowDown", 40), ("Backspace", 8)]},
    "Enter": ("Enter", 13, "\r"),
    " ": ("Space", 32, " "),
}
SHIFT, CONTROL = 8, 2


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

    def open(self, page):
        """Show a file, or what is at an address, and wait until it has loaded."""
        self.events.clear()
        self.ask("Page.navigate", url=page if isinstance(page, str) else page.as_uri())
        return self._loaded()

    def follow(self, script):
        """Run what leads to another page, and wait until that has loaded."""
        self.events.clear()
        self.run(script)
        return self._loaded()

    def run(self, script):
        """What an expression of JavaScript gives in the page."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, *keys, modifiers=0):
        """Press keys one after the other, as a person does: by name, or the letters that they give."""
        for key in keys:
            code, number, text = KEYS.get(key, ("", ord(key.upper()[0]), key))
            event = {"key": key, "code": code, "windowsVirtualKeyCode": number, "modifiers": modifiers}
            if modifiers & CONTROL:
                event["commands"] = ["selectAll"] if key == "a" else []
                text = ""
            self.ask("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **event)
            self.ask("Input.dispatchKeyEvent", type="keyUp", **event)
        return self

    def write(self, text):
        """Put a text where the focus is, all at once, as from the clipboard."""
        self.ask("Input.insertText", text=text)
        return self

    def wait(self, script, what=None):
        """Wait until an expression of JavaScript holds in the page, and give what it gave."""
        return until(lambda: self.run(script), what or script)

    def resize(self, width, height, *, dark=False):
        """Give the page a width, a height and a colour scheme."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.ask("Emulation.setEmulatedMedia", features=scheme)

    def told(self, *methods):
        return [event["params"] for event in self.events if event["method"] in methods]

    @property
    def complaints(self):
        """Everything that the console would show."""
        return self.told("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")

    @property
    def requests(self):
        return [request["request"]["url"] for request in self.told("Network.requestWillBeSent")]

    def _loaded(self):
        while not self.told("Page.loadEventFired"):
            self.events.append(self._next())
        return self

    def _next(self):
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], max(deadline - time.monotonic(), 0))
            assert ready, "the browser says nothing"
            read = os.read(self._answers, 1 << 20)
            assert read, "the browser has ended"
            self._buffer += read
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)


@contextlib.contextmanager
def started(profile):
    """Headless Chromium with a new profile in a directory; None where there is no Chromium."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        yield None
        return
    commands_in, commands = os.pipe()
    answers, answers_out = os.pipe()
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


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Headless Chromium; where there is none, the test is skipped, and fails where CI is set."""
    with started(tmp_path_factory.mktemp("chromium")) as browser:
        if browser is None:
            assert "CI" not in os.environ, "the tests of pages need Chromium"
            pytest.skip("there is no Chromium here")
        yield browser
