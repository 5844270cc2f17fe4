"""Runs a program that ends at its first connection or look-up of a name, and tells what Python has it write elsewhere.

``python -P watched.py DIRECTORY CODE``: DIRECTORY is where the program may write. Linux ends it with SIGSYS, without
any right being needed, native code and child processes included. UNGUARDED is the exit code where Linux will not.
"""

import ctypes
import faulthandler
import os
import platform
import signal
import struct
import sys
from pathlib import Path

UNGUARDED = 77
ELSEWHERE = "written elsewhere: "

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06  # the filter's instructions, see seccomp(2)
_ALLOW, _TRAP = 0x7FFF0000, 0x00030000
_MACHINES = {"x86_64": (0xC000003E, 42, 44), "aarch64": (0xC00000B7, 203, 206)}  # audit name, connect, sendto


def _filter():
    """Traps connect, and sendto where it is given an address: its fifth argument, of which the lower word is looked at."""
    machine, connect, sendto = _MACHINES[platform.machine()]
    steps = [
        (_LOAD, 0, 0, 4),
        (_JUMP_IF_EQUAL, 0, 5, machine),
        (_LOAD, 0, 0, 0),
        (_JUMP_IF_EQUAL, 4, 0, connect),
        (_JUMP_IF_EQUAL, 0, 2, sendto),
        (_LOAD, 0, 0, 48),
        (_JUMP_IF_EQUAL, 0, 1, 0),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _TRAP),
    ]
    return b"".join(struct.pack("HBBI", *step) for step in steps), len(steps)


def guarded():
    """Whether every connection ends this process, and those it starts, from now on."""
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        return False
    instructions, number = _filter()
    code = ctypes.create_string_buffer(instructions)
    program = struct.pack("HxxxxxxP", number, ctypes.addressof(code))
    prctl = ctypes.CDLL(None).prctl
    faulthandler.register(signal.SIGSYS, chain=True)  # says who it was
    return not (prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program))


def watch_files(directory):
    """Say each path outside the directory that is opened for writing, made, renamed or linked."""
    changing = {"os.mkdir", "os.rename", "os.link", "os.symlink", "sqlite3.connect"}

    def heard(event, arguments):
        if event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            paths = arguments[:1]
        elif event in changing:
            paths = arguments[:2]
        else:
            return
        for path in map(os.fsdecode, (path for path in paths if isinstance(path, (str, bytes)))):
            if path not in {os.devnull, ":memory:"} and not Path.cwd().joinpath(path).resolve().is_relative_to(
                directory
            ):
                os.write(2, f"{ELSEWHERE}{event} {path}\n".encode())

    sys.addaudithook(heard)


if __name__ == "__main__":
    directory, code = sys.argv[1:]
    if not guarded():
        sys.exit(UNGUARDED)
    watch_files(directory)
    sys.argv[1:] = []
    exec(code, {"__name__": "__main__"})  # noqa: S102 - it is the test's own
