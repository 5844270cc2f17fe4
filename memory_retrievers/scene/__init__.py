"""Scene memory: extraction of story events, states of characters, relevance and rendering (specification §5)."""
