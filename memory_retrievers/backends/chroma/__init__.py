"""Chroma as a vector index: clients, collection, background feeder and index."""
