"""Somebody else's Chroma collection, opened from its directory or from a server."""

import gc
import http.server
import socket
import threading
import warnings
from pathlib import Path

import chromadb
import pytest
from chromadb.config import Settings

from memory_retrievers import BackendError, ConfigurationError
from memory_retrievers.backends.chroma.clients import opened_collection


@pytest.fixture
def directory(tmp_path):
    """A persistent Chroma with two collections, closed."""
    path = tmp_path / "chroma"
    client = chromadb.PersistentClient(path, settings=Settings(anonymized_telemetry=False))
    filled = client.create_collection("documents", embedding_function=None)
    filled.add(ids=["a"], documents=["Ruth keeps bees"], embeddings=[[0.6, 0.8]])
    client.create_collection("others", embedding_function=None)
    client.close()
    return path


@pytest.fixture
def loopback(socket_enabled):
    """Sockets are allowed; those that Chroma leaves open when it fails are closed here and not in somebody's test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def server(directory, loopback, start_chroma):
    """A Chroma server on that directory."""
    with start_chroma(directory) as port:
        yield f"http://127.0.0.1:{port}"


def test_a_collection_is_read_from_its_directory_without_an_embedding_function(directory):
    with opened_collection("documents", path=directory) as collection:
        assert collection.get(include=["documents"])["documents"] == ["Ruth keeps bees"]
        assert collection._embedding_function is None


def test_a_directory_can_be_opened_again_after_it_was_closed(directory):
    for _ in range(2):
        with opened_collection("documents", path=directory) as collection:
            assert collection.count() == 1


def test_a_collection_is_read_from_a_server(server):
    with opened_collection("documents", url=server) as collection:
        assert collection.get(include=["documents"])["documents"] == ["Ruth keeps bees"]
    with (
        pytest.raises(ConfigurationError, match="has no collection 'absent'; it has 'documents', 'others'"),
        opened_collection("absent", url=server),
    ):
        pass


def test_a_directory_that_is_missing_or_holds_something_else_is_not_made_a_chroma(tmp_path):
    (tmp_path / "other").mkdir()
    for name in ("missing", "other"):
        with (
            pytest.raises(ConfigurationError, match=r"there is no Chroma store at .*chroma.sqlite3"),
            opened_collection("documents", path=tmp_path / name),
        ):
            pass
    assert [path.name for path in tmp_path.rglob("*")] == ["other"]


def test_a_collection_that_is_missing_is_not_made_and_those_that_exist_are_named(directory):
    with (
        pytest.raises(ConfigurationError, match=r"has no collection 'absent'; it has 'documents', 'others'$"),
        opened_collection("absent", path=directory),
    ):
        pass
    client = chromadb.PersistentClient(directory, settings=Settings(anonymized_telemetry=False))
    assert client.count_collections() == 2
    for number in range(25):
        client.create_collection(f"more-{number}", embedding_function=None)
    client.close()
    with (
        pytest.raises(ConfigurationError, match=r"'documents', 'more-0', .* and more$"),
        opened_collection("absent", path=directory),
    ):
        pass


def test_a_chroma_without_collections_says_so(tmp_path):
    chromadb.PersistentClient(tmp_path, settings=Settings(anonymized_telemetry=False)).close()
    with (
        pytest.raises(ConfigurationError, match="has no collection 'absent'; it has none"),
        opened_collection("absent", path=tmp_path),
    ):
        pass


def test_a_damaged_directory_is_named(tmp_path):
    (tmp_path / "chroma.sqlite3").write_bytes(b"this is not a database" * 1000)
    with (
        pytest.raises(BackendError, match=f"{tmp_path} cannot be opened as a Chroma store: .*not a database"),
        opened_collection("documents", path=tmp_path),
    ):
        pass


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://localhost", "http://", "http://localhost:port", ""])
def test_what_is_no_address_is_refused(url):
    with (
        pytest.raises(ConfigurationError, match="is not the address of a Chroma server"),
        opened_collection("documents", url=url),
    ):
        pass


def test_a_server_that_is_not_there_is_named(loopback):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with (
        pytest.raises(BackendError, match=f"{url} cannot be opened as a Chroma store: Could not connect"),
        opened_collection("documents", url=url),
    ):
        pass


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # Chroma's connection, wherever the collector runs
def test_a_server_that_is_not_chroma_is_named_in_one_short_line(loopback):
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_error(404, explain="no such page\n" * 100)

        def log_message(self, format, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        try:
            with pytest.raises(BackendError) as raised, opened_collection("documents", url=url):
                pass
        finally:
            server.shutdown()
            thread.join()
    assert str(raised.value).startswith(f"{url} cannot be opened as a Chroma store: ")
    assert len(str(raised.value)) < 300
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("places", [{}, {"path": Path("x"), "url": "http://localhost:8000"}])
def test_one_place_is_asked_for(places):
    with pytest.raises(ConfigurationError, match="give either"), opened_collection("documents", **places):
        pass
