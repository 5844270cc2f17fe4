from typing import ClassVar

import pytest

from memory_retrievers import AgentMemory
from memory_retrievers.errors import NotFoundError, ValidationError
from memory_retrievers.models import MemoryKey, SemanticDraft
from memory_retrievers.models.management import AssociationType
from memory_retrievers.testing import HashEmbedder
from memory_retrievers.tools.registry import REGISTRY
from memory_retrievers.tools.store import above_threshold, auto_associate, same_in_scope
from memory_retrievers.tools.tool import ToolContext

BACKUP = "the nightly backup of the database runs at two"


def discover(context, **arguments):
    return REGISTRY["memory_discover_associations"].call(context, arguments).artifact


def targets(answer):
    return [each["target_id"] for each in answer["associations"]]


def above(context, content, threshold):
    return above_threshold(context, SemanticDraft(scope="user/alice", fact=content), threshold=threshold)


def same(context, content, *, scope="user/alice"):
    return same_in_scope(context, SemanticDraft(scope=scope, fact=content))


def test_a_new_memory_is_associated_with_what_is_near_in_its_scope(alice, keep):
    near = keep(alice, f"{BACKUP} every day", id="near")
    keep(alice, "the user likes green tea", id="far")
    keep(alice, f"{BACKUP} every week", id="elsewhere", scope="work")
    new = keep(alice, BACKUP, id="new")
    (made,) = auto_associate(alice, new)
    assert (made.source, made.target) == (
        MemoryKey(scope="user/alice", id="new"),
        MemoryKey(scope="user/alice", id="near"),
    )
    assert made.type is AssociationType.SEMANTIC
    assert made.auto_generated
    assert made.strength == pytest.approx(
        float(alice.manager.vectors_of([new])[0] @ alice.manager.vectors_of([near])[0]), abs=1e-6
    )
    assert alice.manager.associations_of(near, within="user/alice") == [made]


def test_at_most_ten_are_associated_and_never_the_memory_itself(alice, keep):
    for number in range(12):
        keep(alice, f"{BACKUP} {number}")
    new = keep(alice, BACKUP)
    made = auto_associate(alice, new)
    assert len(made) == 10
    assert len(alice.manager.associations_of(new, within="user/alice")) == 10
    assert new.id not in {each.target.id for each in made}


def test_what_is_not_near_enough_is_not_associated(alice, keep):
    keep(alice, "one two three four five six")
    new = keep(alice, "one two three something else altogether")
    assert auto_associate(alice, new) == []
    assert alice.manager.associations_of(new, within="user/alice") == []


def test_what_tools_did_not_store_is_associated_unless_the_host_narrows_them(alice, keep):
    alice.memory.remember_fact(scope="user/alice", fact=f"{BACKUP} every day")
    new = keep(alice, BACKUP)
    assert auto_associate(ToolContext(memory=alice.memory, root="user/alice", kinds="tool"), new) == []
    assert len(auto_associate(alice, new)) == 1


def test_what_is_stored_is_embedded_once_for_its_duplicates_its_associations_and_itself(clock):
    class Counting(HashEmbedder):
        asked: ClassVar = []

        def embed_documents(self, texts):
            self.asked.extend(texts)
            return super().embed_documents(texts)

        def embed_query(self, text):
            self.asked.append(text)
            return super().embed_query(text)

    with AgentMemory.in_memory(embedder=Counting(), clock=clock) as memory:
        context = ToolContext(memory=memory, root="user/alice")
        for text in (f"{BACKUP} every day", BACKUP):
            Counting.asked.clear()
            REGISTRY["memory_store"].call(context, {"content": text})
        assert Counting.asked.count(f"note: {BACKUP}") == 2  # HashEmbedder embeds a document as it does a question


def test_what_the_host_has_changed_is_associated_with_what_is_near_to_that(clock):
    def reworded(record):
        return record.model_copy(update={"fact": BACKUP}) if record.fact == "something else" else record

    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, before_store=reworded) as memory:
        context = ToolContext(memory=memory, root="user/alice")
        for text in (f"{BACKUP} every day", "something else of the day", "something else"):
            answer = REGISTRY["memory_store"].call(context, {"content": text}).artifact
        (made,) = context.manager.associations_of(
            memory.get(answer["memory_id"], scope="user/alice"), within="user/alice"
        )
        targets = {each.id for each in (made.source, made.target)} - {answer["memory_id"]}
        assert memory.get(targets.pop(), scope="user/alice").fact == f"{BACKUP} every day"


def test_associations_survive_a_restart(tmp_path, clock, keep):
    path = tmp_path / "store"
    with AgentMemory.open(path, embedder=HashEmbedder(), clock=clock) as memory:
        context = ToolContext(memory=memory, root="user/alice")
        old = keep(context, f"{BACKUP} every day")
        made = auto_associate(context, keep(context, BACKUP))
    with AgentMemory.open(path, embedder=HashEmbedder(), clock=clock) as memory:
        assert memory.manager.associations_of(old, within="user/alice") == made
        assert len(made) == 1


def test_nothing_is_looked_for_unless_the_caller_wants_no_duplicates(alice, keep):
    keep(alice, BACKUP)
    arguments = {"content": BACKUP, "allow_duplicates": True, "response_level": "full"}
    answer = REGISTRY["memory_store"].call(alice, arguments).artifact
    assert answer["duplicate_analysis"] == {"duplicate_check_performed": False, "duplicate_found": False}


def test_a_threshold_refuses_what_is_near_anywhere_within_the_root(alice, keep):
    keep(alice, BACKUP, id="m1", scope="work")
    analysis = above(alice, BACKUP, 0.85)
    assert analysis.refusal == "Duplicate content detected (similarity: 1.000 >= 0.85)"
    assert analysis.to_object(alice) == {
        "duplicate_check_performed": True,
        "threshold_used": 0.85,
        "duplicate_found": True,
        "duplicate_candidate": {
            "memory_id": "m1",
            "similarity_score": 1.0,
            "content_preview": BACKUP,
            "scope": "work",
            "created_at": "2026-03-01T09:00:00Z",
        },
    }


def test_a_threshold_tells_the_nearest_even_if_it_lets_pass(alice, keep):
    keep(alice, f"{BACKUP} every single day of the week", id="m1")
    analysis = above(alice, BACKUP, 0.99)
    assert analysis.refusal is None
    assert not analysis.to_object(alice)["duplicate_found"]
    assert analysis.to_object(alice)["duplicate_candidate"]["memory_id"] == "m1"


def test_a_threshold_does_not_see_beyond_the_root(alice, keep):
    alice.memory.manager  # noqa: B018
    keep(ToolContext(memory=alice.memory, root="user/bob"), BACKUP)
    assert above(alice, BACKUP, 0.1).to_object(alice) == {
        "duplicate_check_performed": True,
        "threshold_used": 0.1,
        "duplicate_found": False,
    }


def test_the_same_memory_of_the_same_scope_is_given_back(alice, keep):
    there = keep(alice, BACKUP)
    assert same(alice, f"{BACKUP}.").existing == there
    assert same(alice, BACKUP, scope="user/alice/work").existing is None


@pytest.mark.parametrize(
    ("there", "new"),
    [
        ("The door code is 4711", "The door code is 4712"),
        ("User is allergic to nuts", "User is not allergic to nuts"),
        ("The meeting is at 3 pm on Monday", "The meeting is at 4 pm on Monday"),
        ("Invoice 2024-001 is unpaid", "Invoice 2024-002 is unpaid"),
        ("Test memory number 3", "Test memory number 4"),
    ],
)
def test_what_differs_in_a_number_or_a_negation_is_never_given_back(clock, keep, there, new):
    with AgentMemory.in_memory(
        embedder=lambda texts: [[1.0, 0.0] for _ in texts], embedder_id="same", clock=clock
    ) as memory:
        context = ToolContext(memory=memory, root="user/alice")
        keep(context, there)
        assert same(context, new).existing is None
        assert same(context, there).existing is not None
        assert above(context, new, 0.95).refusal is not None


def test_an_answer_at_each_level(alice, keep):
    keep(alice, BACKUP, id="m1", tags=["ops"])
    keep(alice, f"{BACKUP} {'x' * 60}", id="m2")
    minimal = discover(alice, memory_id="m1", response_level="minimal")
    assert minimal == {"success": True, "association_count": 1}
    standard = discover(alice, memory_id="m1")
    (seen,) = standard["associations"]
    assert seen == {"target_id": "m2", "strength": seen["strength"], "preview": f"{BACKUP} {'x' * 60}"[:50] + "..."}
    full = discover(alice, memory_id="m1", response_level="full")
    assert full["discovery_metadata"] == {
        "similarity_threshold": 0.1,
        "limit": 10,
        "search_strategy": "content+tags+category",
    }
    (whole,) = full["associations"]
    assert whole | seen == whole
    assert whole["association_type"] == "semantic"
    assert whole["memory"]["content"] == f"{BACKUP} {'x' * 60}"
    assert whole["strengths"]["semantic"] == whole["strength"]
    assert whole["level"] == "strong"


def test_three_neighbours_come_strongest_first(alice, keep):
    keep(alice, BACKUP, id="source")
    keep(alice, f"{BACKUP} and stops", id="second")
    keep(alice, f"{BACKUP} x", id="first")
    keep(alice, "the database is small", id="third", scope="work")
    answer = discover(alice, memory_id="source")
    assert targets(answer)[:2] == ["first", "second"]
    assert "third" in targets(answer)
    strengths = [each["strength"] for each in answer["associations"]]
    assert strengths == sorted(strengths, reverse=True)
    assert answer["association_count"] == len(strengths)


def test_a_memory_without_neighbours_has_none(alice, keep):
    keep(alice, BACKUP, id="m1")
    assert discover(alice, memory_id="m1") == {"success": True, "association_count": 0, "associations": []}


def test_the_limit_holds_and_then_one_search_is_enough(alice, keep):
    for number in range(15):
        keep(alice, f"{BACKUP} {number}", id=f"m{number}")
    answer = discover(alice, memory_id="m0", response_level="full")
    assert answer["association_count"] == len(answer["associations"]) == 10
    assert answer["discovery_metadata"]["search_strategy"] == "content"
    assert discover(alice, memory_id="m0", limit=3)["association_count"] == 3


def test_tags_and_category_find_what_the_content_does_not(alice, keep):
    keep(alice, "zinnia", id="m1", tags=["harbour", "crane", "winch"], category="goal")
    keep(alice, "harbour crane winch", id="m2", category="experience")
    answer = discover(alice, memory_id="m1", response_level="full")
    assert targets(answer) == ["m2"]
    assert answer["discovery_metadata"]["search_strategy"] == "content+tags+category"


def test_the_threshold_of_the_caller_holds(alice, keep):
    keep(alice, BACKUP, id="m1")
    keep(alice, f"{BACKUP} x", id="near")
    keep(alice, "the database is small", id="far")
    assert targets(discover(alice, memory_id="m1", similarity_threshold=0.8)) == ["near"]


def test_the_same_content_is_no_association(alice, keep):
    keep(alice, BACKUP, id="m1")
    keep(alice, f"  {BACKUP.upper()} ", id="copy")
    keep(alice, f"{BACKUP} x", id="near")
    assert targets(discover(alice, memory_id="m1")) == ["near"]


def test_sessions_keep_to_themselves(alice, keep):
    keep(alice, BACKUP, id="m1", scope="session/a")
    keep(alice, f"{BACKUP} x", id="same", scope="session/a")
    keep(alice, f"{BACKUP} y", id="other", scope="session/b")
    keep(alice, f"{BACKUP} z", id="global", scope="global")
    keep(alice, f"{BACKUP} w", id="work", scope="work")
    assert sorted(targets(discover(alice, memory_id="m1"))) == ["same", "work"]


def test_nothing_outside_the_root_is_found(alice, keep):
    keep(alice, BACKUP, id="m1")
    keep(ToolContext(memory=alice.memory, root="user/bob"), f"{BACKUP} x", id="bobs")
    assert discover(alice, memory_id="m1")["association_count"] == 0
    with pytest.raises(NotFoundError, match=r"^Memory not found: bobs$"):
        discover(alice, memory_id="bobs")


def test_an_unknown_memory_is_not_found(alice):
    with pytest.raises(NotFoundError, match=r"^Memory not found: m9$"):
        discover(alice, memory_id="m9")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"limit": 0}, "limit must be between 1 and 100"),
        ({"limit": 101}, "limit must be between 1 and 100"),
        ({"similarity_threshold": 1.1}, "similarity_threshold must be between 0.0 and 1.0"),
        ({"similarity_threshold": -0.1}, "similarity_threshold must be between 0.0 and 1.0"),
        ({"similarity_threshold": float("nan")}, "similarity_threshold must be between 0.0 and 1.0"),
    ],
)
def test_numbers_outside_their_bounds_are_refused(alice, arguments, complaint):
    with pytest.raises(ValidationError, match=complaint):
        discover(alice, memory_id="m1", **arguments)


def test_looking_writes_nothing_and_counts_no_access(alice, keep):
    source = keep(alice, BACKUP, id="m1")
    near = keep(alice, f"{BACKUP} x", id="near")
    discover(alice, memory_id="m1", response_level="full")
    assert alice.manager.associations_of(source, within="user/alice") == []
    assert alice.manager.find("near", root="user/alice", scope="user/alice") == near
