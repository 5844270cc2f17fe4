"""Hostile texts and ids wherever a store takes one: they are shown, nothing of them runs, and nothing breaks out."""

import pytest

from memory_retrievers import AgentMemory, EpisodicMemory, SemanticMemory
from memory_retrievers.testing import HashEmbedder

HOSTILE = (
    "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
    "<svg/onload=window.hacked=1>\"'`&amp;&lt;${window.hacked=1}\u2028\u202eevil\u2066 javascript:window.hacked=1"
)
SCOPE = "user/<script>alert(1)<|script>\"'&%2e%2E"
IDS = ("../../api/about?x=1#y", "%2F%00%", 'a"><script>window.hacked=1</script>', "\u202edi", "act forget")
LONG = "x" * 1_000_000
WORDS = "word " * 20_000


@pytest.fixture
def hostile(tmp_path):
    """A store that has a hostile text wherever one can be."""
    shared = {"scope": SCOPE, "tags": [HOSTILE], "metadata": {HOSTILE: [HOSTILE]}, "agent_id": HOSTILE}
    with AgentMemory.open(tmp_path / "hostile", embedder=HashEmbedder()) as memory:
        memory.remember_many(
            [
                EpisodicMemory.new(
                    **shared,
                    id=id,
                    title=HOSTILE,
                    summary=HOSTILE,
                    messages=[{"role": HOSTILE[:200], "content": HOSTILE}, {"role": "user", "content": LONG}],
                    conversation_id=HOSTILE,
                )
                for id in IDS
            ]
        )
        sources = {"source_episodic_ids": list(IDS)}
        memory.remember_many(
            [
                SemanticMemory.new(**shared, **sources, id=f"f{id}", fact=f"{HOSTILE} {id}", keywords=[HOSTILE])
                for id in IDS
            ]
        )
        again = f"{HOSTILE} {IDS[-1]} again"  # alike
        memory.remember_many([SemanticMemory.new(**shared, **sources, id="again", fact=again, keywords=[HOSTILE])])
        memory.remember_many([SemanticMemory.new(scope=SCOPE, id="long", fact=WORDS)])
        memory.add_messages(SCOPE, [{"role": "user", "content": HOSTILE}])
    return tmp_path / "hostile"


def check(page):
    """Nothing of a text has become a part of the page."""
    assert page.run("window.hacked") is None
    assert page.run("document.images.length") == 0
    assert page.run("document.scripts.length") == 1
    assert page.run("document.querySelectorAll('svg[onload], iframe, object, embed, [onerror]').length") == 0
    assert page.browser.complaints == []
    assert page.browser.told("Page.javascriptDialogOpening") == []
    assert page.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


@pytest.mark.parametrize("width", [400, 1400])
def test_every_view_shows_hostile_texts_as_texts(window, hostile, width):
    page = window(at=hostile)
    page.browser.resize(width, 900)
    page.listed()
    assert page.text("#scope") == SCOPE
    page.wait("document.querySelectorAll('#list [role=option]').length > 8")
    check(page)

    keys = set()
    page.tab_to("it.role === 'option'").press("Home")
    for _ in range(13):
        key = page.run("document.activeElement.dataset.key")
        page.press("Enter")
        page.wait("document.querySelector('#memory .fields') !== null")
        shown = page.run("[...document.querySelectorAll('#memory .fields dd')].map(each => each.textContent)")
        assert key == f"{SCOPE}\n{shown[1]}"
        keys.add(shown[1])
        check(page)
        page.press("Escape")
        page.wait("document.activeElement.role === 'option'")
        page.press("ArrowDown")
    assert set(IDS) | {f"f{id}" for id in IDS} | {"long", "again"} <= keys

    page.run("document.getElementById('tab-search').click()")
    page.run("document.getElementById('query').focus()")
    page.write(HOSTILE).press("Enter")
    page.wait("document.querySelectorAll('#hits .hit').length > 8")
    page.run("for (const each of document.querySelectorAll('#hits details')) each.open = true")
    check(page)
    for view in ("compare", "alike", "changes", "health"):
        page.run(f"document.getElementById('tab-{view}').click()")
        if view == "compare":
            page.run("document.getElementById('compare').requestSubmit()")
        ready = {"compare": "#differences .strong", "alike": "#alike .pair", "changes": "#changes .notice"}
        page.wait(f"document.querySelector({ready.get(view, '#health section')!r}) !== null")
        check(page)


def test_a_long_text_is_cut_and_shown_when_it_is_asked_for(window, hostile):
    page = window(at=hostile).listed()
    page.tab_to("it.role === 'option'").press("Home")
    while page.run("document.activeElement.dataset.key") != f"{SCOPE}\nlong":
        page.press("ArrowDown")
    page.press("Enter")
    page.wait("document.querySelector('#memory .fields') !== null")
    assert page.run("document.querySelector('#memory-body .text').textContent.length") == 20_001

    page.tab_to_button("Show all 100,000 characters").press("Enter")
    assert page.run("document.querySelector('#memory-body .text').textContent.length") == 100_000
    assert page.run("document.activeElement.textContent.length") == 100_000
    check(page)


def test_hostile_words_are_stored_as_they_were_typed(window, hostile):
    page = window(at=hostile).listed()
    page.tab_to("it.role === 'option'").press("Home")
    facts = {f"{SCOPE}\nf{id}" for id in IDS}  # the id of the open conversation is made of digits, and may begin with f
    while page.run("document.activeElement.dataset.key") not in facts:
        page.press("ArrowDown")
    page.press("Enter")
    page.wait("document.querySelector('#memory .acts') !== null")
    id = page.run("document.activeElement.closest('#memory').querySelectorAll('.fields dd')[1].textContent")
    page.tab_to_button("Tags").press("Enter")
    page.wait("document.activeElement.id === 'dialog-field'")
    page.press("a", modifiers=2).write("<b>%2F</b>\n\u202e\"'")
    page.tab_to("it.type === 'submit'").press("Enter")
    page.wait("!document.getElementById('dialog').open")
    page.wait("document.querySelector('#memory .marks').textContent.includes('<b>%2F</b>')")
    check(page)
    with AgentMemory.open(hostile, embedder=HashEmbedder(), read_only=True) as memory:
        assert set(memory.get(id, scope=SCOPE).tags) == {"<b>%2F</b>", "\u202e\"'"}
