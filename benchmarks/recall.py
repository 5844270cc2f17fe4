"""Recall of the wide search against the exact one, over sentences embedded with the bundled model.

30,000 distinct sentences and 200 questions, from a seed, are embedded once; their vectors are kept in the user's
cache, outside the repository. The same store is then searched exactly and by an approximate index, Chroma's or that of
pgvector: recall@100 is the share of the 100 nearest memories that the index finds too.

    python benchmarks/recall.py
    python benchmarks/recall.py --backend postgres
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np
from sentences import questions, statements
from timings import Timings

from memory_retrievers import AgentMemory, RetrievalSettings, SemanticMemory
from memory_retrievers.backends.embeddings.minilm import MODEL_SHA256, TOKENIZER_SHA256, MiniLMEmbedder

if TYPE_CHECKING:
    from memory_retrievers.models.selection import Vector, Vectors

Dense: TypeAlias = Literal["exact", "wide"]
Opening: TypeAlias = Callable[[Dense], AgentMemory]

DEPTH: Final = 100
SEED: Final = 7


class StoredVectors(MiniLMEmbedder):
    """The bundled embedder, which has embedded these texts before."""

    def __init__(self, texts: Sequence[str], file: Path) -> None:
        super().__init__()
        self._stored: dict[str, Vector] = {}
        if not file.exists():
            _write(file, super().embed_documents(texts))
        self._stored.update(zip(texts, np.load(file), strict=True))

    def nickname(self, name: str, text: str) -> None:
        """Give ``name`` the vector of ``text``."""
        self._stored[name] = self._stored[text]

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        known = [text.removeprefix("note: ") for text in texts]
        if all(text in self._stored for text in known):
            return np.array([self._stored[text] for text in known])
        return super().embed_documents(texts)


@dataclass
class Answers:
    """What one engine gave for every question."""

    nearest: list[set[str]] = field(default_factory=list)
    timings: Timings = field(default_factory=Timings)


@dataclass(frozen=True)
class Layout:
    """How the sentences are spread over scopes, and which of them are searched."""

    name: str
    scope_of: Callable[[int], str]
    searched: str
    include_child_scopes: bool = False


LAYOUTS: Final = (
    Layout("one scope of all", lambda _: "everything", "everything"),
    Layout("child scopes, a tenth", lambda number: f"team/{number % 10}/user/{number % 490}", "team/3", True),
)


def _write(file: Path, vectors: Vectors) -> None:
    """Whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(f".{os.getpid()}.npy")
    np.save(unfinished, vectors)
    unfinished.replace(file)


def _nickname(number: int) -> str:
    """A question's other name, with its vector, but without a word that is in any sentence."""
    return f"question{number}"


def _embedder(texts: Sequence[str]) -> StoredVectors:
    """The file goes by what was embedded, and by what with."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    key = hashlib.sha256("\n".join([MODEL_SHA256, TOKENIZER_SHA256, *texts]).encode()).hexdigest()[:16]
    return StoredVectors(texts, cache / "memory-retrievers" / f"sentences-{key}.npy")


def _fill(opened: Opening, layout: Layout, sentences: Sequence[str]) -> None:
    scopes = map(layout.scope_of, range(len(sentences)))
    facts = [
        SemanticMemory.new(scope=scope, fact=sentence, category="note")
        for scope, sentence in zip(scopes, sentences, strict=True)
    ]
    with opened("exact") as memory:
        for start in range(0, len(facts), 2_000):
            memory.remember_many(facts[start : start + 2_000])


def _ask(opened: Opening, layout: Layout, asked: Sequence[str], dense: Dense) -> Answers:
    """Each question twice: once by its vector alone, once as an agent asks, which is timed."""
    answers = Answers()
    with opened(dense) as memory:
        retrieve = partial(
            memory.retrieve,
            scope=layout.searched,
            include_child_scopes=layout.include_child_scopes,
            episodic_limit=0,
            record=False,
        )
        for number, question in enumerate(asked):
            found = retrieve(_nickname(number), semantic_limit=DEPTH).semantic
            assert all(hit.explanation.bm25_rank is None for hit in found)
            answers.nearest.append({hit.memory.id for hit in found})
            answers.timings.measure(lambda: retrieve(question, semantic_limit=5))  # noqa: B023
    return answers


def _line(layout: Layout, exact: Answers, wide: Answers) -> str:
    assert all(len(nearest) == DEPTH for nearest in exact.nearest)
    recalls = [len(true & found) / DEPTH for true, found in zip(exact.nearest, wide.nearest, strict=True)]
    mean, lowest = statistics.mean(recalls), min(recalls)
    return f"| {layout.name} | {mean:.4f} | {lowest:.2f} | {wide.timings} | {exact.timings} |"


@contextmanager
def _on_disk(embedder: StoredVectors) -> Iterator[Opening]:
    """A store in a directory; its wide searches are Chroma's."""
    directory = Path(tempfile.mkdtemp(prefix="memory-retrievers-recall-"))
    try:
        yield lambda dense: AgentMemory.open(
            directory, embedder=embedder, dense="exact" if dense == "exact" else "chroma"
        )
    finally:
        shutil.rmtree(directory)


@contextmanager
def _on_postgres(embedder: StoredVectors) -> Iterator[Opening]:
    """A store on a server of its own; its wide searches are pgvector's."""
    from postgres_server import running_postgres

    with running_postgres(settings=("shared_buffers = '1GB'",)) as server:
        url = server.url(server.create())

        def opened(dense: Dense) -> AgentMemory:
            if dense == "exact":
                return AgentMemory.connect(url, embedder=embedder, dense="exact")
            memory = AgentMemory.connect(url, embedder=embedder, retrieval=RetrievalSettings(exact_limit=0))
            memory._store.dense.make(len(embedder.embed_query("?")))  # noqa: SLF001 - not beside the first searches
            return memory

        yield opened


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=30_000)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--backend", choices=["disk", "postgres"], default="disk")
    arguments = parser.parse_args()
    sentences = statements(arguments.sentences, seed=SEED)
    assert len(set(sentences)) == arguments.sentences
    asked = questions(arguments.questions, seed=SEED + 1)
    embedder = _embedder([*sentences, *asked])
    for number, question in enumerate(asked):
        embedder.nickname(_nickname(number), question)
    print(f"\nRecall@{DEPTH} of the wide search over {len(sentences):,} sentences, {len(asked)} questions\n")
    postgres = arguments.backend == "postgres"
    index = "pgvector" if postgres else "Chroma"
    print(f"| | mean | lowest | {index}, ms p50 / p95 | exact, ms p50 / p95 |\n|---|---|---|---|---|")
    for layout in LAYOUTS:
        with (_on_postgres if postgres else _on_disk)(embedder) as opened:
            _fill(opened, layout, sentences)
            exact, wide = (_ask(opened, layout, asked, dense) for dense in ("exact", "wide"))
            print(_line(layout, exact, wide), flush=True)


if __name__ == "__main__":
    main()
