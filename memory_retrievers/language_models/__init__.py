"""Any language model in the package's shape: a question goes in, a checked object comes out."""

from memory_retrievers.language_models.adapting import AnyLanguageModel, adapt

__all__ = ["AnyLanguageModel", "adapt"]
