"""A writer that is killed while it writes, and the account of what it had acknowledged; shared by tests and soak."""
