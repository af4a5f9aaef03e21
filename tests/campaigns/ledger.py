"""Counts the outcome of every request: exactly one of answered, refused or cut; other outcomes are faults."""

import collections
import re
import threading
import time

from campaigns.transports import CutError, RefusedError, WrongError

# Valid errors when a process has died, or a model is being replaced, or the request's target has ended with either.
CLEAR = re.compile(
    r"Stub process '[^']+' is not healthy"
    r"|no instance of model '[^']+' (is|was) available"
    r"|was lost when instance '[^']+' ended; restart it"
    r"|ended \d+ times before they began with"
    r"|must specify the START flag"
    r"|being unloaded"
    r"|is being stopped"
    r"|is not ready"
    r"|the worker is gone"
    r"|the Python nodes were restarted"
)


class Allowance:
    """The errors that are valid now. Some are valid only while a resource is missing, and shortly after."""

    LINGER_S = 5.0

    def __init__(self, *patterns):
        self._always = [CLEAR, *map(re.compile, patterns)]
        self._now = {}  # pattern -> end of validity
        self._lock = threading.Lock()

    def permit(self, pattern, seconds):
        """Allows an error for some seconds, and a little longer."""
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
    """The counts of one client. Only its own thread writes; other threads may read at any time."""

    KEPT = 200  # texts of faults

    def __init__(self, allowance):
        self._allowance = allowance
        self.sent = collections.Counter()
        self.answered = collections.Counter()
        self.refused = collections.Counter()
        self.cut = collections.Counter()
        self.errors = collections.Counter()
        self.wrong = []

    def attempt(self, what, connection, work):
        """Runs work(), which is one request; returns whether it was answered. `what` is (strand, protocol)."""
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
    """Removes names and numbers from an error's text, so that similar errors are counted together."""
    return re.sub(r"\d+", "N", re.sub(r"'[^']*'", "'...'", text))[:110]


class Ledgers:
    """The sum over all clients."""

    def __init__(self, allowance):
        self.allowance = allowance
        self._all = []
        self.wrong = []  # faults that belong to no single request

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
        """Reports requests without exactly one outcome as faults. Must be called after all clients have ended."""
        sent, outcomes = self.total("sent"), collections.Counter()
        for field in ("answered", "refused", "cut"):
            outcomes.update(self.total(field))
        for what, count in sent.items():
            if count != outcomes[what] and not any(line.startswith(" over ".join(what)) for line in self.all_wrong()):
                self.wrong.append(f"{' over '.join(what)}: {count} requests and {outcomes[what]} outcomes")

    def table(self):
        """Returns the lines of a Markdown table: the outcomes of requests by strand and protocol."""
        sent, answered, refused, cut = (self.total(field) for field in ("sent", "answered", "refused", "cut"))
        yield "| strand | protocol | sent | answered | refused | cut |"
        yield "| --- | --- | ---: | ---: | ---: | ---: |"
        for what in sorted(sent):
            yield f"| {what[0]} | {what[1]} | {sent[what]} | {answered[what]} | {refused[what]} | {cut[what]} |"
        totals = (sum(each.values()) for each in (sent, answered, refused, cut))
        yield "| all | | " + " | ".join(map(str, totals)) + " |"
