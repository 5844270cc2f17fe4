"""Storing over memories that are there: the old ones go with every trace, in the transaction that brings the new."""

import pytest

from memory_retrievers import EpisodicMemory, NotFoundError, SemanticMemory
from memory_retrievers.errors import ValidationError

SCOPE = "user/alice"


def fact(id, text, **fields):
    return SemanticMemory.new(scope=SCOPE, id=id, fact=text, **fields)


def found(memory, query):
    result = memory.retrieve(query, scope=SCOPE, record=False)
    return [hit.memory.id for hit in (*result.semantic, *result.episodic)]


def test_a_memory_of_the_same_scope_and_id_gives_way(memory):
    memory.remember_fact(scope=SCOPE, id="f1", fact="Alice lives in Lyon")
    memory.remember_fact(scope="user/bob", id="f1", fact="Bob lives in Bergen")
    memory.remember_many([fact("f1", "Tea is green"), fact("f2", "Coffee is black")], replace=True)
    assert memory.get("f1", scope=SCOPE).fact == "Tea is green"
    assert memory.get("f1", scope="user/bob").fact == "Bob lives in Bergen"
    assert sorted(found(memory, "Where is Lyon?")) == ["f1", "f2"]
    assert memory.stats(SCOPE).facts == 2
    assert memory.verify().problems == ()


def test_it_leaves_no_word_to_be_found_by(memory):
    memory.remember_fact(scope=SCOPE, id="f1", fact="Alice lives in Lyon")
    memory.remember_many([fact("f1", "Tea is green")], replace=True)
    (hit,) = memory.retrieve("Lyon", scope=SCOPE).semantic
    assert hit.explanation.bm25_rank is None
    (hit,) = memory.retrieve("green tea", scope=SCOPE).semantic
    assert hit.explanation.bm25_rank == 1


def test_a_memory_can_give_way_to_one_of_the_other_kind(memory):
    memory.remember_fact(scope=SCOPE, id="m1", fact="Alice lives in Lyon")
    memory.remember_many([EpisodicMemory.new(scope=SCOPE, id="m1", summary="Alice moved to Lyon")], replace=True)
    assert memory.get("m1", scope=SCOPE).summary == "Alice moved to Lyon"
    assert (memory.stats(SCOPE).facts, memory.stats(SCOPE).episodes) == (0, 1)


def test_where_a_draft_cannot_be_stored_the_old_ones_stay(memory):
    memory.remember_fact(scope=SCOPE, id="f1", fact="Alice lives in Lyon")
    with pytest.raises(ValidationError):
        memory.remember_many([fact("f1", "Tea is green"), fact("f1", "Tea is black"), fact("f2", "x")], replace=False)
    with pytest.raises(ValidationError):
        memory.remember_many(
            [fact("f1", "Tea is green"), SemanticMemory.new(scope="user/", id="f1", fact="Tea is black")], replace=True
        )
    assert memory.get("f1", scope=SCOPE).fact == "Alice lives in Lyon"
    assert found(memory, "Lyon") == ["f1"]


def test_two_drafts_of_one_id_are_an_error_that_leaves_everything_as_it_was(memory):
    memory.remember_fact(scope=SCOPE, id="f1", fact="Alice lives in Lyon")
    found(memory, "Lyon")  # indexes that are kept in memory are warm
    with pytest.raises(ValidationError, match="taken"):
        memory.remember_many([fact("f1", "Tea is green"), fact("f1", "Tea is black")], replace=True)
    assert memory.get("f1", scope=SCOPE).fact == "Alice lives in Lyon"
    (hit,) = memory.retrieve("Lyon", scope=SCOPE).semantic
    assert hit.explanation.bm25_rank == 1
    assert memory.verify().problems == ()


def test_unless_it_is_asked_for_an_id_that_is_taken_is_an_error(memory):
    memory.remember_many([fact("f1", "Tea is green")])
    with pytest.raises(ValidationError):
        memory.remember_many([fact("f1", "Tea is black")])


def test_a_value_that_a_store_was_told_not_to_index_is_kept_and_not_searched(memory):
    (kept,) = memory.remember_many([fact("f1", '{"tea": "green"}', origin="store", content_type="json")])
    assert not kept.is_searchable
    assert memory.get("f1", scope=SCOPE) == kept
    assert found(memory, "green tea") == []
    report = memory.verify()
    assert (report.memories, report.passages, report.problems) == (1, 0, ())
    memory.forget("f1", scope=SCOPE)
    with pytest.raises(NotFoundError):
        memory.get("f1", scope=SCOPE)


@pytest.mark.parametrize(
    "fields", [{"origin": "store"}, {"content_type": "json"}, {"origin": "tool", "content_type": "json"}]
)
def test_everything_else_is_searched(memory, fields):
    (kept,) = memory.remember_many([fact("f1", "green tea", **fields)])
    assert kept.is_searchable
    assert found(memory, "green tea") == ["f1"]
