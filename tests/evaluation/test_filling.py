from pathlib import Path

from memory_retrievers import RetrievalSettings
from memory_retrievers.evaluation.conversations import FilledStores, MovableClock


def test_the_clock_stands_where_it_is_put(conversation):
    clock = MovableClock(conversation.asked_at)
    assert clock.now() == clock.now() == conversation.asked_at


def test_settings_that_index_alike_share_a_store(conversation, embedder):
    with FilledStores([conversation], embedder=embedder) as stores:
        with stores.opened(RetrievalSettings()) as (memory, _):
            memory.remember_fact(scope="talk/one", id="left", fact="left behind")
        with stores.opened(RetrievalSettings(decay_weight=0.0)) as (memory, _):
            assert memory.get("left", scope="talk/one").fact == "left behind"
            assert memory.stats("talk/one").episodes == 2


def test_every_way_of_indexing_has_a_store_of_its_own(conversation, embedder):
    with FilledStores([conversation], embedder=embedder) as stores:
        with stores.opened(RetrievalSettings()) as (memory, _):
            memory.remember_fact(scope="talk/one", id="left", fact="left behind")
        with stores.opened(RetrievalSettings.reference()) as (memory, _):
            statistics = memory.stats("talk/one")
            assert (statistics.episodes, statistics.facts) == (2, 0)


def test_a_live_store_holds_every_message_in_its_queue_and_no_episode(conversation, embedder):
    with (
        FilledStores([conversation], embedder=embedder, live=True) as stores,
        stores.opened(RetrievalSettings()) as (memory, clock),
    ):
        assert memory.stats("talk/one").episodes == 0
        told = [turn.text for session in conversation.sessions for turn in session.turns]
        assert [message.content for message in memory.waiting("talk/one")] == told
        assert clock.now() <= stores.asked_at(conversation) < conversation.asked_at


def test_nothing_is_left_of_the_stores(conversation, embedder):
    with FilledStores([conversation], embedder=embedder) as stores:
        with stores.opened(RetrievalSettings()):
            pass
        directory = Path(stores._directory.name)
        assert list(directory.iterdir())
    assert not directory.exists()
