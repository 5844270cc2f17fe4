"""Where no store can be made or written, that is said at once, with what to do, and nothing is left there."""

import subprocess
import sys

import pytest
from crash import full_disk

from memory_retrievers import AgentMemory
from memory_retrievers.testing import HashEmbedder

OPEN = """
import sys
from memory_retrievers import AgentMemory, MemoryRetrieversError
from memory_retrievers.testing import HashEmbedder
try:
    with AgentMemory.open(sys.argv[1], embedder=HashEmbedder(), read_only=len(sys.argv) > 2) as memory:
        if not sys.argv[2:]:
            memory.remember_fact(scope="c1", fact="User lives in Lyon")
        print("held", memory.stats().facts)
except MemoryRetrieversError as error:
    print(type(error).__name__, error)
"""
KILLED = """
import os, sys
from memory_retrievers import AgentMemory
from memory_retrievers.testing import HashEmbedder
memory = AgentMemory.open(sys.argv[1], embedder=HashEmbedder())
memory.remember_fact(scope="c1", fact="User lives in Lyon")
os._exit(0)
"""
ROOT_OF_ITS_OWN = ["unshare", "--user", "--map-root-user", "--mount", "bash", "-c"]


@pytest.fixture(autouse=True)
def mounts(tmp_path):
    if not full_disk.can_mount(tmp_path):
        pytest.skip("this system does not let its users mount a file system")


def opened(place, *options, mount="true", given=(), code=OPEN):
    """What a process says that opens a store where a shell has mounted something, as $1, $2 and so on, for it alone."""
    python = [sys.executable, "-c", code, str(place), *options]
    script = f'{mount} && exec "${{@:{len(given) + 1}}}"'
    command = [*ROOT_OF_ITS_OWN, script, "bash", *map(str, given), *python]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_a_store_on_a_network_file_system_is_refused_and_nothing_is_made_there(tmp_path):
    mounts, shared = tmp_path / "mounts", tmp_path / "shared"
    mounts.write_text(f"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n24 22 0:5 / {shared} rw - nfs4 server:/home rw\n")
    forged = {"mount": 'mount --bind "$1" /proc/$$/mountinfo', "given": [mounts]}
    told = opened(shared / "store", **forged)
    assert told.startswith("StoreLockedError ")
    assert "network file system (nfs4)" in told
    assert "postgres" in told.lower()
    assert not shared.exists()
    assert opened(shared / "store") == "held 1"
    assert opened(shared / "store", "read-only", **forged) == "held 1"


@pytest.mark.parametrize(("code", "told"), [(OPEN, "held 1"), (KILLED, "")], ids=["closed", "killed"])
def test_a_store_on_a_read_only_file_system_is_refused_with_the_way_to_look_into_it(tmp_path, code, told):
    store = tmp_path / "store"
    assert opened(store, code=code) == told
    before = {path.name: path.read_bytes() for path in store.iterdir() if path.is_file()}
    read_only = {"mount": 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1"', "given": [tmp_path]}
    told = opened(store, **read_only)
    assert told.startswith("StoreLockedError ")
    assert "read_only=True" in told
    assert opened(store, "read-only", **read_only) == "held 1"
    assert {path.name: path.read_bytes() for path in store.iterdir() if path.is_file()} == before
    assert opened(tmp_path / "new" / "store", **read_only).startswith("ConfigurationError ")


@pytest.mark.parametrize("kilobytes", [4, 64, 128, 200])
def test_a_store_that_is_made_on_a_full_disk_is_refused_and_made_when_there_is_room(tmp_path, kilobytes):
    room = 4_096 - kilobytes
    fill = f'mount -t tmpfs -o size=4m crash "$1" && head -c {room}k /dev/zero > "$1/ballast"'
    relieve = f"{OPEN}\nimport os, pathlib\nos.remove(pathlib.Path(sys.argv[1]).parent / 'ballast')\n"
    told = opened(tmp_path / "store", mount=fill, given=[tmp_path], code=f"{relieve}\n{OPEN}")
    refused, then = told.splitlines()
    assert refused.startswith("DiskFullError ")
    assert "Make room" in refused
    assert then == "held 1"


def test_a_move_that_finds_no_more_room_does_not_say_that_nothing_of_it_was_written(tmp_path):
    source, full = tmp_path / "source", tmp_path / "full"
    full.mkdir()
    with AgentMemory.open(source, embedder=HashEmbedder()) as memory:
        memory.remember_many([{"scope": "c", "fact": f"{number} {'tea ' * 240}"} for number in range(1_000)])
    code = "import sys; from memory_retrievers.cli import app; sys.stderr = sys.stdout; app(standalone_mode=False)"
    small = {"mount": 'mount -t tmpfs -o size=4m crash "$1"', "given": [full]}
    ran = opened("migrate", "--from", source, "--to", full / "store", code=code, **small)
    assert "no space is left" in ran
    assert "nothing was written" not in ran
