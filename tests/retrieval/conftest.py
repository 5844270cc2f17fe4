import numpy as np
import pytest

from memory_retrievers.models.selection import WHOLE, Layout, TermStatistics
from memory_retrievers.retrieval.candidates import Candidates


def microseconds_of(moment):
    return int(np.datetime64(moment, "us").astype(np.int64))


@pytest.fixture(scope="session")
def make_candidates():
    """Makes candidates of memories, each a list of passages: (place, terms, cosine) and perhaps the speaker."""

    def make(memories, terms=(), *, repeats=None, is_whole=True, began=(), tells_time=(), names=("Ann", "Bob")):
        rows, places, texts, cosines, speakers = [], [], [], [], []
        for row, passages in enumerate(memories, start=10):
            for place, text, cosine, *speaker in passages:
                rows.append(row)
                places.append(place)
                texts.append(text.split())
                cosines.append(cosine)
                speakers.append(names.index(speaker[0]) if speaker else -1)
        counts = np.array([[text.count(term) for text in texts] for term in terms], np.float64)
        counts = counts.reshape(len(terms), len(texts))
        lengths = np.array([len(text) for text in texts], np.float64)
        starts = [microseconds_of(moment) for moment in began] or [0] * len(memories)
        return Candidates(
            layout=Layout(
                passages=np.arange(1, len(texts) + 1),
                memories=np.array(rows, np.int64),
                places=np.array(places, np.int64),
                speakers=np.array(speakers, np.int64),
                tells_time=np.array(tells_time or [False] * len(texts), np.bool_),
                began=np.array([starts[row - 10] for row in rows], np.int64),
                names=names,
            ),
            similarities=np.array(cosines, np.float64),
            repeats=np.array(repeats or [1] * len(terms), np.float64),
            counts=counts,
            lengths=lengths,
            statistics=TermStatistics(
                passages=len(texts),
                average_length=float(lengths.mean()),
                frequencies={term: int(np.count_nonzero(each)) for term, each in zip(terms, counts, strict=True)},
            ),
            is_whole=is_whole,
        )

    return make


@pytest.fixture
def story(make_candidates):
    """Two episodes of three and two messages with their summaries, and what stands for a third alone."""
    return make_candidates(
        [
            [(WHOLE, "garden story", 0.2), (0, "basil seed", 0.4, "Ann"), (1, "nice", 0.1, "Bob"), (2, "basil basil pot", 0.6, "Ann")],
            [(WHOLE, "boat story", 0.0), (0, "boat leak", 0.2, "Bob"), (1, "basil ahoy", 0.3, "Ann")],
            [(WHOLE, "basil soup", 0.5)],
        ],
        ("basil", "boat"),
        began=["2023-05-08T10:00", "2023-06-30T23:59", "2022-05-01T00:00"],
    )  # fmt: skip
