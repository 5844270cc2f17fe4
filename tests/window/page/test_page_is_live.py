"""What other processes write is on the page within two seconds, and nobody loses their place by it."""

import contextlib
import sqlite3
import subprocess
import sys
import time

import pytest

from memory_retrievers import AgentMemory
from memory_retrievers.testing import HashEmbedder

WRITER = """
import sys, time
from memory_retrievers import AgentMemory
from memory_retrievers.testing import HashEmbedder
with AgentMemory.open(sys.argv[1], embedder=HashEmbedder()) as memory:
    for number in range(100_000):
        memory.remember_fact(scope="user/ruth", fact=f"Ruth saw bird number {number}")
        print(number, flush=True)
        time.sleep(0.1)
"""
ROWS = "document.querySelectorAll('#list [role=option]').length"
PROMISED = 2.0


@pytest.fixture
def written(store):
    """A process that writes all the time; gives a function that waits for the next fact that it has written."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, store], stdout=subprocess.PIPE, text=True)
    try:
        yield lambda: f"Ruth saw bird number {process.stdout.readline().strip()}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_what_a_process_writes_all_the_time_is_on_the_page_within_two_seconds(page, written):
    page.listed()
    written()
    late = []
    for _ in range(10):
        fact = written()
        began = time.monotonic()
        page.wait(f"[...document.querySelectorAll('#list .headline')].some(each => each.textContent === {fact!r})")
        late.append(time.monotonic() - began)

    assert max(late) < PROMISED, late
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
    page.run("new Promise(resolve => setTimeout(resolve, 1500))")  # what was begun is answered
    page.browser.events.clear()
    page.run("new Promise(resolve => setTimeout(resolve, 2500))")
    assert page.browser.requests == []
    page.run("delete document.hidden")
    page.wait("performance.getEntriesByType('resource').at(-1).name.includes('/api/')")
