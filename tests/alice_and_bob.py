"""What the memories of the adapters' tests hold."""

from memory_retrievers import Message

ALICE_AND_BOB = [
    {"scope": "user/alice", "fact": "Alice lives in Lyon", "category": "identity"},
    {"scope": "user/alice", "fact": "Answer in metric units", "category": "guideline"},
    {
        "scope": "user/alice",
        "title": "Broken import",
        "summary": "The nightly import in Lyon failed again.",
        "messages": [Message(role="user", content="It died again.")],
        "surprise": 0.9,
    },
    {"scope": "user/bob", "fact": "Bob lives in Bergen", "category": "identity"},
]
