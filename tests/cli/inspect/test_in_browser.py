"""What the page does in a real browser: it draws, it searches, and it neither runs nor loads what is not its own."""

import pytest

from memory_retrievers import AgentMemory
from memory_retrievers.cli.inspect import page_of, survey_of
from memory_retrievers.testing import HashEmbedder

COUNT_SHOWN = "document.querySelectorAll('.memory:not([hidden])').length"
HEADLINES = "[...document.querySelectorAll('.memory:not([hidden]) .headline')].map(each => each.textContent)"


@pytest.fixture
def show(browser, tmp_path):
    """Write the page of a memory and open it."""

    def show(memory, **arguments):
        file = tmp_path / "page.html"
        file.write_bytes(page_of(survey_of(memory, **arguments), title="store").encode())
        browser.open(file)
        assert browser.requests == [file.as_uri()]
        return browser

    return show


@pytest.fixture
def type_in(browser):
    """Fill a field in, as a person does."""

    def type_in(field, text):
        browser.run(
            f"(field => {{ field.value = {text!r}; field.dispatchEvent(new Event('input', {{bubbles: true}})) }})"
            f"(document.getElementById({field!r}))"
        )

    return type_in


def test_the_page_is_drawn_without_a_complaint_and_without_a_request(show, stocked):
    browser = show(stocked, explained=stocked.explain("Where does Ruth live?", scope="user/ruth"))

    assert browser.complaints == []
    assert browser.run("document.getElementById('title').textContent") == "store"
    assert browser.run(COUNT_SHOWN) == 6
    assert browser.run("document.querySelectorAll('.fading svg').length") == 3
    assert browser.run("document.querySelectorAll('.place .bar svg rect[class^=stage]').length") > 3
    assert browser.run("document.querySelectorAll('#characters td')[0].textContent") == "Oren"
    waiting = browser.run("document.getElementById('waiting').textContent")
    assert "Hello, I am new." in waiting
    assert "hives" in waiting


def test_what_a_store_does_not_hold_has_no_section(show, clock):
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as memory:
        browser = show(memory)

    hidden = "['ranking', 'waiting', 'characters'].map(id => document.getElementById(id).hidden)"
    assert browser.run(hidden) == [True, True, True]
    assert browser.complaints == []


def test_searching_shows_the_memories_in_which_every_word_stands(show, type_in, stocked):
    browser = show(stocked)

    type_in("search", "LYON hives")
    assert browser.run(HEADLINES) == ["Ruth buys bees"]
    assert browser.run("document.getElementById('found').textContent") == "1 of 6 shown"
    type_in("search", "what a plan")  # in a message
    assert browser.run(HEADLINES) == ["Ruth buys bees"]
    type_in("search", "garden")  # a tag
    assert browser.run(HEADLINES) == ["Ruth buys bees"]
    type_in("search", "no such words")
    assert browser.run(COUNT_SHOWN) == 0
    assert browser.run("document.getElementById('nothing').hidden") is False
    type_in("search", "")
    assert browser.run(COUNT_SHOWN) == 6


def test_kind_and_scope_filter_too(show, type_in, stocked):
    browser = show(stocked)

    type_in("kind", "semantic")
    assert sorted(browser.run(HEADLINES)) == ["Ruth lives in Lyon", "Ruth lives in Nantes", "Tom keeps goats"]
    type_in("scope", "user/tom")
    assert browser.run(HEADLINES) == ["Tom keeps goats"]
    assert browser.run("[...document.querySelectorAll('.group:not([hidden]) bdi')].map(each => each.textContent)") == [
        "user/tom"
    ]


def test_an_episode_opens_with_its_curve_and_its_messages(show, stocked):
    browser = show(stocked)  # rows are drawn when they come into view, so their text is read, not what is painted
    opened = browser.run("""new Promise(resolve => {
        const row = [...document.querySelectorAll('.memory')].find(each => each.textContent.includes('bees'));
        row.querySelector('details').addEventListener('toggle', () => resolve(row.textContent));
        row.querySelector('summary').click();
    })""")

    assert "Ruth bought two hives at the market in Lyon." in opened
    assert "What a plan!" in opened
    assert "Last reviewed 4 days ago" in opened
    assert browser.run("document.querySelectorAll('figure svg .line-review').length") == 1
    assert browser.run("document.querySelectorAll('figure svg .dot').length") == 1
    assert browser.complaints == []


def test_hostile_texts_are_shown_and_nothing_of_them_runs(show, hostile, hostile_text, hostile_scope):
    browser = show(hostile, explained=hostile.explain(hostile_text, scope=hostile_scope))
    browser.run("""new Promise(resolve => {
        for (const each of document.querySelectorAll('details')) each.open = true;
        setTimeout(resolve, 200);
    })""")

    assert browser.run("window.hacked") is None
    assert browser.run("document.images.length") == 0
    assert browser.run("document.scripts.length") == 2
    assert browser.run("document.querySelector('#question').textContent") == hostile_text.strip()
    assert browser.run(HEADLINES) == [hostile_text] * 3
    assert browser.complaints == []
    assert len(browser.requests) == 1


def test_the_browser_refuses_what_is_not_the_pages_own(show, stocked):
    browser = show(stocked)
    refused = """new Promise(resolve => {
        const found = [];
        document.addEventListener('securitypolicyviolation', event => {
            found.push(event.effectiveDirective);
            if (found.length === 4) resolve(found.sort());
        });
        try { document.body.innerHTML = '<b>x</b>'; } catch (error) {}
        const add = (name, values) => document.body.append(Object.assign(document.createElement(name), values));
        add('img', {src: 'http://127.0.0.1:9/picture'});
        add('link', {rel: 'stylesheet', href: 'http://127.0.0.1:9/style'});
        fetch('http://127.0.0.1:9/data').catch(() => {});
    })"""

    assert browser.run(refused) == ["connect-src", "img-src", "require-trusted-types-for", "style-src-elem"]
    tried = set(browser.requests[1:])  # the page itself comes first
    assert tried <= {"http://127.0.0.1:9/picture", "http://127.0.0.1:9/style"}
    assert [failed["blockedReason"] for failed in browser.told("Network.loadingFailed")] == ["csp"] * len(tried)
    assert browser.run(COUNT_SHOWN) == 6
