import pytest

from memory_retrievers import AgentMemory, IngestionSettings
from memory_retrievers.testing import HashEmbedder
from memory_retrievers.tools.registry import LocalToolbox
from memory_retrievers.tools.tool import ToolContext


def facts(memory, scope="user/alice"):
    return memory.list(scope).memories


def test_what_is_similar_is_associated_and_counted(tool, small):
    first = tool("memory_store", content="Nightly backups run at two")
    second = tool("memory_store", content="Nightly backups run at three", response_level="full")
    assert (first["associations_count"], second["associations_count"]) == (0, 1)
    (association,) = second["associations_details"]
    assert association["associated_id"] == first["id"]
    assert association["association_type"] == "semantic"
    assert association["strength"] >= 0.7
    memory = small.get(first["id"], scope="user/alice")
    assert len(small.manager.associations_of(memory, within="user/alice")) == 1


def test_what_is_stored_tells_each_of_its_associations_once(tool):
    tool("memory_store", content="Nightly backups run at two")
    answer = tool("memory_store", content="Nightly backups run at three", response_level="full")
    (association,) = answer["associations_details"]
    assert repr(answer).count(repr(association)) == 1
    assert "associations" not in answer["memory_object"]


def test_associations_are_left_out_when_they_are_not_wanted(tool, small):
    tool("memory_store", content="Nightly backups run at two")
    answer = tool("memory_store", content="Nightly backups run at three", auto_associate=False)
    assert answer["associations_count"] == 0
    memory = small.get(answer["id"], scope="user/alice")
    assert small.manager.associations_of(memory, within="user/alice") == []


def test_the_same_twice_is_one_memory_by_default_and_two_in_the_plain_form(tool, plain_tool, small):
    first = tool("memory_store", content="User lives in Lyon", tags=["home"])
    again = tool("memory_store", content="user lives in  Lyon.", tags=["city"], metadata={"seen": 2})
    assert again["memory_id"] == again["duplicate_of"] == first["id"]
    known = small.get(first["id"], scope="user/alice")
    assert (known.tags, known.metadata) == (("home", "city"), {"seen": 2})
    assert known.last_confirmed_at is not None
    plain = {plain_tool("memory_store", content="User lives in Lyon")["id"] for _ in range(2)}
    assert len(plain - {first["id"]}) == 2


def test_what_says_the_reverse_in_the_same_words_is_stored_and_names_what_it_may_replace():
    with AgentMemory.in_memory() as memory:
        toolbox = LocalToolbox(ToolContext(memory=memory, root="user/alice"))
        first = toolbox.call("memory_store", {"content": "Alice prefers tea over coffee"}).artifact
        second = toolbox.call("memory_store", {"content": "Alice prefers coffee over tea"}).artifact
        assert "duplicate_of" not in second
        assert [each["id"] for each in second["near"]] == [first["id"]]
        assert len(facts(memory)) == 2


def test_two_are_kept_where_that_is_asked_for_or_something_would_be_lost(tool):
    first = tool("memory_store", content="User lives in Lyon")["id"]
    others = (
        {"allow_duplicates": True},
        {"category": "identity"},
        {"agent_id": "bob"},
        {"memory_tier": "working"},
        {"ttl_seconds": 60},
        {"content_type": "code"},
    )
    ids = [tool("memory_store", content="User lives in Lyon", **other)["id"] for other in others]
    assert len({first, *ids}) == 1 + len(others)


def test_what_is_added_to_a_known_memory_keeps_its_limits(tool, small):
    first = tool("memory_store", content="User lives in Lyon", tags=[f"a{n}" for n in range(60)])["id"]
    refused = tool("memory_store", content="User lives in Lyon", tags=[f"b{n}" for n in range(60)])
    assert refused["error_type"] == "ValidationError"
    assert len(small.get(first, scope="user/alice").tags) == 60


def test_a_batch_knows_what_it_has_just_stored(tool):
    items = [{"content": text} for text in ("User lives in Lyon", "User likes tea", "user lives in Lyon.")]
    answer = tool("memory_batch_store", items=items)
    assert answer["stored_count"] == 2
    assert answer["duplicates"] == [{"index": 2, "duplicate_of": answer["stored_ids"][0]}]


def test_what_is_near_and_differs_is_named_with_the_way_to_replace_it(tool, plain_tool, small):
    porto = tool("memory_store", content="User lives in Porto")["id"]
    assert "near" not in tool("memory_store", content="User likes Porto wine")
    braga = tool("memory_store", content="User lives in Braga")
    assert braga["near"] == [{"id": porto, "content": "User lives in Porto"}]
    assert "replaces" in braga["hint"]
    assert tool("memory_store", content="User lives in Faro", response_level="minimal")["near"]
    assert "near" not in plain_tool("memory_store", content="User lives in Evora")
    # as the hint says
    again = tool("memory_store", content="User lives in Braga", replaces=porto)
    assert again["duplicate_of"] == braga["id"]
    history = small.history(porto, scope="user/alice")
    assert [(each.fact, each.replaced_by) for each in history] == [
        ("User lives in Porto", braga["id"]),
        ("User lives in Braga", None),
    ]


def test_nothing_is_stored_where_what_is_to_be_replaced_cannot_be(tool, small):
    unknown = tool("memory_store", content="User lives in Braga", replaces="nobody")
    assert unknown["error_type"] == "NotFoundError"
    assert small.stats("user/alice").facts == 0
    batch = tool("memory_batch_store", items=[{"content": "a"}, {"content": "b", "replaces": "nobody"}])
    assert (batch["success"], batch["stored_count"]) == (False, 0)
    assert small.stats("user/alice").facts == 0


def test_without_duplicates_the_one_that_is_there_is_given_back(tool, plain_tool, small):
    first = tool("memory_store", content="User lives in Lyon")
    again = tool("memory_store", content="The user lives in Lyon", allow_duplicates=False, response_level="full")
    assert again["memory_id"] == again["duplicate_of"] == first["id"]
    assert again["duplicate_analysis"]["duplicate_found"] is True
    assert (
        plain_tool("memory_store", content="User lives in Lyon", allow_duplicates=False)["duplicate_of"] == first["id"]
    )
    assert len(facts(small)) == 1


def test_what_is_the_same_is_judged_as_the_memory_was_opened_to_judge(clock):
    loose = IngestionSettings(same_cosine=0.5)
    arguments = {"content": "Nightly backups run at two every day", "allow_duplicates": False, "response_level": "full"}
    answers = []
    for ingestion in (None, loose):
        with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, ingestion=ingestion) as memory:
            toolbox = LocalToolbox(ToolContext(memory=memory, root="user/alice"))
            first = toolbox.call("memory_store", {"content": "Nightly backups run at two"}).artifact["id"]
            answers.append(toolbox.call("memory_store", arguments).artifact)
    strictly, loosely = (answer["duplicate_analysis"] for answer in answers)
    assert (strictly["threshold_used"], strictly["duplicate_found"]) == (0.95, False)
    assert (loosely["threshold_used"], loosely["duplicate_found"]) == (0.5, True)
    assert answers[1]["duplicate_of"] == first


def test_numbers_and_names_are_compared_unless_the_memory_was_opened_not_to(clock):
    bare = IngestionSettings.reference()
    with AgentMemory.in_memory(
        embedder=lambda texts: [[1.0, 0.0]] * len(texts), embedder_id="one", clock=clock, ingestion=bare
    ) as memory:
        toolbox = LocalToolbox(ToolContext(memory=memory, root="user/alice"))
        first = toolbox.call("memory_store", {"content": "The door code is 4711"}).artifact["id"]
        again = {"content": "The door code is 4712", "allow_duplicates": False}
        assert toolbox.call("memory_store", again).artifact["duplicate_of"] == first


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The door code of the house in the old town is 4711", "The door code of the house in the old town is 4712"),
        ("User is allergic to nuts", "User is not allergic to nuts"),
    ],
)
def test_what_differs_in_a_number_or_a_negation_is_no_duplicate(tool, small, one, other):
    tool("memory_store", content=one)
    assert "duplicate_of" not in tool("memory_store", content=other, allow_duplicates=False)
    assert len(facts(small)) == 2


def test_a_threshold_refuses_what_is_as_similar(tool, small):
    """Case C19."""
    tool("memory_store", content="Nightly backups run at two")
    answer = tool("memory_store", content="Nightly backups run at two", duplicate_threshold=0.85, response_level="full")
    assert answer["message"] == "Duplicate content detected (similarity: 1.000 >= 0.85)"
    assert (answer["success"], answer["error_type"]) == (False, "ValidationError")
    analysis = answer["details"]["duplicate_analysis"]
    assert (analysis["threshold_used"], analysis["duplicate_found"]) == (0.85, True)
    assert analysis["duplicate_candidate"]["content_preview"] == "Nightly backups run at two"
    assert "details" not in tool("memory_store", content="Nightly backups run at two", duplicate_threshold=0.85)
    assert len(facts(small)) == 1
    assert tool("memory_store", content="Something else entirely", duplicate_threshold=0.85)["success"] is True


def test_duplicates_of_another_owner_do_not_count(tool, small):
    small.remember_fact(scope="user/bob", fact="User lives in Lyon")
    answer = tool("memory_store", content="User lives in Lyon", allow_duplicates=False, duplicate_threshold=0.9)
    assert answer["success"] is True
    assert "duplicate_of" not in answer
