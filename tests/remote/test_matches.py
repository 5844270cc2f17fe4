"""What matched travels with a result, so that excerpts are the same at both ends."""

from dataclasses import replace

from memory_retrievers import AgentMemory, Message
from memory_retrievers.models.results import Match
from memory_retrievers.server.methods import METHODS
from memory_retrievers.testing import HashEmbedder


def test_the_messages_that_match_are_known_to_a_client(clock):
    said = [Message(role="Ann", content="I keep bees."), Message(role="Bo", content="In Lyon?")]
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as memory:
        memory.remember_episode(scope="c1", title="Bees", summary="They spoke of bees.", messages=said)
        found = memory.retrieve("bees", scope="c1", record=False)
    matches = (Match(part="turn", messages=(0,), score=0.75), Match(part="turn", messages=(1,), score=0.25))
    there = replace(found, episodic=tuple(replace(hit, matches=matches) for hit in found.episodic))

    answer = METHODS["retrieve"].answer
    here = answer.validate_json(answer.dump_json(there))

    assert here.episodic[0].matches == matches
    assert here.to_markdown("excerpts") == there.to_markdown("excerpts")
    assert "- Ann: I keep bees." in here.to_markdown("excerpts", max_tokens=30)
