"""What became of every request: each that was sent is answered, refused or cut, once, or something is wrong."""

import collections
import re
import threading
import time

from campaigns.transports import CutError, RefusedError, WrongError

# What a client may be told when a process has died, a model is being replaced, or what it asked for has ended with either.
CLEAR = re.compile(
    r"Stub process '[^']+' is not healthy"
    r"|no instance of model '[^']+' (lives|has lived for)"
    r"|was lost when instance '[^']+' ended; begin it again"
    r"|ended \d+ times before they began with"
    r"|must specify the START flag"
    r"|being unloaded"
    r"|is being stopped"
    r"|is not ready"
    r"|the worker is gone"
    r"|the Python nodes were restarted"
)


class Allowance:
    """Which errors are right at the moment: some only while, and shortly after, something is missing."""

    LINGER_S = 5.0

    def __init__(self, *patterns):
        self._always = [CLEAR, *map(re.compile, patterns)]
        self._now = {}  # pattern -> until when
        self._lock = threading.Lock()

    def permit(self, pattern, seconds):
        """Allows an error for so long, and a little longer."""
        until = time.monotonic() + seconds + self.LINGER_S
        with self._lock:
            self._now[pattern] = max(until, self._now.get(pattern, 0))

    def allows(self, text):
        if any(pattern.search(text) for pattern in self._always):
            return True
        now = time.monotonic()
        with self._lock:
            return any(until > now and re.search(pattern, text) for pattern, until in self._now.items())


class Ledger:
    """One client's. Only its own thread writes; others may read at any time."""

    KEPT = 200  # texts of what was wrong

    def __init__(self, allowance):
        self._allowance = allowance
        self.sent = collections.Counter()
        self.answered = collections.Counter()
        self.refused = collections.Counter()
        self.cut = collections.Counter()
        self.errors = collections.Counter()
        self.wrong = []

    def attempt(self, what, connection, work):
        """Runs work(), which is one request; True when it was answered. `what` is (strand, protocol)."""
        self.sent[what] += 1
        try:
            work()
        except RefusedError as error:
            self.refused[what] += 1
            self.errors[generic(error.text)] += 1
            if not self._allowance.allows(error.text):
                self.note(what, error)
            return False
        except CutError as error:
            self.cut[what] += 1
            by_us, connection.was_cut = connection.was_cut, False
            if not by_us and not self._allowance.allows(f"cut: {error}"):
                self.note(what, f"the connection ended: {error}")
            return False
        except WrongError as error:
            self.note(what, error)
            return False
        self.answered[what] += 1
        return True

    def note(self, what, text):
        if len(self.wrong) < self.KEPT:
            self.wrong.append(f"{' over '.join(what)}: {text}")


def generic(text):
    """An error's text without names and numbers, so that those of one kind are counted together."""
    return re.sub(r"\d+", "N", re.sub(r"'[^']*'", "'...'", text))[:110]


class Ledgers:
    """Those of all clients, together."""

    def __init__(self, allowance):
        self.allowance = allowance
        self._all = []
        self.wrong = []  # what no single request is to blame for

    def make(self):
        self._all.append(Ledger(self.allowance))
        return self._all[-1]

    def total(self, field):
        found = collections.Counter()
        for each in self._all:
            found.update(getattr(each, field).copy())
        return found

    def count(self, field):
        return sum(sum(getattr(each, field).copy().values()) for each in self._all)

    def all_wrong(self):
        return [*self.wrong, *(line for each in self._all for line in each.wrong)]

    def check_outcomes(self):
        """Adds to what is wrong the requests that have not exactly one outcome; for when all clients have ended."""
        sent, outcomes = self.total("sent"), collections.Counter()
        for field in ("answered", "refused", "cut"):
            outcomes.update(self.total(field))
        for what, count in sent.items():
            if count != outcomes[what] and not any(line.startswith(" over ".join(what)) for line in self.all_wrong()):
                self.wrong.append(f"{' over '.join(what)}: {count} requests and {outcomes[what]} outcomes")

    def table(self):
        """Lines of a table in Markdown: strands and protocols, and what became of their requests."""
        sent, answered, refused, cut = (self.total(field) for field in ("sent", "answered", "refused", "cut"))
        yield "| strand | protocol | sent | answered | refused | cut |"
        yield "| --- | --- | ---: | ---: | ---: | ---: |"
        for what in sorted(sent):
            yield f"| {what[0]} | {what[1]} | {sent[what]} | {answered[what]} | {refused[what]} | {cut[what]} |"
        totals = (sum(each.values()) for each in (sent, answered, refused, cut))
        yield "| all | | " + " | ".join(map(str, totals)) + " |"
