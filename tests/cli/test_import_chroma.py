import re

import chromadb
import pytest
from chromadb.config import Settings

from memory_retrievers.testing import HashEmbedder

HASHED = ("--embedder", "memory_retrievers.testing:HashEmbedder")
ROWS = (
    ("a", "Ruth keeps bees", {"user": "ruth"}),
    ("b", "Ruth lives in Lyon", {"user": "ruth", "body": "Ruth lives in Lyon"}),
    ("c", "Omar collects stamps", {"user": "omar"}),
    ("d", "Nobody's", {"about": "nothing"}),
)


@pytest.fixture
def chroma(tmp_path):
    """The directory of a Chroma that somebody else filled."""
    path = tmp_path / "chroma"
    client = chromadb.PersistentClient(path, settings=Settings(anonymized_telemetry=False))
    collection = client.create_collection("documents", embedding_function=None, metadata={"hnsw:space": "cosine"})
    ids, texts, metadata = (list(column) for column in zip(*ROWS, strict=True))
    collection.add(ids=ids, documents=texts, metadatas=metadata, embeddings=HashEmbedder().embed_documents(texts))
    client.close()
    return path


@pytest.fixture
def importing(chroma, tmp_path):
    return ("import-chroma", "--path", chroma, "--collection", "documents", "--store", tmp_path / "store", *HASHED)


def test_a_collection_becomes_the_facts_of_a_scope(importing, run, table, tmp_path):
    (counts,) = table(run(*importing, "--scope", "kb", "--category", "interest"))

    assert counts == {"adopted": "4", "updated": "0", "forgotten": "0", "unchanged": "0"}
    found = run("retrieve", "bees", "--scope", "kb", "--store", tmp_path / "store", *HASHED)
    assert "- [interest] Ruth keeps bees" in found


def test_a_second_run_takes_nothing_in_twice(importing, run, table):
    run(*importing, "--scope", "kb")
    (counts,) = table(run(*importing, "--scope", "kb"))

    assert (counts["adopted"], counts["unchanged"]) == ("0", "4")


def test_each_row_can_name_its_scope_and_those_that_do_not_are_told(importing, run, table, tmp_path):
    headings, counts, skipped = run(*importing, "--scope-key", "user").splitlines()

    assert table(f"{headings}\n{counts}")[0]["adopted"] == "3"
    assert skipped == "skipped 1: no_scope, for example 'd'"
    assert run("scopes", "--store", tmp_path / "store").splitlines() == ["omar", "ruth"]


def test_the_text_can_stand_in_the_metadata(importing, run):
    output = run(*importing, "--scope", "kb", "--text-key", "body")

    assert re.search(r"^skipped 3: no_text", output, re.MULTILINE)


def test_a_filter_takes_a_part_of_the_collection(importing, run, table, tmp_path):
    (counts,) = table(run(*importing, "--scope-key", "user", "--where", '{"user": {"$in": ["ruth"]}}'))

    assert counts["adopted"] == "2"
    assert run("scopes", "--store", tmp_path / "store").splitlines() == ["ruth"]


def test_another_embedder_is_refused_before_anything_is_made(importing, refused, tmp_path):
    assert "is not the one the collection 'documents' was filled with" in refused(*importing[:-2], "--scope", "kb")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--path", "chroma"], "give either --scope or --scope-key"),
        (["--path", "chroma", "--scope", "kb", "--scope-key", "user"], "give either --scope or --scope-key"),
        (["--scope", "kb"], "give either --path or --url"),
        (["--path", "chroma", "--url", "http://localhost:1", "--scope", "kb"], "give either --path or --url"),
        (["--path", "missing", "--scope", "kb"], "there is no Chroma store at missing"),
        (["--url", "localhost", "--scope", "kb"], "'localhost' is not the address of a Chroma server"),
        (["--path", "chroma", "--scope", "kb/"], "is malformed"),
        (["--path", "chroma", "--scope", "kb", "--where", "user"], "--where takes a JSON object: "),
        (["--path", "chroma", "--scope", "kb", "--where", "[" * 100_000], "--where takes a JSON object"),
        (
            ["--path", "chroma", "--scope", "kb", "--where", '{"user": {"$near": 1}}'],
            "Chroma does not take this where=",
        ),
        (["--path", "chroma", "--scope", "kb", "--category", "hobby"], "unknown category 'hobby'; one of: identity"),
    ],
)
@pytest.mark.usefixtures("chroma")
def test_bad_arguments_are_refused_in_one_line(tmp_path, refused, monkeypatch, arguments, problem):
    monkeypatch.chdir(tmp_path)

    assert problem in refused("import-chroma", "--collection", "documents", "--store", "store", *HASHED, *arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["chroma"]


def test_a_collection_that_is_missing_is_told_with_those_that_exist(chroma, tmp_path, refused):
    arguments = ("--path", chroma, "--collection", "absent", "--scope", "kb", "--store", tmp_path / "store")

    assert "has no collection 'absent'; it has 'documents'" in refused("import-chroma", *arguments)
    assert not (tmp_path / "store").exists()
