"""On a full disk a write fails with one clear error, nothing acknowledged is lost, and with space it goes on."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from chromadb.errors import InternalError
from crash import full_disk

from memory_retrievers import AgentMemory, DiskFullError
from memory_retrievers.backends.files import Folder

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


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),  # deleting needs space where nothing is overwritten in place
        InternalError("error returned from database: (code: 13) database or disk is full"),
    ],
    ids=["the system", "Chroma"],
)
def test_a_purge_that_finds_no_space_in_the_projection_says_so_and_works_when_there_is_some(
    error, tmp_path, monkeypatch
):
    def refuse(path):
        raise error

    with AgentMemory.open(tmp_path / "store", dense="chroma") as memory:
        memory.remember_fact(scope="c1", fact="User likes tea")
        memory.rebuild("dense")
        with monkeypatch.context() as full:
            full.setattr(shutil, "rmtree", refuse)
            with pytest.raises(DiskFullError, match="Make room"):
                memory.purge()
        memory.purge()
        assert memory.verify().problems == ()


@pytest.mark.parametrize("lock", ["chroma", "feeding"])
def test_a_lock_that_finds_no_room_ends_no_search_and_is_told_by_a_purge(tmp_path, monkeypatch, lock):
    handle = Folder.handle

    def refuse(folder, name, *given):
        if name == lock:
            raise OSError(errno.ENOSPC, "No space left on device", name)
        return handle(folder, name, *given)

    with AgentMemory.open(tmp_path / "store", dense="chroma") as memory:
        monkeypatch.setattr(Folder, "handle", refuse)  # as where no inode is left
        stored = memory.remember_fact(scope="c1", fact="User likes tea")
        assert [each.memory for each in memory.retrieve("tea", scope="c1").semantic] == [stored]
        with pytest.raises(DiskFullError, match="Make room"):
            memory.purge()
