"""Text processing: search terms, passages, summaries, dates and duplicates, without any model."""
