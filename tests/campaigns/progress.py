"""What a campaign tells while it runs: a line every few seconds, and a table and a verdict at its end."""

import signal
import sys
import time


def clean_up_when_stopped():
    """SIGTERM and SIGINT end the program as an exception does: what it has started is ended, what it has made is removed."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: sys.exit(f"stopped by signal {number}"))


class Progress:
    EVERY_S = 5.0

    def __init__(self):
        self._began = self._said = time.monotonic()
        self._shown = 0

    def seconds(self):
        return time.monotonic() - self._began

    def say(self, text):
        print(f"{self.seconds():7.1f} s  {text}", flush=True)

    def may_say(self, text, wrong):
        """`text()` and how much is wrong, and at once what is new of that, if the last line is some seconds ago."""
        if time.monotonic() - self._said < self.EVERY_S:
            return
        self._said = time.monotonic()
        self.say(f"{text()}, {len(wrong)} wrong")
        if len(wrong) > self._shown:
            self.say(f"WRONG: {wrong[-1][:500]}")
        self._shown = len(wrong)


def conclude(wrong):
    """Prints what was wrong, and ends the program: with 1 when something was."""
    for line in wrong[:50]:
        print("WRONG:", line)
    print(f"{len(wrong)} faults")
    sys.exit(1 if wrong else 0)
