"""Embedders: the bundled model, and the adapter for any other."""
