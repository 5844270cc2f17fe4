"""axe-core looks through every view of the page, in light and dark, narrow and wide.

It is fetched by ``npm pack axe-core`` once, into the cache of pytest; where npm or the network is missing the tests are
skipped, and fail where CI is set.
"""

import json
import os
import shutil
import subprocess
import tarfile

import pytest

VERSION = "4.10.2"
RULES = (
    "{resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}"
)


@pytest.fixture(scope="session")
def axe(pytestconfig):
    """The source of axe-core."""
    folder = pytestconfig.cache.mkdir("axe-core")
    archive = folder / f"axe-core-{VERSION}.tgz"
    if not archive.exists():
        npm = shutil.which("npm")
        command = [npm or "npm", "pack", f"axe-core@{VERSION}", "--silent", "--pack-destination", folder]
        done = npm is not None and subprocess.run(command, check=False, timeout=120, stdout=subprocess.DEVNULL)
        if not done or done.returncode:
            assert "CI" not in os.environ, "the tests of accessibility need npm"
            pytest.skip("axe-core cannot be fetched here")
    with tarfile.open(archive) as files:
        return files.extractfile("package/axe.min.js").read().decode()


@pytest.fixture
def findings(page, axe):
    """What axe-core finds of weight in the page as it stands."""

    def findings():
        if not page.run("'axe' in window"):
            page.run(f"{axe};void 0")  # the page's own policy does not hold for what the browser is told
        found = page.run(f"axe.run(document, {RULES}).then(found => JSON.stringify(found.violations))")
        return [
            (each["id"], node["target"], node.get("failureSummary"))
            for each in json.loads(found)
            if each["impact"] in {"serious", "critical"}
            for node in each["nodes"]
        ]

    return findings


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_no_view_has_a_serious_finding(page, findings, width, dark):
    page.browser.resize(width, 900, dark=dark)
    page.wait("document.querySelectorAll('#list [role=option]').length === 4")
    assert findings() == []

    page.open_first()
    assert findings() == []
    page.tab_to_button("Forget").press("Enter")
    page.wait("document.querySelector('#dialog .notice:not([hidden])') !== null")
    assert findings() == []
    page.press("Escape", "Escape")

    page.view("Search").tab_to("it.id === 'query'").write("Ruth")
    page.tab_to("it.tagName === 'SUMMARY'").press("Enter")
    page.tab_to("it.name === 'limit'").press("Enter")
    page.wait("document.querySelectorAll('#hits .hit').length === 4")
    page.run("for (const each of document.querySelectorAll('#hits details')) each.open = true")
    assert findings() == []

    for view, ready in [
        ("Compare", "!document.getElementById('view-compare').hidden"),
        ("Alike", "document.querySelector('#alike .strong') !== null"),
        ("Changes", "document.querySelector('#changes .notice') !== null"),
        ("Health", "document.querySelectorAll('#health section').length === 5"),
    ]:
        page.run("document.querySelector('[role=tab][tabindex=\"0\"], [role=tab]:not([tabindex])').focus()")
        while page.run("document.activeElement.textContent") != view:
            page.press("ArrowRight")
        page.wait(ready)
        assert findings() == [], view


def test_the_page_does_not_scroll_sideways_when_it_is_narrow(page):
    page.browser.resize(400, 860)
    page.open_first()
    wider = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not page.run(wider)
    page.press("Escape")
    for _ in range(6):
        page.run("document.querySelector('[role=tab][aria-selected=true]').focus()")
        page.press("ArrowRight")
        assert not page.run(wider), page.text("[role=tab][aria-selected=true]")


def test_axe_finds_what_is_not_as_it_should_be(page, findings):
    page.run("document.getElementById('query').previousElementSibling.remove()")
    page.run("document.getElementById('query').placeholder = ''")
    page.run("document.getElementById('tab-search').click()")

    assert any(rule == "label" for rule, _, _ in findings())
