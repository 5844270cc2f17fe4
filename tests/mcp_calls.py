"""Calls of every tool on Alice's memory, and answers as they came over the wire."""

ALICE, BOB = "user/alice", "user/bob"
BEES = "Bob keeps bees in Bergen"


def told(answer):
    """An answer as it came over the wire, whatever the SDK's version calls its fields."""
    return answer.model_dump(mode="json", by_alias=True, exclude_none=True)


def arguments_for(name, first, second):
    """Arguments with which each tool succeeds on Alice's memory; the deletions come last."""
    return {
        "retrieve_memory": {"query": "Where does Alice live?"},
        "context_pre_retrieve": {"query": "Where does Alice live?"},
        "recent_memory": {},
        "memory_store": {"content": "Alice likes tea"},
        "memory_search": {"query": "tea"},
        "memory_get": {"id": first},
        "memory_update": {"id": first, "tags": ["home"]},
        "memory_delete": {"id": second},
        "memory_list": {},
        "memory_batch_store": {"items": [{"content": "Alice reads"}, {"content": "Alice swims"}]},
        "memory_batch_update": {"updates": [{"id": first, "tags": ["city"]}]},
        "memory_get_score": {"id": first},
        "memory_set_score": {"id": first, "score": 0.9},
        "memory_consolidate": {"memory_ids": [first, second], "preserve_originals": True},
        "memory_manage": {"operation": "get", "memory_id": first},
        "memory_discover_associations": {"memory_id": first},
        "memory_list_all": {},
        "memory_move": {"memory_ids": [first], "target_scope": "work"},
        "scope_list": {},
        "scope_suggest": {"content": "a meeting at work"},
        "session_manage": {"action": "list"},
        "scene": {"chat_length": 5},
        "memory_sync": {"operation": "export"},
    }[name]
