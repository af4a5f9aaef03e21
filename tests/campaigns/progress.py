"""The output of a campaign: a line every few seconds, and a table and a verdict at its end."""

import signal
import sys
import time


def clean_up_when_stopped():
    """Makes SIGTERM and SIGINT end the program like an exception: its processes are ended and its files removed."""
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
        """Prints `text()` and the number of faults every few seconds. Also prints new faults."""
        if time.monotonic() - self._said < self.EVERY_S:
            return
        self._said = time.monotonic()
        self.say(f"{text()}, {len(wrong)} wrong")
        if len(wrong) > self._shown:
            self.say(f"WRONG: {wrong[-1][:500]}")
        self._shown = len(wrong)


def conclude(wrong):
    """Prints the faults and ends the program, with 1 if there were any."""
    for line in wrong[:50]:
        print("WRONG:", line)
    print(f"{len(wrong)} faults")
    sys.exit(1 if wrong else 0)
