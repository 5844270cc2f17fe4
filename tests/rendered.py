"""Renders memories as the result of a search does, of which a test names only what it is about."""

from memory_retrievers.retrieval.results import RetrievalResult


def retrieved_block(facts, episodes, *, now, detail="auto", query="", fact_display_length=None, **budget):
    """The block of these memories, in rank order."""
    result = RetrievalResult(
        query=query,
        scope="c1",
        now=now,
        semantic=tuple(facts),
        episodic=tuple(episodes),
        fact_display_length=fact_display_length,
    )
    return result.to_markdown(detail, **budget)
