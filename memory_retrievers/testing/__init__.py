"""Test doubles and contract suites for those who build on the package."""

from memory_retrievers.testing.fakes import FixedClock, HashEmbedder, ScriptedLanguageModel

__all__ = ["FixedClock", "HashEmbedder", "ScriptedLanguageModel"]
