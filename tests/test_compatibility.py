"""The page on compatibility is what its benchmark makes."""

import re
import warnings
from pathlib import Path

import pytest
from compatibility import page

PAGE = Path(__file__).parents[1] / "docs" / "compatibility.md"


def without_versions(text):
    return re.sub(r"^Tried with .*$", "", text, flags=re.MULTILINE)


@pytest.mark.slow
async def test_everything_works_where_the_page_says_so():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the frameworks tell of what they are about to remove
        text, fine = await page()
    assert fine, text
    assert without_versions(text) == without_versions(PAGE.read_text(encoding="utf-8"))
