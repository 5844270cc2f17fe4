import pytest


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


def test_associations_are_left_out_when_they_are_not_wanted(tool, small):
    tool("memory_store", content="Nightly backups run at two")
    answer = tool("memory_store", content="Nightly backups run at three", auto_associate=False)
    assert answer["associations_count"] == 0
    memory = small.get(answer["id"], scope="user/alice")
    assert small.manager.associations_of(memory, within="user/alice") == []


def test_the_same_twice_is_two_memories_by_default(tool):
    ids = {tool("memory_store", content="User lives in Lyon")["id"] for _ in range(2)}
    assert len(ids) == 2


def test_without_duplicates_the_one_that_is_there_is_given_back(tool, seed, small):
    first = tool("memory_store", content="User lives in Lyon")
    again = tool("memory_store", content="The user lives in Lyon", allow_duplicates=False, response_level="full")
    assert again["memory_id"] == again["duplicate_of"] == first["id"]
    assert again["duplicate_analysis"]["duplicate_found"] is True
    assert seed("memory_store", content="User lives in Lyon", allow_duplicates=False)["duplicate_of"] == first["id"]
    assert len(facts(small)) == 1


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
