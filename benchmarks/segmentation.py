"""How well the offline segmenter finds where one sitting of a conversation ends and the next begins.

The data are conversations of several sessions in the format of LoCoMo (https://github.com/snap-research/locomo), each a
list of turns with session, date_time, speaker and text. They are not part of the package; name the file:

    LOCOMO_PATH=locomo.json python benchmarks/segmentation.py

A border found counts if a true one is at most so many messages away, each only once. "queue" cuts as ingestion does:
windows of 20 messages, 40 after a window without a border, and the last segment stays for the next. Pk is the share of
pairs half a session apart that are wrongly taken for one session or for two; lower is better.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from memory_retrievers import EpisodicMemory, Message
from memory_retrievers.backends.embeddings.minilm import MiniLMEmbedder
from memory_retrievers.ingestion.segmenters import OfflineSegmenter
from memory_retrievers.protocols import Segment, SegmentationContext, Segmenter

if TYPE_CHECKING:
    from memory_retrievers.models.selection import Vector, Vectors

WINDOW: Final = 20
DOUBLED_WINDOW: Final = 40
RECENT: Final = 20
LONG_AGO: Final = datetime(2020, 1, 1, tzinfo=UTC)
PACE: Final = timedelta(seconds=30)  # between the turns of a session, which come without times of their own


@dataclass(frozen=True)
class Conversation:
    """Messages, and the positions of those that open a session."""

    messages: list[Message]
    borders: list[int]


@dataclass(frozen=True)
class Cut:
    """What came of cutting a conversation."""

    borders: list[int]
    segments: list[Segment]


class RememberedVectors:
    """The bundled embedder, which embeds each text only once."""

    def __init__(self) -> None:
        self._embedder = MiniLMEmbedder()
        self._known: dict[str, Vector] = {}

    def __call__(self, texts: Sequence[str]) -> Vectors:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        self._known.update(zip(new, self._embedder.embed_documents(new), strict=True))
        return np.array([self._known[text] for text in texts])


class Every:
    """The baseline: a border after every so many messages."""

    def __init__(self, number: int) -> None:
        self._number = number

    def segment(self, messages: Sequence[Message], context: SegmentationContext) -> list[Segment]:  # noqa: ARG002
        sizes = [min(self._number, len(messages) - start) for start in range(0, len(messages), self._number)]
        return [Segment(messages=size, title="", summary="", surprise=0.2) for size in sizes]


def load(path: Path, *, timed: bool) -> list[Conversation]:
    """The conversations of a file, with times or without."""
    return [_conversation(each["turns"], timed=timed) for each in json.loads(path.read_text())["conversations"]]


def _conversation(turns: Sequence[dict[str, str]], *, timed: bool) -> Conversation:
    borders = [at for at in range(1, len(turns)) if turns[at]["session"] != turns[at - 1]["session"]]
    messages = []
    for at, turn in enumerate(turns):
        opened = max((border for border in borders if border <= at), default=0)
        started = datetime.strptime(turn["date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        timestamp = started + PACE * (at - opened) if timed else None
        messages.append(Message(role=turn["speaker"], content=turn["text"].strip() or "[photo]", timestamp=timestamp))
    return Conversation(messages, borders)


def cut_whole(conversation: Conversation, segmenter: Segmenter, embed: Callable[[Sequence[str]], Vectors]) -> Cut:
    """All messages in one look."""
    context = SegmentationContext(previous_summary=None, recent=(), embed=embed)
    segments = segmenter.segment(conversation.messages, context)
    ends = np.cumsum([segment.messages for segment in segments]).tolist()
    return Cut(ends[:-1], segments)


def cut_as_queue(conversation: Conversation, segmenter: Segmenter, embed: Callable[[Sequence[str]], Vectors]) -> Cut:
    """Window after window, as messages arrive; the rest is cut when the conversation is over."""
    start, window, previous = 0, WINDOW, None
    episodes: list[EpisodicMemory] = []
    done = Cut([], [])
    while start < len(conversation.messages):
        messages = conversation.messages[start : start + window]
        context = SegmentationContext(previous_summary=previous, recent=episodes[:RECENT], embed=embed)
        segments = segmenter.segment(messages, context)
        over = len(messages) < window
        if len(segments) == 1 and window == WINDOW and not over:
            window = DOUBLED_WINDOW
            continue
        drained = segments if len(segments) == 1 or over else segments[:-1]
        for segment in drained:
            episodes.insert(0, _episode(segment, conversation.messages[start : start + segment.messages]))
            start += segment.messages
            done.borders.append(start)
            done.segments.append(segment)
        window, previous = WINDOW, segments[-2].summary if len(segments) > 1 else None
    return Cut(done.borders[:-1], done.segments)


def _episode(segment: Segment, messages: Sequence[Message]) -> EpisodicMemory:
    at = messages[-1].timestamp or LONG_AGO
    return EpisodicMemory(
        scope="benchmark",
        id="episode",
        messages=tuple(messages),
        summary=segment.summary or "none",
        created_at=at,
        updated_at=at,
        start_at=at,
        end_at=at,
        last_reviewed_at=at,
        stability=2.5,
        difficulty=2.1,
    )


def matches(found: Sequence[int], true: Sequence[int], tolerance: int) -> int:
    """How many borders found have a true one near that no other has taken."""
    left = list(true)
    for border in found:
        near = [other for other in left if abs(other - border) <= tolerance]
        if near:
            left.remove(min(near, key=lambda other: abs(other - border)))
    return len(true) - len(left)


def scores(cuts: Sequence[Cut], conversations: Sequence[Conversation], tolerance: int) -> tuple[float, float, float]:
    """Precision, recall and F1 over all conversations together."""
    pairs = list(zip(cuts, conversations, strict=True))
    right = sum(matches(cut.borders, conversation.borders, tolerance) for cut, conversation in pairs)
    found = sum(len(cut.borders) for cut, _ in pairs)
    true = sum(len(conversation.borders) for _, conversation in pairs)
    return right / max(found, 1), right / true, 2 * right / (found + true)


def pk(cuts: Sequence[Cut], conversations: Sequence[Conversation]) -> float:
    """Beeferman, Berger and Lafferty (1999), averaged over the conversations."""
    return statistics.mean(_pk(cut.borders, each) for cut, each in zip(cuts, conversations, strict=True))


def _pk(borders: Sequence[int], conversation: Conversation) -> float:
    number = len(conversation.messages)
    half = max(1, round(number / (len(conversation.borders) + 1) / 2))
    found = np.searchsorted(borders, np.arange(number), side="right")
    true = np.searchsorted(conversation.borders, np.arange(number), side="right")
    return float(((found[half:] == found[:-half]) != (true[half:] == true[:-half])).mean())


def _report(path: Path, embed: Callable[[Sequence[str]], Vectors]) -> None:
    print("| | P ±1 | R ±1 | F1 ±1 | P | R | F1 exact | Pk | segments |\n|---|---|---|---|---|---|---|---|---|")
    for timed in (False, True):
        conversations = load(path, timed=timed)
        for way, cut in (("whole", cut_whole), ("queue", cut_as_queue)):
            for name, segmenter in (("every 20", Every(WINDOW)), ("offline", OfflineSegmenter())):
                cuts = [cut(conversation, segmenter, embed) for conversation in conversations]
                numbers = [*scores(cuts, conversations, 1), *scores(cuts, conversations, 0), pk(cuts, conversations)]
                cells = " | ".join(f"{number:.2f}" for number in numbers)
                times = "with times" if timed else "no times"
                print(f"| {name}, {way}, {times} | {cells} | {sum(len(each.segments) for each in cuts)} |")
                if way == "queue" and name == "offline":
                    levels = [segment.surprise for each in cuts for segment in each.segments]
    quartiles = ", ".join(f"{number:.2f}" for number in np.quantile(levels, [0.25, 0.5, 0.75]))
    shares = ", ".join(f"{np.mean(np.array(levels) >= level):.1%} ≥ {level}" for level in (0.6, 0.7, 0.85))
    print(f"\nSurprise of the last run: quartiles {quartiles}; {shares}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, nargs="?", default=os.environ.get("LOCOMO_PATH"))
    path = parser.parse_args().path
    if path is None:
        parser.error("name the file, or set LOCOMO_PATH")
    _report(Path(path), RememberedVectors())


if __name__ == "__main__":
    main()
