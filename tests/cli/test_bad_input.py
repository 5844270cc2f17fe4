import sys

import pytest

from memory_retrievers.cli import app

SCOPE = "user/ines"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["retrieve", "  ", "--scope", SCOPE], "Query cannot be empty"),
        (["retrieve", "x" * 8_001, "--scope", SCOPE], "query is too long: 8001 characters, at most 8000 are allowed"),
        (["retrieve", "x", "--scope", ""], "scope must not be empty"),
        (["retrieve", "x", "--scope", "user//ines"], "is malformed"),
        (["retrieve", "x", "--scope", SCOPE, "--episodic-limit", "-1"], "episodic_limit must be 0 or more"),
        (["retrieve", "x", "--scope", SCOPE, "--semantic-limit", "-1"], "semantic_limit must be 0 or more"),
        (["retrieve", "x", "--scope", SCOPE, "--detail", "full"], "unknown detail 'full'; one of: auto, none"),
        (["retrieve", "x", "--scope", SCOPE, "--category", "hobby"], "unknown category 'hobby'; one of: identity"),
        (
            ["retrieve", "x", "--scope", SCOPE, "--profile", "best"],
            "unknown profile 'best'; one of: default, light, reference",
        ),
        (["recent", "--scope", "/"], "is malformed"),
        (["recent", "--scope", SCOPE, "--limit", "-1"], "limit must be 0 or more"),
        (["recent", "--scope", SCOPE, "--days", "nan"], "days_limit"),
        (["recent", "--scope", SCOPE, "--days", "-1"], "days_limit"),
        (["scopes", "--scope", "user/"], "is malformed"),
        (["stats", "--scope", " "], "is malformed"),
        (["demo", "--scope", ".."], "is malformed"),
        (["remember", "--scope", "a\nb", "--fact", "x"], "is malformed"),
        (["remember", "--scope", SCOPE, "--fact", " "], "fact: must not be blank"),
        (["remember", "--scope", SCOPE, "--fact", "x", "--category", "hobby"], "unknown category 'hobby'; one of"),
        (["remember", "--scope", SCOPE, "--category", "note"], "give --fact as well"),
        (["remember", "--scope", SCOPE, "--keyword", "x"], "give --fact as well"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(demo, refused, arguments, problem):
    store, _ = demo

    assert problem in refused(*arguments, "--store", store)


@pytest.mark.parametrize(
    ("stdin", "problem"),
    [
        ("", "read from standard input as JSON"),
        ("{", "read from standard input as JSON"),
        ("[" * 100_000, "read from standard input as JSON"),
        (b"\xff{}", "read from standard input as JSON"),
        ('["summary"]', "an episode is a JSON object"),
        ("{}", "summary: Field required"),
        ('{"summary": " "}', "summary: must not be blank"),
        ('{"summary": "x", "mood": "good"}', "mood: Extra inputs are not permitted"),
        ('{"summary": "x", "surprise": NaN}', "surprise: "),
        ('{"summary": "x", "scope": "other"}', "given by --scope"),
        ('{"summary": "x", "messages": [{"role": "user"}]}', "messages.0.content: Field required"),
    ],
)
def test_a_bad_episode_is_refused_in_one_line_and_leaves_no_store(tmp_path, refused, stdin, problem):
    assert problem in refused("remember", "--store", tmp_path / "store", "--scope", "c1", stdin=stdin)
    assert list(tmp_path.iterdir()) == []


def test_remember_does_not_wait_for_someone_to_type_json(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    with pytest.raises(SystemExit) as ended:
        app(["remember", "--store", str(tmp_path), "--scope", "c1"])

    assert ended.value.code == 2
    assert "nothing to remember: give --fact TEXT" in capsys.readouterr().err


def test_an_id_that_is_taken_is_refused(tmp_path, run, refused):
    run("remember", "--store", tmp_path, "--scope", "c1", stdin='{"id": "e1", "summary": "x"}')

    assert "e1" in refused("remember", "--store", tmp_path, "--scope", "c1", stdin='{"id": "e1", "summary": "y"}')


@pytest.mark.parametrize(
    "arguments",
    [["retrieve", "x", "--scope", "c1"], ["recent", "--scope", "c1"], ["scopes"], ["stats"]],
)
def test_looking_into_a_store_that_is_not_there_says_so_and_makes_none(tmp_path, refused, arguments):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("not a store")

    for name in ("missing", "empty", "file"):
        assert refused(*arguments, "--store", tmp_path / name).endswith(
            f"there is no memory store at {tmp_path / name}: check --store; `remember` creates one"
        )
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["empty", "file"]


def test_a_store_that_cannot_be_read_is_reported_in_one_line(tmp_path, refused):
    (tmp_path / "memory.db").write_bytes(b"this is not a database, and long enough to look at" * 100)

    assert str(tmp_path) in refused("stats", "--store", tmp_path)
    assert str(tmp_path) in refused("remember", "--store", tmp_path, "--scope", "c1", "--fact", "x")


def test_a_file_in_the_place_of_a_store_is_refused(tmp_path, refused):
    (tmp_path / "file").write_text("not a store")

    assert str(tmp_path / "file") in refused("remember", "--store", tmp_path / "file", "--scope", "c1", "--fact", "x")
    assert str(tmp_path / "file") in refused("demo", "--store", tmp_path / "file")


def test_an_operating_system_error_is_reported_in_one_line(refused):
    too_long = "x" * 300

    assert "x" in refused("stats", "--store", too_long)


def test_a_token_that_nobody_is_asked_for_opens_no_server(refused, tmp_path):
    said = refused("mcp", "--scope", "user/alice", "--token", "0123456789abcdef", "--store", tmp_path / "store")
    assert "give --http as well, or leave it out" in said
    assert list(tmp_path.iterdir()) == []


def test_a_token_that_is_too_short_makes_no_store(refused, tmp_path):
    said = refused("mcp", "--http", "--scope", "user/alice", "--token", "short", "--store", tmp_path / "store")
    assert "at least 16 printable ASCII characters" in said
    assert list(tmp_path.iterdir()) == []


def test_an_empty_variable_for_a_token_opens_no_server(refused, monkeypatch, tmp_path):
    """A secret that is missing where the variable is filled from it."""
    for command, variable in (("mcp", "MEMORY_RETRIEVERS_MCP_TOKEN"), ("serve", "MEMORY_RETRIEVERS_TOKENS")):
        monkeypatch.setenv(variable, "")
        arguments = ("--http", "--scope", "user/alice") if command == "mcp" else ()
        said = refused(command, *arguments, "--store", tmp_path / "store")
        assert f"{variable} contains no token: leave it out to serve only this machine" in said
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_installed_is_missed_before_a_store_is_made(refused, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "memory_retrievers.server.app", raising=False)
    assert 'pip install "memory-retrievers[server]"' in refused("serve", "--store", tmp_path / "store")
    for name in [name for name in sys.modules if name.startswith("mcp.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    for options in ([], ["--http"]):
        said = refused("mcp", *options, "--scope", "user/alice", "--store", tmp_path / "store")
        assert 'pip install "memory-retrievers[mcp]"' in said
    assert list(tmp_path.iterdir()) == []
