"""Copies of a memory: a deep copy is the same handle, and a pickle carries the address and opens it again."""

import copy
import pickle
import subprocess
import sys

import pytest

from memory_retrievers import AgentMemory, RetrievalSettings
from memory_retrievers.backends.postgres.connection import tells_secret
from memory_retrievers.testing import HashEmbedder

SCOPE = "user/alice"


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_shares_the_store(copied):
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        memory.remember_fact(scope=SCOPE, fact="Alice lives in Lyon")
        assert copied({"memory": memory})["memory"].recent(SCOPE, facts=True).semantic


@pytest.mark.embedded("a directory is opened again")
def test_a_pickle_opens_the_address_again_with_the_same_options(tmp_path):
    with AgentMemory.open(tmp_path, embedder=HashEmbedder(), retrieval=RetrievalSettings.light()) as memory:
        memory.remember_fact(scope=SCOPE, fact="Alice lives in Lyon")
        pickled = pickle.dumps(memory)
        with pickle.loads(pickled) as again:  # noqa: S301 - our own; beside the open one, which needs the same options
            assert "Lyon" in again.recent(SCOPE, facts=True).to_markdown()
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer).retrieve('Lyon', scope='user/alice').to_markdown())"
    done = subprocess.run([sys.executable, "-c", code], input=pickled, capture_output=True, check=True)
    assert "Alice lives in Lyon" in done.stdout.decode()


class Model:
    """A language model of the caller's; two of them are never equal."""

    def generate(self, system, user, schema):
        raise NotImplementedError


@pytest.mark.embedded("a directory is opened again")
def test_a_pickle_opens_a_store_that_is_open_with_a_model_beside_it(tmp_path):
    with AgentMemory.open(tmp_path, embedder=HashEmbedder(), language_model=Model()) as memory:
        pickled = pickle.dumps(memory)
        memory.remember_fact(scope=SCOPE, fact="Alice lives in Lyon")
        with pickle.loads(pickled) as again:  # noqa: S301 - our own
            assert again.recent(SCOPE, facts=True).semantic
        assert memory.recent(SCOPE, facts=True).semantic
    with pickle.loads(pickled) as alone:  # noqa: S301 - our own
        assert alone.recent(SCOPE, facts=True).semantic


def test_what_has_no_address_is_not_pickled():
    with (
        AgentMemory.in_memory(embedder=HashEmbedder()) as memory,
        pytest.raises(pickle.PicklingError, match=r"AgentMemory\.open or connect has opened it"),
    ):
        pickle.dumps(memory)


@pytest.mark.embedded("a directory is opened again")
def test_its_text_form_names_its_directory_while_it_is_open(tmp_path):
    with AgentMemory.open(tmp_path, embedder=HashEmbedder()) as memory:
        assert repr(memory) == f"AgentMemory.open({str(tmp_path)!r})"
    assert str(tmp_path) not in repr(memory)  # closed


@pytest.mark.parametrize(
    ("url", "is_secret"),
    [
        ("postgresql://ana@db:5432/agents?application_name=a@b", False),
        ("postgresql://ana:p%23x@db/agents", True),
        ("postgresql://ana:p#x@db/agents", True),
        ("postgresql://ana:p?x@db/agents", True),
        ("postgresql://ana:p[x@db/agents", True),
        ("postgresql://ana@db/agents?%70assword=hush", True),
        ("postgresql://ana@db/agents?sslpassword=hush", True),
        ("postgresql://ana@db/agents?require_auth=password", False),
    ],
)
def test_a_password_is_found_where_the_database_finds_one(url, is_secret):
    assert tells_secret(url) is is_secret


def test_a_memory_that_is_not_made_yet_has_a_text_form():
    assert "AgentMemory object" in repr(AgentMemory.__new__(AgentMemory))


@pytest.mark.embedded("a directory is opened again")
def test_an_option_that_cannot_be_pickled_is_not_left_out(tmp_path):
    with (
        AgentMemory.open(tmp_path, embedder=lambda texts: [[1.0, float(len(text))] for text in texts]) as memory,
        pytest.raises((pickle.PicklingError, AttributeError)),
    ):
        pickle.dumps(memory)
