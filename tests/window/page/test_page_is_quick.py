"""A scope of 100,000 memories: each step of scrolling and searching is drawn within a second, with few elements."""

import os
import time
from collections import defaultdict
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from memory_retrievers import AgentMemory, SemanticMemory
from memory_retrievers.testing import HashEmbedder

MEMORIES = 100_000
PROMISED = 1.0
"""Seconds that a step may take: of work always, and by the clock whenever nothing else holds the machine up."""

DRAWN = "document.querySelectorAll('#list [role=option]').length"


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A store with a large scope."""
    store = tmp_path_factory.mktemp("large") / "store"
    birds = ("heron", "swift", "wren", "kestrel", "plover", "dunlin", "siskin")
    with AgentMemory.open(store, embedder=HashEmbedder()) as memory:
        for begin in range(0, MEMORIES, 10_000):
            memory.remember_many(
                SemanticMemory.new(
                    scope="birds", id=f"b{n:06}", fact=f"Sighting {n}: a {birds[n % 7]} at pond {n % 911}"
                )
                for n in range(begin, begin + 10_000)
            )
    return store


pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="work is not told here")


def work():
    """Processor seconds of all that this process has started: the window and the browser."""
    children, ticks = defaultdict(list), {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            pid, fields = int(path.parent.name), path.read_text("utf-8", "replace").rpartition(")")[2].split()
            children[int(fields[1])].append(pid)
            ticks[pid] = int(fields[11]) + int(fields[12])

    def below(pid):
        return sum(ticks[child] + below(child) for child in children[pid])

    return below(os.getpid()) / os.sysconf("SC_CLK_TCK")


class Steps:
    """What each step took, by its kind: of work, and by the clock."""

    def __init__(self):
        self.work, self.clock = defaultdict(list), defaultdict(list)

    def take(self, kind, step):
        began, before = time.monotonic(), work()
        step()
        self.work[kind].append(work() - before)
        self.clock[kind].append(time.monotonic() - began)

    def are_quick(self):
        worked = {kind: max(took) for kind, took in self.work.items()}
        waited = {kind: min(took) for kind, took in self.clock.items()}
        assert max(worked.values()) < PROMISED, worked
        assert max(waited.values()) < PROMISED, waited
        return True


def shown(page, script, ready):
    """Run what makes the page show something, and wait until it is there."""
    page.run(script)
    page.wait(ready)


def test_a_hundred_thousand_memories_are_scrolled_and_searched(window, large):
    page = window(at=large).listed()
    page.wait("document.getElementById('loaded').textContent.includes('of 100,000')")
    steps = Steps()
    for _ in range(60):
        before = page.run("document.querySelector('#list .spacer').offsetHeight")
        down = "(list => { list.scrollTop = list.scrollHeight })(document.getElementById('list'))"
        longer = f"document.querySelector('#list .spacer').offsetHeight > {before}"
        steps.take("scroll", partial(shown, page, down, longer))
        assert page.run(DRAWN) < 60

    page.tab_to("it.role === 'option'")
    drawn = "new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(resolve)))"
    for key in ["End", "PageUp", "PageUp", "Home", "PageDown", "ArrowDown"] * 3:
        steps.take(key, lambda key=key: page.press(key).run(drawn))
        assert page.run("document.activeElement.role") == "option"
        inside = """(row => { const list = document.getElementById('list').getBoundingClientRect();
            return row.top >= list.top - 1 && row.bottom <= list.bottom + 1 })(document.activeElement.getBoundingClientRect())"""
        assert page.run(inside), key

    page.run("document.getElementById('tab-search').click()")
    ask = """(query => { document.getElementById('query').value = query;
        document.getElementById('hits').replaceChildren();
        document.getElementById('search').requestSubmit() })"""
    hits = "document.querySelectorAll('#hits .hit').length > 0"
    for n, bird in enumerate(("heron", "swift", "wren", "kestrel")):  # also the first: the scope has been read
        steps.take("search", partial(shown, page, f"{ask}('a {bird} at pond {n}')", hits))
    assert steps.are_quick()
    assert page.browser.complaints == []


def test_the_whole_time_line_can_be_read_to_its_other_end(window, large):
    page = window(at=large).listed()
    page.run(
        "(order => { order.value = 'oldest'; order.dispatchEvent(new Event('change', {bubbles: true})) })"
        "(document.querySelector('[name=order]'))"
    )
    page.wait("document.querySelector('#list .headline')?.textContent.startsWith('Sighting 0:') === true")
    page.run("document.getElementById('tab-line').focus()")
    page.tab_to("it.role === 'option'").press("End")
    page.wait("document.getElementById('loaded').textContent.startsWith('200 of')")
    assert page.run("document.querySelector('#list [role=option]').getAttribute('aria-setsize')") == "100000"
