"""Ports for servers that have to be told theirs before they listen."""

import contextlib
import os
import random
import socket


def free_port():
    """One that nobody is given by chance until the server listens: the system hands out those from 32,768 on."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    # drawn by the system, and for each worker of the tests from others: what sets a seed would come to the same ones
    for port in random.SystemRandom().sample(range(10_000 + worker % 16, 32_000, 16), 100):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port is free")
