"""The page on compatibility is what its benchmark makes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def without_versions(text):
    return re.sub(r"^Tried with .*$", "", text, flags=re.MULTILINE).strip()


@pytest.mark.slow
def test_everything_works_where_the_page_says_so():
    # a process of its own: the frameworks leave connections of their chat memories open
    command = [sys.executable, "benchmarks/compatibility.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert without_versions(done.stdout) == without_versions((ROOT / "docs" / "compatibility.md").read_text("utf-8"))
