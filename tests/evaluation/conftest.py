import json
from datetime import UTC, datetime

import pytest

from memory_retrievers.backends.embeddings import adapt
from memory_retrievers.evaluation.conversations import Conversation, Question, RememberedVectors, Session, Turn
from memory_retrievers.evaluation.measure import TokenCounter
from memory_retrievers.testing import HashEmbedder


@pytest.fixture
def embedder():
    return RememberedVectors(adapt(HashEmbedder()))


@pytest.fixture
def words():
    """A token is a word."""
    return TokenCounter(name="words", count=lambda text: len(text.split()))


@pytest.fixture
def ignored():
    """Progress that nobody looks at."""
    return lambda done, total: None


@pytest.fixture
def conversation():
    """Two sessions: bees and a boat."""
    return Conversation(
        scope="talk/one",
        sessions=(
            Session(
                id="session-1",
                at=datetime(2024, 3, 1, 10, tzinfo=UTC),
                turns=(
                    Turn(id="T1", speaker="Ruth", text="I bought two hives of bees for the garden."),
                    Turn(id="T2", speaker="Sami", text="How brave of you!"),
                ),
            ),
            Session(
                id="session-2",
                at=datetime(2024, 4, 9, 20, tzinfo=UTC),
                turns=(
                    Turn(id="T3", speaker="Sami", text="My boat is called Albatross."),
                    Turn(id="T4", speaker="Ruth", text="When do we sail?"),
                ),
            ),
        ),
        questions=(
            Question(text="How many hives of bees did Ruth buy?", category="single", gold=frozenset({"T1"})),
            Question(text="What is the boat of Sami called?", category="single", gold=frozenset({"T3"})),
            Question(text="Who bought bees, and who has a boat?", category="multi", gold=frozenset({"T1", "T3"})),
        ),
    )


@pytest.fixture
def write_json(tmp_path):
    """Write a value as JSON into a file, and give the file."""

    def write(value):
        file = tmp_path / "data.json"
        file.write_text(json.dumps(value), encoding="utf-8")
        return file

    return write
