"""Which directories are refused since they lie on a network file system, and how a full disk is told."""

import sqlite3
from pathlib import Path

import pytest
from cases import tried_in_one

from memory_retrievers import BackendError, DiskFullError
from memory_retrievers.backends.sqlite.connection import translated
from memory_retrievers.storage.open import network_file_system, require_local

MOUNTS = r"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:21 / /proc rw,nosuid - proc proc rw
24 22 0:5 / /home rw shared:2 - nfs4 server:/home rw,vers=4.2
25 24 0:6 / /home/alice/fast rw - xfs /dev/sdb1 rw
26 22 0:7 / /mnt/my\040share rw - cifs //server/share rw,vers=3.0
27 22 0:8 / /mnt/ssh rw master:3 propagate_from:2 - fuse.sshfs alice@server:/ rw
28 22 0:9 / /mnt/encrypted rw - fuse.gocryptfs /home/alice/.encrypted rw
29 22 0:10 / /mnt/twice rw - nfs server:/a rw
30 22 0:11 / /mnt/twice rw - tmpfs tmpfs rw
31 22 0:12 / /mnt/auto rw - autofs systemd-1 rw
32 22 0:13 / /mnt/auto rw - nfs server:/b rw
33 22 0:14 / /mnt/overlay rw - overlay overlay rw,lowerdir=/a,upperdir=/b
34 22 0:15 / /mnt/vm rw - 9p hostshare rw,trans=virtio
35 22 0:16 / /mnt/fuse rw - fuse something rw
a line that is cut off
"""


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("/home/alice/agent-memory", "nfs4"),
        ("/home", "nfs4"),
        ("/mnt/my share/store/not/made/yet", "cifs"),
        ("/mnt/ssh/store", "fuse.sshfs"),
        ("/mnt/auto/store", "nfs"),
    ],
)
def test_a_directory_on_a_network_file_system_is_told(place, kind):
    assert network_file_system(Path(place), MOUNTS) == kind


@tried_in_one(
    "place",
    [
        "/",
        "/home2/alice",
        "/home/alice/fast/store",
        "/mnt/my",
        "/mnt/encrypted/store",
        "/mnt/twice/store",
        "/mnt/overlay/store",
        "/mnt/vm/store",
        "/mnt/fuse/store",
    ],
)
def test_a_directory_of_this_machine_is_not_taken_for_one_on_a_network(place):
    assert network_file_system(Path(place), MOUNTS) is None


def test_a_table_without_any_mount_tells_nothing():
    assert network_file_system(Path("/home/alice"), "") is None


def test_a_directory_of_the_tests_is_not_refused(tmp_path):
    require_local(tmp_path / "store")


def test_an_error_for_want_of_space_says_what_to_do_and_another_does_not(tmp_path):
    full, other = sqlite3.OperationalError("database or disk is full"), sqlite3.OperationalError("disk I/O error")
    full.sqlite_errorcode, other.sqlite_errorcode = sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE
    seen = translated(full, tmp_path / "memory.db")
    assert type(seen) is DiskFullError
    assert "Make room" in str(seen)
    assert "\n" not in str(seen)
    assert type(translated(other, tmp_path / "memory.db")) is BackendError


def test_a_full_disk_of_a_server_is_the_same_error():
    psycopg = pytest.importorskip("psycopg")
    from memory_retrievers.backends.postgres.connection import wrapped

    with pytest.raises(DiskFullError, match="could not extend file"), wrapped():
        raise psycopg.errors.DiskFull("could not extend file")
