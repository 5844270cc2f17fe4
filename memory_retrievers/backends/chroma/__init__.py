"""Chroma as a vector index: clients, collection, crash guard, background feeder and index."""
