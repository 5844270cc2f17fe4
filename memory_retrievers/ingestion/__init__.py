"""The write path: from messages to episodes and facts."""
