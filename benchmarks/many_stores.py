"""Memory of a process that opens, uses and closes many stores with the bundled encoder, and holds the closed ones.

    python benchmarks/many_stores.py
    python benchmarks/many_stores.py --stores 50 --together

Prints the resident memory and the threads after one store and after all, and how much a store adds; exit status 1 if
all of them take more than 64 MiB beside the one. With ``--together`` all are open at once before they are closed.
"""

from __future__ import annotations

import argparse
import gc
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from memory_retrievers import AgentMemory

ALLOWED_MIB = 64
SCOPE = "user/alice"


def main() -> int:
    """Measure; 1 if the stores take more than they may."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stores", type=int, default=200, help="how many (default: %(default)s)")
    parser.add_argument("--together", action="store_true", help="all are open at once")
    asked = parser.parse_args()
    held: list[AgentMemory] = []
    with TemporaryDirectory() as directory:
        _used(Path(directory) / "first").close()
        _report("one store, closed", first := _state())
        for number in range(asked.stores):
            held.append(_used(Path(directory) / str(number)))
            if not asked.together:
                held[-1].close()
        if asked.together:
            _report(f"{asked.stores} stores, open", _state())
        for memory in held:
            memory.close()
        _report(f"{asked.stores} stores, closed and held", last := _state())
    more = last[0] - first[0]
    print(f"{more:.1f} MiB more than one, {more / asked.stores * 1024:.0f} KiB a store (at most {ALLOWED_MIB} MiB)")
    return int(more > ALLOWED_MIB)


def _used(place: Path) -> AgentMemory:
    memory = AgentMemory.open(place)
    memory.remember_fact(scope=SCOPE, fact="Alice has a dog called Bruno.")
    if not memory.retrieve("What is the dog called?", scope=SCOPE, record=False).semantic:
        raise SystemExit("the fact was not found")
    return memory


def _state() -> tuple[float, int]:
    """Resident memory in MiB, and threads."""
    gc.collect()
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text("ascii").splitlines())
    return int(lines["VmRSS"].split()[0]) / 1024, int(lines["Threads"])


def _report(what: str, state: tuple[float, int]) -> None:
    print(f"{what}: {state[0]:.1f} MiB, {state[1]} threads", flush=True)


if __name__ == "__main__":
    sys.exit(main())
