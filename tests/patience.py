"""How tests wait for what others do: for the thing itself, and for as long as only a fault takes."""

import time

PATIENCE = 120
"""Seconds after which a test gives up. On a machine that is slow, or stands still for a while, nothing takes so long
unless it hangs: where a dozen others want each core, a server took 80 to start and end."""

A_LONG_TIME = 3_600
"""Seconds of a limit or pause that a test must not come to the end of."""


def until(condition, what="it"):
    """Wait until a condition holds, and give what it gave."""
    deadline = time.monotonic() + PATIENCE
    while not (given := condition()):
        assert time.monotonic() < deadline, f"{what} did not happen in {PATIENCE} seconds"
        time.sleep(0.01)
    return given
