"""A scope of 100,000 memories: each step of scrolling and searching is drawn within a second, with few elements."""

import time

import pytest

from memory_retrievers import AgentMemory, SemanticMemory
from memory_retrievers.testing import HashEmbedder

MEMORIES = 100_000
PROMISED = 1.0
"""Seconds that a step may take."""

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


def timed(page, script, ready):
    """How long it takes until something is there, in processor time or more."""
    began = time.monotonic()
    page.run(script)
    page.wait(ready)
    return time.monotonic() - began


def test_a_hundred_thousand_memories_are_scrolled_and_searched(window, large):
    page = window(at=large).listed()
    page.wait("document.getElementById('loaded').textContent.includes('of 100,000')")
    took = []
    for _ in range(60):
        before = page.run("document.querySelector('#list .spacer').offsetHeight")
        took.append(
            timed(
                page,
                "(list => { list.scrollTop = list.scrollHeight })(document.getElementById('list'))",
                f"document.querySelector('#list .spacer').offsetHeight > {before}",
            )
        )
        assert page.run(DRAWN) < 60
    assert max(took) < PROMISED, took

    page.tab_to("it.role === 'option'")
    took = []
    for key in ["End", "PageUp", "PageUp", "Home", "PageDown", "ArrowDown"] * 3:
        began = time.monotonic()
        page.press(key)
        page.run("new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(resolve)))")
        took.append(time.monotonic() - began)
        assert page.run("document.activeElement.role") == "option"
        inside = """(row => { const list = document.getElementById('list').getBoundingClientRect();
            return row.top >= list.top - 1 && row.bottom <= list.bottom + 1 })(document.activeElement.getBoundingClientRect())"""
        assert page.run(inside), key
    assert max(took) < PROMISED, took

    page.run("document.getElementById('tab-search').click()")
    ask = """(query => { document.getElementById('query').value = query;
        document.getElementById('hits').replaceChildren();
        document.getElementById('search').requestSubmit() })"""
    took = [  # also the first: the scope has been read since it was opened
        timed(page, f"{ask}('a {bird} at pond {n}')", "document.querySelectorAll('#hits .hit').length > 0")
        for n, bird in enumerate(("heron", "swift", "wren", "kestrel"))
    ]
    assert max(took) < PROMISED, took
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
