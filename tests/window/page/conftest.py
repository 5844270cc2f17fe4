"""What the tests of the page start from: a store in a directory, its window in a process of its own, a browser in it."""

import contextlib
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

from memory_retrievers import AgentMemory
from memory_retrievers.testing import HashEmbedder

EMBEDDER = "memory_retrievers.testing:HashEmbedder"


class Page:
    """A window in the browser, used by its keys."""

    def __init__(self, browser, address):
        self.browser, self.address = browser, address
        self.run, self.wait = browser.run, browser.wait

    def press(self, *keys, modifiers=0):
        self.browser.press(*keys, modifiers=modifiers)
        return self

    def write(self, text):
        self.browser.write(text)
        return self

    def open(self):
        """Show it, and wait until it is live."""
        self.browser.open(self.address)
        self.wait("document.getElementById('live').textContent === 'live'")
        return self

    def text(self, selector):
        return self.run(f"document.querySelector({selector!r})?.textContent ?? null")

    def texts(self, selector):
        return self.run(f"[...document.querySelectorAll({selector!r})].map(each => each.textContent)")

    def tab_to(self, condition, most=80):
        """Press Tab until what has the focus, ``it``, fulfils a condition."""
        for _ in range(most):
            self.press("Tab")
            if self.run(f"(it => Boolean({condition}))(document.activeElement)"):
                return self
        raise AssertionError(f"Tab does not lead to {condition}")

    def tab_to_button(self, label):
        return self.tab_to(f"it.tagName === 'BUTTON' && (it.ariaLabel ?? it.textContent) === {label!r}")

    def view(self, label):
        """Choose a view with Tab and arrows."""
        self.tab_to("it.role === 'tab'")
        for _ in range(6):
            if self.run("document.activeElement.textContent") == label:
                return self
            self.press("ArrowRight")
        raise AssertionError(f"there is no view {label}")

    def listed(self):
        """Wait until there are memories in the time line."""
        self.wait("document.querySelector('#list [role=option]') !== null")
        return self

    def open_first(self):
        """Open the first memory of the time line."""
        self.listed().tab_to("it.role === 'option'").press("Home", "Enter")
        self.wait("document.querySelector('#memory .fields') !== null")
        return self


@pytest.fixture
def store(tmp_path):
    """A directory with something of everything."""
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder()) as memory:
        fill(memory)
    return tmp_path / "store"


def fill(memory):
    """Something of everything that a window shows."""
    memory.remember_episode(
        scope="user/ruth",
        id="bees",
        title="Ruth buys bees",
        summary="Ruth bought two hives at the market in Lyon.",
        messages=[
            {"role": "user", "content": "I bought two hives today."},
            {"role": "assistant", "content": "What a plan!"},
        ],
        tags=["garden"],
    )
    memory.remember_fact(scope="user/ruth", id="home", fact="Ruth lives in Lyon", category="identity")
    memory.remember_fact(
        scope="user/ruth", id="tea", fact="Ruth drinks green tea in the morning", category="preference"
    )
    memory.remember_fact(scope="user/tom", id="goats", fact="Tom keeps goats", category="interest")
    memory.add_messages("user/ruth", [{"role": "user", "content": "Hello again."}])


@contextlib.contextmanager
def serving(store, *options):
    """The command ``ui`` in a process of its own; gives the process and the address that it prints."""
    command = [
        Path(sys.executable).with_name("memory-retrievers"),
        "ui",
        "--store",
        store,
        "--embedder",
        EMBEDDER,
        *options,
    ]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        assert "http" in line, line
        yield process, line.split()[-1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=PATIENCE)
        process.stdout.close()


@pytest.fixture
def window(browser, socket_enabled, store):
    """Open a window into the store, with options of the command."""
    with contextlib.ExitStack() as stack:

        def window(*options, at=store):
            _, address = stack.enter_context(serving(at, *options))
            browser.resize(1400, 900)
            return Page(browser, address).open()

        yield window
        browser.open("about:blank")


@pytest.fixture
def page(window):
    """An open window."""
    return window()
