"""Storage: the memory store over a ledger and its indexes, with export, migration, maintenance and Chroma sync."""
