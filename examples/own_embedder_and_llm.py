"""Your own embedder and your own language model, with no framework: a function, and an object with one method.

Run it with ``python examples/own_embedder_and_llm.py``; it needs ``pip install memory-retrievers``.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from tempfile import TemporaryDirectory
from typing import TypeVar

from pydantic import BaseModel

from memory_retrievers import AgentMemory, IngestionSettings, Message

AnswerT = TypeVar("AnswerT", bound=BaseModel)


def embed(texts: Sequence[str]) -> list[list[float]]:
    """A vector for each text, here the counts of its hashed runs of three letters."""
    # With a model it is: return sentence_transformer.encode(texts).tolist()
    vectors = [[0.0] * 512 for _ in texts]
    for vector, text in zip(vectors, texts, strict=True):
        for start in range(len(text)):
            vector[zlib.crc32(text[start : start + 3].lower().encode()) % len(vector)] += 1
    return vectors


class OwnLanguageModel:
    """Asks anything that completes a prompt for JSON, and has it checked."""

    def __init__(self, complete: Callable[[str], str]) -> None:
        self._complete = complete

    def generate(self, system: str, user: str, schema: type[AnswerT]) -> AnswerT:
        """An answer that fits the schema; what does not fit raises, and is asked for once more."""
        rules = f"Answer with JSON that fits this schema: {json.dumps(schema.model_json_schema())}"
        return schema.model_validate_json(self._complete(f"{system}\n\n{rules}\n\n{user}"))


ANSWERS = (  # what a model would complete: how the conversation divides, and what is to be learned from it
    '{"segments": [{"num_messages": 2, "title": "A move", "summary": "Alice has moved from Lyon to Nantes."}]}',
    '{"facts": [{"action": "new", "fact": "Alice lives in Nantes", "keywords": ["city"]}]}',
)


def main() -> None:
    """Make a memory of a conversation with both, and find it again."""
    script = iter(ANSWERS)
    language_model = OwnLanguageModel(lambda _: next(script))  # or lambda prompt: your_client.complete(prompt)
    at_once = IngestionSettings(consolidate_from=1)  # facts from each episode, not from every three
    with (
        TemporaryDirectory() as directory,
        AgentMemory.open(
            directory, embedder=embed, embedder_id="trigrams-512", language_model=language_model, ingestion=at_once
        ) as memory,
    ):
        said = ("I have moved from Lyon to Nantes.", "Congratulations! I will remember Nantes.")
        turns = [Message(role=role, content=text) for role, text in zip(("user", "assistant"), said, strict=True)]
        memory.add_messages("user/alice", turns)
        memory.flush("user/alice")
        print(memory.retrieve("Which city does Alice live in?", scope="user/alice").to_markdown())


if __name__ == "__main__":
    main()
