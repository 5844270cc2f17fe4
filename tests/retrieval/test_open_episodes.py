"""What is said is known at once: queued messages are found as turns of an open episode, and once."""

from collections import Counter
from datetime import timedelta

import pytest

from memory_retrievers import AgentMemory, EmbeddingError, Message, NotFoundError, RetrievalSettings, ValidationError
from memory_retrievers.settings import IngestionSettings
from memory_retrievers.storage import open_episodes
from memory_retrievers.testing import HashEmbedder, ScriptedLanguageModel, inside

NANTES = "I moved to Nantes."


class Counting(HashEmbedder):
    """Remembers what it has embedded for the store."""

    def __init__(self):
        super().__init__()
        self.texts = []
        self.asked = 0

    def embed_documents(self, texts):
        self.asked += 1
        self.texts += texts
        return super().embed_documents(texts)


def said(*texts, role="user"):
    return [Message(role=role, content=text) for text in texts]


def episodes(memory, query, scope="c", **options):
    return [hit.memory for hit in memory.retrieve(query, scope=scope, **options).episodic]


def told(memory, query, scope="c", **options):
    """Every message that a search shows."""
    return [message.content for each in episodes(memory, query, scope, **options) for message in each.messages]


@pytest.fixture
def embedder():
    return Counting()


@pytest.fixture
def memory(embedder, clock):
    settings = IngestionSettings(idle_after=None)
    with AgentMemory.in_memory(embedder=embedder, clock=clock, ingestion=settings) as memory:
        yield memory


def test_what_was_said_is_found_at_once_in_another_conversation(memory):
    memory.add_messages("c", said(NANTES), conversation="one")
    memory.add_messages("c", said("Where do I live?"), conversation="two")
    (found, _) = episodes(memory, "moved to Nantes")
    assert (found.title, found.summary, found.is_open, found.conversation_id) == (NANTES, "", True, "one")
    assert memory.get(found.id, scope="c") == found
    assert [message.content for message in found.messages] == [NANTES]
    assert memory.list("c").memories == ()
    assert memory.stats("c").episodes == 0


def test_an_open_episode_shows_its_turns_at_every_level(memory):
    memory.add_messages("c", said(NANTES))
    result = memory.retrieve("Nantes", scope="c")
    for detail in ("auto", "none", "low", "high", "excerpts"):
        for most in (None, 60):
            block = result.to_markdown(detail, max_tokens=most)
            assert NANTES in block.split("\n", 3)[-1]
            assert "Summary" not in block
    assert result.to_dict()["episodic"][0]["is_open"]
    assert result.to_markdown(max_tokens=5) == ""


def test_it_is_found_once_before_and_after_it_is_finished(memory):
    memory.add_messages("c", said(NANTES, "It is by a river."))
    assert told(memory, "Nantes") == [NANTES, "It is by a river."]
    memory.flush("c")
    (finished,) = episodes(memory, "Nantes")
    assert not finished.is_open
    assert [message.content for message in finished.messages] == [NANTES, "It is by a river."]


def test_a_search_embeds_the_newest_and_words_find_the_others(memory, embedder):
    memory.add_messages("c", said(*(f"message number {number}" for number in range(100))))
    assert embedder.texts == []
    assert "message number 3" in told(memory, "number 3")
    assert embedder.texts == [f"user: message number {number}" for number in range(36, 100)]
    told(memory, "number 3")
    assert embedder.texts[64:] == [f"user: message number {number}" for number in range(36)]
    told(memory, "something else")
    assert len(embedder.texts) == 100


def test_what_has_no_vector_yet_is_not_taken_for_the_farthest(memory):
    memory.add_messages("c", said("The teapot of my aunt is blue."), conversation="old")
    newer = [f"My {('aunt', 'uncle', 'cousin')[number % 3]} has said {number} things." for number in range(40)]
    memory.add_messages("c", said(*newer, *(f"Rain came over the hills, {number}." for number in range(24))))
    hits = memory.retrieve("Is the teapot of my aunt, my uncle or my cousin blue?", scope="c").episodic
    before = next(hit for hit in hits if hit.memory.conversation_id == "old")
    assert before.score > 0.7  # 0.56 as the farthest
    assert memory.retrieve("What colour is the teapot of my aunt?", scope="c").episodic[0].memory == before.memory


def test_a_finished_episode_keeps_the_vectors_and_its_summary_alone_is_embedded(embedder, clock):
    segment = {"num_messages": 20, "title": "Numbers", "summary": "They counted.", "surprise_level": "low"}
    model = ScriptedLanguageModel([{"segments": [segment]}])
    with AgentMemory.in_memory(embedder=embedder, clock=clock, language_model=model) as memory:
        memory.add_messages("c", said(*(f"message number {number}" for number in range(20))))
        memory.retrieve("number 3", scope="c")
        assert len(embedder.texts) == 20
        embedder.texts.clear()
        (episode,) = memory.flush("c").episodes
        assert episode.summary == "They counted."
        assert embedder.texts == ["They counted."]
        assert memory.verify().ok
        before = inside(memory).ledger
        ids = [passage.id for passage in before.passages_of("c") if passage.part == "turn 7"]
        _, vectors = before.vectors(ids)
        assert vectors[0].tolist() == pytest.approx(HashEmbedder().embed_query("user: message number 7"), abs=1e-6)


def test_the_part_that_goes_on_keeps_its_vectors_too(embedder, clock):
    segment = {"title": "t", "summary": "s", "surprise_level": "low"}
    model = ScriptedLanguageModel([{"segments": [segment | {"num_messages": 15}, segment | {"num_messages": 5}]}])
    with AgentMemory.in_memory(embedder=embedder, clock=clock, language_model=model) as memory:
        memory.add_messages("c", said(*(f"message number {number}" for number in range(20))))
        memory.retrieve("number", scope="c")
        assert len(memory.process_due("c").episodes) == 1
        assert Counter(told(memory, "number")) == Counter(f"message number {number}" for number in range(20))
        assert len(embedder.texts) == 21
        assert {each.is_open for each in episodes(memory, "number")} == {True, False}


def test_nothing_is_embedded_or_stored_for_whoever_only_looks(tmp_path, clock, embedder):
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder(), clock=clock) as memory:
        memory.add_messages("c", said(NANTES))
        with AgentMemory.open(
            tmp_path / "store", embedder=embedder, embedder_id="HashEmbedder", clock=clock, read_only=True
        ) as looking:
            for _ in range(2):
                assert told(looking, "Nantes") == [NANTES]
            assert embedder.texts == [f"user: {NANTES}"]
            memory.add_messages("c", said("And to Rennes."))
            assert told(looking, "Rennes") == [NANTES, "And to Rennes."]
        assert not any(place.is_embedded for place in inside(memory).ledger.open_episodes.places("c"))


def test_an_open_episode_is_never_reviewed_and_nothing_of_it_is_forgotten(memory, clock):
    memory.add_messages("c", said(NANTES))
    memory.remember_episode(scope="c", summary="The user likes tea.")
    clock.advance(days=300)
    hits = memory.retrieve("Nantes", scope="c").episodic
    assert [hit.explanation.retrievability == 1 for hit in hits] == [True, False]
    (review,) = memory.pending_reviews("c")
    assert [key.id for key in review.memories] == [hits[1].memory.id]
    with pytest.raises(NotFoundError):
        memory.review(hits[0].memory.id, scope="c", rating="good")


def test_the_specified_ranking_knows_nothing_of_open_episodes(clock):
    reference = RetrievalSettings.reference()
    with (
        AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, retrieval=reference) as with_more,
        AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, retrieval=reference) as without,
    ):
        for memory in (with_more, without):
            for number in range(3):
                memory.remember_episode(scope="c", id=str(number), summary=f"The user moved {number} times.")
        with_more.add_messages("c", said("How often have I moved?", "moved moved moved"))
        answers = [each.retrieve("moved 2 times", scope="c").to_dict(explain=True) for each in (with_more, without)]
        assert answers[0] == answers[1]
        assert inside(with_more).ledger.open_episodes.places("c")[0].is_embedded is False


def test_scopes_and_conversations_are_kept_apart(memory):
    for scope in ("c", "c/below", "cc", "other"):
        memory.add_messages(scope, said(f"Minka of {scope}"), conversation="t")
    assert told(memory, "Minka") == ["Minka of c"]
    assert sorted(told(memory, "Minka", include_child_scopes=True)) == ["Minka of c", "Minka of c/below"]
    assert told(memory, "Minka", scope="nobody") == []
    (found,) = episodes(memory, "Minka", scope="other")
    with pytest.raises(NotFoundError):
        memory.get(found.id, scope="c")
    with pytest.raises(NotFoundError):
        memory.forget(found.id, scope="c")


def test_what_is_in_the_prompt_is_not_recalled_and_what_was_trimmed_is(memory):
    turns = said("My cat is Minka.", "My dog is Rex.", "Who is my cat?")
    memory.add_messages("c", turns, conversation="running")
    in_prompt = [turns[2], {"role": "user", "content": "My dog is Rex."}]
    assert told(memory, "my cat", in_prompt=in_prompt) == ["My cat is Minka."]
    assert told(memory, "my cat", in_prompt=turns) == []
    assert told(memory, "my cat", exclude_conversation="running") == []
    assert len(told(memory, "my cat", exclude_conversation="another")) == 3


def test_a_question_that_is_still_open_is_no_answer_to_itself(memory):
    """An agent's tool asks in the user's own words, which were queued when they were said."""
    memory.remember_fact(scope="c", fact="The cat is called Minka")
    memory.add_messages("c", said("Who is my cat?"), conversation="running")
    memory.add_messages("c", [*said("Who is my cat?"), *said("Minka is.", role="assistant")], conversation="another")
    assert told(memory, "Who is my cat?") == ["Minka is."]
    assert sorted(told(memory, "who is my cat")) == ["Minka is.", "Who is my cat?", "Who is my cat?"]
    memory.add_messages("c", said(NANTES), conversation="running")
    assert NANTES in told(memory, NANTES)


def test_an_episode_that_is_in_the_prompt_as_a_whole_makes_room_for_others(memory, clock):
    """A thread goes on after a silence: its earlier messages are an episode by now, and still before the model."""
    running = []
    for number in range(4):
        turns = said(f"My cat Minka has {number} kittens") + said("How nice", role="assistant")
        memory.add_messages("c", turns, conversation="running")
        memory.flush("c")
        running += turns
        clock.advance(hours=1)
    memory.add_messages("c", said("Minka the cat was ill"), conversation="another")
    memory.flush("c")
    options = {"episodic_limit": 1}
    assert told(memory, "my cat Minka has kittens", **options) != ["Minka the cat was ill"]
    assert told(memory, "my cat Minka has kittens", in_prompt=running, **options) == ["Minka the cat was ill"]
    (explained,) = memory.explain("my cat Minka has kittens", scope="c", in_prompt=running, **options).episodic
    (hit,) = episodes(memory, "my cat Minka has kittens", in_prompt=running, **options)
    assert explained.id == hit.id
    trimmed = told(memory, "my cat Minka has kittens", in_prompt=running[1:], episodic_limit=5)
    assert trimmed.count("How nice") == 1
    assert sorted(trimmed)[-2:] == ["Minka the cat was ill", "My cat Minka has 0 kittens"]
    (gone, *_) = episodes(memory, "kittens", episodic_limit=1)
    absence = memory.explain_missing(gone.id, query="kittens", scope="c", in_prompt=running)
    assert absence.outcome == "in_prompt"


@pytest.mark.parametrize("messages", ["Minka", {"role": "user"}, [{"role": "user"}], [7], 7, None])
def test_what_is_in_the_prompt_are_messages(memory, messages):
    with pytest.raises(ValidationError):
        memory.retrieve("Minka", scope="c", in_prompt=messages)


def test_a_moment_of_the_past_knows_only_what_was_said_then(memory, clock):
    memory.add_messages("c", said("First."))
    clock.advance(hours=1)
    memory.add_messages("c", said("Second."))
    assert told(memory, "second", as_of=clock.now() - timedelta(minutes=1)) == ["First."]
    assert told(memory, "second", as_of=clock.now() - timedelta(days=1)) == []


def test_an_open_episode_is_forgotten_with_the_episode_that_is_being_made_of_it(memory, monkeypatch):
    memory.add_messages("c", said(NANTES), conversation="one")
    memory.add_messages("c", said("Something else."), conversation="two")
    (found, _) = episodes(memory, "Nantes")
    pipeline = inside(memory).pipeline
    segmenter = pipeline._segmenter

    class Forgets:
        def segment(self, messages, context):
            monkeypatch.setattr(pipeline, "_segmenter", segmenter)
            memory.forget(found.id, scope="c")
            memory.add_messages("c", said("A new beginning."), conversation="one")
            return segmenter.segment(messages, context)

    monkeypatch.setattr(pipeline, "_segmenter", Forgets())
    memory.flush("c")
    assert sorted(told(memory, "Nantes")) == ["A new beginning.", "Something else."]
    assert not any(NANTES in each.summary for each in episodes(memory, "Nantes"))
    with pytest.raises(NotFoundError):
        memory.forget(found.id, scope="c")


def test_a_scope_is_forgotten_with_what_is_queued_there(memory):
    memory.add_messages("c", said(NANTES))
    assert told(memory, "Nantes") == [NANTES]
    memory.forget_scope("c")
    assert told(memory, "Nantes") == []
    assert inside(memory).store.open_episodes.kept == {}


@pytest.mark.embedded("the files of a directory are read")
@pytest.mark.parametrize("way", ["forget", "forget_scope", "memory_delete"])
def test_nothing_of_what_was_forgotten_is_in_a_file_or_in_memory(way, tmp_path, embedder):
    with AgentMemory.open(tmp_path, embedder=embedder) as memory:
        memory.add_messages("c", said("The xylophone is in the cellar."), conversation="zitherthread")
        (found,) = episodes(memory, "xylophone")
        if way == "forget":
            memory.forget(found.id, scope="c")
        elif way == "forget_scope":
            memory.forget_scope("c")
        else:
            memory.manager.delete([found])
        memory.purge()
        heard = inside(memory).store.open_episodes
        assert (heard.kept, heard._unstored, memory.waiting("c")) == ({}, {}, [])
    content = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"memories" in content
    assert b"xylophone" not in content
    assert b"zitherthread" not in content


def test_explanations_say_that_an_episode_is_still_open(memory, clock):
    memory.add_messages("c", said(NANTES), conversation="one")
    memory.remember_episode(scope="c", summary="The user moved.", id="e1", conversation_id="one")
    (found, _) = episodes(memory, "Nantes")
    explained = memory.explain("Nantes", scope="c")
    assert [each.is_open for each in explained.episodic] == [True, False]
    assert "still open" in explained.to_text()
    assert memory.explain_missing(found.id, query="Nantes", scope="c").outcome == "returned"
    for its_id in (found.id, "e1"):
        absence = memory.explain_missing(its_id, query="Nantes", scope="c", exclude_conversation="one")
        assert absence.outcome == "other_conversation"
    in_prompt = said(NANTES)
    assert memory.explain_missing(found.id, query="Nantes", scope="c", in_prompt=in_prompt).outcome == "still_open"


def test_a_new_embedder_makes_these_vectors_anew(memory):
    memory.add_messages("c", said(NANTES))
    assert told(memory, "Nantes") == [NANTES]
    memory.reembed(HashEmbedder(64), embedder_id="smaller")
    assert told(memory, "Nantes") == [NANTES]
    queued = inside(memory).ledger.open_episodes
    (heard,) = queued.read([queued.places("c")[0].row], with_vectors=True)
    assert heard.embedded.vector.shape == (64,)
    memory.flush("c")
    assert memory.verify().ok


def test_an_export_keeps_a_conversation_open(memory, tmp_path, clock):
    memory.add_messages("c", said(NANTES), conversation="one")
    (found,) = episodes(memory, "Nantes")
    memory.export(tmp_path / "export.jsonl")
    with AgentMemory.import_(
        tmp_path / "export.jsonl", into=tmp_path / "copy", embedder=Counting(), clock=clock
    ) as copy:
        assert episodes(copy, "Nantes") == [found]


def test_what_cannot_be_embedded_is_found_by_its_words(memory, embedder, monkeypatch):
    memory.add_messages("c", said(NANTES))

    def fails(texts):
        raise EmbeddingError("out of order")

    memory.remember_fact(scope="c", fact="The user lives somewhere")
    monkeypatch.setattr(embedder, "embed_documents", fails)
    assert told(memory, "Nantes") == [NANTES]


def test_a_message_without_visible_text_is_kept_and_found_by_nothing(memory):
    memory.add_messages("c", said("\x07", NANTES))
    assert told(memory, "Nantes") == ["\x07", NANTES]
    memory.add_messages("d", said("\x07"))
    assert told(memory, "Nantes", scope="d") == []


def test_a_word_that_all_say_is_not_embedded_before_any_episode_is_finished_either(memory):
    greetings = [f"Jon, it is morning number {number}." for number in range(11)]
    memory.add_messages("c", said(*greetings, "Jon sold his bakery."), conversation="one")
    asked = "What did Jon sell?"
    before = memory.explain(asked, scope="c").embedded
    memory.flush("c")
    assert before == memory.explain(asked, scope="c").embedded == "What did sell?"


def test_what_is_left_out_of_a_search_makes_no_word_common(memory):
    memory.add_messages("c", said(*["Jon says good morning."] * 11), conversation="one")
    asked = {"query": "What did Jon sell?", "scope": "c", "exclude_conversation": "one"}
    assert memory.explain(**asked).embedded == "What did Jon sell?"


def test_where_candidates_are_chosen_by_indexes_open_episodes_are_all_among_them(embedder, clock):
    retrieval = RetrievalSettings(exact_limit=1, candidate_depth=1)
    with AgentMemory.in_memory(embedder=embedder, clock=clock, retrieval=retrieval) as memory:
        for number in range(5):
            memory.remember_episode(scope="c", summary=f"The user moved {number} times.")
        memory.add_messages("c", said(NANTES, "It is by a river."))
        assert NANTES in told(memory, "Nantes")
        assert "It is by a river." in told(memory, "river")


def test_what_before_store_holds_back_or_changes_is_seen_by_nobody(clock):
    def without_secrets(each):
        if not isinstance(each, Message):
            return each
        if "secret" in each.content:
            return None
        return each.model_copy(update={"content": each.content.replace("Nantes", "#")})

    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, before_store=without_secrets) as memory:
        memory.add_messages("c", said(NANTES, "The secret is 4711."))
        (found,) = episodes(memory, "Nantes secret")
        assert found.title == "I moved to #."
        assert [message.content for message in found.messages] == ["I moved to #."]


@pytest.fixture
def rows_read(memory, monkeypatch):
    """The rows of messages that are read meanwhile."""
    heard, rows = inside(memory).ledger.open_episodes, []
    read = heard.read
    monkeypatch.setattr(heard, "read", lambda wanted, **options: [rows.extend(wanted), read(wanted, **options)][1])
    return rows


def test_of_a_scope_with_more_messages_than_are_kept_for_all_nothing_is_read_again(memory, rows_read, monkeypatch):
    monkeypatch.setattr(open_episodes, "KEPT_BYTES", 8 * 3_000)
    memory.add_messages("c", said(*(f"message number {number}" for number in range(20))))
    memory.add_messages("d", said(NANTES))
    store = inside(memory).store.open_episodes
    store.embed_rest()
    rows_read.clear()
    for scope, rows in (("c", 20), ("c", 0), ("d", 1), ("c", 20), ("c", 0)):
        assert len(store.turns(scope, include_child_scopes=False)) == (20 if scope == "c" else 1)
        assert len(rows_read) == rows, scope
        rows_read.clear()


def test_the_first_vectors_of_a_store_let_nothing_be_read_again(memory, rows_read):
    memory.add_messages("c", said(*(f"message number {number}" for number in range(20))))
    store = inside(memory).store.open_episodes
    assert len(store.turns("c", include_child_scopes=False)) == 20
    memory.remember_fact(scope="d", fact=NANTES)
    rows_read.clear()
    assert len(store.turns("c", include_child_scopes=False)) == 20
    assert rows_read == []


def test_turns_are_kept_by_their_bytes_the_newest_of_them(memory, rows_read, monkeypatch):
    memory.add_messages("c", said("a long list of words: " + " ".join(map(str, range(1_000))), "first", "second"))
    store = inside(memory).store.open_episodes
    store.embed_rest()
    monkeypatch.setattr(open_episodes, "KEPT_OF_LAST", 50_000)
    for rows in (3, 1, 1):
        rows_read.clear()
        assert len(store.turns("c", include_child_scopes=False)) == 3
        assert len(rows_read) == rows


def test_what_many_users_have_just_said_is_embedded_together(memory, embedder):
    for number in range(100):
        memory.add_messages(f"user/{number}", said(f"I am number {number}.", "\x07"))
    inside(memory).pipeline.embed_open()
    assert embedder.asked == 7
    assert sorted(embedder.texts) == sorted(f"user: I am number {number}." for number in range(100))
    inside(memory).pipeline.embed_open()
    assert len(embedder.texts) == 100


def test_what_a_queue_is_cut_by_is_embedded_once_however_often_it_is_looked_at(memory, embedder, monkeypatch):
    monkeypatch.setattr(open_episodes, "REMEMBERED_TEXTS", 50)
    for first in (0, 20):  # a single topic is looked at again with what follows it
        memory.add_messages("c", said(*(f"The boat of pier {number} is late" for number in range(first, first + 20))))
        assert len(memory.process_due("c").episodes) == first // 20
    for number in range(40, 60):
        memory.add_messages("c", said(f"The boat of pier {number} is late"))
    memory.flush("c")
    looked = Counter(text for text in embedder.texts if text.startswith("The boat"))
    assert set(looked.values()) == {1}
    assert len(inside(memory).store.open_episodes._looked) <= 50


@pytest.mark.parametrize("way", ["forget_messages", "forget", "forget_conversation", "forget_scope"])
def test_nothing_that_a_queue_was_cut_by_is_left_of_what_was_forgotten(memory, way):
    memory.add_messages("c", said(*(f"The boat of pier {number} is late" for number in range(20))))
    memory.process_due("c")
    looked = inside(memory).store.open_episodes._looked
    assert len(looked) == 20
    assert not any(isinstance(key, str) for key in looked)  # no words, also not for as long as others forget them
    (open_episode,) = episodes(memory, "boat")
    named = {"forget_messages": {"messages": ["The boat of pier 3 is late"]}, "forget": {"id": open_episode.id}}
    getattr(memory, way)(scope="c", **named.get(way, {}))
    assert inside(memory).store.open_episodes._looked == {}


@pytest.mark.parametrize("then", ["searches", "works"])
def test_nothing_that_a_queue_was_cut_by_is_kept_for_long_since_another_process_may_have_forgotten_it(
    memory, monkeypatch, then
):
    memory.add_messages("c", said(*(f"The boat of pier {number} is late" for number in range(20))))
    memory.process_due("c")
    monkeypatch.setattr(open_episodes, "REMEMBERED_SECONDS", 0.0)
    if then == "searches":
        memory.retrieve("boat", scope="c")
    else:
        inside(memory).pipeline.embed_open()
    assert inside(memory).store.open_episodes._looked == {}


class Particular(HashEmbedder):
    """Refuses any request in which a word stands, as some servers refuse what is too long for them."""

    def __init__(self, refused):
        super().__init__()
        self.refused = refused
        self.asked = []

    def embed_documents(self, texts):
        self.asked.append(len(texts))
        if any(self.refused in text for text in texts):
            raise ValueError("too long")
        return super().embed_documents(texts)


@pytest.mark.parametrize("place", [0, 1, 63, 64, 99])
def test_a_message_that_the_embedder_refuses_holds_up_no_other(clock, place):
    embedder = Particular("POISON")
    with AgentMemory.in_memory(embedder=embedder, clock=clock) as memory:
        for number in range(100):
            memory.add_messages(f"user/{number}", said("POISON" if number == place else f"I am number {number}."))
        inside(memory).pipeline.embed_open()
        heard = inside(memory).ledger.open_episodes
        assert len(heard.unembedded(after=0, limit=100)) == 1
        assert len(embedder.asked) <= 20


def test_messages_that_the_embedder_refuses_hold_up_no_other_though_only_they_are_left(clock):
    embedder = Particular("POISON")
    with AgentMemory.in_memory(embedder=embedder, clock=clock) as memory:
        for number in range(100):
            memory.add_messages(f"user/{number}", said("POISON" if number < 20 else f"I am number {number}."))
        inside(memory).pipeline.embed_open()
        assert len(inside(memory).ledger.open_episodes.unembedded(after=0, limit=100)) == 20


def test_of_what_the_embedder_has_refused_twice_the_worker_asks_no_more(clock):
    embedder = Particular("POISON")
    with AgentMemory.in_memory(embedder=embedder, clock=clock) as memory:
        memory.add_messages("user/1", said("POISON"))
        for _ in range(3):
            inside(memory).pipeline.embed_open()
        assert embedder.asked == [1, 1] * 2  # the second of each shows that it is not down
        memory.add_messages("user/2", said(NANTES))
        inside(memory).pipeline.embed_open()
        assert embedder.asked == [1] * 5


def test_a_search_keeps_nothing_of_a_queue_that_another_process_has_emptied(tmp_path):
    with AgentMemory.open(tmp_path / "memory", embedder=HashEmbedder()) as memory:
        memory.remember_fact(scope="c", fact="User likes tea")
        memory.add_messages("c", said("The boat of pier 7 is late"))
        assert memory.retrieve("boat", scope="c").episodic
        inside(memory).ledger.open_episodes.forget("c", None)
        assert not memory.retrieve("boat", scope="c").episodic
        assert not inside(memory).store.open_episodes.kept


def test_of_what_the_worker_found_refused_a_search_asks_no_more(clock):
    embedder = Particular("POISON")
    with AgentMemory.in_memory(embedder=embedder, clock=clock) as memory:
        memory.remember_fact(scope="user", fact="User likes tea")
        memory.add_messages("user", said("POISON"))
        for _ in range(2):
            inside(memory).pipeline.embed_open()
        memory.add_messages("user", said(NANTES))
        embedder.asked.clear()
        for _ in range(3):
            assert NANTES in told(memory, "moved to Nantes", "user")
        assert embedder.asked == [1]


def test_a_search_of_many_scopes_below_has_few_of_them_to_itself_at_a_time(memory, monkeypatch):
    for number in range(70):
        memory.add_messages(f"user/{number}", said(f"I am number {number}."))
    ledger, writes = inside(memory).ledger, []
    write = ledger.database.write
    monkeypatch.setattr(ledger.database, "write", lambda *scopes: writes.append(len(scopes)) or write(*scopes))
    episodes(memory, "number 7", "user", include_child_scopes=True)
    assert max(writes) <= open_episodes.EMBEDDED_TOGETHER
    assert len(ledger.open_episodes.unembedded(after=0, limit=100)) == 70 - open_episodes.EMBEDDED_BY_SEARCH


def test_what_the_embedder_has_refused_once_by_chance_is_asked_for_again(clock):
    embedder = Particular("Nantes")
    with AgentMemory.in_memory(embedder=embedder, clock=clock) as memory:
        memory.add_messages("user/1", said(NANTES))
        inside(memory).pipeline.embed_open()
        embedder.refused = "POISON"
        inside(memory).pipeline.embed_open()
        assert inside(memory).ledger.open_episodes.unembedded(after=0, limit=100) == []


@pytest.mark.parametrize(("messages", "asked"), [(1, 2), (100, 6)])
def test_of_an_embedder_that_is_down_little_is_asked_and_all_later(clock, messages, asked):
    embedder = Particular("")
    with AgentMemory.in_memory(embedder=embedder, clock=clock) as memory:
        for number in range(messages):
            memory.add_messages(f"user/{number}", said(f"I am number {number}."))
        with pytest.raises(EmbeddingError):
            inside(memory).pipeline.embed_open()
        assert len(embedder.asked) == asked
        embedder.refused = "POISON"
        inside(memory).pipeline.embed_open()
        assert inside(memory).ledger.open_episodes.unembedded(after=0, limit=100) == []


@pytest.mark.embedded("listens to SQLite")
def test_the_vectors_of_queued_messages_are_read_by_the_first_search_alone(memory):
    memory.add_messages("c", said(NANTES, "I like tea."))
    first = told(memory, "Nantes")
    statements = []
    with inside(memory).ledger.database.read() as connection:
        connection.set_trace_callback(statements.append)
        assert told(memory, "Nantes") == first
        connection.set_trace_callback(None)
    assert any("m.content" in each for each in statements)
    assert not any("m.tokens" in each for each in statements)
