"""Embedders: the bundled model, and the adapter that brings any other into the package's shape."""
