"""What happens to memories after they were stored: changed, listed, forgotten, purged, copied."""

import threading
from datetime import timedelta

import pytest
from kept import kept_passages, kept_terms
from patience import PATIENCE

from memory_retrievers import (
    AgentMemory,
    ConfigurationError,
    EmbeddingError,
    IngestionSettings,
    LanguageModelError,
    Message,
    NotFoundError,
    ValidationError,
)
from memory_retrievers.models.results import PendingReview
from memory_retrievers.testing import HashEmbedder, inside

MARK = "xyzzy-marker"


@pytest.fixture
def on_disk(tmp_path, clock, keyword):
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder(), clock=clock, keyword=keyword) as memory:
        yield memory


def found(memory, query, *, scope="c1", children=False):
    result = memory.retrieve(query, scope=scope, include_child_scopes=children, record=False)
    return {hit.memory.id for hit in (*result.semantic, *result.episodic)}


def scores(memory, query):
    result = memory.retrieve(query, scope="c1", record=False)
    return [(hit.memory.id, hit.explanation) for hit in (*result.semantic, *result.episodic)]


def files_with(directory, text):
    return [file.name for file in directory.rglob("*") if file.is_file() and text.encode() in file.read_bytes()]


def test_a_forgotten_memory_is_gone_and_the_rest_ranks_as_if_it_had_never_been(memory):
    for n, text in enumerate(["User likes green tea", "User likes coffee", "User lives in Lyon"]):
        memory.remember_fact(scope="c1", fact=text, id=f"f{n}")
    before = scores(memory, "tea or coffee in Lyon")
    memory.remember_fact(scope="c1", fact="tea tea coffee", id="gone", metadata={"a": 1})
    memory.remember_episode(scope="c1", summary="They had tea in Lyon.", id="gone too")
    assert {"gone", "gone too"} <= found(memory, "tea or coffee in Lyon")

    memory.forget("gone", scope="c1")
    memory.forget("gone too", scope="c1")
    assert scores(memory, "tea or coffee in Lyon") == before
    with pytest.raises(NotFoundError):
        memory.get("gone", scope="c1")
    assert memory.stats("c1").facts == 3


def test_forgetting_leaves_no_trace_in_what_other_memories_and_reviews_say(memory):
    episode = memory.remember_episode(scope="c1", summary="They had tea.", id="e1")
    memory.remember_episode(scope="c1", summary="They had tea again.", id="e2")
    memory.remember_fact(scope="c1", fact="User likes tea", id="f1", source_episodic_ids=["e1", "e2"])
    memory.retrieve("tea", scope="c1")
    memory.retrieve("again", scope="c1", episodic_limit=1)
    memory.forget(episode.id, scope="c1")
    assert memory.get("f1", scope="c1").source_episodic_ids == ("e2",)
    assert all(key.id == "e2" for review in memory.pending_reviews("c1") for key in review.memories)
    memory.forget("e2", scope="c1")
    assert memory.pending_reviews("c1") == []


def test_a_review_that_was_still_waiting_does_not_bring_back_what_was_forgotten(memory):
    memory.remember_episode(scope="c1", summary="They had tea.", id="e1")
    memory.retrieve("tea", scope="c1")
    memory.forget_scope("c1")
    assert memory.pending_reviews("c1") == []
    assert memory.stats().pending_reviews == 0


def test_an_unknown_id_is_not_found_and_other_scopes_are_never_touched(memory):
    memory.remember_fact(scope="c2", fact="User likes tea", id="f1")
    for scope in ("c1", "c"):
        with pytest.raises(NotFoundError, match="Memory not found: f1"):
            memory.forget("f1", scope=scope)
        with pytest.raises(NotFoundError):
            memory.update("f1", scope=scope, fact="x")
    with pytest.raises(ValidationError, match="scope"):
        memory.forget("f1", scope="")
    assert found(memory, "tea", scope="c2") == {"f1"}


def test_an_expired_memory_can_still_be_forgotten(memory, clock):
    memory.remember_fact(scope="c1", fact="x", id="f1", expires_at=clock.now())
    memory.forget("f1", scope="c1")
    assert memory.scopes() == []


def test_a_forgotten_scope_takes_its_children_and_its_name_and_no_neighbour(memory):
    for scope in ("user/1", "user/1/work", "user/10", "user", "User/1"):
        memory.remember_episode(scope=scope, summary="They had tea.", id="e1")
    memory.retrieve("tea", scope="user", include_child_scopes=True)
    assert memory.forget_scope("user/1") == 2
    assert memory.scopes() == ["User/1", "user", "user/10"]
    assert found(memory, "tea", scope="user/1", children=True) == set()
    assert found(memory, "tea", scope="user/10") == {"e1"}
    (review,) = memory.pending_reviews("user")
    assert {key.scope for key in review.memories} == {"user", "user/10"}
    assert memory.forget_scope("user", include_child_scopes=False) == 1
    assert memory.forget_scope("nobody") == 0
    with pytest.raises(ValidationError):
        memory.forget_scope("")


def test_the_indexes_keep_nothing_of_what_was_forgotten_or_replaced(memory):
    for n in range(3):
        memory.remember_fact(scope="c1", fact=f"User likes tea {MARK}{n}", id=f"f{n}")
    found(memory, MARK)
    look = inside(memory)
    (forgotten,) = look.ledger.passages_of("c1", id="f0")
    (replaced,) = look.ledger.passages_of("c1", id="f1")
    assert {"marker0", "marker1", "marker2", "tea"} <= kept_terms(look)
    assert {forgotten.id, replaced.id} <= kept_passages(look)
    memory.forget("f0", scope="c1")
    assert "marker0" not in kept_terms(look)
    assert forgotten.id not in kept_passages(look)
    memory.update("f1", scope="c1", fact="User likes coffee")
    assert {term for term in kept_terms(look) if "marker" in term} == {"marker2", f"{MARK}2"}
    assert replaced.id not in kept_passages(look)
    memory.forget_scope("c1")
    assert (kept_terms(look), kept_passages(look)) == (set(), set())


def test_what_was_read_before_something_was_forgotten_is_not_kept(memory, monkeypatch):
    memory.remember_fact(scope="c1", fact="User likes tea", id="f1")
    look = inside(memory)
    ledger, read = look.ledger, look.ledger.texts

    def forget_while_searching(passages):
        texts = read(passages)
        ledger.snapshots.forget(passages)
        return texts

    monkeypatch.setattr(ledger, "texts", forget_while_searching)
    assert found(memory, "tea") == {"f1"}
    assert kept_terms(look) == set()


def test_only_the_fields_that_are_given_change(memory, clock):
    before = memory.remember_fact(
        scope="c1",
        fact="User likes tea",
        id="f1",
        keywords=["tea"],
        tags=["a"],
        expires_at=clock.now() + timedelta(days=9),
    )
    clock.advance(days=1)
    after = memory.update("f1", scope="c1", importance=0.9, metadata={"by": "hand"}, tags=["b"])
    changed = {"importance": 0.9, "metadata": {"by": "hand"}, "tags": ("b",), "updated_at": clock.now()}
    assert after == before.model_copy(update=changed) == memory.get("f1", scope="c1")
    assert memory.update("f1", scope="c1", expires_at=None).expires_at is None


def test_a_new_text_is_found_and_the_old_one_no_longer(memory):
    memory.remember_fact(scope="c1", fact="User likes tea", id="f1", category="interest")
    memory.remember_episode(scope="c1", summary="They had tea.", id="e1", messages=[Message(role="user", content="Hi")])
    (old,) = inside(memory).ledger.passages_of("c1", id="f1")
    memory.update("f1", scope="c1", fact="User likes coffee", category="preference", keywords=["espresso"])
    memory.update("e1", scope="c1", summary="They had cake.", title="Cake")
    (new,) = inside(memory).ledger.passages_of("c1", id="f1")
    assert new.id > old.id
    (hit,) = memory.retrieve("espresso coffee", scope="c1", episodic_limit=0).semantic
    assert (hit.explanation.bm25_rank, hit.memory.category) == (1, "preference")
    assert memory.retrieve("cake", scope="c1").episodic[0].explanation.bm25_rank == 1
    tea = memory.retrieve("tea", scope="c1")
    assert [hit.explanation.bm25_rank for hit in (*tea.semantic, *tea.episodic)] == [None, None]
    assert memory.get("e1", scope="c1").messages[0].content == "Hi"


@pytest.mark.parametrize("fields", [{}, {"fact": "User likes tea"}, {"importance": 0.5, "tags": ()}])
def test_where_nothing_is_different_nothing_changes(memory, clock, fields):
    before = memory.remember_fact(scope="c1", fact="User likes tea", id="f1")
    clock.advance(days=1)
    assert memory.update("f1", scope="c1", **fields) == before == memory.get("f1", scope="c1")


@pytest.mark.parametrize(
    ("id", "fields", "problem"),
    [
        ("f1", {"summary": "x"}, "f1 is a fact, which has no summary"),
        ("f1", {"summary": "x", "title": "y", "fact": "z"}, "no summary and no title"),
        ("e1", {"fact": "x"}, "e1 is an episode, which has no fact"),
        ("e1", {"category": "goal", "keywords": []}, "no category and no keywords"),
        ("f1", {"fact": " "}, "fact: must not be blank"),
        ("f1", {"fact": None}, "fact"),
        ("f1", {"category": "hobby"}, "category"),
        ("f1", {"importance": 2}, "importance"),
        ("f1", {"tags": "abc"}, "tags"),
        ("f1", {"metadata": {"x": float("nan")}}, "metadata"),
    ],
)
def test_a_bad_update_is_refused_and_changes_nothing(memory, id, fields, problem):
    kept = {
        "f1": memory.remember_fact(scope="c1", fact="User likes tea", id="f1"),
        "e1": memory.remember_episode(scope="c1", summary="They had tea.", id="e1"),
    }
    with pytest.raises(ValidationError, match=problem):
        memory.update(id, scope="c1", **fields)
    assert memory.get(id, scope="c1") == kept[id]


def test_an_update_whose_embedding_fails_changes_nothing(clock):
    class Failing(HashEmbedder):
        broken = False

        def embed_documents(self, texts):
            if self.broken:
                raise RuntimeError("no model")
            return super().embed_documents(texts)

    embedder = Failing()
    memory = AgentMemory.in_memory(embedder=embedder, clock=clock)
    before = memory.remember_fact(scope="c1", fact="User likes tea", id="f1")
    embedder.broken = True
    with pytest.raises(EmbeddingError):
        memory.update("f1", scope="c1", fact="User likes coffee")
    assert memory.get("f1", scope="c1") == before
    memory.close()


def test_two_updates_at_once_lose_neither(on_disk):
    on_disk.remember_fact(scope="c1", fact="User likes tea", id="f1")
    changes = [{"fact": "User likes coffee"}, {"tags": ["a"]}, {"metadata": {"b": 1}}, {"importance": 1.0}]
    threads = [
        threading.Thread(target=on_disk.update, args=("f1",), kwargs={"scope": "c1", **each}) for each in changes
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fact = on_disk.get("f1", scope="c1")
    assert (fact.fact, fact.tags, fact.metadata, fact.importance) == ("User likes coffee", ("a",), {"b": 1}, 1.0)
    assert found(on_disk, "coffee") == {"f1"}


def test_a_scope_is_listed_page_by_page_newest_first_whatever_is_added_meanwhile(memory, clock):
    for n in range(7):
        (memory.remember_fact if n % 2 else memory.remember_episode)(
            scope="c1", id=f"m{n}", **({"fact": "x"} if n % 2 else {"summary": "x"})
        )
        clock.advance(minutes=n % 3)
    memory.invalidate("m3", scope="c1")
    memory.remember_fact(scope="c1", id="expired", fact="x", expires_at=clock.now())
    listed, cursor = [], None
    while True:
        page = memory.list("c1", cursor=cursor, limit=2)
        assert len(page.memories) <= 2
        listed += [each.id for each in page.memories]
        memory.remember_fact(scope="c1", fact="new", created_at=clock.now() + timedelta(days=1))
        if (cursor := page.cursor) is None:
            break
    assert listed == ["m6", "m5", "m3", "m4", "m2", "m0", "m1"]
    assert [each.id for each in memory.list("c1", kind="episodic").memories] == ["m6", "m4", "m2", "m0"]
    assert memory.list("c1", limit=1000).cursor is None
    assert memory.list("nobody").memories == ()


@pytest.mark.parametrize("limit", [0, -1, 1001, True, 2.0, "2", None])
def test_a_page_holds_1_to_1000_memories(memory, limit):
    with pytest.raises(ValidationError, match="limit must be an integer from 1 to 1000"):
        memory.list("c1", limit=limit)


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "e30=", "WzFd", "W3RydWUsImEiXQ==", "WyIxIiwiYSJd", "Wzk5OTk5OTk5OTk5OTk5OTk5OTk5LCJhIl0=", "é", 5, b"x"],
)
def test_a_cursor_that_no_page_gave_is_refused(memory, cursor):
    with pytest.raises(ValidationError, match="cursor must be that of an earlier page"):
        memory.list("c1", cursor=cursor)


def test_an_unknown_kind_is_refused(memory):
    with pytest.raises(ValidationError, match="unknown kind 'dream'; one of: episodic, semantic"):
        memory.list("c1", kind="dream")


@pytest.mark.embedded("it looks for bytes in the files of the store")
def test_after_a_purge_no_byte_of_what_was_forgotten_is_in_the_directory(on_disk, tmp_path, clock):
    on_disk.remember_fact(scope="keep", fact="User likes tea", id="kept")
    for n in range(50):
        said = [Message(role="user", content=f"{MARK} message {n}")]
        on_disk.remember_episode(scope=f"{MARK}/{n}", summary=f"{MARK} summary {n}", title=MARK, messages=said)
        on_disk.remember_fact(scope="keep", fact=f"{MARK} fact {n}", id=f"f{n}", metadata={MARK: MARK}, tags=[MARK])
        on_disk.retrieve(f"{MARK} query {n}", scope=f"{MARK}/{n}")
    on_disk.remember_episode(scope="keep", summary=f"{MARK} episode", id="e1")
    on_disk.retrieve(f"{MARK} query", scope="keep")
    on_disk.remember_fact(scope="keep", fact=f"{MARK} expired", expires_at=clock.now())
    on_disk.remember_fact(scope="keep", fact=f"{MARK} old text", id="changed")
    on_disk.remember_fact(scope="keep", fact=f"{MARK} former text", id="forgotten")
    on_disk.update("forgotten", scope="keep", fact="Something else")
    on_disk.pending_reviews("keep")
    assert files_with(tmp_path, MARK)

    on_disk.forget_scope(MARK)
    for n in range(50):
        on_disk.forget(f"f{n}", scope="keep")
    on_disk.forget("e1", scope="keep")
    on_disk.update("changed", scope="keep", fact="User likes coffee", correct=True)
    on_disk.forget("forgotten", scope="keep")
    on_disk.purge()
    assert files_with(tmp_path, MARK) == files_with(tmp_path, "xyzzy") == files_with(tmp_path, "marker") == []
    assert {memory.id for memory in on_disk.list("keep").memories} == {"kept", "changed"}
    assert found(on_disk, "tea", scope="keep") == {"kept", "changed"}
    on_disk.close()
    assert files_with(tmp_path, "xyzzy") == []


def test_words_are_purged_also_when_another_engine_did_the_forgetting(tmp_path):
    with AgentMemory.open(tmp_path, embedder=HashEmbedder()) as memory:
        memory.remember_fact(scope="c1", fact="xyzzy", id="f1")
    with AgentMemory.open(tmp_path, embedder=HashEmbedder(), keyword="rank_bm25") as memory:
        memory.forget("f1", scope="c1")
        memory.purge()
        assert files_with(tmp_path, "xyzzy") == []


@pytest.mark.embedded("PostgreSQL is backed up by its own tools")
def test_a_memory_in_memory_can_be_purged_and_copied(memory, tmp_path, clock, keyword):
    memory.remember_fact(scope="c1", fact="User likes tea", id="f1")
    memory.purge()
    memory.backup(tmp_path / "copy")
    with AgentMemory.open(tmp_path / "copy", embedder=HashEmbedder(), clock=clock, keyword=keyword) as copy:
        assert copy.get("f1", scope="c1") == memory.get("f1", scope="c1")


@pytest.mark.embedded("PostgreSQL is backed up by its own tools")
def test_a_backup_holds_all_that_was_acknowledged_while_others_write(on_disk, tmp_path, clock, keyword):
    on_disk.remember_episode(scope="c1", summary="They had tea.", id="e1")
    on_disk.retrieve("tea", scope="c1")
    acknowledged, begun, stop = [], threading.Event(), threading.Event()

    def write():
        while not stop.is_set():
            acknowledged.append(on_disk.remember_fact(scope="c1", fact=f"Fact {len(acknowledged)}").id)
            begun.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert begun.wait(PATIENCE)
        for target in (tmp_path / "backups" / str(n) for n in range(3)):
            before = list(acknowledged)
            on_disk.backup(target)
            assert {path.name for path in target.iterdir()} == {"memory.db", "memory.db-sum"}
            with AgentMemory.open(target, embedder=HashEmbedder(), clock=clock, keyword=keyword) as copy:
                assert [copy.get(id, scope="c1").id for id in before] == before
                assert "e1" in found(copy, "tea")
                assert [review.query for review in copy.pending_reviews("c1")] == ["tea"]
    finally:
        stop.set()
        writer.join()


@pytest.mark.embedded("PostgreSQL is backed up by its own tools")
def test_a_backup_never_overwrites(on_disk, tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory" / "notes").write_text("mine too")
    for target in (tmp_path / "file", tmp_path / "directory", tmp_path / "store", tmp_path / "file" / "below"):
        with pytest.raises(ConfigurationError, match=r"is in use already|cannot become a copy"):
            on_disk.backup(target)
    assert (tmp_path / "file").read_text() == "mine"
    assert [file.name for file in (tmp_path / "directory").iterdir()] == ["notes"]


class Unreachable:
    def rate(self, conversation, memories, *, embed):
        raise LanguageModelError("the judge cannot be reached")


@pytest.mark.embedded("it looks into the files of a directory")
@pytest.mark.parametrize("finished", [False, True], ids=["queued", "waiting for its judge"])
@pytest.mark.parametrize("how", ["conversation", "id"])
def test_what_was_asked_in_a_forgotten_conversation_waits_for_no_review(tmp_path, clock, finished, how):
    asked = Message(role="user", content="Where is the xylophone?")
    with AgentMemory.open(tmp_path, embedder=HashEmbedder(), clock=clock, judge=Unreachable()) as memory:
        memory.remember_episode(scope="c", summary="A piano was tuned", id="e1")
        clock.advance(days=3)
        memory.add_messages("c", [asked], conversation="monday")
        memory.retrieve(asked.content, scope="c")
        if finished:
            with pytest.raises(LanguageModelError):
                memory.flush("c")
        assert "xylophone" in str(memory.pending_reviews("c")) or finished
        (said,) = [each.id for each in memory.recent("c").episodic if each.id != "e1"]
        if how == "id":
            memory.forget(said, scope="c")
        else:
            memory.forget_conversation("c", "monday")
        memory.purge()
        assert files_with(tmp_path, "xylophone") == []
        assert memory.get("e1", scope="c").summary == "A piano was tuned"
        assert memory.process_due("c").reviews == ()


@pytest.mark.embedded("it looks into the files of a directory")
@pytest.mark.parametrize("how", ["moved, then forgotten", "grown old"])
def test_what_waits_for_its_judge_holds_no_words_of_an_episode_that_has_left(tmp_path, clock, how):
    asked = Message(role="user", content="Where is the xylophone?")
    settings = IngestionSettings(keep_messages_days=30)
    with AgentMemory.open(
        tmp_path, embedder=HashEmbedder(), clock=clock, judge=Unreachable(), ingestion=settings
    ) as memory:
        memory.remember_episode(scope="c", summary="A piano was tuned", id="e1")
        clock.advance(days=3)
        memory.add_messages("c", [asked])
        memory.retrieve("What of the piano?", scope="c")
        with pytest.raises(LanguageModelError):
            memory.flush("c")
        said = next(each for each in memory.recent("c").episodic if each.id != "e1")
        memory.update(said.id, scope="c", title="An instrument", summary="It was looked for")
        assert files_with(tmp_path, "xylophone")
        if how == "grown old":
            clock.advance(days=31)
            with pytest.raises(LanguageModelError):
                memory.process_due()
        else:
            memory.manager.move([said], target_scope="d")
            memory.forget(said.id, scope="d")
        memory.purge()
        assert files_with(tmp_path, "xylophone") == []
        assert memory.process_due("c").reviews == ()


@pytest.mark.parametrize("how", ["conversation", "id"])
def test_what_another_process_was_asked_in_a_conversation_is_not_filed_once_it_is_forgotten(memory, clock, how):
    episode = memory.remember_episode(scope="c", summary="A piano was tuned", id="e1")
    memory.add_messages("c", [Message(role="user", content="Where is the xylophone?")], conversation="monday")
    asked = PendingReview(scope="c", query="xylophone?", memories=(episode.key,), created_at=clock.now())
    clock.advance(seconds=1)
    if how == "id":
        memory.forget(next(each.id for each in memory.recent("c").episodic if each.is_open), scope="c")
    else:
        memory.forget_conversation("c", "monday")
    inside(memory).store.add_pending_reviews([asked])  # as that process does a second later
    assert memory.pending_reviews("c") == []
    memory.retrieve("What was tuned?", scope="c")
    assert [each.query for each in memory.pending_reviews("c")] == ["What was tuned?"]
