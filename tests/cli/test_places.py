"""Every command takes the address of a database for a store's place, and none shows its password."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

from memory_retrievers import AgentMemory, ConfigurationError
from memory_retrievers.cli.stores import Place

pytestmark = pytest.mark.embedded("it tells databases from directories")

NAMED = ("--embedder", "memory_retrievers.testing:HashEmbedder")
COMMAND = Path(sys.executable).parent / "memory-retrievers"
SECRETS = {
    "postgresql://ana:s3cret@db.example/agents": "postgresql://ana:***@db.example/agents",
    "postgres://ana:s3cret@/agents?host=/run": "postgres://ana:***@/agents?host=/run",
    "postgresql://db.example/agents?user=ana&password=s3cret&sslpassword=s3cret#x": (
        "postgresql://db.example/agents?user=ana&password=***&sslpassword=***"
    ),
    "postgresql://ana:s3cret?s3cret@db.example/agents": "postgresql://ana:***@db.example/agents",
    "postgresql://ana:x@s3cret@db.example/agents": "postgresql://***",
    "postgresql://ana:s3cret/s3cret@db.example/agents": "postgresql://***",
    "postgresql://ana:s3cret/s3cret?s3cret@db.example/agents": "postgresql://***",
    "postgresql://ana@db.example/agents": "postgresql://ana@db.example/agents",
}


def test_a_store_in_a_database_is_filled_looked_into_kept_whole_and_measured(
    postgres_url, run, refused, table, tmp_path, monkeypatch
):
    monkeypatch.setenv("MEMORY_RETRIEVERS_STORE", postgres_url)
    scope = ("--scope", "user/ruth")
    bees = run("remember", *scope, "--fact", "Ruth keeps bees", *NAMED).strip()
    run("remember", *scope, *NAMED, stdin=json.dumps({"summary": "They met in Lyon."}))

    assert "Ruth keeps bees" in run("retrieve", "bees", *scope, *NAMED)
    assert "Ruth keeps bees" in run("tools", "call", "retrieve_memory", "--json", '{"query": "bees"}', *scope, *NAMED)
    assert "They met in Lyon." in run("recent", *scope)
    assert {row["id"] for row in table(run("list", *scope))} >= {bees}
    assert json.loads(run("get", bees, *scope))["fact"] == "Ruth keeps bees"
    assert run("scopes") == "user/ruth\n"
    assert table(run("stats"))[0]["facts"] == "1"
    assert table(run("verify"))[0] | {"postings": ""} == {
        "memories": "2",
        "passages": "2",
        "postings": "",
        "projected": "0",
        "problems": "0",
    }
    assert run("rebuild") == run("purge") == ""
    seen = json.loads(run("doctor", "--json"))
    assert seen["backend"].startswith("PostgreSQL ")
    assert seen["schema"] == seen["known_schema"]
    assert (seen["tables"]["memories"], seen["findings"], seen["ok"]) == (2, [], True)
    assert "nothing to do" in run("doctor")
    assert run("reindex", *NAMED) == "0\n"
    assert run("inspect", "--out", tmp_path / "page.html") == f"{tmp_path / 'page.html'}\n"
    (tmp_path / "pairs.jsonl").write_text(
        "".join(
            f"{json.dumps({'scope': 'user/ruth', 'query': query, 'memory_ids': [bees]})}\n"
            for query in ("who keeps bees?", "bees", "Ruth", "keeps")
        )
    )
    assert "default" in run("eval", "own", tmp_path / "pairs.jsonl", *NAMED)
    assert run("reembed", "--yes", *NAMED, "--embedder-id", "another") == ""
    assert run("export", tmp_path / "all.jsonl") == "2\n"
    assert "pg_dump" in refused("backup", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    assert run("forget", bees, *scope) == ""
    assert run("forget-scope", "user/ruth", "--yes") == "1\n"


def test_a_store_in_a_database_is_served(postgres_url):
    command = [COMMAND, "serve", "--store", postgres_url, "--port", "0", *NAMED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        process.kill()
        _, error = process.communicate(timeout=PATIENCE)
    assert line.startswith(f"serving {Place.named(postgres_url)} at http://127.0.0.1:"), error


@pytest.mark.parametrize("command", [("backup",), ("import", "file.jsonl", "--into")])
def test_an_address_is_no_directory_to_be_made(command, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = refused(*command, "postgresql://ana:s3cret@db.example/agents")

    assert "takes a directory" in line
    assert "s3cret" not in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", SECRETS)
def test_a_place_shows_no_password(address):
    assert str(Place.named(address)).removesuffix("#x") == SECRETS[address]
    assert "s3cret" not in Place.named(address).name


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ana:s3cret%zz@/agents",
        "postgresql://ana:s3cret@s3cret@/agents",
        "postgresql://ana:s3cret/s3cret@/agents",
        "postgresql://ana:s3cret@127.0.0.1:1/agents",
        "postgresql://127.0.0.1:1/agents?password=s3cret&s3cret",
    ],
)
def test_no_error_tells_a_password(address, ended, tmp_path):
    commands = (
        ["stats"],
        ["verify"],
        ["remember", "--scope", "a", "--fact", "b"],
        ["export", "file"],
        ["migrate", "--to", tmp_path / "copy"],
    )
    for words in commands:
        place = "--from" if words[0] == "migrate" else "--store"
        code, output, error = ended(*words, place, address)
        assert code in {1, 2}
        assert "s3cret" not in output + error
    assert not (tmp_path / "copy").exists()


def test_a_directory_may_have_any_name(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("remember", "--scope", "a", "--fact", "b", "--store", "a:b@c", *NAMED)

    assert (tmp_path / "a:b@c" / "memory.db").is_file()
    assert Place.named("a:b@c").name == "a:b@c"
    shutil.rmtree(tmp_path / "a:b@c")


def test_a_tilde_is_the_home_directory_though_no_shell_has_read_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert Place.named("~/notes").address == tmp_path / "notes"
    assert Place.named("postgresql://ana@db.example/~agents").address == "postgresql://ana@db.example/~agents"


@pytest.mark.parametrize(
    "address",
    [
        "postgresql+psycopg://ana:s3cret@db/agents",
        "mysql://ana:s3cret@db/agents",
        " postgresql://ana:s3cret@db/agents",
        "postgresql:/ana:s3cret@db/agents",
        "'postgresql://ana:s3cret@db/agents'",
        '"postgresql://ana:s3cret@db/agents"',
        "\ufeffpostgresql://ana:s3cret@db/agents",
        "jdbc:postgresql://ana:s3cret@db/agents",
    ],
)
def test_an_address_of_another_kind_is_no_directory(tmp_path, monkeypatch, ended, address):
    monkeypatch.chdir(tmp_path)
    code, printed, complaint = ended("remember", "--store", address, "--scope", "c1", "--fact", "User likes tea")
    assert (code, printed) == (2, "")
    assert "postgresql://user@host/database" in complaint
    assert "s3cret" not in complaint
    with pytest.raises(ConfigurationError, match="an address, not a path") as caught:
        AgentMemory.open(address)
    assert "s3cret" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
