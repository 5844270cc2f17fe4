"""Bad input gets one clear error that says what to do, and nothing is half-written."""

import pickle
import sqlite3
from datetime import UTC, datetime

import numpy as np
import pytest
from cases import tried_in_one
from langchain_core.documents import Document

from memory_retrievers import (
    AgentMemory,
    ConfigurationError,
    EmbeddingError,
    EmbeddingMismatchError,
    MemoryRetrieversError,
    Message,
    ValidationError,
)
from memory_retrievers.settings import IngestionSettings, RetrievalSettings, ReviewSettings, SceneSettings, ToolSettings
from memory_retrievers.testing import FixedClock, HashEmbedder

BAD_SCOPES = [
    "",
    " user/a",
    "user//a",
    "/user",
    "user/",
    "user/..",
    "user/\n",
    "/".join("abcdefghijk"),
    "x" * 201,
    None,
    7,
]


@pytest.fixture
def untouched(memory):
    """Whatever a test does, the store holds afterwards what it held before."""
    memory.remember_fact(scope="c1", fact="before")
    yield memory
    assert memory.stats().model_dump() == {
        "episodes": 0,
        "facts": 1,
        "invalidated_facts": 0,
        "pending_reviews": 0,
        "queued_messages": 0,
    }
    assert memory.scopes() == ["c1"]


@pytest.mark.parametrize("scope", BAD_SCOPES)
def test_a_malformed_scope_is_refused_everywhere(untouched, scope):
    calls = [
        lambda: untouched.remember_fact(scope=scope, fact="x"),
        lambda: untouched.remember_episode(scope=scope, summary="x"),
        lambda: untouched.retrieve("x", scope=scope),
        lambda: untouched.context("x", scope=scope),
        lambda: untouched.recent(scope),
        lambda: untouched.get("x", scope=scope),
        lambda: untouched.invalidate("x", scope=scope),
        lambda: untouched.pending_reviews(scope),
        *([] if scope is None else [lambda: untouched.stats(scope)]),
    ]
    for call in calls:
        with pytest.raises(ValidationError, match="scope"):
            call()


def test_metadata_that_is_nested_too_deep_is_refused_in_one_short_sentence(untouched):
    deep = {}
    for _ in range(1_000):
        deep = {"and": deep}
    with pytest.raises(ValidationError, match=r"^metadata\.and\..*…: .*depth") as refused:
        untouched.remember_fact(scope="c1", fact="x", metadata=deep)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"fact": "  "}, "fact: must not be blank"),
        ({"fact": "x" * 1_000_001}, "fact: String should have at most 1000000 characters"),
        ({"fact": "x", "category": "hobby"}, "unknown category 'hobby'; one of: identity"),
        ({"fact": "x", "importance": 1.5}, "importance"),
        ({"fact": "x", "id": ""}, "id"),
        ({"fact": "x", "id": "f\0"}, "id: must not have a NUL character"),
        ({"fact": "x", "metadata": {"when": float("nan")}}, "metadata"),
        ({"fact": "x", "created_at": "soon"}, "created_at"),
        ({"fact": "x", "tags": "work"}, "tags: Input should be a valid list"),
    ],
)
def test_a_fact_that_breaks_a_rule_is_refused_by_field(untouched, fields, complaint):
    with pytest.raises(ValidationError) as caught:
        untouched.remember_fact(scope="c1", **fields)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"summary": ""}, "summary: must not be blank"),
        ({"summary": "x", "surprise": "very"}, "surprise"),
        ({"summary": "x", "surprise": float("nan")}, "surprise"),
        ({"summary": "x", "stability": -1}, "stability"),
        ({"summary": "x", "difficulty": 11}, "difficulty"),
        ({"summary": "x", "messages": [{"role": "user", "content": " "}]}, "messages.0.content"),
    ],
)
def test_an_episode_that_breaks_a_rule_is_refused_by_field(untouched, fields, complaint):
    with pytest.raises(ValidationError, match=complaint):
        untouched.remember_episode(scope="c1", **fields)


@pytest.mark.parametrize("days_limit", [-1, float("nan"), float("inf"), "7", True])
def test_recent_refuses_a_limit_in_days_that_is_none(untouched, days_limit):
    with pytest.raises(ValidationError, match="days_limit"):
        untouched.recent("c1", days_limit=days_limit)


class Broken:
    """An embedder that works until it is told how to fail."""

    def __init__(self, answer=None):
        self.answer = answer
        self.sound = HashEmbedder(32)

    def embed_documents(self, texts):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.sound.embed_documents(texts) if self.answer is None else self.answer

    def embed_query(self, text):
        return self.sound.embed_query(text)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ([[float("nan")] * 32], EmbeddingError),
        ([[float("inf")] * 32], EmbeddingError),
        ([[0.0] * 32], EmbeddingError),
        ([], EmbeddingError),
        ([[1.0] * 32, [1.0] * 32], EmbeddingError),
        ([["no", "number"]], EmbeddingError),
        (RuntimeError("out of quota"), EmbeddingError),
        ([[1.0] * 31], MemoryRetrieversError),
    ],
)
def test_unusable_vectors_raise_and_store_nothing(clock, answer, error):
    embedder = Broken()
    memory = AgentMemory.in_memory(embedder=embedder, clock=clock)
    memory.remember_fact(scope="c1", fact="before")
    embedder.answer = answer
    with pytest.raises(error):
        memory.remember_fact(scope="c2", fact="after")
    assert memory.scopes() == ["c1"]
    embedder.answer = None
    assert len(memory.retrieve("before", scope="c1").semantic) == 1


class TestAnotherEmbedder:
    @pytest.fixture
    def store(self, tmp_path):
        with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder(64), embedder_id="mine") as memory:
            memory.remember_fact(scope="c1", fact="User lives in Lyon", id="f1")
        return tmp_path / "store"

    def test_of_another_name_is_refused_on_opening(self, store):
        with pytest.raises(EmbeddingMismatchError, match="'mine', not 'theirs'"):
            AgentMemory.open(store, embedder=HashEmbedder(64), embedder_id="theirs")

    def test_of_another_dimension_is_refused_at_the_first_embedding(self, store):
        with (
            AgentMemory.open(store, embedder=HashEmbedder(65), embedder_id="mine") as memory,
            pytest.raises(EmbeddingMismatchError, match="65 numbers, and this store holds 64"),
        ):
            memory.retrieve("Lyon", scope="c1")

    def test_with_other_vectors_under_the_same_name_is_refused(self, store):
        class Mirrored(HashEmbedder):
            def embed_query(self, text):
                return [-component for component in super().embed_query(text)]

        with (
            AgentMemory.open(store, embedder=Mirrored(64), embedder_id="mine") as memory,
            pytest.raises(EmbeddingMismatchError, match="other vectors"),
        ):
            memory.remember_fact(scope="c1", fact="x")

    def test_of_the_same_name_and_vectors_is_welcome(self, store):
        class Noisy(HashEmbedder):
            def embed_query(self, text):
                return (np.array(super().embed_query(text)) + 1e-4).tolist()

        with AgentMemory.open(store, embedder=Noisy(64), embedder_id="mine") as memory:
            assert memory.retrieve("Lyon", scope="c1").semantic[0].memory.id == "f1"

    def test_can_still_read_by_id(self, store):
        with AgentMemory.open(store, embedder=HashEmbedder(65), embedder_id="mine") as memory:
            assert memory.get("f1", scope="c1").fact == "User lives in Lyon"


@pytest.mark.embedded("it changes the tables in SQLite's own words")
def test_a_store_of_a_newer_schema_is_refused_and_left_as_it_is(tmp_path):
    AgentMemory.open(tmp_path, embedder=HashEmbedder()).close()
    file = tmp_path / "memory.db"
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA user_version = 999")
    connection.close()
    before = file.read_bytes()
    with pytest.raises(ConfigurationError, match=r"newer version of memory-retrievers \(schema 999.*upgrade"):
        AgentMemory.open(tmp_path, embedder=HashEmbedder())
    assert file.read_bytes() == before


@pytest.mark.embedded("it is about the path of a file")
def test_a_path_that_is_a_file_is_refused(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    with pytest.raises(ConfigurationError, match="cannot be used as a store directory"):
        AgentMemory.open(file, embedder=HashEmbedder())
    assert file.read_text() == "mine"


def test_the_address_of_a_server_is_refused_where_a_database_is_connected_to_with_what_opens_it():
    with pytest.raises(ConfigurationError, match=r"remote\.RemoteMemory opens the http"):
        AgentMemory.connect("http://127.0.0.1:8000")


@pytest.mark.embedded("PostgreSQL has one keyword engine")
def test_an_unknown_keyword_engine_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="sqlite_bm25, rank_bm25"):
        AgentMemory.in_memory(embedder=HashEmbedder(), keyword="lucene")


def test_an_object_that_embeds_nothing_is_refused():
    with pytest.raises(ConfigurationError):
        AgentMemory.in_memory(embedder=object())


@pytest.mark.parametrize("field", ["tags", "keywords", "source_episodic_ids"])
def test_one_text_in_place_of_a_list_is_refused_and_not_taken_for_its_letters(untouched, field):
    with pytest.raises(ValidationError, match=field):
        untouched.remember_fact(scope="c1", fact="The printer is out of toner", **{field: "work"})


def test_one_tag_in_place_of_a_list_is_refused_for_an_episode_as_well(untouched):
    with pytest.raises(ValidationError, match="tags"):
        untouched.remember_episode(scope="c1", summary="The printer was out of toner", tags="work")


@pytest.mark.embedded("a database is at no path")
def test_a_tilde_is_the_home_directory_wherever_a_place_is_named(tmp_path, monkeypatch):
    home, here = tmp_path / "home", tmp_path / "here"
    home.mkdir()
    here.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.chdir(here)
    embedder = HashEmbedder()
    with AgentMemory.open("~/notes", embedder=embedder) as memory:
        memory.remember_fact(scope="c1", fact="The printer is out of toner")
        memory.backup("~/copy")
        memory.export("~/all.jsonl")
    AgentMemory.import_("~/all.jsonl", into="~/moved", embedder=embedder).close()
    for place in ("~/notes", home / "copy", "~/moved"):
        with AgentMemory.open(place, embedder=embedder, read_only=True) as memory:
            assert memory.stats().facts == 1
    assert list(here.iterdir()) == []


def test_a_role_or_a_conversation_with_a_nul_character_is_kept_as_it_was_said(memory):
    memory.add_messages("user/a", [Message(role="Ru\0th", content="Tea at five")], conversation="c\0d")
    assert memory.retrieve("tea", scope="user/a").episodic[0].memory.conversation_id == "c\0d"
    (episode,) = memory.flush("user/a").episodes
    assert [message.role for message in episode.messages] == ["Ru\0th"]
    assert memory.transcript("user/a", "c\0d") == list(episode.messages)


@pytest.mark.embedded("a database is at no path")
@pytest.mark.parametrize(
    "name",
    [
        lambda memory, path: AgentMemory.open(path, embedder=HashEmbedder()),
        lambda memory, path: memory.backup(path),
        lambda memory, path: memory.export(path),
        lambda memory, path: AgentMemory.import_(path, into="./other", embedder=HashEmbedder()),
    ],
)
def test_a_path_with_a_nul_character_is_no_place(untouched, name):
    with pytest.raises(ConfigurationError, match="the path has a NUL character: name a directory or a file"):
        name(untouched, "a\0b")


@pytest.mark.embedded("a database is at no path")
@pytest.mark.parametrize("place", ["", " "])
def test_a_blank_path_is_no_place_of_a_store(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match="the path is empty"):
        AgentMemory.open(place, embedder=HashEmbedder())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.embedded("a database is at no path")
@pytest.mark.parametrize(
    ("place", "instead"), [(":memory:", r"AgentMemory\.in_memory\(\)"), ("http://localhost:8000", "RemoteMemory")]
)
def test_what_is_no_path_elsewhere_is_answered_with_what_takes_it(tmp_path, monkeypatch, place, instead):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=instead):
        AgentMemory.open(place, embedder=HashEmbedder())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "said", [Document("I moved to Nantes."), "I moved to Nantes.", None], ids=["other", "text", "none"]
)
def test_what_is_no_message_is_refused_with_what_is_one(untouched, said):
    for given in ([said], (each for each in [{"role": "user", "content": "Hello."}, said])):
        with pytest.raises(ValidationError, match=rf"one of LangChain or LlamaIndex, not {type(said).__name__}"):
            untouched.add_messages("c1", given)
    with pytest.raises(ValidationError, match="messages must be a list of messages"):
        untouched.add_messages("c1", Message(role="user", content="I moved to Nantes."))


@pytest.mark.parametrize("arguments", [(), ("./agent-memory",)])
def test_a_memory_that_is_made_by_its_class_says_how_one_is_opened(arguments):
    with pytest.raises(TypeError, match=r"AgentMemory\.open\(path\)"):
        AgentMemory(*arguments)


@pytest.mark.parametrize(
    "call",
    [
        lambda memory, long: memory.retrieve("x", scope=long),
        lambda memory, long: memory.retrieve("x", scope="c1").to_markdown(detail=long),
        lambda memory, long: memory.retrieve("x", scope="c1", where={long: 1}),
        lambda memory, long: memory.remember_fact(scope="c1", fact="x", expires_at=long),
        lambda memory, long: memory.get(long, scope="c1"),
        lambda memory, long: memory.list("c1", cursor=long),
    ],
)
def test_no_error_quotes_a_long_value_whole_and_its_copies_say_the_same(untouched, call):
    with pytest.raises(MemoryRetrieversError) as refused:
        call(untouched, "x" * 3_000_000)
    assert 20 < len(str(refused.value)) <= 2_000
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)  # noqa: S301 - made here


def test_a_long_error_keeps_its_end_which_says_what_to_do():
    error = MemoryRetrieversError("x" * 5_000 + "; open it anew")
    assert (str(error)[:5], str(error)[-14:], len(str(error))) == ("xxxxx", "; open it anew", 2_000)


@pytest.mark.parametrize("wrong", [7, [1], {}, b"a", None, bytearray(b"a")], ids=repr)
def test_an_id_is_text_and_no_number_is_taken_for_it(wrong):
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        memory.remember_episode(scope="u", id="7", summary="They sailed")
        memory.remember_fact(scope="u", id="f7", fact="They sail")
        for act in (
            lambda: memory.get(wrong, scope="u"),
            lambda: memory.forget(wrong, scope="u"),
            lambda: memory.update(wrong, scope="u", importance=0.9),
            lambda: memory.invalidate(wrong, scope="u"),
            lambda: memory.history(wrong, scope="u"),
            lambda: memory.review(wrong, scope="u", rating=3),
            lambda: memory.explain_missing(wrong, query="sail", scope="u"),
        ):
            with pytest.raises(ValidationError, match="id must be text"):
                act()
        assert memory.stats("u").episodes == 1
        with pytest.raises(ValidationError, match="scope"):
            memory.update("7", scope=[], importance=0.9)


@pytest.mark.embedded("a database is at no path")
@pytest.mark.parametrize(
    "wrong", [None, 3, True, [], b"there", "a\ud800", "a" * 300], ids=lambda value: repr(value)[:12]
)
def test_a_path_is_a_path_that_a_file_can_have(wrong, tmp_path):
    beside = wrong if not isinstance(wrong, str) else tmp_path / wrong
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        memory.remember_fact(scope="u", fact="They sail")
        for act in (
            lambda: memory.backup(beside),
            lambda: memory.export(beside),
            lambda: AgentMemory.open(beside, embedder=HashEmbedder()),
        ):
            with pytest.raises(ConfigurationError):
                act()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wrong", [None, 3, True, "Ines"], ids=repr)
def test_names_are_a_list_of_names(wrong):
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        for act in (lambda: memory.characters("u", pov=wrong), lambda: memory.scene("u", chat_length=3, present=wrong)):
            with pytest.raises(ValidationError, match="must be a list of names"):
                act()


@pytest.mark.parametrize(
    ("wrong", "complaint"), [("x", "settings: Input should be"), ({"steps": 3}, "settings.steps: ")], ids=repr
)
def test_settings_of_a_scene_that_are_none_are_named(wrong, complaint):
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory, pytest.raises(ValidationError) as raised:
        memory.scene("u", chat_length=3, settings=wrong)
    assert str(raised.value).startswith(complaint)


def test_a_call_of_mem0_is_told_what_to_call_here():
    here = {"add": "add_messages or remember_fact", "search": "retrieve", "get_all": "list", "delete": "forget"}
    here |= {
        "delete_all": "forget_scope",
        "reset": r"forget_scope for each of scopes\(\), and purge\(\)",
        "users": "scopes",
    }
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        for name, ours in here.items():
            with pytest.raises(AttributeError, match=rf"^'AgentMemory' object has no attribute '{name}': call {ours}$"):
                getattr(memory, name)("I like tea", user_id="alice")
        with pytest.raises(AttributeError, match=r"^'AgentMemory' object has no attribute 'retreive'$") as error:
            memory.retreive("tea")
    assert (error.value.name, error.value.obj) == ("retreive", memory)  # from which Python says what was meant


@pytest.mark.embedded("on a server the tests open the class itself, and none made of it")
def test_what_a_property_of_a_subclass_lacks_is_told():
    class OfShop(AgentMemory):
        @property
        def shop(self):
            return self.name_of_shop

    said = r"^'OfShop' object has no attribute 'name_of_shop'$"
    with OfShop.in_memory(embedder=HashEmbedder()) as memory, pytest.raises(AttributeError, match=said):
        memory.shop  # noqa: B018 - it is read


@tried_in_one(
    "kind, given, named",
    [
        (RetrievalSettings, {"dense_weight": 2}, "^dense_weight: "),
        (RetrievalSettings, {"magic": 1}, "^magic: "),
        (IngestionSettings, {"window": "x"}, "^window: "),
        (ReviewSettings, {"min_days": -1}, "^min_days: "),
        (SceneSettings, {"leading_up_messages": 1}, "^current_scene_messages must not be above leading_up_messages$"),
        (ToolSettings, {"max_tags": -1}, "^max_tags: "),
    ],
)
def test_a_setting_that_breaks_a_rule_is_one_of_our_errors(kind, given, named):
    with pytest.raises(ValidationError, match=named):
        kind(**given)


@pytest.mark.parametrize("now", [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)])
def test_a_clock_at_the_beginning_or_the_end_of_time_is_no_failure(now):
    settings = IngestionSettings(keep_messages_days=30)
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=FixedClock(now), ingestion=settings) as memory:
        memory.add_messages("c1", [Message(role="user", content="Tomorrow I fly to Rome, next year to Oslo")])
        for question in ("What did I do last week?", "What did I eat on 3 March?", "What is on tomorrow?"):
            memory.retrieve(question, scope="c1")
        assert len(memory.flush("c1").episodes) == 1
        memory.process_due()
        assert len(memory.retrieve("When do I fly to Rome?", scope="c1")) == 1
        assert len(memory.recent("c1", days_limit=1_000_000)) == 1


def test_a_memory_is_found_by_the_very_id_that_was_given_though_it_cannot_be_stored_so():
    given = {"id": "i\ud800", "scope": "u"}
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        assert memory.remember_fact(fact="They sail", **given).id == "i\ufffd"
        memory.update(fact="They row", **given)
        memory.invalidate(given["id"], scope="u")
        assert len(memory.history(given["id"], scope="u")) == 2
        assert memory.get(**given).invalid_at is not None
        assert len(memory.events(**given)) == 3
        memory.forget(**given)
        memory.remember_episode(
            summary="They sailed", messages=[Message(role="user", content="We \ud800 sailed")], **given
        )
        memory.review(rating="good", **given)
        memory.explain_missing(query="sail", **given)
        assert memory.forget_messages("u", ["We \ud800 sailed"]).messages == 1
        assert memory.list("u").memories == ()
