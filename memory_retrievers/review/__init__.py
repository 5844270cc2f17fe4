"""Reviews: how retrieved memories served a conversation, and what that does to how fast they fade (§2.14)."""

from memory_retrievers.review.jobs import RatedMemory, apply, due_reviews, parse_rating, review_one
from memory_retrievers.review.judges import LanguageModelJudge, OfflineJudge

__all__ = [
    "LanguageModelJudge",
    "OfflineJudge",
    "RatedMemory",
    "apply",
    "due_reviews",
    "parse_rating",
    "review_one",
]
