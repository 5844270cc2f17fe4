import inspect

import pytest

from memory_retrievers.backends.embeddings import minilm


@pytest.fixture(autouse=True)
def embedded_each_time(embedded_once, monkeypatch):
    """Tests of the embedder itself ask the model whatever was asked before."""
    monkeypatch.setattr(minilm._Model, "run", inspect.unwrap(minilm._Model.run))
