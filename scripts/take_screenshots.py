"""Take the pictures of the window that the documentation shows: python scripts/take_screenshots.py [DIRECTORY].

It needs Chromium. The store is that of ``memory-retrievers demo``, with two changes, so that there is something to see.
"""

import base64
import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMMAND = Path(sys.executable).with_name("memory-retrievers")
LARGEST = 150_000
"""Bytes of a picture, so that the documentation stays small."""

sys.path.insert(0, str(ROOT / "tests"))

from chromium import Browser, started  # noqa: E402 - the browser of the tests

ASK = """(() => {
    document.getElementById('query').value = 'What went wrong on that expensive Saturday?';
    document.getElementById('search').requestSubmit();
})()"""
HITS = "document.querySelectorAll('#hits .hit').length > 0"
READ = "document.querySelector('#memory .fields') !== null && document.querySelector('#memory .why') !== null"


@contextlib.contextmanager
def demo_window() -> Iterator[str]:
    """The address of a window into a new demo store."""
    with tempfile.TemporaryDirectory() as directory:
        store = Path(directory) / "demo"
        subprocess.run([COMMAND, "demo", "--store", store], check=True, stdout=subprocess.DEVNULL)  # noqa: S603
        process = subprocess.Popen([COMMAND, "ui", "--store", store], stdout=subprocess.PIPE, text=True)  # noqa: S603
        try:
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()
            process.wait()


def take(browser: Browser, path: Path) -> None:
    """Write what the browser shows to a file."""
    picture = base64.b64decode(browser.ask("Page.captureScreenshot", format="png")["data"])
    if len(picture) > LARGEST:
        raise SystemExit(f"{path.name} has {len(picture):,} bytes, more than {LARGEST:,}")
    path.write_bytes(picture)
    print(f"{path.name}: {len(picture):,} bytes")


def main(directory: Path) -> None:
    """Take all pictures."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as profile, started(Path(profile)) as browser, demo_window() as address:
        browser.resize(1400, 760)
        browser.open(address)
        browser.wait("document.querySelectorAll('#list [role=option]').length > 5")
        take(browser, directory / "window-timeline-1400.png")
        browser.run("document.getElementById('tab-search').click()")
        browser.run(ASK)
        browser.wait(HITS)
        browser.run("document.querySelector('#hits .hit button').click()")
        browser.wait(READ)
        browser.run("document.getElementById('hits').querySelector('details').open = true")
        take(browser, directory / "window-search-1400.png")
        browser.run("document.getElementById('close').click()")
        browser.resize(400, 860)
        browser.run("document.querySelector('#hits').scrollIntoView()")
        take(browser, directory / "window-search-400.png")
        browser.run("document.getElementById('tab-line').click(); scrollTo(0, 0)")
        browser.wait("document.querySelectorAll('#list [role=option]').length > 5")
        take(browser, directory / "window-timeline-400.png")
        browser.resize(1400, 760, dark=True)
        browser.run("document.getElementById('tab-health').click()")
        browser.wait("document.querySelectorAll('#health section').length === 5")
        take(browser, directory / "window-health-1400-dark.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images")
