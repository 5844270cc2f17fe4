"""The ledger in SQL, shared by all databases; what differs between them is in a dialect."""
