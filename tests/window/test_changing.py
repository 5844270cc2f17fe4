"""Every change goes through what the tools use, is noted with who and when, and is undone where that can be exact."""

import gc
import json
import stat
from datetime import UTC, datetime

import pytest

from memory_retrievers.errors import NotFoundError
from memory_retrievers.models import MemoryKey, SemanticMemory
from memory_retrievers.testing import inside
from memory_retrievers.window.state import MOST_CHARACTERS, Journal, UndoBook

from .conftest import ALICE, BOB, looking_into

UNDOABLE = {
    "correct": {"text": "The user keeps an otter in Lyon"},
    "update": {"text": "The user keeps a heron in Nice"},
    "invalidate": {},
    "pin": {},
    "tag": {"tags": ["water", "pets"]},
}


def everything(memory, id, scope=ALICE):
    """A memory with all that is kept of it, but for when it was touched last."""
    found = memory.get(id, scope=scope)
    history = memory.history(id, scope=scope) if found.kind == "semantic" else ()
    return [each.model_copy(update={"updated_at": found.created_at}) for each in (found, *history)]


@pytest.mark.parametrize("action", UNDOABLE)
def test_an_action_is_undone_to_the_letter(window, memory, clock, action):
    before = everything(memory, "fact")
    clock.advance(hours=1)
    answer = window.act(action, "fact", **UNDOABLE[action])
    assert answer["undoable"]
    assert answer["memory"]["id"] == "fact"
    assert everything(memory, "fact") != before
    found = memory.retrieve("keeps in Lyon", scope=ALICE, record=False).semantic
    clock.advance(hours=1)

    undone = window.post("undo", change=answer["change"])
    assert everything(memory, "fact") == before
    assert not undone["undoable"]
    again = memory.retrieve("keeps in Lyon", scope=ALICE, record=False).semantic
    assert "The user keeps a otter in Lyon" in {hit.memory.fact for hit in again}
    assert action not in {"correct", "update", "invalidate"} or found != again
    assert window.refused("undo", change=answer["change"]) == (404, "NotFoundError")
    assert memory.verify().problems == ()


def test_what_each_action_does(window, memory, clock):
    clock.advance(days=1)
    window.act("correct", "fact", text="The user keeps an otter in Lyon")
    assert [each.fact for each in memory.history("fact", scope=ALICE)] == ["The user keeps an otter in Lyon"]
    window.act("update", "fact", text="The user keeps a heron in Nice")
    assert [each.fact[-4:] for each in memory.history("fact", scope=ALICE)] == ["Lyon", "Nice"]
    window.act("pin", "fact")
    assert memory.get("fact", scope=ALICE).is_pinned
    window.act("unpin", "fact")
    assert not memory.get("fact", scope=ALICE).is_pinned
    window.act("tag", "fact", tags=["a", "b"])
    assert memory.get("fact", scope=ALICE).tags == ("a", "b")
    window.act("tag", "fact", tags=[])
    assert memory.get("fact", scope=ALICE).tags == ()
    window.act("invalidate", "fact")
    assert memory.get("fact", scope=ALICE).invalid_at == clock.now()
    window.act("move", "fact", to="user/alice/home")
    assert memory.get("fact", scope="user/alice/home").fact == "The user keeps a heron in Nice"
    window.act("forget", "fact", scope="user/alice/home")
    with pytest.raises(NotFoundError):
        memory.get("fact", scope="user/alice/home")


@pytest.mark.parametrize("id", ["fact", "episode"])
def test_a_move_is_undone_with_what_has_changed_since(window, memory, id):
    before, elsewhere = everything(memory, id), "user/alice/home"
    change = window.act("move", id, to=elsewhere)["change"]
    (told,) = window.get("changes", scope=ALICE, limit=1)["changes"]
    assert (told["undoable"], told["scope"], bool(told["text"])) == (True, elsewhere, True)
    tagged = window.act("tag", id, scope=elsewhere, tags=["since"])["change"]

    undone = window.post("undo", change=change)
    assert (undone["memory"]["scope"], undone["undoable"]) == (ALICE, False)
    assert everything(memory, id) == [each.model_copy(update={"tags": ("since",)}) for each in before]
    with pytest.raises(NotFoundError):
        memory.get(id, scope=elsewhere)
    assert window.refused("undo", change=tagged) == (404, "NotFoundError")
    assert window.refused("undo", change=change) == (404, "NotFoundError")
    assert memory.verify().problems == ()


def test_a_move_is_not_undone_where_the_id_is_taken_or_the_memory_gone(window, memory):
    elsewhere = "user/alice/home"
    change = window.act("move", "fact", to=elsewhere)["change"]
    memory.remember_fact(scope=ALICE, id="fact", fact="Another one")
    assert window.refused("undo", change=change) == (409, "ConflictError")
    assert memory.get("fact", scope=elsewhere)
    assert memory.get("fact", scope=ALICE).fact == "Another one"
    memory.forget("fact", scope=ALICE)
    memory.forget("fact", scope=elsewhere)
    assert window.refused("undo", change=change) == (404, "NotFoundError")


def test_an_episode_is_mended_pinned_tagged_and_forgotten(window, memory):
    before = everything(memory, "episode")
    changes = [
        window.act("correct", "episode", text="They spoke of an otter.")["change"],
        window.act("pin", "episode")["change"],
        window.act("tag", "episode", tags=["river"])["change"],
    ]
    changed = memory.get("episode", scope=ALICE)
    assert (changed.summary, changed.is_pinned, changed.tags) == ("They spoke of an otter.", True, ("river",))
    for change in reversed(changes):
        window.post("undo", change=change)
    assert everything(memory, "episode") == before
    for action in ("update", "invalidate", "merge"):
        assert window.refused("act", action=action, scope=ALICE, id="episode", text="x") == (422, "ValidationError")
    assert window.act("forget", "episode")["memory"] is None


def test_one_message_is_forgotten_and_the_rest_stays(window, memory):
    said = ["My knee hurts.", "The heron is back."]
    messages = [{"role": "user", "content": text} for text in said]
    memory.remember_episode(scope=ALICE, id="talk", summary="A talk.", messages=messages)
    change = window.act("correct", "talk", text=f"They said: {said[0]}")["change"]
    for place, text in ((0, "something else"), (len(said), said[0]), (-1, said[-1])):
        refused = window.refused("act", action="forget_message", scope=ALICE, id="talk", place=place, text=text)
        assert refused == (422, "ValidationError")
    answer = window.act("forget_message", "talk", place=0, text=said[0])
    assert not answer["undoable"]
    left = memory.get("talk", scope=ALICE)
    assert [each.content for each in left.messages] == said[1:]
    assert said[0] not in left.summary
    assert window.refused("undo", change=change) == (404, "NotFoundError")  # it would tell it again
    assert window.act("forget_message", "talk", place=0, text=said[1])["memory"] is None
    assert memory.verify().problems == ()


def test_an_open_conversation_can_only_be_forgotten(window, memory):
    (found,) = window.get("memories", scope=ALICE, kind="open")["memories"]
    assert window.refused("act", action="pin", scope=ALICE, id=found["id"]) == (422, "ValidationError")
    memory.add_messages(ALICE, [{"role": "user", "content": "It is blue."}], conversation="boat")
    answer = window.act("forget_message", found["id"], place=1, text="It is blue.")
    assert answer["memory"]["text"] == "The boat leaks."
    window.act("forget", found["id"])
    assert memory.waiting(ALICE) == []
    assert window.get("memories", scope=ALICE, kind="open")["memories"] == []


def test_merging_keeps_one_with_what_both_had(window, memory):
    memory.update("fact", scope=ALICE, tags=["home"], metadata={"a": 1})
    memory.remember_fact(
        scope=ALICE,
        id="other",
        fact="An otter is kept",
        tags=["pet"],
        metadata={"b": 2},
        source_episodic_ids=["episode"],
    )
    preview = window.post("preview", action="merge", scope=ALICE, id="fact", other="other")
    assert {"what": "memories", "count": 1} in preview["goes"]
    answer = window.act("merge", "fact", other="other")
    assert not answer["undoable"]
    kept = memory.get("fact", scope=ALICE)
    assert (kept.tags, kept.metadata, kept.source_episodic_ids) == (("home", "pet"), {"a": 1, "b": 2}, ("episode",))
    with pytest.raises(NotFoundError):
        memory.get("other", scope=ALICE)
    assert memory.verify().problems == ()
    for other in ("fact", "nothing", "episode", None):
        status, _ = window.refused("act", action="merge", scope=ALICE, id="fact", other=other)
        assert status in {404, 422}


def test_a_preview_counts_what_goes_and_takes_nothing(window, memory):
    memory.update("fact", scope=ALICE, fact="The user keeps a heron")
    memory.remember_fact(scope=ALICE, id="learned", fact="Otters swim", source_episodic_ids=["episode"])
    goes = {
        each["what"]: each["count"] for each in window.post("preview", action="forget", scope=ALICE, id="fact")["goes"]
    }
    assert (goes["memories"], goes["earlier versions"], goes["passages"]) == (1, 1, 1)
    goes = {
        each["what"]: each["count"]
        for each in window.post("preview", action="forget", scope=ALICE, id="episode")["goes"]
    }
    assert (goes["messages"], goes["mentions as a source"]) == (1, 1)
    assert window.post("preview", action="move", scope=ALICE, id="fact", to=BOB)["note"]
    assert memory.get("fact", scope=ALICE)
    assert memory.get("episode", scope=ALICE)


def test_what_was_changed_again_since_is_not_undone(window, memory):
    change = window.act("correct", "fact", text="The user keeps an otter")["change"]
    memory.update("fact", scope=ALICE, fact="The user keeps a heron")
    before = everything(memory, "fact")
    assert window.refused("undo", change=change) == (409, "ConflictError")
    assert everything(memory, "fact") == before
    # what else has changed meanwhile stays
    change = window.act("tag", "own-otter", tags=["day"])["change"]
    memory.update("own-otter", scope=ALICE, metadata={"since": 2026})
    window.post("undo", change=change)
    kept = memory.get("own-otter", scope=ALICE)
    assert (kept.tags, kept.metadata) == (("night",), {"since": 2026})


def test_undoing_in_turn_leads_back_to_the_beginning(window, memory, clock):
    before, changes = everything(memory, "fact"), []
    for text in ("One heron", "Two herons", "Three herons"):
        clock.advance(hours=1)
        changes.append(window.act("update", "fact", text=text)["change"])
    assert len(memory.history("fact", scope=ALICE)) == 4
    assert window.refused("undo", change=changes[0]) == (409, "ConflictError")
    for change in reversed(changes):
        window.post("undo", change=change)
    assert everything(memory, "fact") == before


def test_every_change_is_noted_with_who_and_when_and_without_a_word(window, memory, journal, clock):
    window.act("correct", "fact", text="The secret heron")
    window.act("tag", "fact", tags=["secret tag"])
    window.act("forget", "own-otter")
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [(line["action"], line["scope"], line["id"]) for line in lines] == [
        ("correct", ALICE, "fact"),
        ("tag", ALICE, "fact"),
        ("forget", ALICE, "own-otter"),
    ]
    assert {line["at"] for line in lines} == {"2026-03-01T09:00:00Z"}
    assert all(line["who"] for line in lines)
    assert "secret" not in journal.read_text()
    assert stat.S_IMODE(journal.stat().st_mode) == 0o600
    told = window.get("changes")["changes"]
    assert [(each["action"], each["text"], each["undoable"]) for each in told] == [
        ("forget", "", False),
        ("tag", "The secret heron", True),
        ("correct", "The secret heron", True),
    ]
    assert window.get("changes", limit=1)["changes"] == told[:1]
    assert window.get("changes", scope=BOB)["changes"] == []


def test_nothing_is_left_of_what_is_gone(book, memory, journal):
    with looking_into(memory, journal=journal) as window:
        change = window.act("correct", "fact", text="The secret heron")["change"]
        assert len(book[0]._undos) == 1
        moved = window.act("move", "fact", to="user/alice/home")["change"]
        assert list(book[0]._undos) == [moved]
        assert window.refused("undo", change=change) == (404, "NotFoundError")
        window.act("forget", "fact", scope="user/alice/home")
        assert book[0]._undos == {}
        assert window.refused("undo", change=moved) == (404, "NotFoundError")


def test_nothing_is_left_of_what_an_application_has_forgotten(book, memory, journal):
    with looking_into(memory, journal=journal) as window:
        window.act("correct", "fact", text="The secret heron")
        assert len(book[0]._undos) == 1
        memory.forget("fact", scope=ALICE)
        window.get("pulse", scope=ALICE)
        assert book[0]._undos == {}


def test_what_was_read_ahead_is_not_kept(memory):
    with looking_into(memory) as window:
        window.get("memories", scope=ALICE)
        window.post("search", scope=ALICE, query="otter")
        window.act("forget", "own-otter")
        gc.collect()
        kept = [each for each in gc.get_objects() if isinstance(each, SemanticMemory) and each.id == "own-otter"]
        assert kept == []


@pytest.fixture
def book(monkeypatch):
    """The book of undo of the next window."""
    made, books = UndoBook.__init__, []

    def noted(book):
        made(book)
        books.append(book)

    monkeypatch.setattr(UndoBook, "__init__", noted)
    return books


def test_what_is_held_to_undo_is_bounded(memory):
    book = UndoBook()
    before = memory.get("fact", scope=ALICE)
    large = before.model_copy(update={"fact": "x" * 900_000})
    for number in range(30):
        book.put(str(number), before, large)
    assert sum(undo.size for undo in book._undos.values()) <= MOST_CHARACTERS
    assert book.get("29") is not None
    assert book.get("0") is None


def test_a_journal_that_cannot_be_written_lets_nothing_be_changed(memory, tmp_path):
    with looking_into(memory, journal=tmp_path / "missing" / "changes.jsonl") as browser:
        assert browser.refused("act", action="forget", scope=ALICE, id="fact") == (503, "BackendError")
        assert browser.get("memory", scope=ALICE, id="fact")
        assert browser.get("changes")["changes"] == []


def test_the_journal_of_a_directory_that_a_group_shares_is_the_groups_too(memory, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o2770)
    with looking_into(memory, journal=shared / "changes.jsonl") as browser:
        browser.act("pin", "fact")
        browser.act("unpin", "fact")
    assert stat.S_IMODE((shared / "changes.jsonl").stat().st_mode) == 0o660


def test_a_journal_is_written_through_no_link(memory, tmp_path):
    (tmp_path / "others.txt").write_text("theirs\n")
    (tmp_path / "changes.jsonl").symlink_to(tmp_path / "others.txt")
    with looking_into(memory, journal=tmp_path / "changes.jsonl") as browser:
        assert browser.refused("act", action="pin", scope=ALICE, id="fact") == (503, "BackendError")
    assert (tmp_path / "others.txt").read_text() == "theirs\n"


def test_a_damaged_journal_is_read_as_far_as_it_can_be(journal):
    journal.write_bytes(b'{"change": \xff\n[]\n{}\n\n"x"\n' + b"y" * 300_000 + b"\n")
    kept = Journal(journal)
    entry = kept.append(
        who="me", action="pin", key=MemoryKey(scope=ALICE, id="f\n\u2028x"), at=datetime(2026, 3, 1, tzinfo=UTC)
    )
    assert list(kept.newest()) == [entry]


@pytest.mark.parametrize(
    "body",
    [
        {"action": "explode"},
        {"action": "correct"},
        {"action": "correct", "text": "  "},
        {"action": "update", "text": None},
        {"action": "tag"},
        {"action": "tag", "tags": ["x" * 5_000]},
        {"action": "tag", "tags": [1]},
        {"action": "move"},
        {"action": "move", "to": ALICE},
        {"action": "move", "to": "../etc"},
        {"action": "move", "to": BOB},  # there the id is taken
        {"action": "unpin"},
        {"action": "pin", "force": True},
        {"action": "pin", "id": ""},
        {"action": "pin", "id": "x" * 2_000},
    ],
)
def test_a_wrong_action_is_refused_in_a_sentence_and_changes_nothing(window, memory, journal, body):
    before = everything(memory, "fact")
    assert window.refused("act", **({"scope": ALICE, "id": "fact"} | body)) == (422, "ValidationError")
    assert everything(memory, "fact") == before
    assert not journal.exists() or journal.read_text() == ""


def test_the_engine_embeds_outside_of_transactions_when_a_change_is_undone(window, memory):
    store = inside(memory).store
    seen = []
    embedder = store.embedder.current()
    embed = type(embedder).embed_passages

    def noted(self, texts):
        seen.append(store.ledger.database.is_writing)
        return embed(self, texts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(embedder), "embed_passages", noted)
        change = window.act("update", "fact", text="The user keeps a heron")["change"]
        window.post("undo", change=change)
    assert seen
    assert not any(seen)
