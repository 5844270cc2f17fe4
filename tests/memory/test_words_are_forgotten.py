"""What is forgotten is in no cache of the process: no word of it, and no question that repeats it."""

import functools
import gc
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from patience import PATIENCE

from memory_retrievers import AgentMemory, Message
from memory_retrievers.backends.sql import snapshots, verification
from memory_retrievers.errors import NotFoundError
from memory_retrievers.models import MemoryKey
from memory_retrievers.models.management import MemoryFilter
from memory_retrievers.retrieval import ranking
from memory_retrievers.retrieval.question import remembered, told_days, without_common
from memory_retrievers.testing import HashEmbedder, inside
from memory_retrievers.text.analysis import known_terms
from memory_retrievers.text.languages import word_form
from memory_retrievers.tools.registry import REGISTRY
from memory_retrievers.tools.tool import ToolContext

SCOPE, OTHER = "user/ana", "user/bo"
ADDRESS = "otterpin-4711@secret.example"
SAID = Message(role="user", content=f"Mein Konto ist {ADDRESS} und liegt im Häuschen")


def kept_words(memory):
    """All words and questions that the caches of the process and of a memory hold."""
    questions = inside(memory).store.embedder.latest().questions
    caches = (known_terms, word_form, remembered, without_common, questions)
    keys = [key for cache in caches for key in gc.get_referents(cache)]
    parts = [part for key in keys for part in ([key] if isinstance(key, str) else gc.get_referents(key))]
    return {part for part in parts if isinstance(part, str)}


def opened(path):
    return AgentMemory.open(path, embedder=HashEmbedder())


def filled(memory, *, is_open):
    """Store the message, search it with words of a language that has forms, and return the memory's id."""
    memory.remember_fact(scope=OTHER, fact="Likes tea")
    memory.add_messages(SCOPE, [SAID])
    if not is_open:
        memory.flush(SCOPE)
    question = f"Wo liegt mein Konto {ADDRESS} im Haus?"
    (episode,) = memory.retrieve(question, scope=SCOPE).episodic
    assert {ADDRESS, question} <= kept_words(memory)
    return episode.memory.id


@pytest.mark.parametrize("is_open", [False, True], ids=["an episode", "an open conversation"])
@pytest.mark.parametrize(
    "forget",
    [
        lambda memory, episode: memory.forget(episode, scope=SCOPE),
        lambda memory, _: memory.forget_scope(SCOPE),
        lambda memory, _: memory.forget_conversation(SCOPE),
        lambda memory, _: memory.forget_messages(SCOPE, [SAID.content]),
    ],
    ids=["a memory", "a scope", "a conversation", "a message"],
)
def test_nothing_of_what_was_forgotten_is_kept(tmp_path, forget, is_open):
    with opened(tmp_path / "store") as memory:
        forget(memory, filled(memory, is_open=is_open))
        assert not {word for word in kept_words(memory) if "otterpin" in word}


def test_words_that_are_no_longer_in_a_changed_fact_are_not_kept(tmp_path):
    with opened(tmp_path / "store") as memory:
        memory.remember_fact(scope=SCOPE, id="f1", fact=f"Writes from {ADDRESS}")
        assert ADDRESS in kept_words(memory)
        memory.update("f1", scope=SCOPE, fact="Writes no mail", correct=True)
        assert not {word for word in kept_words(memory) if "otterpin" in word}


@pytest.mark.parametrize("looks_after", [0.02, 3_600], ids=["by itself", "when it searches"])
def test_who_has_a_snapshot_lets_go_of_the_words_that_another_process_has_forgotten(tmp_path, monkeypatch, looks_after):
    monkeypatch.setattr(snapshots, "LOOK_AFTER", looks_after)
    with opened(tmp_path / "store") as memory:
        memory.remember_fact(scope=SCOPE, fact="Likes milk")
        id = filled(memory, is_open=False)
        inside(memory).ledger.remove([MemoryKey(scope=SCOPE, id=id)])  # beside the store, as another process does
        deadline = time.monotonic() + PATIENCE
        while looks_after < 1 and "otterpin" in str(kept_words(memory)) and time.monotonic() < deadline:
            time.sleep(0.01)
        if looks_after > 1:
            memory.retrieve("milk", scope=SCOPE)
        assert not {word for word in kept_words(memory) if "otterpin" in word}


def test_who_searches_an_open_conversation_that_another_process_has_forgotten_lets_go_of_its_words(tmp_path):
    with opened(tmp_path / "store") as memory:
        filled(memory, is_open=True)
        inside(memory).ledger.open_episodes.forget(SCOPE, None)
        memory.retrieve("milk", scope=SCOPE)
        assert ADDRESS not in kept_words(memory)  # the question stays, as the page on security says


def test_the_vectors_of_questions_stay_where_a_queue_has_become_an_episode(tmp_path):
    with opened(tmp_path / "store") as memory:
        filled(memory, is_open=True)
        memory.flush(SCOPE)
        memory.retrieve("milk", scope=SCOPE)
        assert inside(memory).store.embedder.latest().questions.cache_info().currsize == 2


class SlowEmbedder(HashEmbedder):
    """Waits in the middle of one question."""

    def __init__(self):
        super().__init__()
        self.asked, self.goes_on = threading.Event(), threading.Event()

    def embed_query(self, text):
        if text.endswith("?") and not self.asked.is_set():
            self.asked.set()
            assert self.goes_on.wait(PATIENCE)
        return super().embed_query(text)


def test_a_question_that_is_being_embedded_while_something_is_forgotten_is_not_remembered(tmp_path):
    embedder = SlowEmbedder()
    with AgentMemory.open(tmp_path / "store", embedder=embedder) as memory, ThreadPoolExecutor() as threads:
        memory.remember_fact(scope=SCOPE, id="f1", fact=f"Writes from {ADDRESS}")
        memory.remember_fact(scope=SCOPE, fact="Likes tea")
        asked = threads.submit(memory.retrieve, f"Who writes from {ADDRESS}?", scope=SCOPE)
        assert embedder.asked.wait(PATIENCE)
        memory.forget("f1", scope=SCOPE)
        embedder.goes_on.set()
        asked.result(PATIENCE)
        assert ADDRESS not in str([*gc.get_referents(inside(memory).store.embedder.latest().questions)])


def forgetting_once(memory, forget):
    """What follows a reading: something that was read is forgotten, by another thread, before anything is done with it."""
    left = [forget]

    def following(read):
        def reading(*given, **options):
            found = read(*given, **options)
            if left and found:
                with ThreadPoolExecutor() as threads:
                    threads.submit(left.pop(), memory).result(PATIENCE)
            return found

        return reading

    return following


def test_words_of_what_is_forgotten_while_a_search_loads_its_scope_are_not_kept(tmp_path, monkeypatch):
    with opened(tmp_path / "store") as memory:
        memory.remember_fact(scope=SCOPE, id="f1", fact=f"Writes from {ADDRESS}")
        memory.remember_fact(scope=SCOPE, fact="Likes tea")
    with opened(tmp_path / "store") as memory:
        passages = inside(memory).ledger.snapshots._passages
        following = forgetting_once(memory, lambda memory: memory.forget("f1", scope=SCOPE))
        monkeypatch.setattr(passages, "texts", following(passages.texts))
        memory.retrieve("Who likes tea?", scope=SCOPE)
        assert not {word for word in kept_words(memory) if "otterpin" in word}


def test_words_of_a_queued_message_that_is_forgotten_while_a_search_reads_it_are_not_kept(tmp_path, monkeypatch):
    with opened(tmp_path / "store") as memory:
        memory.remember_fact(scope=SCOPE, fact="Likes tea")
        memory.add_messages(SCOPE, [SAID])
        queued = inside(memory).ledger.open_episodes
        following = forgetting_once(memory, lambda memory: memory.forget_messages(SCOPE, [SAID]))
        monkeypatch.setattr(queued, "read", following(queued.read))
        assert not memory.retrieve("Who likes tea?", scope=SCOPE).episodic
        assert not {word for word in kept_words(memory) if "otterpin" in word}


def test_words_of_what_is_forgotten_while_a_search_reads_that_then_fails_are_not_kept(tmp_path, monkeypatch):
    with opened(tmp_path / "store") as memory:
        memory.remember_fact(scope=SCOPE, id="f1", fact=f"Writes from {ADDRESS}")
    with opened(tmp_path / "store") as memory:
        passages = inside(memory).ledger.snapshots._passages
        following = forgetting_once(memory, lambda memory: memory.forget("f1", scope=SCOPE))
        monkeypatch.setattr(passages, "texts", following(passages.texts))
        monkeypatch.setattr(ranking, "_fuse", None)  # which is called after the reading
        with pytest.raises(TypeError):
            memory.retrieve("Who likes tea?", scope=SCOPE)
        assert not {word for word in kept_words(memory) if "otterpin" in word}


def test_days_of_what_is_forgotten_while_a_search_asks_for_a_day_are_not_kept(tmp_path, monkeypatch):
    with opened(tmp_path / "store") as memory:
        for day in range(1, 9):
            memory.remember_fact(scope=SCOPE, id=f"f{day}", fact=f"Sees the dentist on {day} May")
        ledger = inside(memory).ledger
        following = forgetting_once(memory, lambda memory: memory.forget("f1", scope=SCOPE))
        monkeypatch.setattr(ledger, "texts", following(ledger.texts))
        memory.retrieve("What do I have on 1 May?", scope=SCOPE)
        assert told_days == {}


def cached_anywhere(memory):
    """What all caches of functions of the package hold, and that of a memory."""
    rooms = [room for name, room in sys.modules.items() if name.startswith("memory_retrievers")]
    caches = [each for room in rooms for each in vars(room).values() if isinstance(each, functools._lru_cache_wrapper)]
    keys = gc.get_referents(*caches, inside(memory).store.embedder.latest().questions)
    return {part for part in (*keys, *gc.get_referents(*keys)) if isinstance(part, str)}


def searched_by_tool(**options):
    arguments = {"query": "Who likes tea?", **options}
    return lambda memory: REGISTRY["memory_search"].call(ToolContext(memory=memory, root=SCOPE), arguments)


@pytest.mark.parametrize(
    "read",
    [
        lambda memory: memory.explain("Who likes tea?", scope=SCOPE),
        lambda memory: memory.explain_missing("f2", query="Who likes tea?", scope=SCOPE),
        searched_by_tool(),
        searched_by_tool(search_mode="keyword"),
        searched_by_tool(search_mode="hybrid"),
        lambda memory: memory.manager.nearest_facts(
            HashEmbedder().embed_query("tea"), MemoryFilter(scope=SCOPE), top_k=1
        ),
        lambda memory: memory.remember_fact(scope=SCOPE, fact="Writes from 4711"),
        AgentMemory.verify,
    ],
    ids=["explain", "explain_missing", "tool", "tool, by words", "tool, by both", "a vector", "a new fact", "verify"],
)
def test_words_of_what_is_forgotten_while_anything_reads_it_are_not_kept(tmp_path, monkeypatch, read):
    with opened(tmp_path / "store") as memory:
        memory.remember_fact(scope=SCOPE, id="f1", fact=f"Writes from {ADDRESS}")
        memory.remember_fact(scope=SCOPE, id="f2", fact="Likes tea")
    with opened(tmp_path / "store") as memory:
        ledger, pages = inside(memory).ledger, verification.read_passages
        following = forgetting_once(memory, lambda memory: memory.forget("f1", scope=SCOPE))
        if read == AgentMemory.verify:
            paged = following(lambda page: page)
            monkeypatch.setattr(verification, "read_passages", lambda connection: map(paged, pages(connection)))
        else:
            monkeypatch.setattr(ledger, "texts", following(ledger.texts))
        read(memory)
        with pytest.raises(NotFoundError):
            memory.get("f1", scope=SCOPE)
        assert not {word for word in cached_anywhere(memory) if "otterpin" in word}


def test_words_of_a_fact_that_is_forgotten_while_a_new_one_is_compared_with_it_are_not_kept(tmp_path, monkeypatch):
    with opened(tmp_path / "store") as memory:
        memory.remember_fact(scope=SCOPE, id="f1", fact=f"Writes from {ADDRESS}")
        facts = inside(memory).ledger.facts
        following = forgetting_once(memory, lambda memory: memory.forget("f1", scope=SCOPE))
        monkeypatch.setattr(facts, "comparable", following(facts.comparable))
        assert memory.remember_fact(scope=SCOPE, fact="Writes from otterpin-4712@secret.example").near
        assert "4711" not in cached_anywhere(memory)


def test_words_of_messages_that_are_forgotten_while_an_episode_is_made_of_them_are_not_kept(tmp_path, monkeypatch):
    with opened(tmp_path / "store") as memory:
        memory.add_messages(SCOPE, [SAID, Message(role="assistant", content="Noted.")])
        queue = inside(memory).ledger.conversations
        following = forgetting_once(memory, lambda memory: memory.forget_messages(SCOPE, [SAID]))
        monkeypatch.setattr(queue, "head", following(queue.head))
        memory.flush(SCOPE)
        assert not {word for word in cached_anywhere(memory) if "otterpin" in word}
