"""Export and import: nothing is lost, nothing is embedded again, nothing is left half-made."""

import json
import os
import random
import tracemalloc
from datetime import timedelta
from pathlib import Path

import pydantic
import pytest
from contracts.samples import review
from contracts.strategies import memories
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_retrievers import (
    AgentMemory,
    BackendError,
    ConfigurationError,
    EmbeddingMismatchError,
    IngestionSettings,
    Message,
    RetrievalSettings,
    ReviewSettings,
    ToolSettings,
    ValidationError,
)
from memory_retrievers.backends.sql import contents
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.backends.sqlite import Database
from memory_retrievers.models import Kind
from memory_retrievers.models.selection import Selection
from memory_retrievers.storage import export as transfer
from memory_retrievers.storage.export_format import parse_record
from memory_retrievers.testing import HashEmbedder, inside


class Watched(HashEmbedder):
    """Counts what it embeds; embeds questions as always."""

    def __init__(self):
        super().__init__()
        self.documents = 0

    def embed_documents(self, texts):
        self.documents += len(texts)
        return super().embed_documents(texts)


@pytest.fixture
def filled(tmp_path, clock):
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder(), clock=clock) as memory:
        memory.remember_fact(
            scope="user/a",
            fact='Zoë likes "咖啡" ☕\u2028\n',
            id="f1",
            keywords=["x\ty"],
            metadata={"n": [1, 1.5, None, {"big": 2**80}]},
        )
        memory.remember_fact(scope="user/ab", fact="User lives in Lyon", id="f1", category="identity")
        clock.advance(days=1, seconds=0.000001)
        memory.remember_episode(
            scope="user/a/work",
            summary="They moved.",
            title="Moving",
            id="e1",
            surprise=0.1 + 0.2,
            messages=[Message(role="user", content="We\r\nmove")],
            expires_at=clock.now() + timedelta(days=9),
        )
        memory.invalidate("f1", scope="user/ab")
        memory.retrieve("moved", scope="user", include_child_scopes=True)
        yield memory


@pytest.fixture
def exported(filled, tmp_path):
    path = tmp_path / "export.jsonl"
    filled.export(path)
    return path


def lines(path):
    """The lines of an export but for its checksum."""
    *all_lines, checksum, rest = path.read_text("utf-8").split("\n")
    assert json.loads(checksum)["type"] == "checksum"
    assert rest == ""
    return all_lines


def unsealed(path):
    """An export without its checksum, as somebody leaves it who has edited it."""
    path.write_text("".join(f"{line}\n" for line in lines(path)), "utf-8")
    return path


def changed(path, number, **fields):
    """The export with fields of one line changed, and without its checksum."""
    all_lines = lines(path)
    all_lines[number - 1] = json.dumps(json.loads(all_lines[number - 1]) | fields)
    path.write_text("".join(f"{line}\n" for line in all_lines), "utf-8")


def imported(path, into, **arguments):
    return AgentMemory.import_(path, into=into, **{"embedder": HashEmbedder(), **arguments})


def left_over(directory):
    return [entry.name for entry in directory.iterdir() if entry.name.endswith(".part")]


def test_an_export_has_a_header_and_a_line_for_each_memory_and_review_in_order(exported):
    header, *rest = map(json.loads, lines(exported))
    assert (header["format"], header["version"]) == ("memory-retrievers export", 8)
    assert (header["embedder_id"], header["dimension"]) == ("HashEmbedder", 256)
    assert (header["memories"], header["pending_reviews"]) == (3, 1)
    assert [(line["type"], line["scope"]) for line in rest] == [
        ("memory", "user/a"),
        ("memory", "user/a/work"),
        ("memory", "user/ab"),
        ("pending_review", "user"),
        ("event", "user/a"),
        ("event", "user/a/work"),
        ("event", "user/ab"),
        ("event", "user/ab"),
    ]
    assert "咖啡" in exported.read_text("utf-8")


@pytest.mark.parametrize("keyword", ["sqlite_bm25", "rank_bm25"])
def test_what_is_imported_and_exported_again_gives_the_same_bytes(exported, tmp_path, filled, clock, keyword):
    embedder = Watched()
    settings = {"embedder": embedder, "embedder_id": "HashEmbedder", "clock": clock, "keyword": keyword}
    with imported(exported, tmp_path / "new" / "deep", **settings) as copy:
        assert copy.export(tmp_path / "again.jsonl") == 3
        assert embedder.documents == 0
        assert copy.get("f1", scope="user/ab") == filled.get("f1", scope="user/ab")
        assert copy.pending_reviews("user") == filled.pending_reviews("user")
        found = copy.retrieve("who moved?", scope="user/a/work", record=False)
        assert found.to_dict() == filled.retrieve("who moved?", scope="user/a/work", record=False).to_dict()
        assert copy.verify().ok
    assert (tmp_path / "again.jsonl").read_bytes() == exported.read_bytes()
    assert left_over(tmp_path / "new") == left_over(tmp_path) == []


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given_memories=st.lists(memories(), max_size=4, unique_by=lambda memory: (memory.scope, memory.id)))
def test_any_memory_survives_the_round_trip(tmp_path_factory, given_memories):
    directory = tmp_path_factory.mktemp("trip")
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        kept = inside(memory).store.put(given_memories)  # also what ends before it begins, as earlier versions took it
        memory.export(directory / "one")
    with imported(directory / "one", directory / "store") as copy:
        copy.export(directory / "two")
        with inside(copy).ledger.contents() as contents:
            stored = [each.memory for each in contents.memories]
    assert (directory / "one").read_bytes() == (directory / "two").read_bytes()
    assert all(memory in stored for memory in kept)


def test_several_pages_are_told_of_and_come_back_whole(tmp_path):
    from memory_retrievers import SemanticMemory

    written, read = [], []
    with AgentMemory.in_memory(embedder=HashEmbedder(8)) as memory:
        memory.remember_many([SemanticMemory.new(scope=f"u/{n % 7}", fact=f"number {n}") for n in range(600)])
        memory.export(tmp_path / "one", progress=lambda *numbers: written.append(numbers))
    progress = lambda *numbers: read.append(numbers)  # noqa: E731
    with imported(tmp_path / "one", tmp_path / "store", embedder=HashEmbedder(8), progress=progress) as copy:
        assert copy.stats().facts == 600
        copy.export(tmp_path / "two")
    assert written == read == [(256, 600), (512, 600), (600, 600)]
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_scope_is_exported_with_those_below_it_alone(filled, tmp_path, clock):
    assert filled.export(tmp_path / "part", scope="user/a") == 2
    with imported(tmp_path / "part", tmp_path / "other", clock=clock) as copy:
        assert copy.scopes() == ["user/a", "user/a/work"]
    with pytest.raises(ValidationError, match="malformed"):
        filled.export(tmp_path / "none", scope="user//a")
    assert not (tmp_path / "none").exists()


def test_an_export_is_of_one_moment(filled, tmp_path, clock):
    seen = []

    def write_meanwhile(done, total):
        filled.remember_fact(scope="user/zzz", fact="too late", id=f"late{len(seen)}")
        seen.append((done, total))

    filled.export(tmp_path / "one", progress=write_meanwhile)
    assert seen == [(3, 3)]
    assert "too late" not in (tmp_path / "one").read_text("utf-8")
    assert filled.get("late0", scope="user/zzz")


def test_an_empty_store_goes_out_and_in(tmp_path):
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        assert memory.export(tmp_path / "one") == 0
    with imported(tmp_path / "one", tmp_path / "store") as copy:
        assert copy.stats().facts == 0
        copy.remember_fact(scope="c1", fact="works")


def test_reviews_that_became_equal_stay_apart(tmp_path):
    ledger = SQLLedger(Database(None))
    ledger.add_pending_reviews([review(), review()], merge=False)
    transfer.export(ledger, tmp_path / "one")
    ledger.close()
    with imported(tmp_path / "one", tmp_path / "store") as copy:
        copy.export(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_reviews_that_wait_for_their_judge_keep_their_conversation(tmp_path, clock):
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as memory:
        ledger = inside(memory).ledger
        for said in ("We move to Lyon", "We cook"):
            ledger.add_pending_reviews([review(f"{said} {n}", scope="user") for n in range(150)], merge=False)
            conversation = [Message(role="user", content=said, timestamp=clock.now())]
            ledger.conversations.take_reviews("user", conversation=conversation, at=clock.now())
        ledger.add_pending_reviews([review("next", scope="user")])
        jobs = ledger.conversations.review_jobs("user")
        memory.export(tmp_path / "one")
    header, *rest = map(json.loads, lines(tmp_path / "one"))
    assert (header["pending_reviews"], header["review_jobs"]) == (1, 2)
    with imported(tmp_path / "one", tmp_path / "store", clock=clock) as copy:
        restored = inside(copy).ledger.conversations.review_jobs("user")
        assert [content_of(job) for job in restored] == [content_of(job) for job in jobs]
        assert [each.query for each in copy.pending_reviews("user")] == ["next"]
        copy.export(tmp_path / "two")
    assert (tmp_path / "two").read_bytes() == (tmp_path / "one").read_bytes()
    reviews = [each | {"type": "pending_review", "scope": "user"} for job in rest[1:] for each in job["reviews"]]
    older = [{**header, "version": 6, "pending_reviews": 301}, rest[0], *reviews]  # they had no lines for jobs
    del older[0]["review_jobs"]
    (tmp_path / "old").write_text("".join(f"{json.dumps(line)}\n" for line in older), "utf-8")
    with imported(tmp_path / "old", tmp_path / "older", clock=clock) as copy:
        assert len(copy.pending_reviews("user")) == 301


def content_of(job):
    return job.scope, job.reviewed_at, job.conversation, job.reviews


def test_a_target_that_exists_is_left_as_it_is(filled, tmp_path):
    target = tmp_path / "mine"
    target.write_text("precious")
    with pytest.raises(ConfigurationError, match="exists already"):
        filled.export(target)
    with pytest.raises(ConfigurationError, match="cannot be written"):
        filled.export(tmp_path / "nowhere" / "file")
    assert target.read_text() == "precious"


@pytest.mark.embedded("it changes the tables in SQLite's own words")
def test_an_export_that_fails_leaves_no_file(filled, tmp_path):
    with inside(filled).ledger.database.write() as connection:
        connection.execute("UPDATE passage_contents SET vector = x'00' WHERE passage = 2")
    with pytest.raises(BackendError, match=r"'f1' in scope 'user/ab' cannot be read .* verify\(\) tells more"):
        filled.export(tmp_path / "one")
    with inside(filled).ledger.database.write() as connection:
        connection.execute("UPDATE passage_contents SET vector = x'00000000' WHERE passage = 2")
    with pytest.raises(BackendError, match="damaged vector"):
        filled.export(tmp_path / "one")
    assert not (tmp_path / "one").exists()
    assert left_over(tmp_path) == []


@pytest.mark.embedded("it looks at the file of the store")
def test_an_import_refuses_a_directory_that_is_in_use(exported, tmp_path):
    before = (tmp_path / "store" / "memory.db").stat().st_size
    for taken in (tmp_path / "store", exported):
        with pytest.raises(ConfigurationError, match="in use already"):
            imported(exported, taken)
    assert (tmp_path / "store" / "memory.db").stat().st_size == before
    (tmp_path / "empty").mkdir()
    imported(exported, tmp_path / "empty").close()
    assert left_over(tmp_path) == []


@pytest.mark.parametrize(
    ("line", "fields", "error", "problem"),
    [
        (1, {"format": "something"}, ValidationError, "line 1: this is not a file that export wrote"),
        (1, {"version": 9}, ConfigurationError, "line 1: a newer version .* wrote this file"),
        (1, {"version": "1"}, ValidationError, "line 1: version"),
        (1, {"memories": -1}, ValidationError, "line 1: memories"),
        (1, {"embedder_id": "other"}, EmbeddingMismatchError, "line 1: .*'other', not 'HashEmbedder'"),
        (1, {"dimension": 64}, EmbeddingMismatchError, "line 1: .*256 numbers"),
        (1, {"probe": [-1.0] * 16}, EmbeddingMismatchError, "line 1: .*other vectors"),
        (1, {"embedder_id": None}, ValidationError, "line 1: .*embedder_id, dimension and probe .* are missing"),
        (1, {"embedder_id": None, "probe": None}, ValidationError, "line 1: .* are missing"),
        (1, {"dimension": None}, ValidationError, "line 1: .* are missing"),
        (1, {"memories": 4}, ValidationError, "line 9: the file ends here .* not complete"),
        (2, {"type": "mood"}, ValidationError, "line 2: unknown type of line: 'mood'"),
        (2, {"kind": "procedural"}, ValidationError, "line 2: kind: must be episodic or semantic"),
        (2, {"mood": "good"}, ValidationError, "line 2: mood: Extra inputs"),
        (2, {"created_at": None}, ValidationError, "line 2: created_at"),
        (3, {"is_open": True}, ValidationError, "line 3: is_open: "),
        (3, {"is_open": True, "summary": ""}, ValidationError, "line 3: is_open: "),
        (2, {"scope": "a//b"}, ValidationError, "line 2: .*malformed"),
        (2, {"passages": [{"part": "semantic", "text": "x"}]}, ValidationError, "line 2: 0.vector: Field required"),
        (2, {"passages": [{"part": "p", "text": "x", "vector": "AAA"}]}, ValidationError, "line 2: vector: is not base64"),
        (2, {"passages": [{"part": "p", "text": "x", "vector": "AAAAAA=="}]}, ValidationError, "line 2: vector: has 1 "),
        (4, {"scope": "user/a"}, ValidationError, "line 4: id 'f1' is already taken in scope 'user/a'"),
        (5, {"scope": ""}, ValidationError, "line 5: scope must not be empty"),
    ],
)  # fmt: skip
def test_a_bad_line_is_named_and_nothing_is_made(exported, tmp_path, line, fields, error, problem):
    changed(exported, line, **fields)
    with pytest.raises(error, match=problem):
        imported(exported, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert left_over(tmp_path) == []


@pytest.mark.parametrize("cut", [1, 50])
def test_a_truncated_line_is_named(exported, tmp_path, cut):
    exported.write_bytes(unsealed(exported).read_bytes()[: -cut - 1])
    with pytest.raises(ValidationError, match="line 9: this is not a complete line of JSON"):
        imported(exported, tmp_path / "new")
    assert not (tmp_path / "new").exists()


DAMAGED = (
    r"export\.jsonl is damaged, or was edited: .* Nothing was imported\. Take another copy, .* delete its last line"
)


def test_a_flipped_bit_anywhere_is_refused(exported, tmp_path):
    whole = exported.read_bytes()
    chance, last = random.Random(0), whole.rindex(b"\n", 0, -1)
    digest = whole.index(b'"sha256":"', last) + len('"sha256":"')
    begins_last = chance.sample(range(8 * last, 8 * digest), 8)  # so that it tells no checksum any more
    header, seal = range(8 * whole.index(b"\n")), range(8 * digest, 8 * len(whole))
    for bit in (*begins_last, *(each for part in (header, range(8 * last), seal) for each in chance.sample(part, 80))):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        exported.write_bytes(damaged)
        with pytest.raises(ValidationError, match="line (9|10): " if bit in begins_last else DAMAGED):
            imported(exported, tmp_path / "new")
        assert not (tmp_path / "new").exists(), bit
    assert left_over(tmp_path) == []


def test_an_export_that_is_cut_off_is_refused_and_whole_without_its_last_line(exported, tmp_path, clock):
    whole = exported.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    chance = random.Random(0)
    for length in (0, *chance.sample(range(last - 1), 10), *range(last + 1, len(whole) - 1, 20), len(whole) - 2):
        exported.write_bytes(whole[:length])
        with pytest.raises(ValidationError, match=r"line|damaged"):
            imported(exported, tmp_path / "new")
        assert not (tmp_path / "new").exists(), length
    for length in (last - 1, last):
        exported.write_bytes(whole[:length])
        with imported(exported, tmp_path / f"new{length}", clock=clock) as copy:
            copy.export(tmp_path / f"again{length}.jsonl")
        assert (tmp_path / f"again{length}.jsonl").read_bytes() == whole


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda whole: whole.replace("Zoë".encode(), b"Zo"), DAMAGED),
        (lambda whole: b"\xef\xbb\xbf" + whole, DAMAGED),
        (lambda whole: b"\n" + whole, DAMAGED),
        (lambda whole: whole + whole, DAMAGED),
        (lambda whole: whole + whole.splitlines(keepends=True)[-2], DAMAGED),
        (lambda whole: whole.replace(b'"checksum",', b'"checksum", '), "line 10: this checksum is that of another"),
        (lambda whole: whole + b" " * 2_000_000, "line 10: this checksum is that of another text: delete it"),
    ],
    ids=["a letter", "a mark", "a line", "twice", "a record", "written anew", "spaces"],
)
def test_an_edited_export_says_what_to_do(exported, tmp_path, change, problem):
    exported.write_bytes(change(exported.read_bytes()))
    with pytest.raises(ValidationError, match=problem):
        imported(exported, tmp_path / "new")
    assert list(tmp_path.glob("*new*")) == []


@pytest.mark.parametrize("end", [b"", b"\r\n", b" \n"])
def test_ends_of_lines_may_be_those_of_another_system(exported, tmp_path, end):
    whole = exported.read_bytes()
    exported.write_bytes(whole.replace(b"\n", b"\r\n") if end == b"\r\n" else whole.removesuffix(b"\n") + end)
    with imported(exported, tmp_path / "new") as copy:
        assert copy.get("f1", scope="user/ab").fact == "User lives in Lyon"


def test_an_export_that_is_edited_on_purpose_is_imported_without_its_last_line(exported, tmp_path):
    exported.write_text(unsealed(exported).read_text("utf-8").replace("lives in Lyon", "lives in Nice"), "utf-8")
    with imported(exported, tmp_path / "new") as copy:
        assert copy.get("f1", scope="user/ab").fact == "User lives in Nice"


def test_a_checksum_is_found_out_in_bounded_memory(exported, tmp_path):
    with exported.open("ab") as file:
        file.write((b" " * 2**20 + b"\n") * 40 + exported.read_bytes().splitlines(keepends=True)[-1])
    tracemalloc.start()
    try:
        with pytest.raises(ValidationError, match=DAMAGED):
            imported(exported, tmp_path / "new")
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert held < 8 * 2**20


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"[]\n", b"{}\n", b"x" * 2_000_000, b"[" * 100_000])
def test_a_file_of_another_kind_is_refused(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ValidationError, match="line 1: this is not a file that export wrote"):
        imported(tmp_path / "file", tmp_path / "new")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        imported(tmp_path / "missing", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_what_is_no_plain_file_or_cannot_be_read_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    held = os.open(tmp_path / "pipe", os.O_RDWR)
    os.write(held, b"a line that comes, as no further one does\n")
    try:
        for source in (tmp_path / "pipe", tmp_path, Path("/dev/null")):
            with pytest.raises(ConfigurationError, match="cannot be read: it is not a plain file"):
                imported(source, tmp_path / "new")
    finally:
        os.close(held)


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="a plain file that cannot be read")
def test_an_error_of_reading_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match=r"^/proc/self/mem cannot be read: Input/output error"):
        imported("/proc/self/mem", tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_a_name_as_long_as_a_file_system_takes_serves(exported, filled, tmp_path):
    long = tmp_path / ("\N{CJK UNIFIED IDEOGRAPH-5496}" * 82)
    imported(exported, long).close()
    assert (long / "memory.db").is_file()


def test_an_id_with_a_nul_of_an_earlier_version_is_imported_read_and_forgotten_and_an_update_of_it_ends(
    exported, tmp_path
):
    exported.write_text(unsealed(exported).read_text("utf-8").replace('"f1"', '"f\\u0000"'), "utf-8")
    with imported(exported, tmp_path / "copy") as copy:
        assert copy.get("f\0", scope="user/a").fact == copy.list("user/a").memories[0].fact
        with pytest.raises(ValidationError, match="id: must not have a NUL character"):
            copy.update("f\0", scope="user/a", fact="Zoë likes tea")
        copy.forget("f\0", scope="user/a")
        assert copy.list("user/a").memories == ()


def test_an_import_into_the_current_directory_opens_what_it_has_made(exported, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    with imported(exported, ".") as copy:
        assert copy.get("f1", scope="user/a").id == "f1"
    assert (tmp_path / "empty" / "memory.db").is_file()


def test_a_memory_with_several_passages_keeps_them(tmp_path):
    said = [Message(role="user", content="another text"), Message(role="assistant", content="and one more")]
    with AgentMemory.in_memory(embedder=HashEmbedder(4)) as memory:
        memory.remember_episode(scope="c1", summary="They talked.", messages=said)
        memory.export(tmp_path / "one")
    with imported(tmp_path / "one", tmp_path / "store", embedder=HashEmbedder(4)) as copy:
        copy.export(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert (tmp_path / "two").read_bytes().count(b"another text") == 2


def test_messages_that_wait_travel_with_the_rest(filled, tmp_path, clock):
    said = [Message(role="user", content=f"number {n}\u2028", timestamp=clock.now()) for n in range(25)]
    filled.add_messages("user/a", said)
    filled.add_messages("elsewhere", said[:2])
    filled.add_messages("long", [Message(role="user", content=f"tea {n}") for n in range(45)])
    filled.process_due("long")
    filled.export(tmp_path / "again.jsonl")
    with AgentMemory.import_(
        tmp_path / "again.jsonl", into=tmp_path / "copy", embedder=HashEmbedder(), clock=clock
    ) as copy:
        for scope in ("user/a", "elsewhere", "long"):
            queues = [inside(memory).ledger.conversations for memory in (filled, copy)]
            assert queues[0].head(scope, limit=100) == queues[1].head(scope, limit=100)
            assert queues[0].state(scope) == queues[1].state(scope)
        copy.export(tmp_path / "third.jsonl")
        assert (tmp_path / "third.jsonl").read_bytes() == (tmp_path / "again.jsonl").read_bytes()
        assert sum(len(episode.messages) for episode in copy.flush("user/a").episodes) == 25


def test_a_long_queue_is_several_lines_and_one_again(filled, tmp_path, clock, monkeypatch):
    monkeypatch.setattr(contents, "QUEUE_BYTES", 9_000)
    said = [Message(role="user", content=f"{n} {'咖' * 100}", timestamp=clock.now()) for n in range(15)]
    late = Message(role="user", content="Soon", timestamp=clock.now() + timedelta(hours=1))
    filled.add_messages("user/a", [late, *said], conversation="c")
    filled.export(tmp_path / "again.jsonl")
    header, *rest = map(json.loads, lines(tmp_path / "again.jsonl"))
    assert header["queues"] == sum(line["type"] == "queue" for line in rest) == 3
    with imported(tmp_path / "again.jsonl", tmp_path / "copy", clock=clock) as copy:
        assert copy.waiting("user/a") == filled.waiting("user/a")
        assert inside(copy).ledger.conversations.state("user/a", "c").heard_at == late.timestamp
        copy.export(tmp_path / "third.jsonl")
    assert (tmp_path / "third.jsonl").read_bytes() == (tmp_path / "again.jsonl").read_bytes()


def without_speakers(given):
    """Lines as they were before passages told who speaks."""
    passages = [passage for line in given for passage in line.get("passages", ())]
    told = [passage.pop("speaker", None) for passage in passages]
    for passage in passages:
        passage.pop("tells_time", None)
    return [speaker for speaker in told if speaker is not None]


@pytest.mark.parametrize("told", [True, False])
def test_who_says_a_message_and_whether_it_tells_a_time_survive_and_are_found_out_where_they_are_missing(
    tmp_path, clock, told
):
    said = [Message(role="Ana", content="I saw a fox yesterday"), Message(role="Ben", content="Nice!")]
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as memory:
        memory.remember_episode(scope="c", id="e1", summary="A fox", messages=said)
        memory.export(tmp_path / "one.jsonl")
    header, *rest = map(json.loads, lines(tmp_path / "one.jsonl"))
    source = tmp_path / "one.jsonl"
    if not told:
        assert without_speakers(rest) == ["Ana", "Ben"]
        source = tmp_path / "old.jsonl"
        source.write_text("".join(f"{json.dumps(line)}\n" for line in (header | {"version": 3}, *rest)), "utf-8")
    with imported(source, tmp_path / "copy", clock=clock) as copy:
        selection = Selection(scope="c", kind=Kind.EPISODIC, now=clock.now(), every_passage=True)
        layout = inside(copy).ledger.layout(selection)
        assert (layout.names, layout.speakers.tolist()) == (("Ana", "Ben"), [-1, 0, 1])
        assert layout.tells_time.tolist() == [False, True, False]
        assert copy.reindex() == 0
        assert copy.verify().ok
        copy.export(tmp_path / "two.jsonl")
    assert (tmp_path / "two.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()


def test_what_an_export_holds_of_episodes_is_taken_as_it_is_and_reindex_adds_the_rest(tmp_path, clock):
    said = [Message(role="Ana", content="I saw a fox yesterday")]
    summary = RetrievalSettings(passages="summary")
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, retrieval=summary) as memory:
        memory.remember_episode(scope="c", id="e1", summary="A fox", messages=said)
        memory.export(tmp_path / "one.jsonl")
    with imported(tmp_path / "one.jsonl", tmp_path / "copy", clock=clock) as copy:
        assert len(inside(copy).ledger.passages_of("c")) == 1
        assert copy.reindex() == 1
        assert len(inside(copy).ledger.passages_of("c")) == 2
        assert copy.verify().ok


def test_an_export_of_the_first_format_is_still_read(exported, tmp_path, clock):
    header, *rest = map(json.loads, lines(exported))
    header["version"] = 1
    for name in ("review_jobs", "queues", "associations", "audit", "characters", "events"):
        del header[name]
    rest = [line for line in rest if line["type"] != "event"]
    for line in rest:
        for field in ("is_flashbulb", "replaced_by", "scene"):
            line.pop(field, None)
    old = tmp_path / "old.jsonl"
    old.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in (header, *rest)), "utf-8")
    with AgentMemory.import_(old, into=tmp_path / "copy", embedder=HashEmbedder(), clock=clock) as copy:
        assert copy.stats().episodes == 1


def test_an_export_of_the_second_format_is_still_read(exported, tmp_path, clock):
    header, *rest = map(json.loads, lines(exported))
    header["version"] = 2
    del header["characters"]
    for line in rest:
        line.pop("scene", None)
    without_speakers(rest)
    old = tmp_path / "old.jsonl"
    old.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in (header, *rest)), "utf-8")
    with AgentMemory.import_(old, into=tmp_path / "copy", embedder=HashEmbedder(), clock=clock) as copy:
        copy.export(tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == exported.read_bytes()


def test_an_export_of_the_fourth_format_knows_of_one_conversation_without_a_name(tmp_path, clock):
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as memory:
        memory.remember_episode(scope="c", id="e1", summary="A fox")
        memory.add_messages("c", [Message(role="user", content="And a hare")])
        memory.export(tmp_path / "new.jsonl")
    header, episode, queue, _event = map(json.loads, lines(tmp_path / "new.jsonl"))
    header["version"] = 4
    del header["events"]
    for line, names in ((episode, ("conversation_id", "summary_by")), (queue, ("conversation",))):
        for name in names:
            del line[name]
    old = tmp_path / "old.jsonl"
    old.write_text("".join(json.dumps(line) + "\n" for line in (header, episode, queue)), "utf-8")
    with imported(old, tmp_path / "copy", clock=clock) as copy:
        kept = copy.get("e1", scope="c")
        assert (kept.conversation_id, kept.summary_by) == (None, "caller")
        assert [message.content for message in copy.waiting("c")] == ["And a hare"]
        assert len(copy.flush("c").episodes) == 1


@pytest.mark.embedded("it opens the directory that an import has made")
def test_the_imported_memory_is_the_one_that_open_gives_with_the_same_settings(filled, tmp_path, clock):
    seen = []
    same = {
        "embedder": HashEmbedder(),
        "clock": clock,
        "ingestion": IngestionSettings(keep_messages_days=3),
        "review": ReviewSettings(),
        "tools": ToolSettings(audit_days=3),
        "before_store": lambda record: seen.append(record) or record,
    }
    filled.export(tmp_path / "export.jsonl")
    with (
        AgentMemory.import_(tmp_path / "export.jsonl", into=tmp_path / "copy", **same) as imported,
        AgentMemory.open(tmp_path / "copy", **same) as memory,  # other settings would be refused
    ):
        assert memory.scopes() == imported.scopes() == filled.scopes()
        assert seen == []
        memory.remember_fact(scope="s", fact="Emil sings")
        assert len(seen) == 1


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"type": "memory", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested 100001 deep"),
        (b'{"type": "memory", "x": [' + b"[]," * 3_000_000 + b"[]]}", "this line has 6000005 values"),
        ('{"type":"memory","a":"\u0122","b":["\u2222"]}'.encode("utf-16-be"), "not a complete line of JSON in UTF-8"),
        ('{"type":"memory","a":"\u0122","b":["\u2222"]}'.encode("utf-32-be"), "not a complete line of JSON in UTF-8"),
        (b'{"type": "memory", "x": "' + b"x" * 16 * 2**20, "the line is larger than 16 MB"),
    ],
    ids=["deep", "many", "utf-16", "utf-32", "long"],
)
def test_a_line_that_is_made_to_take_memory_is_refused_before_it_is_read(
    exported, tmp_path, line, problem, monkeypatch
):
    assert transfer.LARGEST_LINE == 256 * 2**20
    monkeypatch.setattr(transfer, "LARGEST_LINE", 16 * 2**20)
    with unsealed(exported).open("ab") as file:
        file.write(line + b"\n")
    number = len(exported.read_bytes().splitlines())
    tracemalloc.start()
    try:
        with pytest.raises(ValidationError, match=f"line {number}: .*{problem}"):
            imported(exported, tmp_path / "new")
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert held < 64 * 2**20, f"{held / 2**20:.0f} MB"
    assert not (tmp_path / "new").exists()


def test_a_line_of_wide_characters_takes_no_more_than_its_text(exported, tmp_path):
    line = json.dumps({"type": "memory", "kind": "semantic", "fact": "💥" + "x" * 10_000_000}, ensure_ascii=False)
    (tmp_path / "made").write_bytes(exported.read_bytes().splitlines(keepends=True)[0] + line.encode())
    del line

    tracemalloc.start()
    try:
        with pytest.raises(ValidationError, match=r"line 2: .*fact: String should have at most"):
            AgentMemory.import_(tmp_path / "made", into=tmp_path / "new", embedder=HashEmbedder())
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert held < 120_000_000  # pydantic asks for four bytes a character once more, of which it uses one


def test_metadata_as_deep_as_a_memory_may_have_goes_out_and_in(tmp_path):
    nested = "x"
    for _ in range(250):
        nested = [nested]
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder()) as memory:
        fact = memory.remember_fact(scope="a", fact="x", metadata={"k": nested})
        memory.export(tmp_path / "all.jsonl")
    with imported(tmp_path / "all.jsonl", tmp_path / "new") as memory:
        assert memory.get(fact.id, scope="a").metadata == {"k": nested}


def test_long_lines_are_not_read_a_whole_page_at_a_time(exported, tmp_path, monkeypatch):
    monkeypatch.setattr(transfer, "PAGE_BYTES", 1)
    told = []
    with imported(exported, tmp_path / "new", progress=lambda done, _: told.append(done)):
        assert len(told) == sum('"type":"memory"' in line for line in exported.read_text().splitlines()) > 1


def test_a_reference_to_a_memory_has_no_further_keys():
    line = {"type": "audit", "memory": {"scope": "c1", "id": "f1", "kind": "x"}, "action": "get", "old": 0, "new": 0}
    with pytest.raises(pydantic.ValidationError, match=r"memory\.kind"):
        parse_record({**line, "at": "2026-03-01T09:00:00Z", "reason": None}, None)
