"""Distributes the tests of a run to processes: one process per file, and the files that took longest in their last run
first."""

import collections
import json
import zlib

from steps import cache_folder
from xdist.scheduler.loadfile import LoadFileScheduling

DURATIONS = cache_folder() / "durations.json"
# For a test that has not run here yet.
TYPICAL_SECONDS = 0.3
# Files whose tests take long and share little: each is distributed to several processes.
PIECES = {"tests/test_console.py": 3, "tests/test_sequence_store.py": 3, "tests/test_watchdogs.py": 2}


def file_of(nodeid):
    return nodeid.partition("::")[0]


class Scheduling(LoadFileScheduling):
    """Distributes whole files, or pieces of those in PIECES."""

    def _split_scope(self, nodeid):
        file = file_of(nodeid)
        return f"{file} {zlib.crc32(nodeid.encode()) % PIECES.get(file, 1)}"


class Distribution:
    """A pytest plugin: orders and distributes the files of a run, and records their durations."""

    def __init__(self):
        try:
            self._known = json.loads(DURATIONS.read_text())
        except (OSError, ValueError):
            self._known = {}
        self._taken = collections.Counter()

    def pytest_collection_modifyitems(self, items):
        counts = collections.Counter(file_of(item.nodeid) for item in items)

        def seconds(item):
            file = file_of(item.nodeid)
            return self._known.get(file, TYPICAL_SECONDS * counts[file]) / PIECES.get(file, 1)

        # The sort is stable, so the order within a file stays.
        items.sort(key=seconds, reverse=True)

    def pytest_xdist_make_scheduler(self, config, log):
        # Turns off the order by number of tests.
        config.option.loadscopereorder = False
        return Scheduling(config, log)

    def pytest_runtest_logreport(self, report):
        self._taken[file_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self, session, exitstatus):
        config = session.config
        parts = (
            config.option.keyword
            or config.option.markexpr != "not campaign"
            or any("::" in each for each in config.args)
        )
        # Each process runs only a part; the process that started them sees all tests.
        if exitstatus in (0, 1) and self._taken and not parts and not hasattr(config, "workerinput"):
            self._known.update({file: round(taken, 2) for file, taken in self._taken.items()})
            DURATIONS.parent.mkdir(parents=True, exist_ok=True)
            part = DURATIONS.with_suffix(f".{id(self)}")
            part.write_text(json.dumps(self._known, indent=1, sort_keys=True) + "\n")
            part.replace(DURATIONS)
