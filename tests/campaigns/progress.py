"""What a campaign tells while it runs: a line every few seconds, and a table and a verdict at its end."""

import sys
import time


class Progress:
    EVERY_S = 5.0

    def __init__(self):
        self._began = self._said = time.monotonic()

    def seconds(self):
        return time.monotonic() - self._began

    def say(self, text):
        print(f"{self.seconds():7.1f} s  {text}", flush=True)

    def may_say(self, text):
        """`text()`, if the last line is some seconds ago."""
        if time.monotonic() - self._said >= self.EVERY_S:
            self._said = time.monotonic()
            self.say(text())


def conclude(wrong):
    """Prints what was wrong, and ends the program: with 1 when something was."""
    for line in wrong[:50]:
        print("WRONG:", line)
    print(f"{len(wrong)} faults")
    sys.exit(1 if wrong else 0)
