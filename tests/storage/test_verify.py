"""Verify names what is wrong, and rebuild mends what can be made anew."""

import pytest

from memory_retrievers import AgentMemory, BackendError, SemanticMemory, ValidationError, VerificationReport
from memory_retrievers.models.contents import MAX_PROBLEMS, Problems
from memory_retrievers.testing import HashEmbedder, inside


@pytest.fixture(params=["on disk", "in memory"])
def memory(request, tmp_path, clock):
    arguments = {"embedder": HashEmbedder(), "clock": clock, "keyword": "sqlite_bm25"}
    on_disk = request.param == "on disk"
    with AgentMemory.open(tmp_path, **arguments) if on_disk else AgentMemory.in_memory(**arguments) as memory:
        memory.remember_fact(scope="user/a", fact="User lives in Lyon", id="f1", keywords=["France"])
        memory.remember_fact(scope="user/a", fact="User likes tea and tea", id="f2")
        memory.remember_fact(scope="user/b", fact="the", id="f1")
        memory.remember_fact(scope="user/b", fact="!!!", id="wordless")
        memory.remember_episode(scope="user/a", summary="They met in Lyon.", id="e1")
        yield memory


@pytest.fixture
def damage(memory):
    """Run SQL on the store behind its back."""

    def damage(*statements):
        database = inside(memory).ledger.database
        with database.read() as connection:
            connection.execute("PRAGMA foreign_keys = OFF")
            for statement in statements:
                connection.execute(statement)
            connection.execute("PRAGMA foreign_keys = ON")

    return damage


def test_a_store_that_is_whole_has_no_problems(memory):
    report = memory.verify()
    assert (report.memories, report.passages, report.problems, report.ok) == (5, 5, (), True)
    assert report.postings > 5


def test_an_empty_store_is_whole(clock):
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as memory:
        assert memory.verify() == VerificationReport()


F1 = "memory 'f1' in scope 'user/a'"


@pytest.mark.embedded("it changes the tables in SQLite's own words")
@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("DELETE FROM passages WHERE id = 1", f"{F1} has no passage"),
        ("DELETE FROM passage_contents WHERE passage = 1", f"passage 'semantic' of {F1} has neither text nor vector"),
        ("DELETE FROM memories WHERE row = 1", "of the table passages belongs to a row of memories that is not there"),
        ("UPDATE passages SET part = 'turn' WHERE id = 1", f"{F1} has no passage"),
        ("UPDATE passage_contents SET text = 'x' WHERE passage = 1", f"passage 'semantic' of {F1} has another text"),
        ("UPDATE memories SET content = 'User lives in Rome' WHERE row = 1", f"of {F1} has another text"),
        ("UPDATE memories SET keywords = '[\"Italy\"]' WHERE row = 1", f"of {F1} has another text"),
        ("UPDATE memories SET tags = '[' WHERE row = 1", f"{F1} cannot be read: JSONDecodeError"),
        ("UPDATE memories SET tier = 'mood' WHERE row = 1", f"{F1} cannot be read: KeyError: 'mood'"),
        ("UPDATE memories SET created_at = 'x' WHERE row = 1", f"{F1} cannot be read"),
        ("UPDATE passage_contents SET vector = x'000000' WHERE passage = 1", "no row of single-precision numbers"),
        ("UPDATE passage_contents SET vector = 'text' WHERE passage = 1", "no row of single-precision numbers"),
        ("UPDATE passage_contents SET vector = x'0000803f' WHERE passage = 1", "has 1 numbers instead of 256"),
        ("UPDATE passage_contents SET vector = zeroblob(1024) WHERE passage = 1", "has the length 0.0000 instead of 1"),
        (
            "UPDATE passage_contents SET vector = CAST(x'0000c07f' || substr(vector, 5) AS BLOB) WHERE passage = 1",
            "has NaN or infinity in it",
        ),
    ],
)
def test_damage_to_a_memory_is_named(memory, damage, statement, problem):
    damage(statement)
    report = memory.verify()
    assert not report.ok
    assert any(problem in found for found in report.problems), report.problems


@pytest.mark.embedded("it changes the tables in SQLite's own words")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("number", ["0000c07f", "0000807f", "ffff7f7f"], ids=["NaN", "infinity", "too large"])
def test_a_number_that_is_none_ends_a_search_and_never_makes_the_scores_of_others_none(memory, damage, number):
    damage(f"UPDATE passage_contents SET vector = CAST(x'{number}' || substr(vector, 5) AS BLOB) WHERE passage = 1")
    memory.rebuild("dense")
    with pytest.raises(BackendError, match="a stored vector is damaged: run verify"):
        memory.retrieve("Where does the user live?", scope="user/a", record=False)
    assert memory.retrieve("the", scope="user/b", record=False).semantic
    memory.forget("f1", scope="user/a")
    found = memory.retrieve("tea", scope="user/a", record=False)
    assert found.semantic[0].memory.id == "f2"
    assert all(0 < hit.score <= 1 for hit in found.semantic)


@pytest.mark.embedded("it changes the tables in SQLite's own words")
@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("DELETE FROM postings WHERE term = 'lyon' AND passage = 1", f"1 postings of {F1} are missing or wrong"),
        ("DELETE FROM postings WHERE passage = 1", f"postings of {F1} are missing or wrong"),
        ("UPDATE postings SET frequency = 9 WHERE term = 'lyon' AND passage = 1", f"1 postings of {F1} are missing"),
        ("UPDATE postings SET length = 9 WHERE passage = 1", f"postings of {F1} are missing or wrong"),
        ("UPDATE postings SET memory = 2 WHERE passage = 1", f"postings of {F1} are missing or wrong"),
        ("UPDATE postings SET kind = 'episodic' WHERE passage = 1", f"postings of {F1} are missing or wrong"),
        ("UPDATE postings SET scope_id = 2 WHERE passage = 1", f"postings of {F1} are missing or wrong"),
        ("INSERT INTO postings VALUES (1, 'semantic', 'rome', 1, 1, 1, 4)", "1 postings stand for words that no"),
        ("INSERT INTO postings VALUES (1, 'semantic', 'rome', 99, 1, 1, 4)", "1 postings stand for words that no"),
        ("DELETE FROM keyword_statistics WHERE kind = 'episodic'", "scope 'user/a' (episodic) say 0 passages with 0"),
        (
            "UPDATE keyword_statistics SET terms = terms + 1 WHERE scope_id = 1",
            "(semantic) say 2 passages with 9 words",
        ),
        ("INSERT INTO keyword_statistics VALUES (99, 'semantic', 3, 7)", "scope 99 (semantic) say 3 passages with 7"),
    ],
)
def test_damage_to_the_keyword_index_is_named_and_mended(memory, damage, statement, problem):
    before = memory.retrieve("Lyon France", scope="user/a", record=False)
    damage(statement)
    problems = memory.verify().problems
    assert any(problem in found for found in problems), problems
    memory.rebuild("dense")
    assert memory.verify().problems == problems
    memory.rebuild("sparse")
    assert memory.verify().problems == ()
    assert memory.retrieve("Lyon France", scope="user/a", record=False) == before


@pytest.mark.embedded("it changes the tables in SQLite's own words")
def test_a_rebuilt_store_is_the_same_to_the_last_posting(memory, damage):
    def tables():
        with inside(memory).ledger.database.read() as connection:
            return [
                connection.execute(f"SELECT * FROM {table}").fetchall() for table in ("postings", "keyword_statistics")
            ]

    before = tables()
    damage("DELETE FROM postings", "DELETE FROM keyword_statistics")
    assert not memory.verify().ok
    memory.rebuild()
    assert tables() == before
    assert memory.retrieve("tea", scope="user/a", record=False).semantic[0].explanation.bm25_rank == 1


@pytest.mark.embedded("it changes the tables in SQLite's own words")
def test_rebuilding_dense_reads_the_stored_vectors_again(memory, damage):
    assert memory.retrieve("tea", scope="user/a", record=False).semantic[0].memory.id == "f2"
    damage(
        """UPDATE passage_contents SET vector =
        (SELECT vector FROM passage_contents other WHERE other.passage = 3 - passage_contents.passage)
        WHERE passage IN (1, 2)"""
    )
    memory.rebuild("dense")
    nearest = [hit for hit in memory.retrieve("tea", scope="user/a").semantic if hit.explanation.dense_rank == 1]
    products = inside(memory).ledger.vectors([1, 2])[1] @ inside(memory).store.embedder.current().embed_query("tea")
    assert nearest[0].memory.id == ("f1" if products[0] >= products[1] else "f2")


def test_an_index_that_does_not_exist_is_refused(memory):
    with pytest.raises(ValidationError, match="unknown index 'chroma'; one of: sparse, dense, all"):
        memory.rebuild("chroma")


def test_the_postings_of_a_store_are_whole_whichever_engine_searches_it(tmp_path, clock):
    with AgentMemory.open(tmp_path, embedder=HashEmbedder(), clock=clock, keyword="rank_bm25") as memory:
        memory.remember_fact(scope="c1", fact="User likes tea")
        assert memory.verify() == VerificationReport(memories=1, passages=1, postings=3)
        memory.rebuild()
        assert memory.retrieve("tea", scope="c1").semantic[0].explanation.bm25_rank == 1
    with AgentMemory.open(tmp_path, embedder=HashEmbedder(), clock=clock) as memory:
        assert memory.verify() == VerificationReport(memories=1, passages=1, postings=3)
        assert memory.retrieve("tea", scope="c1").semantic[0].explanation.bm25_rank == 1


@pytest.mark.embedded("it changes the tables in SQLite's own words")
def test_what_sqlite_finds_wrong_is_in_the_report(memory, damage):
    damage(
        "PRAGMA ignore_check_constraints = ON",
        "UPDATE memories SET kind = 'mood' WHERE row = 1",
        "PRAGMA ignore_check_constraints = OFF",
    )
    assert any("SQLite's integrity check: CHECK constraint failed" in found for found in memory.verify().problems)


@pytest.mark.embedded("it tears the file of the store")
def test_a_file_that_is_torn_ends_in_a_report(tmp_path, clock):
    with AgentMemory.open(tmp_path, embedder=HashEmbedder(), clock=clock) as memory:
        memory.remember_many([SemanticMemory.new(scope="c1", fact=f"fact number {n} " * 20) for n in range(300)])
    file = tmp_path / "memory.db"
    content = bytearray(file.read_bytes())
    pages = len(content) // 4096
    for page in range(pages // 2, pages, 3):  # behind what names the tables, without which nothing can be opened
        content[page * 4096 : page * 4096 + 200] = b"\xff" * 200
    file.write_bytes(content)
    with pytest.raises(BackendError, match="is not as it was when it was closed"):
        AgentMemory.open(tmp_path, embedder=HashEmbedder(), clock=clock)
    (tmp_path / "memory.db-sum").unlink()  # as the message says, to save what can be read
    with AgentMemory.open(tmp_path, embedder=HashEmbedder(), clock=clock) as memory:
        report = memory.verify()
        assert not report.ok
        assert any("SQLite" in problem for problem in report.problems)


@pytest.mark.embedded("it changes the tables in SQLite's own words")
@pytest.mark.parametrize("tokens", ["x'000000'", "'text'"])
def test_tokens_that_are_cut_off_are_named_and_not_exported(tmp_path, clock, tokens):
    with AgentMemory.in_memory(embedder=HashEmbedder(), embedder_id="all-MiniLM-L6-v2-int8", clock=clock) as memory:
        memory.remember_fact(scope="user/a", fact="User lives in Lyon", id="f1")
        memory.remember_fact(scope="user/a", fact="User likes tea", id="f2")
        with inside(memory).ledger.database.read() as connection:
            connection.execute("UPDATE passage_contents SET tokens = zeroblob(128) WHERE passage = 2")
            assert memory.verify().ok
            connection.execute(f"UPDATE passage_contents SET tokens = {tokens} WHERE passage = 1")
        (problem,) = memory.verify().problems
        assert problem.startswith(f"passage 'semantic' of {F1} has vectors of tokens that are cut off")
        with pytest.raises(BackendError, match="'f1' in scope 'user/a' has a damaged vector"):
            memory.export(tmp_path / "export.jsonl")


def test_several_pages_are_verified_and_rebuilt(clock):
    with AgentMemory.in_memory(embedder=HashEmbedder(16), clock=clock, keyword="sqlite_bm25") as memory:
        memory.remember_many([SemanticMemory.new(scope=f"u/{n % 5}", fact=f"number {n}") for n in range(600)])
        assert (memory.verify().memories, memory.verify().ok) == (600, True)
        memory.rebuild("sparse")
        assert (memory.verify().postings, memory.verify().ok) == (1200, True)


def test_postings_are_verified_page_by_page(clock, monkeypatch):
    with AgentMemory.in_memory(embedder=HashEmbedder(16), clock=clock, keyword="sqlite_bm25") as memory:
        memory.remember_many([SemanticMemory.new(scope="u", fact=f"number {n}") for n in range(600)])
        with inside(memory).ledger.database.read() as connection:
            kind = type(connection)
        said, execute = [], kind.execute

        def noted(self, sql, *parameters):
            said.append(sql)
            return execute(self, sql, *parameters)

        monkeypatch.setattr(kind, "execute", noted)
        assert memory.verify().ok
    # of a server without statistics each passage would read all postings of its scope
    assert sum("postings" in sql for sql in said) < 10


def test_problems_beyond_the_first_thousand_are_counted():
    problems = Problems()
    problems.add(f"problem {number}" for number in range(MAX_PROBLEMS + 5))
    problems.add(["one more"])
    assert len(problems.listed()) == MAX_PROBLEMS + 1
    assert problems.listed()[-1] == "and 6 more problems like these"
