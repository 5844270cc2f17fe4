"""Fit the projection of token vectors (``memory_retrievers/backends/embeddings/model/tokens.bin``).

    python scripts/fit_tokens.py

It is fitted on text of our own, and on no evaluation data: the sample history, eight synthetic conversations and the
documentation of this repository. The vectors of all tokens that are kept beside a text (no stop words, no
punctuation) are brought to length 1 and centred; the projection is their 64 first right singular vectors, as float16,
row by row: shape (384, 64), 49,152 bytes. Prints its sha256, which is pinned in
``memory_retrievers/backends/embeddings/minilm.py``. Nothing of this is needed at run time.

The documentation changes, so that another run gives another projection, and with it other token vectors than stores
hold. The shipped one is of the commit that brought this script.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memory_retrievers.backends.embeddings import minilm
from memory_retrievers.evaluation.samples import load_history
from memory_retrievers.evaluation.synthetic import synthetic
from memory_retrievers.models import EpisodicDraft

REPOSITORY: Final = Path(__file__).resolve().parent.parent
TOKENS: Final = 40_000
CONVERSATIONS: Final = 8
LEAST_CHARACTERS: Final = 40


def texts() -> Iterator[str]:
    """Messages first, then sentences of the documentation."""
    for draft in load_history(scope="user/sample", now=datetime(2026, 1, 1, tzinfo=UTC)):
        if isinstance(draft, EpisodicDraft):
            yield from (message.content for message in draft.messages)
        else:
            yield draft.embedding_text
    for conversation in synthetic(number=CONVERSATIONS):
        yield from (f"{turn.speaker}: {turn.text}" for turn in conversation.turns.values())
    for page in sorted((REPOSITORY / "docs").rglob("*.md")):
        prose = re.sub(r"```.*?```", " ", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        sentences = re.split(r"(?<=[.!?])\s+|\n\s*\n", re.sub(r"[`*#|>\[\]]", " ", prose))
        yield from (" ".join(each.split()) for each in sentences if len(each) >= LEAST_CHARACTERS)


def main() -> None:
    """Fit it, and write it."""
    embedder = minilm.MiniLMEmbedder()
    vectors: list[NDArray[np.float32]] = []
    found = 0
    for text in dict.fromkeys(texts()):
        for each in embedder.passes([text]):
            places, _ = minilm.kept_tokens(each.encodings[0], text, is_query=False)
            vectors.append(each.token_vectors[0, places])
            found += len(places)
        if found >= TOKENS:
            break
    tokens = np.concatenate(vectors)[:TOKENS]
    tokens = tokens / np.linalg.norm(tokens, axis=1, keepdims=True)
    _, _, right = np.linalg.svd(tokens - tokens.mean(axis=0), full_matrices=False)
    content = right[: minilm.TOKEN_DIMENSION].T.astype("<f2").tobytes()
    (minilm.MODEL_DIRECTORY / "tokens.bin").write_bytes(content)
    print(f"{hashlib.sha256(content).hexdigest()}  {len(content):,} bytes from {len(tokens):,} tokens")


if __name__ == "__main__":
    main()
