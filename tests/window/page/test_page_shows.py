"""What the page shows of a store, in a real browser and from a real server; it is used by its keys alone."""

from datetime import UTC, datetime, timedelta

import pytest

from memory_retrievers import AgentMemory
from memory_retrievers.testing import FixedClock, HashEmbedder

ROWS = "#list [role=option]"


@pytest.fixture
def aged(tmp_path):
    """A store that was filled a month ago, and changed since."""
    now = datetime.now(UTC)
    clock = FixedClock(now - timedelta(days=30))
    with AgentMemory.open(tmp_path / "aged", embedder=HashEmbedder(), clock=clock) as memory:
        memory.remember_fact(scope="user/ruth", id="home", fact="Ruth lives in Lyon", category="identity")
        memory.remember_fact(scope="user/ruth", id="pet", fact="Ruth has a dog", category="identity")
        memory.remember_episode(scope="user/ruth", id="walk", title="A walk", summary="Ruth walked by the Rhône.")
        clock.advance(days=28)
        memory.update("home", scope="user/ruth", fact="Ruth lives in Nantes")
        memory.invalidate("pet", scope="user/ruth")
        memory.remember_fact(scope="user/ruth", id="job", fact="Ruth repairs organs", category="identity")
    return tmp_path / "aged"


def test_the_first_scope_with_memories_is_open_and_nothing_is_complained_of(page):
    page.wait(f"document.querySelectorAll('{ROWS}').length === 4")

    assert page.text("#scope") == "user/ruth"
    assert page.texts("#tree .name")[:3] == ["user", "ruth", "tom"]
    assert any("Ruth buys bees" in row for row in page.texts(ROWS))
    assert page.browser.complaints == []
    own = page.address.partition("?")[0]
    assert {request for request in page.browser.requests if not request.startswith((own, "data:"))} == set()


def test_the_tree_is_walked_with_arrows(page):
    page.listed().tab_to("it.role === 'treeitem'")
    assert page.run("document.activeElement.dataset.scope") == "user/ruth"
    page.press("ArrowDown", "Enter")
    page.wait(f"document.querySelectorAll('{ROWS}').length === 1")
    assert page.text("#scope") == "user/tom"

    page.press("ArrowLeft", "ArrowLeft")
    assert page.run("document.activeElement.dataset.scope") == "user"
    assert page.run("document.activeElement.getAttribute('aria-expanded')") == "false"
    page.press("ArrowRight", "ArrowRight")
    assert page.run("document.activeElement.dataset.scope") == "user/ruth"
    page.press("End")
    assert page.run("document.activeElement.dataset.scope") == "user/tom"
    page.press("u")
    assert page.run("document.activeElement.dataset.scope") == "user"


def test_a_memory_opens_beside_the_list_and_the_focus_comes_back(page):
    page.listed().tab_to("it.role === 'option'").press("End")
    chosen = page.run("document.activeElement.dataset.key")
    page.press("Home")
    while "bees" not in page.run("document.activeElement.dataset.key"):
        page.press("ArrowDown")
    page.press("Enter")
    page.wait("document.querySelector('#memory .fields') !== null")

    assert chosen.startswith("user/ruth\n")
    assert page.run("document.activeElement.id") == "memory-title"
    assert page.text("#memory-title") == "Ruth buys bees"
    assert page.texts("#memory .message .text") == ["I bought two hives today.", "What a plan!"]
    assert "#garden" in page.texts("#memory .marks .mark")
    assert "retrievability" in page.text("#memory figcaption")
    assert page.run("document.querySelectorAll('#memory svg .line-curve').length") == 1
    page.press("Escape")
    assert page.run("document.getElementById('memory').hidden")
    assert "bees" in page.run("document.activeElement.dataset.key")


def test_a_search_shows_relevance_stages_and_the_block(page):
    page.view("Search").tab_to("it.id === 'query'").write("Where does Ruth live?").press("Enter")
    page.wait("document.querySelectorAll('#hits .hit').length === 4")

    assert "Ruth lives in Lyon" in page.texts("#hits .hit h3")
    assert all("relevance" in figures for figures in page.texts("#hits .hit .quiet"))
    assert {"cosine", "bm25", "score"} <= set(page.texts("#hits .hit td:first-child"))
    assert "Ruth lives in Lyon" in page.text("#hits .block")
    assert "tokens" in page.text("#block-title")
    assert "4 hits" in page.text("#said")

    page.tab_to("it.matches('#hits .hit button')").press("Enter")
    page.wait("document.querySelector('#memory .why') !== null")
    assert "Found for “Where does Ruth live?”" in page.text("#memory .why h3")


def test_the_options_of_a_search_are_those_of_retrieve(page):
    page.view("Search").tab_to("it.id === 'query'").write("Ruth")
    page.tab_to("it.tagName === 'SUMMARY'").press("Enter")
    page.tab_to("it.name === 'fact'").press(" ")
    page.tab_to("it.name === 'tags'").write("garden, none")
    page.tab_to("it.name === 'limit'").write("2").press("Enter")
    page.wait("document.querySelector('#hits .strong') !== null")
    assert page.text("#hits .strong").startswith("Nothing relevant")
    page.run("document.activeElement.form.elements.tags.select()")
    page.run("document.activeElement.form.elements.tags.focus()")
    page.write("garden").press("Enter")
    page.wait("document.querySelectorAll('#hits .hit').length === 1")

    page.tab_to("it.name === 'min_relevance'").write("much").press("Enter")
    page.wait("document.querySelector('#hits .alarm') !== null")
    assert "“much”" in page.text("#hits .alarm")


def test_why_not_that_one_is_answered_for_any_memory(page):
    page.view("Search").tab_to("it.id === 'query'").write("Ruth")
    page.tab_to("it.tagName === 'SUMMARY'").press("Enter")
    page.tab_to("it.name === 'fact'").press(" ", "Enter")
    page.wait("document.querySelectorAll('#hits .hit').length === 2")
    page.run("document.getElementById('tab-search').focus()")
    page.press("Home")
    page.listed().tab_to("it.role === 'option'")
    while "home" not in page.run("document.activeElement.dataset.key"):
        page.press("ArrowDown")
    page.press("Enter")
    page.wait("document.querySelector('#memory .why') !== null")

    assert page.text("#memory .why h3") == "Why not for “Ruth”?"
    assert len(page.text("#memory .why > p, #memory .why > .text")) > 20


def test_the_slider_shows_what_was_known_on_a_day(window, aged):
    page = window(at=aged)
    page.wait(f"document.querySelectorAll('{ROWS}').length === 4")
    page.tab_to("it.id === 'slider'").press("Home")
    page.wait(f"document.querySelectorAll('{ROWS}').length === 3")

    assert any("Lyon" in row for row in page.texts(ROWS))
    assert not any("Nantes" in row or "no longer valid" in row for row in page.texts(ROWS))
    assert page.text("#moment").endswith("UTC")
    assert page.run("document.activeElement.getAttribute('aria-valuetext')") == page.text("#moment")
    page.press("End")
    page.wait(f"document.querySelectorAll('{ROWS}').length === 4")
    assert page.text("#moment") == "now"


def test_two_days_are_compared(window, aged):
    page = window(at=aged)
    page.view("Compare").tab_to("it.type === 'submit' && it.textContent === 'Compare'").press("Enter")
    page.wait("document.querySelectorAll('#differences h3').length === 3")

    assert page.texts("#differences h3") == ["New (1)", "Changed (1)", "Gone (1)"]
    assert page.text("#differences del") == "Ruth lives in Lyon"
    assert page.text("#differences ins") == "Ruth lives in Nantes"
    assert "Ruth repairs organs" in page.text("#differences section:nth-of-type(1) li")
    assert "Ruth has a dog" in page.text("#differences section:nth-of-type(3) li")


def test_versions_are_told(window, aged):
    page = window(at=aged)
    page.listed().tab_to("it.role === 'option'").press("Home")
    while "home" not in page.run("document.activeElement.dataset.key"):
        page.press("ArrowDown")
    page.press("Enter")
    page.wait("document.querySelectorAll('#memory .version').length === 2")

    assert sorted(page.texts("#memory .version > .text")) == ["Ruth lives in Lyon", "Ruth lives in Nantes"]
    assert page.text("#memory .version.current > .text") == "Ruth lives in Nantes"


def test_health_tells_sizes_queue_processes_and_index(page):
    page.view("Health")
    page.wait("document.querySelectorAll('#health section').length === 5")

    assert page.texts("#health h3") == ["What was found", "Sizes", "What waits", "Processes", "Index"]
    assert page.run("document.querySelectorAll('#health table[class], #health table').length") >= 3
    assert "user/ruth" in page.texts("#health td")


def test_a_window_that_only_looks_offers_no_change(window, store):
    with AgentMemory.open(store, embedder=HashEmbedder()) as memory:
        memory.remember_many([memory.get("tea", scope="user/ruth").model_copy(update={"id": "tea2"})])
    page = window("--read-only")
    page.open_first()

    assert page.run("!document.getElementById('read-only').hidden")
    assert page.run("document.querySelectorAll('#memory .acts').length") == 0
    page.press("Escape")
    page.view("Alike")
    page.wait("document.querySelector('#alike .pair') !== null")
    assert not any("Keep" in label for label in page.texts("#alike button"))


def test_a_window_of_a_root_begins_there(window):
    page = window("--scope", "user/tom")
    page.wait(f"document.querySelectorAll('{ROWS}').length === 1")

    assert page.texts("#tree .name") == ["user/tom"]
    assert "only user/tom" in page.text("#about")


def test_filters_and_order_of_the_time_line(page):
    page.wait(f"document.querySelectorAll('{ROWS}').length === 4")
    newest = page.texts(ROWS)
    page.tab_to("it.name === 'kind'").press("f")
    page.wait(f"document.querySelectorAll('{ROWS}').length === 2")
    page.press("Home")
    page.wait(f"document.querySelectorAll('{ROWS}').length === 4")
    page.tab_to("it.name === 'tag'").write("garden").press("Enter")
    page.wait(f"document.querySelectorAll('{ROWS}').length === 1")
    page.run("document.activeElement.select()")
    page.press("Backspace", "Tab")
    page.wait(f"document.querySelectorAll('{ROWS}').length === 4")
    assert page.run("document.activeElement.name") == "order"
    page.press("o")
    page.wait(f"document.querySelector('{ROWS} .headline')?.textContent !== {newest[0]!r}")
    page.wait(f"document.querySelectorAll('{ROWS}').length === 4")
    assert page.texts(ROWS) == newest[::-1]
