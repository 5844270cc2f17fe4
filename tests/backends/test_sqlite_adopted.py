"""What a store remembers about a collection it was filled from."""

import pytest

from memory_retrievers import AgentMemory
from memory_retrievers.models.storage import AdoptedRow
from memory_retrievers.testing import HashEmbedder, inside


@pytest.fixture
def memory():
    with AgentMemory.in_memory(embedder=HashEmbedder(), dense="exact") as memory:
        inside(memory).ledger.write_notes({"adoption": '{"write_through": true}'})
        yield memory


@pytest.fixture
def rows(memory):
    return inside(memory).adopted


def row_of(memory, id):
    return inside(memory).ledger.passages_of("s", id=id)[0].memory


def test_each_change_is_listed_in_its_transaction_until_it_is_settled(memory, rows):
    memory.remember_fact(scope="s", fact="one", id="a")
    row = row_of(memory, "a")
    rows.note({"there": AdoptedRow(memory=row, digest=b"")})
    memory.update("a", scope="s", metadata={"page": 1})
    memory.update("a", scope="s", tags=["not", "of", "interest"])
    listed = rows.unwritten(limit=10)
    assert (listed.memories, listed.gone) == ((row,), ())
    rows.settle(last=listed.last)
    assert rows.unwritten(limit=10) is None
    memory.forget("a", scope="s")
    assert rows.unwritten(limit=10).gone == ("there",)
    assert rows.known(["there"]) == {}


def test_what_comes_from_the_collection_is_not_listed_and_what_waited_before_still_is(memory, rows):
    memory.remember_fact(scope="s", fact="one", id="a")
    before = rows.unwritten(limit=10)
    with rows.quiet_transaction():
        memory.remember_fact(scope="s", fact="two", id="b")
    assert rows.unwritten(limit=10) == before


def test_nothing_is_listed_where_changes_are_not_written_through(memory, rows):
    inside(memory).ledger.write_notes({"adoption": '{"write_through": false}'})
    memory.remember_fact(scope="s", fact="one", id="a")
    assert rows.unwritten(limit=10) is None


def test_ids_come_in_pages_in_their_order(memory, rows):
    for id in "abc":
        memory.remember_fact(scope="s", fact=id, id=id)
        rows.note({id.upper(): AdoptedRow(memory=row_of(memory, id), digest=b"x")})
    assert rows.page(after="", limit=2) == ["A", "B"]
    assert rows.page(after="B", limit=2) == ["C"]
    assert rows.count() == 3
    assert rows.ids_of([row_of(memory, "b")]) == {row_of(memory, "b"): "B"}
