"""Waits for effects of other processes by polling with a deadline, never by a fixed pause."""

import time


def wait_until(condition, seconds=20.0, what="the condition", interval=0.01):
    """Returns the first true value of condition(). Fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s in vain for {what}")
        time.sleep(interval)
