"""Runs notebooks as a reader does, cell by cell in a kernel of their own, which cannot reach the network."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

import memory_retrievers

FOLDER = Path(memory_retrievers.__file__).parents[1] / "notebooks"
KERNEL = "without-network"
GUARD = """
def cut_off():
    import sys

    def refuse(event, arguments):
        if event in {"socket.connect", "socket.sendto", "socket.getaddrinfo"} and not isinstance(arguments[1], str):
            raise OSError("the network is cut off: a notebook has to do without")

    sys.addaudithook(refuse)


cut_off()
del cut_off
"""


@pytest.fixture(scope="session")
def notebooks():
    """The folder of the notebooks, which is part of a checkout only."""
    if not FOLDER.exists():
        pytest.skip("the notebooks are part of a checkout only")
    return FOLDER


@pytest.fixture(scope="session")
def read_notebook(notebooks):
    """Reads a notebook by the name of its file."""
    return lambda name: nbformat.read(notebooks / name, as_version=4)


@pytest.fixture(scope="session")
def kernels(tmp_path_factory):
    """A folder with the one kernel that there is: this Python, without network."""
    import matplotlib.font_manager  # noqa: F401 - a first use looks for fonts, and a kernel would tell of it

    folder = tmp_path_factory.mktemp("kernels")
    (folder / KERNEL).mkdir()
    launcher = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    guard = folder / "guard.py"
    guard.write_text(GUARD, "utf-8")
    options = [f"--IPKernelApp.exec_files={guard}", "--HistoryManager.enabled=False"]
    told = {"argv": [*_outside_the_network(), *launcher, *options], "display_name": "Python 3", "language": "python"}
    (folder / KERNEL / "kernel.json").write_text(json.dumps(told), "utf-8")
    return folder


@pytest.fixture
def execute(kernels, tmp_path):
    """Runs a notebook in an empty directory, from top to bottom, and gives it with what it put out."""

    def execute(notebook):
        with tempfile.TemporaryDirectory(prefix="kernel-") as sockets:
            return asyncio.run(_executed(notebook, kernels=kernels, sockets=Path(sockets), directory=tmp_path))

    return execute


def _outside_the_network():
    """What a command begins with, to run where there is no network at all; nothing where that cannot be had."""
    command = [shutil.which("unshare") or "false", "--user", "--map-current-user", "--net"]
    possible = subprocess.run([*command, "true"], check=False, capture_output=True).returncode == 0
    return command if possible else []


async def _executed(notebook, *, kernels, sockets, directory):
    # 1. The kernel is reached through files, for it has no network; they have short names, as sockets need.
    found = KernelSpecManager(kernel_dirs=[str(kernels)], ensure_native_kernel=False)
    manager = AsyncKernelManager(
        kernel_name=KERNEL,
        kernel_spec_manager=found,
        connection_file=str(sockets / "kernel.json"),
        transport="ipc",
        ip=str(sockets / "k"),
    )
    # 2. It starts as in an environment that is active, and writes nothing at home.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path, "IPYTHONDIR": str(sockets), "TZ": "UTC"}
    environment["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    client = NotebookClient(
        notebook,
        km=manager,
        timeout=120,
        coalesce_streams=True,  # what a cell prints is one output, however it arrives
        record_timing=False,
        resources={"metadata": {"path": str(directory)}},
    )
    # 3. It ends with the last cell, or with the first one that fails.
    try:
        return await client.async_execute(env=environment, cleanup_kc=True)
    finally:
        assert not await manager.is_alive()
