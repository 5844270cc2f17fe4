"""Several conversations of one scope: none gets into another, and each ends by itself."""

from dataclasses import replace

import pytest

from memory_retrievers import AgentMemory, Message, ValidationError
from memory_retrievers.ingestion.pipeline import IngestionPipeline
from memory_retrievers.models.results import Report
from memory_retrievers.settings import IngestionSettings
from memory_retrievers.testing import HashEmbedder, ScriptedLanguageModel, inside

DOUGH = ["The dough rests for an hour.", "Then it goes into the oven."]
CLUSTER = ["The cluster has three nodes.", "One of them is drained."]


def said(*texts):
    return [Message(role="user", content=text) for text in texts]


def told(report):
    return [(each.conversation_id, [message.content for message in each.messages]) for each in report.episodes]


def take_turns(memory, scope="c"):
    """Two conversations at once, a message of each in turn."""
    for dough, cluster in zip(DOUGH, CLUSTER, strict=True):
        memory.add_messages(scope, said(dough), conversation="kitchen")
        memory.add_messages(scope, said(cluster), conversation="work")


def test_no_episode_is_of_two_conversations(plain):
    take_turns(plain)
    assert told(plain.flush("c")) == [("kitchen", DOUGH), ("work", CLUSTER)]
    assert plain.stats("c").queued_messages == 0


def test_one_conversation_is_flushed_and_the_others_go_on(plain):
    take_turns(plain)
    plain.add_messages("c", said("No name"))
    report = plain.flush("c", "work")
    assert told(report) == [("work", CLUSTER)]
    assert report.waiting == 3
    assert [message.content for message in plain.waiting("c")] == [*DOUGH, "No name"]
    assert plain.flush("c", "unknown").episodes == ()
    assert told(plain.flush("c")) == [(None, ["No name"]), ("kitchen", DOUGH)]


def test_flushing_an_unknown_conversation_is_an_empty_report_whatever_else_waits(plain):
    plain.add_messages("c", [Message(role="user", content="The oven is hot.")], conversation="baking")
    assert plain.flush("c", "unheard") == Report()
    assert plain.flush("elsewhere", "baking") == Report()
    assert len(plain.waiting("c")) == 1


def test_of_what_waits_only_the_messages_of_an_episode_are_read_when_it_is_made(plain, monkeypatch):
    for thread in range(6):
        plain.add_messages("c", said(*DOUGH), conversation=f"thread-{thread}")
    plain.retrieve("oven", scope="c")  # embeds them
    queue, read = inside(plain).ledger.open_episodes, []
    for name in ("places", "read"):
        every = getattr(queue, name)
        monkeypatch.setattr(
            queue, name, lambda *asked, every=every, **options: read.extend(found := every(*asked, **options)) or found
        )
    assert len(plain.flush("c").episodes) == 6
    assert len(read) == 12


def test_a_conversation_of_another_scope_is_another_one(plain):
    plain.add_messages("a", said("Mine"), conversation="t")
    plain.add_messages("b", said("Yours"), conversation="t")
    assert told(plain.flush("a", "t")) == [("t", ["Mine"])]
    assert plain.stats("b").queued_messages == 1


def test_the_queue_that_is_counted_is_that_of_the_conversation(plain):
    plain.add_messages("c", said(*["tea"] * 19), conversation="a")
    queued = plain.add_messages("c", said("tea"), conversation="b")
    assert (queued.queued, queued.due) == (1, False)
    assert plain.add_messages("c", said("tea"), conversation="a").due


def test_silence_ends_a_conversation_and_not_the_other(plain, clock):
    plain.add_messages("c", said("Bye"), conversation="over")
    clock.advance(minutes=20)
    plain.add_messages("c", said("And then?"), conversation="running")
    clock.advance(minutes=10)
    report = plain.process_due("c")
    assert told(report) == [("over", ["Bye"])]
    assert report.waiting == 1


def test_the_specified_settings_know_one_conversation_and_no_silence(clock):
    reference = IngestionSettings.reference()
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, ingestion=reference) as memory:
        take_turns(memory)
        clock.advance(days=9)
        assert memory.process_due("c").episodes == ()
        (episode,) = memory.flush("c", "work").episodes
        assert len(episode.messages) == 4
        assert episode.conversation_id is None


@pytest.mark.parametrize("name", ["", " ", "x" * 1_001, 7, b"t"])
def test_a_conversation_has_a_name_as_an_id_has_one(plain, name):
    for call in (
        lambda: plain.add_messages("c", said("tea"), conversation=name),
        lambda: plain.flush("c", name),
        lambda: plain.retrieve("tea", scope="c", exclude_conversation=name),
    ):
        with pytest.raises(ValidationError, match="conversation"):
            call()
    assert plain.stats("c").queued_messages == 0


def test_the_episodes_of_one_conversation_can_be_left_out(plain):
    take_turns(plain)
    plain.remember_episode(scope="c", summary="Nobody knows which conversation this is of.")
    plain.flush("c")
    hits = plain.retrieve("dough", scope="c", exclude_conversation="kitchen").episodic
    assert {hit.memory.conversation_id for hit in hits} == {"work", None}
    assert {hit.memory.conversation_id for hit in plain.retrieve("dough", scope="c").episodic} == {
        "kitchen",
        "work",
        None,
    }


def test_an_episode_says_who_wrote_its_summary(plain, clock):
    assert plain.remember_episode(scope="c", summary="Tea").summary_by == "caller"
    plain.add_messages("c", said(*DOUGH))
    (by_rules,) = plain.flush("c").episodes
    assert by_rules.summary_by == "rules"
    assert plain.get(by_rules.id, scope="c") == by_rules
    segment = {"num_messages": 1, "title": "t", "surprise_level": "low"}
    answer = {"segments": [segment | {"summary": "They baked."}, segment | {"summary": ""}]}
    model = ScriptedLanguageModel([answer])
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, language_model=model) as memory:
        memory.add_messages("c", said(*DOUGH))
        assert [episode.summary_by for episode in memory.flush("c").episodes] == ["model", "rules"]


def test_a_model_is_asked_once_for_what_is_old_and_of_one_topic(plain, segmenter, judge, clock):
    settings = IngestionSettings(idle_after=None)
    parts = replace(plain._engine._parts, segmenter=segmenter, judge=judge, ingestion=settings)
    pipeline = IngestionPipeline(inside(plain).store, plain._engine.retriever, parts)
    segmenter.length = 100
    pipeline.push("c", said(*map(str, range(12))))
    clock.advance(hours=3)
    (episode,) = pipeline.process("c").episodes
    assert len(episode.messages) == 12
    assert len(segmenter.seen) == 1


def test_what_was_kept_by_a_name_is_forgotten_where_conversations_are_no_longer_kept_apart(tmp_path):
    with AgentMemory.open(tmp_path, embedder=HashEmbedder()) as memory:
        take_turns(memory)
        memory.flush("c", "kitchen")
        memory.add_messages("c", said("The crust is brown."), conversation="kitchen")
    with AgentMemory.open(
        tmp_path, embedder=HashEmbedder(), ingestion=IngestionSettings(by_conversation=False)
    ) as memory:
        memory.add_messages("c", said("No name"), conversation="kitchen")
        assert memory.forget_conversation("c", "kitchen") == 1
        assert [message.content for message in memory.waiting("c")] == CLUSTER
        assert memory.list("c").memories == ()


def test_what_is_not_due_is_not_asked_for_one_by_one(plain, monkeypatch):
    for thread in range(30):
        plain.add_messages("c", said("Hello."), conversation=f"thread-{thread}")
    plain.add_messages("c", said(*(f"The dough rests, {number}." for number in range(20))), conversation="kitchen")
    conversations, asked = inside(plain).ledger.conversations, []
    state = conversations.state
    monkeypatch.setattr(conversations, "state", lambda *of: [asked.append(of), state(*of)][1])
    plain.process_due("c")
    assert set(asked) == {("c", "kitchen")}
