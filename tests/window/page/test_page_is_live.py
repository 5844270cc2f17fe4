"""What other processes write is on the page by its second pulse, and nobody loses their place by it."""

import contextlib
import itertools
import sqlite3
import subprocess
import sys

import pytest
from patience import until

from memory_retrievers import AgentMemory
from memory_retrievers.testing import HashEmbedder

WRITER = """
import sys
from memory_retrievers import AgentMemory
from memory_retrievers.testing import HashEmbedder
with AgentMemory.open(sys.argv[1], embedder=HashEmbedder()) as memory:
    for number, _ in enumerate(sys.stdin):
        memory.remember_fact(scope="user/ruth", fact=f"Ruth saw bird number {number}")
        print(number, flush=True)
"""
ROWS = "document.querySelectorAll('#list [role=option]').length"
WATCH = """
window.pulses = () => performance.getEntriesByType('resource').filter(each => each.name.includes('/api/pulse'));
window.shown = {};
performance.setResourceTimingBufferSize(100_000);
new MutationObserver(() => {
    for (const each of document.querySelectorAll('#list .headline')) shown[each.textContent] ??= pulses().length;
}).observe(document.getElementById('list'), {childList: true, characterData: true, subtree: true});
"""
"""The page notes after how many pulses it has shown what, in whatever time."""


@pytest.fixture
def written(store):
    """A process that writes; gives a function that lets it write the next fact, and waits for that."""
    arguments = [sys.executable, "-c", WRITER, store]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def written():
            process.stdin.write("\n")
            process.stdin.flush()
            return f"Ruth saw bird number {process.stdout.readline().strip()}"

        try:
            yield written
        finally:
            process.kill()


def test_what_a_process_writes_is_on_the_page_by_its_second_pulse_and_there_is_one_a_second(page, written):
    page.listed()
    page.run(WATCH)
    late = []
    for _ in range(10):
        fact, before = written(), page.run("pulses().length")
        page.wait(f"{fact!r} in shown")
        late.append(page.run(f"shown[{fact!r}]") - before)
    pulses = page.run("pulses().map(each => each.startTime)")

    assert max(late) <= 2, late
    assert min(then - before for before, then in itertools.pairwise(pulses)) < 1_500
    assert page.browser.complaints == []


def test_scroll_and_focus_stay_while_others_write(window, store, written):
    with AgentMemory.open(store, embedder=HashEmbedder()) as memory:
        memory.remember_many(
            [memory.get("tea", scope="user/ruth").model_copy(update={"id": f"t{n}"}) for n in range(300)]
        )
    page = window().listed()
    page.tab_to("it.role === 'option'").press("Home", *["PageDown"] * 4)
    where = """(() => { const row = document.activeElement;
        return [row.dataset.key, Math.round(row.getBoundingClientRect().top)] })()"""
    before = page.run(where)
    known = page.run("Number(document.activeElement.getAttribute('aria-posinset'))")
    for _ in range(10):
        written()
    page.wait(f"Number(document.activeElement.getAttribute('aria-posinset')) >= {known + 5}")

    assert page.run(where) == before
    assert page.run("!document.getElementById('newer').hidden")
    page.press("ArrowDown")
    assert page.run("document.activeElement.role") == "option"
    page.run("document.getElementById('newer').focus()")
    page.press("Enter")
    page.wait("document.getElementById('list').scrollTop === 0")
    assert page.run("document.activeElement.getAttribute('aria-posinset')") == "1"


def test_a_new_scope_and_what_is_forgotten_elsewhere(page, store):
    page.listed()
    with AgentMemory.open(store, embedder=HashEmbedder()) as memory:
        memory.remember_fact(scope="user/zoe", fact="Zoe is new")
        memory.forget("bees", scope="user/ruth")
        page.wait("[...document.querySelectorAll('#tree .name')].some(each => each.textContent === 'zoe')")
        page.wait(f"{ROWS} === 3")
        page.tab_to("it.role === 'option'").press("End", "Enter")
        page.wait("document.querySelector('#memory .acts') !== null")
        page.tab_to_button("Correct").press("Enter")
        page.write("half a sen")
        memory.remember_fact(scope="user/ruth", fact="Ruth sleeps")
        page.wait(f"{ROWS} === 4")
    assert page.run("document.activeElement.id") == "dialog-field"
    assert "half a sen" in page.run("document.activeElement.value")


def test_a_store_that_has_become_newer_is_a_sentence_on_the_page(page, store):
    page.listed()
    with contextlib.closing(sqlite3.connect(store / "memory.db")) as other:
        (version,) = other.execute("PRAGMA user_version").fetchone()
        other.execute("PRAGMA user_version = 99")
    page.wait("document.getElementById('trouble').textContent.includes('newer version')")
    assert page.run(ROWS) == 4
    page.view("Search").tab_to("it.id === 'query'").write("tea").press("Enter")
    page.wait("document.getElementById('trouble').textContent.includes('newer version')")
    with contextlib.closing(sqlite3.connect(store / "memory.db")) as other:
        other.execute(f"PRAGMA user_version = {version}")
    page.wait("document.getElementById('live').textContent === 'live'")
    page.wait("document.getElementById('trouble').textContent === ''")


def test_a_page_that_is_not_seen_asks_nothing(page):
    page.listed()
    page.run("Object.defineProperty(document, 'hidden', {configurable: true, value: true})")

    def is_silent():
        page.browser.events.clear()
        page.run("new Promise(resolve => setTimeout(resolve, 2500))")
        return page.browser.requests == []

    until(is_silent, "the end of the questions")  # what was begun may be answered late
    page.run("delete document.hidden")
    page.wait("performance.getEntriesByType('resource').at(-1).name.includes('/api/')")
