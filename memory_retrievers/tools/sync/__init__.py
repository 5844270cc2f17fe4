"""``memory_sync``: memories exported to a document, and imported from one."""
