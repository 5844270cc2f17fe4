"""Which directories lie on a network file system, where SQLite's log is not safe: Linux tells, by its table of mounts.

Beside its log SQLite keeps an index of it in memory that all processes of one machine share; two machines do not, and
network file systems often have locks that do not work. Everything else serves, overlays of containers, ``tmpfs`` and
encrypted directories too. So do ``9p`` and ``virtiofs``: virtual machines and sandboxes have their own disks on them,
and whether another machine writes there cannot be told.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from pathlib import Path
from typing import Final

from memory_retrievers.errors import ConfigurationError, DiskFullError, StoreLockedError

_MOUNTS: Final = Path("/proc/self/mountinfo")

_NETWORK: Final = frozenset({
    "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "glusterfs", "gfs", "gfs2", "gpfs", "lustre", "ncpfs",
    "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb2", "smb3", "smbfs",
})  # fmt: skip
_NETWORK_BY_FUSE: Final = frozenset({
    "afpfs", "blobfuse", "blobfuse2", "ceph", "ceph-fuse", "cephfs", "curlftpfs", "davfs", "davfs2", "gcsfuse",
    "glusterfs", "goofys", "juicefs", "mfs", "moosefs", "mount-s3", "mountpoint-s3", "rclone", "s3fs", "s3ql",
    "seaweedfs", "smbnetfs", "sshfs",
})  # fmt: skip
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


def require_local(directory: Path) -> None:
    """Refuse a directory on a network file system, before anything is made there.

    Args:
        directory: Where a store is or is to be; it need not exist.

    Raises:
        StoreLockedError: It lies on one.
    """
    with contextlib.suppress(OSError):  # no such table elsewhere, and then nothing can be told
        kind = network_file_system(directory.resolve(), _MOUNTS.read_bytes().decode("utf-8", "surrogateescape"))
        if kind is not None:
            raise StoreLockedError(
                f"{directory} is on a network file system ({kind}), where a store that is written can be damaged: keep "
                "it on a disk of this machine (memory-retrievers backup copies it there), let other machines ask "
                "memory-retrievers serve, or use PostgreSQL; it can be looked into with "
                "AgentMemory.open(path, read_only=True)"
            )


def network_file_system(place: Path, mounts: str) -> str | None:
    """Type of the network file system that a place is on; None for any other.

    Args:
        place: An absolute path without links; it need not exist.
        mounts: Linux's table of mounts, as in ``/proc/self/mountinfo``.
    """
    found, longest = None, -1
    for line in mounts.split("\n"):
        mount, separator, system = line.partition(" - ")
        fields, kinds = mount.split(" "), system.split(" ")
        if not separator or len(fields) < 5:  # noqa: PLR2004 - the fifth is the place it is mounted at
            continue
        at = Path(_ESCAPED.sub(lambda octal: chr(int(octal[1], 8)), fields[4]))
        # Of two mounts at one place the later one lies above the other.
        if (at == place or at in place.parents) and len(at.parts) >= longest:
            found, longest = kinds[0], len(at.parts)
    return found if found is not None and _is_network(found) else None


def _is_network(kind: str) -> bool:
    outer, _, inner = kind.partition(".")
    return kind in _NETWORK or (outer in {"fuse", "fuseblk"} and inner in _NETWORK_BY_FUSE)


def refusal(place: Path, error: OSError) -> DiskFullError | ConfigurationError:
    """What is raised where a file or directory of a store cannot be made; nothing is left of it."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return DiskFullError(
            f"no space is left for {place}: {error.strerror}; nothing was written. Make room where it is, and try again"
        )
    return ConfigurationError(f"{place} cannot be used as a store directory: {error.strerror}")


def is_full(directory: Path) -> bool:
    """Return True if there is no space left where a directory is; False also if that cannot be told."""
    try:
        seen = os.statvfs(directory)
    except (AttributeError, OSError):  # not on Windows
        return False
    return seen.f_bavail * seen.f_frsize < _PAGE or (seen.f_files > 0 and seen.f_ffree == 0)


_PAGE: Final = 65_536
"""Bytes below which there is no space for what is written beside a database: its index of the log takes 32 kB."""
