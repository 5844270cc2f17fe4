import json

import pytest

HASHED = "memory_retrievers.testing:HashEmbedder"
NAMED = ("--embedder", HASHED, "--embedder-id", "a model of old")


def test_what_is_exported_is_imported_and_found_again(foreign_store, run, table, tmp_path):
    assert run("export", tmp_path / "all.jsonl", "--store", foreign_store) == "3\n"
    (counts,) = table(run("import", tmp_path / "all.jsonl", "--into", tmp_path / "new", *NAMED))

    assert counts == {
        "episodes": "2",
        "facts": "1",
        "invalidated_facts": "0",
        "pending_reviews": "0",
        "queued_messages": "0",
    }
    found = run("retrieve", "Lyon", "--scope", "user/ruth", "--store", tmp_path / "new", *NAMED)
    assert "Ruth lives in Lyon" in found
    assert run("export", tmp_path / "again.jsonl", "--store", tmp_path / "new") == "3\n"
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "all.jsonl").read_bytes()


def test_a_scope_is_exported_with_those_below_it_alone(foreign_store, run, tmp_path):
    assert run("export", tmp_path / "garden.jsonl", "--scope", "user/ruth/garden", "--store", foreign_store) == "1\n"

    _, memory, *others = map(json.loads, (tmp_path / "garden.jsonl").read_text().splitlines())
    assert [each["type"] for each in others] == ["event", "checksum"]
    assert "Ruth bought bees." in json.dumps(memory)
    assert "Lyon" not in (tmp_path / "garden.jsonl").read_text()


def test_a_dash_is_standard_output(foreign_store, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    printed = run("export", "-", "--store", foreign_store)
    assert set(tmp_path.iterdir()) == before
    run("export", tmp_path / "all.jsonl", "--store", foreign_store)
    assert printed == (tmp_path / "all.jsonl").read_text()


def test_nothing_is_overwritten(foreign_store, run, refused, tmp_path):
    run("export", tmp_path / "all.jsonl", "--store", foreign_store)
    before = (tmp_path / "all.jsonl").read_bytes()

    assert "exists already" in refused("export", tmp_path / "all.jsonl", "--store", foreign_store)
    assert "in use already" in refused("import", tmp_path / "all.jsonl", "--into", foreign_store, *NAMED)
    assert (tmp_path / "all.jsonl").read_bytes() == before


def test_an_import_by_another_embedder_is_refused_and_leaves_nothing(foreign_store, run, refused, tmp_path):
    run("export", tmp_path / "all.jsonl", "--store", foreign_store)

    assert "'a model of old'" in refused("import", tmp_path / "all.jsonl", "--into", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_damaged_export_is_refused_and_an_edited_one_is_taken_without_its_checksum(
    foreign_store, run, refused, tmp_path
):
    run("export", tmp_path / "all.jsonl", "--store", foreign_store)
    edited = (tmp_path / "all.jsonl").read_text("utf-8").replace("Ruth lives in Lyon", "Ruth lives in Nice")
    (tmp_path / "all.jsonl").write_text(edited, "utf-8")

    said = refused("import", tmp_path / "all.jsonl", "--into", tmp_path / "new", *NAMED)
    assert "is damaged, or was edited" in said
    assert "delete its last line" in said
    assert not (tmp_path / "new").exists()
    (tmp_path / "all.jsonl").write_text("".join(edited.splitlines(keepends=True)[:-1]), "utf-8")
    run("import", tmp_path / "all.jsonl", "--into", tmp_path / "new", *NAMED)
    assert "Nice" in run("retrieve", "Lyon", "--scope", "user/ruth", "--store", tmp_path / "new", *NAMED)


@pytest.mark.parametrize("text", ["", "not an export", '{"a": 1}'])
def test_a_file_that_is_no_export_is_refused(tmp_path, refused, text):
    (tmp_path / "file").write_text(text)

    assert "line 1" in refused("import", tmp_path / "file", "--into", tmp_path / "new")
    assert "cannot be read" in refused("import", tmp_path / "missing", "--into", tmp_path / "new")


def test_a_malformed_scope_is_refused(foreign_store, refused, tmp_path):
    assert "is malformed" in refused("export", tmp_path / "x", "--scope", "user/", "--store", foreign_store)
    assert not (tmp_path / "x").exists()
