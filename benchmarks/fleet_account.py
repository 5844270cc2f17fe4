"""What the journals of a fleet say must be in the store, compared with what is there."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from crash.report import contents
from fleet_process import RATED, SCOPES

from memory_retrievers import AgentMemory, EpisodicMemory

Line = Mapping[str, Any]

WATCH: Final = """
    CREATE TABLE fleet_reviews (row bigserial, id text NOT NULL, scope_id bigint NOT NULL, memory bigint, at bigint);
    CREATE FUNCTION fleet_reviewed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO fleet_reviews (id, scope_id, memory) VALUES (NEW.id, NEW.scope_id, NEW.row); RETURN NULL; END $$;
    CREATE TRIGGER fleet_reviewed AFTER UPDATE ON memories FOR EACH ROW
        WHEN ((OLD.stability, OLD.difficulty, OLD.last_reviewed_at)
            IS DISTINCT FROM (NEW.stability, NEW.difficulty, NEW.last_reviewed_at))
        EXECUTE FUNCTION fleet_reviewed();
    CREATE FUNCTION fleet_moment() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        UPDATE fleet_reviews SET at = NEW.at WHERE row = (SELECT max(row) FROM fleet_reviews
            WHERE (scope_id, memory) = (NEW.scope_id, NEW.memory)); RETURN NULL; END $$;
    CREATE TRIGGER fleet_moment AFTER INSERT ON events FOR EACH ROW WHEN (NEW.type = 'reviewed')
        EXECUTE FUNCTION fleet_moment();
"""
"""The server itself counts the reviews it is told of, so that one too many is seen; their moments are from the log."""

REVIEWS: Final = (
    "SELECT s.scope, r.id, r.at, count(*) FROM fleet_reviews r JOIN scopes s ON s.id = r.scope_id GROUP BY 1, 2, 3"
)


def read(journals: Iterable[Path]) -> list[list[Line]]:
    """The lines of every process."""
    return [[json.loads(line) for line in file.read_text("utf-8").splitlines()] for file in journals]


def has_done(journals: Iterable[Path], kinds: Collection[str]) -> bool:
    """True if of each kind a call was acknowledged, and some call failed; what is just being written does not count."""
    done, failed = set(), False
    for file in journals:
        for written in file.read_text("utf-8").splitlines(keepends=True) if file.exists() else ():
            if written.endswith("\n") and (line := json.loads(written))["did"] != "error":
                done |= {line["did"]} if line["ok"] else set()
                failed = failed or not line["ok"]
    return failed and done.issuperset(kinds)


def problems(memory: AgentMemory, journals: Sequence[Sequence[Line]], reviews: Sequence[Sequence[Any]]) -> list[str]:
    """What was lost, doubled or put out of order, one sentence each.

    Args:
        memory: The store, at rest and with every message flushed.
        journals: The lines of every process.
        reviews: What ``REVIEWS`` gave.
    """
    held = contents(memory)
    episodes = [each for each in held if isinstance(each, EpisodicMemory) and each.scope != RATED]
    facts = {each.id: each.fact for each in held if not isinstance(each, EpisodicMemory)}
    lines = [line for journal in journals for line in journal]
    return [
        *(f"a process ended: {line['told']}" for line in lines if line["did"] == "error"),
        *_of_messages(journals, episodes),
        *_of_episodes(lines, episodes),
        *_of_facts(journals, facts),
        *_of_reviews(lines, reviews),
        *memory.verify().problems,
        *(f"{scope} still waits" for scope in memory.waiting_scopes()),
    ]


def told(journals: Sequence[Sequence[Line]], memory: AgentMemory, reviews: Sequence[Sequence[Any]]) -> dict[str, int]:
    """The figures of a run."""
    lines = [line for journal in journals for line in journal if line["did"] != "error"]
    done = Counter(line["did"] for line in lines if line["ok"])
    return {
        "calls": len(lines),
        "failed with the server": sum(not line["ok"] for line in lines),
        "messages": sum(len(line["texts"]) for line in lines if line["did"] == "messages" and line["ok"]),
        "facts": done["fact"],
        "updates": done["update"],
        "forgotten": done["forget"],
        "retrievals": done["retrieve"],
        "reviews by hand": done["review"],
        "reviews by conversation": sum(count for scope, _, _, count in reviews if scope != RATED),
        "episodes": memory.stats().episodes,
    }


def _of_messages(journals: Sequence[Sequence[Line]], episodes: Sequence[EpisodicMemory]) -> Iterator[str]:
    """Every acknowledged message is in one episode; every other in one at most, or its whole call in none."""
    places: dict[str, list[tuple[str, str]]] = {}
    for episode in episodes:
        for message in episode.messages:
            places.setdefault(message.content, []).append((episode.scope, episode.id))
    yield from (f"{text!r} is in {len(its)} episodes" for text, its in places.items() if len(its) > 1)
    known: set[str] = set()
    for journal in journals:
        for line in journal:
            if line["did"] != "messages":
                continue
            known |= set(line["texts"])
            there = [text for text in line["texts"] if text in places]
            if line["ok"] and len(there) < len(line["texts"]):
                yield f"of the acknowledged {line['texts']} only {there} are in an episode"
            elif not line["ok"] and there and len(there) < len(line["texts"]):
                yield f"of the refused {line['texts']} a part is there: {there}"
            yield from (f"{text!r} is in another scope" for text in there if places[text][0][0] != line["scope"])
    yield from (f"{text!r} was never said" for text in places.keys() - known)
    yield from _out_of_order(journals, episodes)


def _out_of_order(journals: Sequence[Sequence[Line]], episodes: Sequence[EpisodicMemory]) -> Iterator[str]:
    """In an episode, what one process has said stands in the order in which it said it, without a gap."""
    spoken: dict[tuple[str, str], int] = {}
    for number, journal in enumerate(journals):
        for scope in SCOPES:
            texts = [
                t for line in journal if line["did"] == "messages" and line["scope"] == scope for t in line["texts"]
            ]
            spoken |= {(f"{number} {scope}", text): place for place, text in enumerate(texts)}
    by_stream: dict[str, dict[str, int]] = {}
    for (stream, text), place in spoken.items():
        by_stream.setdefault(stream, {})[text] = place
    for episode in episodes:
        for stream, places in by_stream.items():
            found = [places[message.content] for message in episode.messages if message.content in places]
            if any(before >= after for before, after in pairwise(found)):
                yield f"episode {episode.id} has the messages of {stream} in the order {found}"


def _of_episodes(lines: Sequence[Line], episodes: Sequence[EpisodicMemory]) -> Iterator[str]:
    there = {(episode.scope, episode.id) for episode in episodes}
    made = Counter(tuple(key) for line in lines for key in line.get("episodes", ()))
    yield from (f"episode {key} was made {count} times" for key, count in made.items() if count > 1)
    yield from (f"episode {key} is lost" for key in made.keys() - there)


def _of_facts(journals: Sequence[Sequence[Line]], facts: Mapping[str, str]) -> Iterator[str]:
    """A fact says what it was last told to say; if the last call was not acknowledged, what it said before will do."""
    for journal in journals:
        expected: dict[str, set[str | None]] = {}
        for line in journal:
            if line["did"] in {"fact", "update", "forget"}:
                before = expected.get(line["fact"], {None})
                after = {line.get("text")}
                expected[line["fact"]] = after if line["ok"] else before | after
        for name, texts in expected.items():
            if facts.get(name) not in texts:
                yield f"{name} says {facts.get(name)!r} and should say one of {sorted(map(str, texts))}"


def _of_reviews(lines: Sequence[Line], reviews: Sequence[Sequence[Any]]) -> Iterator[str]:
    """No moment counts twice for an episode, and every acknowledged review has counted."""
    counted: Counter[tuple[str, str]] = Counter()
    for scope, episode, at, number in reviews:
        counted[scope, episode] += number
        if number > 1:
            yield f"the review of {episode} in {scope} at {at} counted {number} times"
    acknowledged = Counter((RATED, line["id"]) for line in lines if line["did"] == "review" and line["ok"])
    unsure = Counter((RATED, line["id"]) for line in lines if line["did"] == "review" and not line["ok"])
    for key in acknowledged | unsure:
        if not acknowledged[key] <= counted[key] <= acknowledged[key] + unsure[key]:
            known = f"{acknowledged[key]} times (perhaps {unsure[key]} more)"
            yield f"{key} was reviewed {known} and counted {counted[key]}"
    by_conversation = Counter(tuple(key) for line in lines for key in line.get("reviews", ()))
    yield from (
        f"{key} has {number} acknowledged reviews, of which {counted[key]} count"
        for key, number in by_conversation.items()
        if counted[key] < number
    )
