"""Writes down everything a memory answers, to the last digit, and compares a later version with it.

A change that is meant to leave the answers alone is checked by this: record before it, compare after it.

    python benchmarks/goldens.py record build/goldens.json.gz [--locomo FILE]
    python benchmarks/goldens.py compare build/goldens.json.gz [--locomo FILE]

Recorded are, under the default and the reference profile: ids, scores and explanations of ``retrieve``, the markdown
at every level of detail and with a budget, ``context``, ``recent``, ``explain`` and ``explain_missing``, the answers of
every tool at every level and in the plain form, scenes, and the bytes of exports; over the sample history on disk
and in memory, over a conversation that goes through the write path, and over LoCoMo where its file is named. Ids and
times are made up in the same order each time, and every text is embedded alone, so that batches do not matter.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import uuid_utils

from memory_retrievers import AgentMemory, Message, RetrievalResult, RetrievalSettings, SemanticMemory
from memory_retrievers.backends.embeddings.minilm import MiniLMEmbedder
from memory_retrievers.evaluation.conversations import RememberedVectors
from memory_retrievers.evaluation.datasets import load_locomo
from memory_retrievers.evaluation.samples import QUESTIONS, SCOPE, load_history
from memory_retrievers.models import DetailLevel, ResponseLevel
from memory_retrievers.testing import FixedClock, HashEmbedder
from memory_retrievers.tools.registry import LocalToolbox
from memory_retrievers.tools.tool import ToolContext

Goldens: TypeAlias = dict[str, Any]

NOW: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
PROFILES: Final = {
    "default": RetrievalSettings(),
    "specified": RetrievalSettings.reference(),
    "light": RetrievalSettings.light(),
}
ASKED: Final = (
    *QUESTIONS,
    "What must I not cook for Lou?",
    "hello",
    "E-4071 v1.5 consumer release on Friday",
    "when did the import fail, and who said so?",
    "zzz qqq",
)
TOOL_EXAMPLES: Final = Path(__file__).parents[1] / "tests" / "tools" / "examples.json"
EXPLAINED_EACH: Final = 10
"""Of so many questions of LoCoMo one is explained; an explanation searches once more."""


class EachAlone:
    """The bundled embedder, asked for one text at a time: its vectors depend a little on what else is in a batch."""

    def __init__(self) -> None:
        self._embedder = MiniLMEmbedder()
        self.id = self._embedder.id

    def embed_documents(self, texts: Sequence[str]) -> np.ndarray:
        """One vector per text: shape (number of texts, 384)."""
        return np.array([self._embedder.embed_query(text) for text in texts]).reshape(len(texts), 384)

    def embed_query(self, text: str) -> np.ndarray:
        """The vector of one text: shape (384,)."""
        return self._embedder.embed_query(text)


def ids_from_the_start() -> None:
    """From here on ids are made up in one order: the first, the second, the third."""
    numbers = count(1)
    uuid_utils.uuid7 = lambda: uuid.UUID(int=(0x018E << 112) | (0x7 << 76) | (0x2 << 62) | next(numbers))


def digest(value: object) -> str:
    """Names a value; equal values have equal names."""
    told = value if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False, sort_keys=True).encode()
    return hashlib.sha256(told).hexdigest()[:24]


def answers(memory: AgentMemory, scope: str, query: str) -> Iterator[tuple[str, Any]]:
    """Everything that one question is answered with."""
    result = memory.retrieve(query, scope=scope, record=False)
    yield "ids and scores", [(hit.memory.id, hit.rank, hit.score) for hit in (*result.semantic, *result.episodic)]
    yield "explained", result.to_dict(explain=True)
    yield "raw", result.to_dict()
    for detail in DetailLevel:
        yield f"markdown {detail}", result.to_markdown(detail)
        yield f"markdown {detail} in 300 tokens", result.to_markdown(detail, max_tokens=300)
    yield "five together", [hit.memory.id for hit in _both(memory.retrieve(query, scope=scope, limit=5, record=False))]
    yield "context", memory.context(query, scope=scope).to_markdown()


def explained(memory: AgentMemory, scope: str, query: str) -> Iterator[tuple[str, Any]]:
    """Why a question is answered so, and why not otherwise."""
    told = memory.explain(query, scope=scope)
    yield "explain", told.to_dict()
    yield "explain as text", told.to_text()
    missing = memory.list(scope).memories[-1].id
    yield "explain missing", memory.explain_missing(missing, query=query, scope=scope, limit=1).to_dict()


def samples(goldens: Goldens, directory: Path) -> None:
    """The sample history: on disk and in memory, under each profile."""
    for name, profile in PROFILES.items():
        for place in ("disk", "memory"):
            ids_from_the_start()
            with _opened(place, directory / f"samples-{name}", retrieval=profile, embedder=EachAlone()) as memory:
                memory.remember_many(load_history(scope=SCOPE, now=NOW))
                memory.remember_fact(
                    scope=f"{SCOPE}/work", fact="The consumer is released on Fridays", category="guideline"
                )
                for query in ASKED:
                    _keep(goldens, f"samples/{name}/{place}/{query}", answers(memory, SCOPE, query))
                    _keep(goldens, f"samples/{name}/{place}/{query}", explained(memory, SCOPE, query))
                goldens[f"samples/{name}/{place}/recent"] = memory.recent(SCOPE).to_markdown()
                below = memory.retrieve(ASKED[0], scope="user", include_child_scopes=True, record=False)
                goldens[f"samples/{name}/{place}/below"] = below.to_dict(explain=True)
                goldens[f"samples/{name}/{place}/export"] = _exported(memory, directory / f"{name}-{place}.jsonl")


def write_path(goldens: Goldens, directory: Path) -> None:
    """A conversation that becomes episodes by rules, with reviews."""
    ids_from_the_start()
    clock = FixedClock(NOW - timedelta(days=3))
    with _opened("disk", directory / "written", clock=clock, embedder=HashEmbedder()) as memory:
        for draft in load_history(scope=SCOPE, now=NOW):
            for message in getattr(draft, "messages", None) or ():
                clock.advance(minutes=2)
                memory.add_messages(SCOPE, [Message(role=message.role, content=message.content, timestamp=clock.now())])
            memory.process_due(SCOPE)
            clock.advance(hours=1)
        memory.flush(SCOPE)
        for query in ASKED:
            memory.retrieve(query, scope=SCOPE)
            _keep(goldens, f"written/{query}", answers(memory, SCOPE, query))
        goldens["written/export"] = _exported(memory, directory / "written.jsonl")


def tools(goldens: Goldens, directory: Path) -> None:
    """Each example of each tool, at every level and in the plain form."""
    for number, (tool, case, arguments) in enumerate(json.loads(TOOL_EXAMPLES.read_text("utf-8"))):
        for form in (*ResponseLevel, "plain"):
            ids_from_the_start()
            with _opened("memory", directory, clock=FixedClock(NOW), embedder=HashEmbedder()) as memory:
                _stock(memory)
                rules = {"response_format": "plain"} if form == "plain" else {}
                context = ToolContext(memory=memory, root="user/alice", allow_scopes=True, **rules)
                told = LocalToolbox(context).call(
                    tool, arguments if form == "plain" else arguments | {"response_level": form}
                )
                name = f"tools/{number:02} {tool} {case}/{form}"
                goldens[name] = {"content": told.content, "artifact": told.artifact, "is_error": told.is_error}


def locomo(goldens: Goldens, directory: Path, path: Path) -> None:
    """All questions of a LoCoMo file; answers as digests, ids and scores in full."""
    embedder = RememberedVectors(EachAlone())
    for conversation in load_locomo(path):
        clock = FixedClock(max(session.at for session in conversation.sessions) + timedelta(days=1))
        for name, profile in PROFILES.items():
            ids_from_the_start()
            place = directory / digest([conversation.scope, name])
            with _opened("disk", place, clock=clock, retrieval=profile, embedder=embedder) as memory:
                memory.remember_many(conversation.drafts())
                for number, question in enumerate(conversation.questions):
                    told = dict(answers(memory, conversation.scope, question.text))
                    if number % EXPLAINED_EACH == 0:
                        told |= dict(explained(memory, conversation.scope, question.text))
                    key = f"locomo/{name}/{conversation.scope}/{number}"
                    goldens[f"{key}/ids and scores"] = told.pop("ids and scores")
                    goldens.update({f"{key}/{what}": digest(value) for what, value in told.items()})


def compare(before: Goldens, after: Goldens) -> list[str]:
    """A line for each answer that is not the same, is gone, or is new."""
    lines = [f"gone: {name}" for name in before.keys() - after.keys()]
    lines += [f"new: {name}" for name in after.keys() - before.keys()]
    for name in before.keys() & after.keys():
        was, now = (json.dumps(each[name], ensure_ascii=False, indent=1, sort_keys=True) for each in (before, after))
        if was != now:
            rows = zip(was.splitlines(), now.splitlines(), strict=False)
            first = next(((a, b) for a, b in rows if a != b), ("", "one is longer"))
            lines.append(f"differs: {name}\n    was {first[0].strip()[:300]}\n    is  {first[1].strip()[:300]}")
    return sorted(lines)


def _opened(place: str, directory: Path, *, clock: FixedClock | None = None, **options: Any) -> AgentMemory:  # noqa: ANN401
    clock = clock or FixedClock(NOW)
    return (
        AgentMemory.in_memory(clock=clock, **options)
        if place == "memory"
        else AgentMemory.open(directory, clock=clock, **options)
    )


def _keep(goldens: Goldens, name: str, told: Iterator[tuple[str, Any]]) -> None:
    goldens.update({f"{name}/{what}": value for what, value in told})


def _exported(memory: AgentMemory, file: Path) -> str:
    memory.export(file)
    return file.read_text("utf-8")


def _both(result: RetrievalResult) -> list[Any]:
    return [*result.semantic, *result.episodic]


def _stock(memory: AgentMemory) -> None:
    """What the examples of the tools are about."""
    facts = {
        "m1": "Nightly backups run at 02:00 and are kept for thirty-five days",
        "m2": "Nightly backups of the wiki are kept for a year",
        "m3": "The wiki is mirrored to Porto",
    }
    memory.manager.add(
        [
            SemanticMemory.new(id=name, scope="user/alice", fact=fact, origin="tool", tags=["ops"])
            for name, fact in facts.items()
        ]
    )
    memory.remember_fact(scope="user/alice", fact="Alice looks after the backups", category="identity", id="f1")
    memory.remember_many(load_history(scope="user/alice/story", now=NOW))


PARTS: Final[tuple[Callable[[Goldens, Path], None], ...]] = (samples, write_path, tools)


def collect(locomo_file: Path | None) -> Goldens:
    """All answers, by name."""
    goldens: Goldens = {}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for part in PARTS:
            part(goldens, directory)
        if locomo_file is not None:
            locomo(goldens, directory, locomo_file)
    return json.loads(json.dumps(goldens))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["record", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--locomo", type=Path, help="a LoCoMo file")
    arguments = parser.parse_args()
    goldens = collect(arguments.locomo)
    if arguments.what == "record":
        arguments.file.parent.mkdir(parents=True, exist_ok=True)
        arguments.file.write_bytes(
            gzip.compress(json.dumps(goldens, ensure_ascii=False, sort_keys=True).encode(), mtime=0)
        )
        print(f"{len(goldens):,} answers are written down, {digest(goldens)}")
        return
    before = json.loads(gzip.decompress(arguments.file.read_bytes()))
    if arguments.locomo is None:
        before = {name: value for name, value in before.items() if not name.startswith("locomo/")}
    differences = compare(before, goldens)
    print("\n".join(differences[:40]))
    print(f"{len(goldens):,} answers, {len(differences):,} of them not as they were")
    sys.exit(bool(differences))


if __name__ == "__main__":
    main()
