"""On a full disk a write fails with one clear error, nothing acknowledged is lost, and with space it goes on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from crash import full_disk

BENCHMARKS = Path(full_disk.__file__).parents[1]


@pytest.fixture(params=["file system", "file size"])
def full(request):
    """What lets nothing more be written: the second looks like a failing disk to SQLite."""
    return request.param


@pytest.fixture
def saw(full, tmp_path, dense):
    """What a process sees that fills its disk."""
    command = [sys.executable, "-m", "crash.full_disk", str(tmp_path), "--full", full, "--dense", dense]
    if full == "file system":
        if not full_disk.can_mount(tmp_path):
            pytest.skip("this system does not let its users mount a file system; the limit on file sizes is tested")
        command = full_disk.mounted(tmp_path, megabytes=8, command=command)
    environment = os.environ | {"PYTHONPATH": str(BENCHMARKS)}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_on_a_full_disk_writes_fail_clearly_and_go_on_when_there_is_space(full, saw):
    assert len(saw["errors"]) == 3
    for kinds, message in saw["errors"] + saw["errors of purges"]:
        assert "BackendError" in kinds
        assert "DiskFullError" in kinds or full == "file size"
        assert "memory.db: " in message
        assert "\n" not in message
    assert saw["held"] == saw["held again"] == sorted([*saw["before"], *saw["after"]])
    assert len(saw["before"]) > 20
    assert saw["problems"] == []
    assert saw["found before"] == 20
    assert saw["found while full"] >= 20
    assert saw["found after"] >= 20
