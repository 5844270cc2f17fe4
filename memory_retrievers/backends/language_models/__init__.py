"""Adapts any language model to one interface: a prompt goes in, a checked object comes out."""

from memory_retrievers.backends.language_models.adapt import AnyLanguageModel, adapt

__all__ = ["AnyLanguageModel", "adapt"]
