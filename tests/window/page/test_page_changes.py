"""Every change that a window offers, made by its keys alone and looked for in the store."""

import pytest

from memory_retrievers import AgentMemory, NotFoundError
from memory_retrievers.testing import HashEmbedder

from .conftest import serving

ACTS = "[...document.querySelectorAll('#memory .acts button')].map(each => each.textContent)"


@pytest.fixture
def stored(store):
    """What a function finds in the store, which the window has open at the same time."""

    def stored(look):
        with AgentMemory.open(store, embedder=HashEmbedder(), read_only=True) as memory:
            return look(memory)

    return stored


@pytest.fixture
def show(page):
    """Open a memory of the first scope with the keys."""

    def show(id):
        page.listed().tab_to("it.role === 'option'").press("Home")
        while page.run("document.activeElement.dataset.key") != f"user/ruth\n{id}":
            before = page.run("document.activeElement.dataset.key")
            page.press("ArrowDown")
            assert page.run("document.activeElement.dataset.key") != before, f"{id} is not in the list"
        page.press("Enter")
        page.wait("document.querySelector('#memory .acts') !== null")
        return page

    return show


def home(memory):
    return memory.get("home", scope="user/ruth")


def rewrite(page, text):
    """Put a text in the place of the one in the dialog, and save it."""
    page.wait("document.activeElement.id === 'dialog-field'")
    page.run("document.activeElement.select()")
    page.write(text)
    page.tab_to("it.type === 'submit'").press("Enter")
    page.wait("!document.getElementById('dialog').open")


def undo(page):
    page.tab_to("it.textContent === 'Undo'").press("Enter")
    page.wait("document.getElementById('undo').textContent.includes('as it was before')")


def test_correct_and_undo(show, stored):
    page = show("home").tab_to_button("Correct").press("Enter")
    rewrite(page, "Ruth lives in Lyons")
    page.wait("document.querySelector('#memory .text').textContent === 'Ruth lives in Lyons'")
    assert stored(lambda memory: (home(memory).fact, len(memory.history("home", scope="user/ruth")))) == (
        "Ruth lives in Lyons",
        1,
    )
    assert page.run("document.getElementById('memory').contains(document.activeElement)")

    undo(page)
    page.wait("document.querySelector('#memory .text').textContent === 'Ruth lives in Lyon'")
    assert stored(home).fact == "Ruth lives in Lyon"


def test_update_keeps_a_version_and_undo(show, stored):
    page = show("home").tab_to_button("Update").press("Enter")
    rewrite(page, "Ruth lives in Nantes")
    page.wait("document.querySelectorAll('#memory .version').length === 2")
    assert stored(home).fact == "Ruth lives in Nantes"
    assert len(stored(lambda memory: memory.history("home", scope="user/ruth"))) == 2

    undo(page)
    page.wait("document.querySelector('#memory .text').textContent === 'Ruth lives in Lyon'")
    assert stored(home).fact == "Ruth lives in Lyon"


def test_invalidate_and_undo_from_the_list_of_changes(show, stored):
    page = show("home").tab_to_button("Invalidate").press("Enter")
    page.wait("document.getElementById('dialog').open")
    page.tab_to("it.type === 'submit'").press("Enter")
    page.wait("document.querySelector('#memory .marks').textContent.includes('no longer valid')")
    assert stored(home).invalid_at is not None

    page.press("Escape")
    page.view("Changes")
    page.wait("document.querySelectorAll('#changes .change').length === 1")
    assert "invalidate" in page.text("#changes .change")
    page.tab_to("(it.ariaLabel ?? '').startsWith('Undo: invalidate')").press("Enter")
    page.wait("document.querySelectorAll('#changes .change').length === 2")
    assert stored(home).invalid_at is None


def test_pin_unpin_and_undo(show, stored):
    page = show("home").tab_to_button("Pin").press("Enter")
    page.wait(f"{ACTS}.includes('Unpin')")
    assert stored(home).is_pinned
    page.tab_to_button("Unpin").press("Enter")
    page.wait(f"{ACTS}.includes('Pin')")
    assert not stored(home).is_pinned
    undo(page)
    page.wait(f"{ACTS}.includes('Unpin')")
    assert stored(home).is_pinned


def test_tag(show, stored):
    page = show("home").tab_to_button("Tags").press("Enter")
    rewrite(page, "place\nold, but true")
    page.wait("document.querySelector('#memory .marks').textContent.includes('#old, but true')")
    assert set(stored(home).tags) == {"place", "old, but true"}


def test_move_says_what_goes_moves_and_is_undone(show, stored):
    page = show("home").tab_to_button("Move").press("Enter")
    page.wait("document.activeElement.id === 'dialog-field'")
    page.press("a", modifiers=2).write("user/tom").press("Enter")
    page.wait("document.querySelector('#dialog .notice:not([hidden]) strong') !== null")
    assert page.text("#dialog .notice li") == "1 memory"
    assert stored(home).scope == "user/ruth"
    page.tab_to("it.type === 'submit' && it.textContent === 'Move'").press("Enter")
    page.wait("!document.getElementById('dialog').open")

    page.wait("document.querySelectorAll('#list [role=option]').length === 3")
    assert stored(lambda memory: memory.get("home", scope="user/tom")).fact == "Ruth lives in Lyon"

    page.tab_to_button("Undo").press("Enter")
    page.wait("document.querySelectorAll('#list [role=option]').length === 4")
    assert stored(home).fact == "Ruth lives in Lyon"


def test_forget_says_what_goes_and_can_be_left(show, stored):
    page = show("bees").tab_to_button("Forget").press("Enter")
    page.wait("document.querySelector('#dialog .notice:not([hidden]) strong') !== null")
    assert "2 messages" in page.text("#dialog .notice")
    page.press("Escape")
    page.wait("!document.getElementById('dialog').open")
    assert page.run("document.activeElement.textContent") == "Forget"
    assert stored(lambda memory: memory.get("bees", scope="user/ruth")).title == "Ruth buys bees"

    page.press("Enter")
    page.wait("document.querySelector('#dialog [type=submit]')?.textContent === 'Forget'")
    page.tab_to("it.type === 'submit'").press("Enter")
    page.wait("document.getElementById('memory').hidden")
    page.wait("document.querySelectorAll('#list [role=option]').length === 3")
    with pytest.raises(NotFoundError):
        stored(lambda memory: memory.get("bees", scope="user/ruth"))
    assert page.run("document.getElementById('undo').querySelector('[data-key=undo]') === null")


def test_one_message_is_forgotten_by_keys(show, stored):
    page = show("bees")
    first, *others = stored(lambda memory: memory.get("bees", scope="user/ruth")).messages
    page.tab_to("it.dataset.key === 'forget message 0'").press("Enter")
    page.wait("document.querySelector('#dialog [type=submit]')?.textContent === 'Forget'")
    assert first.content in page.text("#dialog")
    page.tab_to("it.type === 'submit'").press("Enter")
    page.wait("!document.getElementById('dialog').open")
    page.wait(f"document.querySelectorAll('#memory .message').length === {len(others)}")
    assert stored(lambda memory: memory.get("bees", scope="user/ruth")).messages == tuple(others)


def test_near_duplicates_are_merged(window, store, stored):
    with AgentMemory.open(store, embedder=HashEmbedder()) as memory:
        memory.remember_many(
            [memory.get("tea", scope="user/ruth").model_copy(update={"id": "tea2", "tags": ("drinks",)})]
        )
    page = window()
    page.view("Alike")
    page.wait("document.querySelectorAll('#alike .pair').length === 1")
    first = page.run("document.querySelector('#alike .side [data-key]').dataset.key").removeprefix("alike ")
    page.tab_to_button("Keep the first").press("Enter")
    page.wait("document.querySelector('#dialog [type=submit]')?.textContent === 'Merge'")
    page.tab_to("it.type === 'submit'").press("Enter")
    page.wait("document.querySelectorAll('#alike .pair').length === 0")

    kept = stored(lambda memory: memory.get(first, scope="user/ruth"))
    assert kept.tags == ("drinks",)
    assert stored(lambda memory: memory.stats("user/ruth")).facts == 2


def test_what_the_store_refuses_is_told_in_the_dialog(show, stored):
    page = show("home").tab_to_button("Correct").press("Enter")
    page.wait("document.activeElement.id === 'dialog-field'")
    page.run("document.activeElement.select()")
    page.press("Backspace").tab_to("it.type === 'submit'").press("Enter")
    page.wait("document.querySelector('#dialog [role=alert]:not([hidden])') !== null")

    assert "blank" in page.text("#dialog [role=alert]")
    assert page.run("document.getElementById('dialog').open")
    assert stored(home).fact == "Ruth lives in Lyon"


def test_a_change_that_another_window_made_first_cannot_be_undone(show, store):
    page = show("home").tab_to_button("Correct").press("Enter")
    rewrite(page, "Ruth lives in Lyons")
    with AgentMemory.open(store, embedder=HashEmbedder()) as memory:
        memory.update("home", scope="user/ruth", fact="Ruth lives in Brest")
    page.wait("document.querySelector('#memory .text').textContent === 'Ruth lives in Brest'")
    page.tab_to("it.textContent === 'Undo'").press("Enter")
    page.wait("document.getElementById('trouble').textContent !== ''")

    assert page.text("#memory .text") == "Ruth lives in Brest"


def test_a_server_that_is_lost_is_told_of_and_found_again(window, browser, store):
    with serving(store) as (process, address):
        port = address.split(":")[2].split("/")[0]
        page = type(window())(browser, address).open()
        page.wait("document.querySelectorAll('#list [role=option]').length === 4")
        process.kill()
        page.wait("document.getElementById('live').textContent === 'no answer'")
        page.wait("document.getElementById('trouble').textContent.includes('does not answer')")
        process.wait()
        assert page.run("document.querySelectorAll('#list [role=option]').length") == 4
    with serving(store, "--port", port):  # another token: this page is not let in again
        page.wait("document.getElementById('trouble').textContent.includes('not signed in')")
        assert page.text("#live") == "signed out"
