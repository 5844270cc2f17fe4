"""The documentation site as a reader has it: built, served, and searched in a real browser."""

import functools
import importlib.util
import os
import subprocess
import sys
import threading
import time
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import memory_retrievers

ROOT = Path(memory_retrievers.__file__).parents[1]

pytestmark = [
    pytest.mark.skipif(not (ROOT / "mkdocs.yml").exists(), reason="it is part of a checkout only"),
    pytest.mark.skipif(not importlib.util.find_spec("mkdocs"), reason="mkdocs is not installed; run: make test-docs"),
]

FOUND = "[...document.querySelectorAll('.md-search-result__item > .md-search-result__link')]"
SHOWN = f"{FOUND}.map(each => [new URL(each.href).pathname, each.querySelector('h1, h2').textContent])"
PATIENCE = 30
"""Seconds until a word is found: the index is loaded when the search is opened."""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Requests are not told."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, as ``make docs`` builds it."""
    directory = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", directory]
    subprocess.run(build, cwd=ROOT, check=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    return directory


@pytest.fixture
def address(site, socket_enabled):
    """Where the site is served: a browser gives no page of a file its search."""
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def search(browser, address):
    """Opens the first page, types a word into its search, and gives path and heading of what is found, best first."""

    def search(words):
        browser.open(address)
        browser.run("document.querySelector('[data-md-component=search-query]').focus()")
        browser.ask("Input.insertText", text=words)
        deadline = time.monotonic() + PATIENCE
        while not (found := browser.run(SHOWN)) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    yield search
    browser.open("about:blank")  # the server ends after this, and nothing may be asked of it any more


@pytest.mark.parametrize(
    ("words", "path", "heading"),
    [
        ("forgetting curve", "/concepts/forgetting/", "Forgetting and review"),
        ("prometheus", "/server/", "One memory for many programs"),
        ("StoreLockedError", "/reference/errors/", "Errors"),
    ],
)
def test_a_search_finds_the_page_of_a_word(search, words, path, heading):
    found = search(words)
    assert [path, heading] in found[:3]


def test_what_is_found_is_opened_with_a_click(search, browser):
    search("prometheus")
    browser.follow(f"{FOUND}.find(each => new URL(each.href).pathname === '/server/').click()")
    assert browser.run("location.pathname") == "/server/"


def test_the_site_loads_nothing_from_elsewhere_and_does_not_complain(search, browser, address):
    assert search("Lyon")
    assert browser.requests
    assert [url for url in browser.requests if not url.startswith((address, "data:", "blob:"))] == []
    assert browser.complaints == []
