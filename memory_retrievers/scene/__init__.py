"""Scene memory: from what happens in a story to events, characters and what matters now (specification §5)."""
