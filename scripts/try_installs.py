"""Install the package as users do, each extra alone into an empty environment, and see what works there.

1. The wheel is built, and is small enough.
2. Without an extra, the demo runs with the network cut off, and so does what needs no extra in ``examples/``.
3. With an extra, its examples run, and what needs another extra says which one to install.
4. With the oldest framework versions that ``pyproject.toml`` allows, the adapters' tests pass.
5. With the newest of all frameworks that the index has and ``pyproject.toml`` allows, together, so do those that meet
   most of a framework.

Run it with ``make test-install``. What it installs comes from pip's package index, and is thrown away at the end.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
LARGEST_WHEEL: Final = 30_000_000
"""Bytes; PyPI takes 100 MB, but nobody likes to wait."""

OFFLINE: Final = ("unshare", "--map-root-user", "--net")
"""A process started so sees no network but a loopback that is down. Linux only, and not in every container."""

MINUTES: Final = 30
"""All of it is given no longer; on two quiet cores it takes five."""

AT_ONCE: Final = 2
"""Environments that are tried beside each other: pip and most of what is tried keep one core busy."""

STARTED: Final = time.monotonic()

TESTING: Final = ("blockbuster", "hypothesis", "pytest", "pytest-asyncio", "pytest-socket", "pytest-timeout")
"""What the adapters' tests need of the extra ``dev``."""


@dataclass(frozen=True)
class Need:
    """Something that needs an extra: how it is asked for, and which package is missed where the extra is not."""

    command: tuple[str, ...]
    package: str
    extra: str

    def complaint(self) -> str:
        """What is said last where the extra is not installed."""
        return f'{self.package} is not installed; run: pip install "memory-retrievers[{self.extra}]"'


@dataclass(frozen=True)
class Installation:
    """An empty environment with some extras: what it ``brings``, and what runs there.

    ``section`` is one of the README, whose Python blocks run as one program; ``code`` is Python, and ``examples`` are
    files. With ``loopback`` they may talk to themselves, otherwise there is no network at all.
    """

    extras: tuple[str, ...]
    brings: frozenset[str] = frozenset()
    section: str | None = None
    code: str | None = None
    examples: tuple[str, ...] = ()
    loopback: bool = False


@dataclass(frozen=True)
class Bound:
    """An empty environment with the oldest or newest packages that some extras allow, and the tests that pass in it."""

    extras: tuple[str, ...]
    tests: tuple[str, ...]
    oldest: bool = True


def _importing(module: str, name: str) -> tuple[str, ...]:
    return ("python", "-c", f"from memory_retrievers.{module} import {name}")


LEFT_OUT: Final = (
    "--ignore=tests/langchain_adapter/test_standard_suites.py",  # LangChain has no suites that old for this pytest
    "--ignore=tests/langchain_adapter/test_vector_store.py",  # likewise
)
"""What the oldest frameworks cannot be asked."""

PYTEST: Final = ("-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "default")
"""With -P the installed package is tested and not the checkout; old frameworks warn of new pydantic."""

CONNECTING: Final = """
from memory_retrievers import AgentMemory, BackendError

try:
    AgentMemory.connect("postgresql:///nothing?host=/nowhere")
except BackendError:
    print("asked for a server that is not there")
"""

NEEDS: Final = (
    Need(_importing("langchain", "MemoryRetriever"), "langchain-core", "langchain"),
    Need(_importing("langchain", "AgentMemoryMiddleware"), "langchain", "agents"),
    Need(_importing("langchain", "MemoryStoreAdapter"), "langgraph", "agents"),
    Need(_importing("langchain", "ConversationMemory"), "langchain-classic", "classic"),
    Need(_importing("llama_index", "LongTermMemoryBlock"), "llama-index-core", "llama-index"),
    Need(_importing("server", "create_app"), "fastapi", "server"),
    Need(_importing("window", "serve"), "starlette", "ui"),
    Need(("python", "-c", CONNECTING), "psycopg", "postgres"),
    Need(("memory-retrievers", "mcp", "--store", "mcp-store", "--scope", "user/alice"), "mcp", "mcp"),
)

CLASSIC_CHAIN_MEMORY: Final = """
from memory_retrievers import AgentMemory
from memory_retrievers.langchain import ConversationMemory

with AgentMemory.in_memory() as memory:
    chat = ConversationMemory(memory=memory, scope="user/alice")
    chat.save_context({"input": "The door code is 4711."}, {"output": "4711, noted."})
    memory.flush("user/alice")
    assert "4711" in str(chat.load_memory_variables({"input": "What is the door code?"}))
"""

WINDOW: Final = """
from pathlib import Path
from memory_retrievers import AgentMemory
from memory_retrievers.window import WindowSettings
from memory_retrievers.window.app import Sessions, create_app

with AgentMemory.in_memory() as memory:
    settings = WindowSettings(title="notes", address="notes", journal=Path("window.jsonl"), port=8000)
    assert create_app(memory, settings=settings, sessions=Sessions(8000))
"""

INSTALLATIONS: Final = (
    Installation((), examples=("own_embedder_and_llm.py", "adopt_chroma.py", "migrate_from_mem0.py")),
    Installation(
        ("langchain",),
        brings=frozenset({"langchain"}),
        section="### Without a model, in five lines",
        examples=("langchain_retriever_lcel.py",),
    ),
    Installation(
        ("agents",),
        brings=frozenset({"langchain", "agents"}),
        examples=("langchain_agent_tool.py", "langchain_agent_middleware.py", "memory_tools.py"),
    ),
    Installation(("classic",), brings=frozenset({"langchain", "classic"}), code=CLASSIC_CHAIN_MEMORY),
    Installation(
        ("llama-index",),
        brings=frozenset({"llama-index"}),
        section="### In LlamaIndex",
        examples=("llama_index_query_engine.py", "llama_index_agent_memory_block.py"),
    ),
    Installation(
        ("server", "langchain"),
        brings=frozenset({"server", "ui", "langchain"}),
        examples=("http_client.py",),
        loopback=True,
    ),
    Installation(("ui",), brings=frozenset({"server", "ui"}), code=WINDOW),
    Installation(("mcp",), brings=frozenset({"mcp", "ui"}), examples=("mcp_client.py",)),
    Installation(("postgres",), brings=frozenset({"postgres"}), code=CONNECTING),
)

BOUNDS: Final = (
    Bound(("langchain",), ("tests/langchain_adapter/test_retriever.py", "tests/langchain_adapter/test_tools.py")),
    Bound(("agents", "classic"), ("tests/langchain_adapter",)),
    Bound(("llama-index",), ("tests/llama_index_adapter",)),
    Bound(("mcp",), ("tests/mcp_server",)),
    Bound(
        ("agents", "classic", "llama-index", "mcp"),
        (
            "tests/langchain_adapter/test_retriever.py",
            "tests/langchain_adapter/test_tools.py",
            "tests/llama_index_adapter/test_retriever.py",
            "tests/llama_index_adapter/test_tools.py",
            "tests/mcp_server",
        ),
        oldest=False,
    ),
)


class Environment:
    """An empty virtual environment, filled by the pip of the Python that runs this script."""

    def __init__(self, directory: Path, requirements: Sequence[str]) -> None:
        self._directory = directory
        _run([sys.executable, "-m", "venv", "--without-pip", directory])
        pip: list[str | Path] = [
            sys.executable,
            "-m",
            "pip",
            "--python",
            directory / "bin" / "python",
            "--disable-pip-version-check",
        ]
        _run([*pip, "install", "--quiet", "--quiet", "--no-compile", *requirements])

    def run(self, *command: str | Path, offline: bool = True, where: Path | None = None) -> None:
        """Run a program of the environment; SystemExit if it fails."""
        before: Sequence[str] = OFFLINE if offline and _can_cut_off() else ()
        _run([*before, self._directory / "bin" / command[0], *command[1:]], where=where or self._directory)

    def last_words(self, command: Sequence[str]) -> str:
        """The last line of what a program of the environment complains about."""
        done = _finished([self._directory / "bin" / command[0], *command[1:]], where=self._directory)
        return (done.stderr.strip().splitlines() or [""])[-1]


def main() -> None:
    """Try all installations, or those that are named."""
    known = {_name(one): one for one in (*BOUNDS, *INSTALLATIONS)}  # what takes longest first: both end together
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="*", metavar="ONLY", help=f"of: {', '.join(known)}")
    only = parser.parse_args().only or list(known)
    if unknown := set(only) - set(known):
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are: {', '.join(known)}")
    with TemporaryDirectory() as directory:
        wheel = _built(Path(directory))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            trials = [pool.submit(_try, name, known[name], wheel, Path(directory) / name) for name in only]
            try:
                for trial in trials:
                    trial.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)  # what has begun ends by itself
                raise


def _try(name: str, one: Installation | Bound, wheel: Path, place: Path) -> None:
    started = time.monotonic()
    if isinstance(one, Bound):
        _try_bound(one, wheel, place)
    else:
        _try_installation(one, wheel, place)
    shutil.rmtree(place)
    print(f"{name}: {time.monotonic() - started:.0f} s", flush=True)


def _built(directory: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    _run([*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", directory, ROOT])
    [wheel] = directory.glob("*.whl")
    if wheel.stat().st_size > LARGEST_WHEEL:
        raise SystemExit(f"{wheel.name} has {wheel.stat().st_size:,} bytes, above {LARGEST_WHEEL:,}")
    return wheel


def _try_installation(installation: Installation, wheel: Path, place: Path) -> None:
    # 1. into an empty environment
    environment = Environment(place, [_with_extras(wheel, installation.extras)])
    # 2. what works everywhere, and what came with the extras
    environment.run("memory-retrievers", "demo")
    offline = not installation.loopback
    for code in (_python_of(installation.section), installation.code):
        if code is not None:
            environment.run("python", "-c", code, offline=offline)
    for example in installation.examples:
        environment.run("python", ROOT / "examples" / example, offline=offline)
    # 3. what did not come says how to get it
    for need in NEEDS:
        said = "" if need.extra in installation.brings else environment.last_words(need.command)
        if need.extra not in installation.brings and not said.endswith(need.complaint()):
            raise SystemExit(f"{need.command} should say {need.complaint()!r}, and says {said!r}")


def _try_bound(bound: Bound, wheel: Path, place: Path) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    named = [each for extra in bound.extras for each in extras[extra] if ">=" in each]
    pins = [_lower_bound(each) for each in named] if bound.oldest else []  # without a pin, pip takes the newest
    testing = [each for each in extras["dev"] if _package(each) in TESTING]
    environment = Environment(place, [_with_extras(wheel, bound.extras), *pins, *testing])
    environment.run("python", *PYTEST, *LEFT_OUT, *bound.tests, offline=False, where=ROOT)


def _name(one: Installation | Bound) -> str:
    extras = "+".join(one.extras) or "base"
    if isinstance(one, Installation):
        return extras
    return f"oldest-{extras}" if one.oldest else "newest"


def _with_extras(wheel: Path, extras: Sequence[str]) -> str:
    return f"{wheel}[{','.join(extras)}]" if extras else str(wheel)


def _package(requirement: str) -> str:
    return re.split(r"[^\w-]", requirement)[0]


def _lower_bound(requirement: str) -> str:
    bound = requirement.partition(">=")[2].partition(",")[0]
    return f"{_package(requirement)}=={bound}"


def _python_of(section: str | None) -> str | None:
    if section is None:
        return None
    readme = (ROOT / "README.md").read_text("utf-8")
    _, _, after = readme.partition(f"\n{section}\n")
    below = re.split(r"^##+ ", after, maxsplit=1, flags=re.MULTILINE)[0]
    blocks = re.findall(r"^```python\n(.*?)^```", below, re.DOTALL | re.MULTILINE)
    if not blocks:
        raise SystemExit(f"the README has no Python below {section!r}")
    return "\n".join(blocks)


@cache
def _can_cut_off() -> bool:
    works = shutil.which(OFFLINE[0]) is not None and not _finished([*OFFLINE, "true"], where=None).returncode
    if not works:
        print("the network cannot be cut off here; everything runs with it", flush=True)
    return works


def _run(command: Sequence[str | Path], *, where: Path | None = None) -> None:
    done = _finished(command, where=where)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")


def _finished(command: Sequence[str | Path], *, where: Path | None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - the commands are those of this file
        command,
        cwd=where,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=max(1, STARTED + MINUTES * 60 - time.monotonic()),
        check=False,  # who asks looks at the return code
    )


if __name__ == "__main__":
    main()
