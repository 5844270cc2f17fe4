"""The language model, the profile and the file of settings with which a store is served and its messages processed."""

import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import typer
from patience import PATIENCE

from memory_retrievers import Message
from memory_retrievers.backends import language_models
from memory_retrievers.backends.language_models import openai_compatible
from memory_retrievers.cli import app
from memory_retrievers.cli.options import DEFAULTS, ModelOptions
from memory_retrievers.errors import ConfigurationError, LanguageModelError, ValidationError
from memory_retrievers.settings import IngestionSettings, RetrievalSettings


@pytest.fixture
def completions(request, socket_enabled):
    """A server of chat completions that answers with the texts it is given, and the requests it has had."""
    asked, answers = [], []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = getattr(request, "param", "HTTP/1.0")  # from 1.1 on connections stay

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((self.path, self.headers.get("Authorization"), body | {"by": self.client_address}))
            status, sent = answers.pop(0)
            self.send_response(status)
            content = json.dumps(sent).encode()
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1", asked, answers
        server.shutdown()
        thread.join()


def said(content):
    return 200, {"choices": [{"message": {"content": json.dumps(content)}}]}


def test_a_language_model_on_a_server_makes_the_episodes_of_a_conversation(
    run, ended, tmp_path, completions, monkeypatch
):
    address, asked, answers = completions
    monkeypatch.setenv("MEMORY_RETRIEVERS_LANGUAGE_MODEL_KEY", "a-key")
    at = ("--store", str(tmp_path / "store"), "--scope", "c1")
    messages = [{"role": "user", "content": "I planted tomatoes."}, {"role": "assistant", "content": "Lovely."}]
    run("add-messages", *at, stdin=json.dumps(messages))
    segment = {"num_messages": 2, "title": "Tomatoes", "summary": "Tomatoes went in.", "surprise_level": "low"}
    answers += [(400, {"error": "no response_format"}), said({"segments": [segment]})]
    _, printed, told = ended("flush", *at, "--language-model", f"{address}#small")
    assert "Tomatoes" in printed, told
    (path, key, body), (_, _, again) = asked[:2]
    assert (path, key, body["model"]) == ("/v1/chat/completions", "Bearer a-key", "small")
    assert body["response_format"]["type"] == "json_schema"
    assert "response_format" not in again
    assert "I planted tomatoes." in again["messages"][1]["content"]


def test_a_password_in_the_address_is_sent_and_told_nowhere(completions, caplog):
    address, asked, answers = completions
    model = openai_compatible(address.replace("//", "//ana:hush@"), model="small")
    answers += [(401, {})]
    with caplog.at_level("INFO"), pytest.raises(LanguageModelError, match="401") as caught:
        model.generate("s", "u", Message)
    assert asked[0][1] == "Basic YW5hOmh1c2g="
    assert "hush" not in f"{caught.value} {caught.value.__cause__} {caplog.text}"
    for unreadable in ("http://ana:hush:hush", "http://ana:12/hush@h/v1"):
        with pytest.raises(ConfigurationError, match="cannot be read") as caught:
            openai_compatible(unreadable, model="small")
        assert "hush" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="share one header"):
        openai_compatible("http://ana:hush@h/v1", model="small", key="a-key")


def test_what_a_server_says_that_is_no_answer_is_a_named_error(completions):
    from pydantic import BaseModel

    class Wanted(BaseModel):
        word: str

    address, _, answers = completions
    model = ModelOptions(language_model=f"{address}#small").options()["language_model"]
    answers += [said({"word": "yes"})]
    assert model.generate("s", "u", Wanted) == Wanted(word="yes")
    for sent in ({"choices": []}, ["no object"], {"choices": [{"message": None}]}):
        answers[:] = [(200, sent), (200, sent)]
        with pytest.raises(LanguageModelError, match="no chat completion"):
            model.generate("s", "u", Wanted)
    answers[:] = [(500, {})]
    with pytest.raises(LanguageModelError, match="500"):
        model.generate("s", "u", Wanted)


def test_an_answer_of_a_server_is_read_no_further_than_any_that_is_awaited(completions, monkeypatch):
    address, asked, answers = completions
    model = openai_compatible(address, model="small")
    monkeypatch.setattr(language_models, "LARGEST_ANSWER", 2**20)
    answers += [said({"role": "user", "content": "x" * 2**20})] * 2
    with pytest.raises(LanguageModelError, match="twice: the server sent more than 1 MB"):
        model.generate("s", "u", Message)
    answers += [said({"role": "user", "content": "x" * 2**19})]
    assert len(model.generate("s", "u", Message).content) == 2**19
    assert len(asked) == 3


FORKING = """
import os, sys
from memory_retrievers import Message
from memory_retrievers.backends.language_models import openai_compatible
model = openai_compatible(sys.argv[1], model="small")  # as an application that is loaded before the fork
def ask():
    print(model.generate("s", "u", Message).content, flush=True)
ask()
if not (child := os.fork()):
    ask()
    ask()
    os._exit(0)
os.waitpid(child, 0)
ask()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("completions", ["HTTP/1.1"], indirect=True)
def test_a_forked_process_asks_its_language_model_on_no_connection_of_its_parent_which_would_get_the_answers(
    completions,
):
    address, asked, answers = completions
    answers += [said({"role": "user", "content": number}) for number in "1234"]
    done = subprocess.run([sys.executable, "-c", FORKING, address], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stdout.split(), done.stderr) == (["1", "2", "3", "4"], "")
    before, first, second, after = (body["by"] for _, _, body in asked)
    assert {before, after}.isdisjoint({first, second})  # one that idles for seconds is replaced


@pytest.mark.parametrize("suffix", [".toml", ".json"])
def test_settings_of_a_file_go_before_those_of_the_profile(tmp_path, suffix):
    file = tmp_path / f"settings{suffix}"
    if suffix == ".toml":
        file.write_text('[retrieval]\ncandidate_depth = 50\n[ingestion]\nidle_after = "PT1H"\n[tools]\nmax_tags = 3\n')
    else:
        told = {"retrieval": {"candidate_depth": 50}, "ingestion": {"idle_after": "PT1H"}, "tools": {"max_tags": 3}}
        file.write_text(json.dumps(told))
    options = ModelOptions(profile="reference", settings=file).options()
    assert options["retrieval"] == RetrievalSettings.reference().model_copy(update={"candidate_depth": 50})
    assert options["ingestion"].idle_after.total_seconds() == 3600
    assert not options["ingestion"].by_conversation
    assert options["tools"].max_tags == 3
    assert DEFAULTS.options()["ingestion"] == IngestionSettings()


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.toml", "retrieval = 1", "outside a table"),
        ("a.toml", "[retrieving]", "an unknown table 'retrieving'; one of: retrieval, ingestion, review, tools"),
        ("a.toml", "[retrieval]\nno_such = 1", r"\[retrieval\]: no_such"),
        ("a.toml", "[retrieval]\ncandidate_depth = 0", r"\[retrieval\]: candidate_depth"),
        ("a.toml", "{", "cannot be read as TOML"),
        ("a.json", "[" * 100_000, "cannot be read as JSON"),
        ("a.json", " " * 1_000_001, "at most 1000000"),
        ("absent.toml", None, "cannot be read"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_its_place(tmp_path, name, content, problem):
    file = tmp_path / name
    if content is not None:
        file.write_text(content)
    with pytest.raises((ConfigurationError, ValidationError), match=problem):
        ModelOptions(settings=file).options()


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("http://127.0.0.1:1/v1", "as its address, # and its name"),
        ("gpt", "--language-model is MODULE:NAME, for example my_models:language_model"),
        ("no_such_models:model", "cannot be imported"),
    ],
)
def test_a_language_model_that_is_none_is_refused_before_a_store_is_made(refused, tmp_path, given, problem):
    for command in (["mcp", "--scope", "c1"], ["serve", "--port", "0"]):
        assert problem in refused(*command, "--store", tmp_path / "store", "--language-model", given)
        assert "unknown profile" in refused(*command, "--store", tmp_path / "store", "--profile", "best")
    assert not (tmp_path / "store").exists()


def test_no_help_shows_the_name_of_a_class(run):
    for command in (*typer.main.get_command(app).commands, ""):
        assert not re.search("<[A-Z]", run(*command.split(), "--help")), command


def test_serving_and_processing_take_the_same_options(run):
    for command in ("serve", "mcp", "process", "flush"):
        told = run(command, "--help")
        for option in ("--language-model", "--profile", "--settings"):
            assert option in told
