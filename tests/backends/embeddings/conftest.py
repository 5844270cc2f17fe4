import inspect

import pytest

from memory_retrievers.backends.embeddings import minilm


@pytest.fixture(autouse=True)
def embedded_each_time(embedded_once, monkeypatch):
    """Tests of the embedder itself ask the model whatever was asked before."""
    model = inspect.unwrap(minilm._Model)
    monkeypatch.setattr(model, "run", inspect.unwrap(model.run))
