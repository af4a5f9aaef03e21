"""How long each file of tests took in its last run, so that a run can begin with those that take longest."""

import collections
import json

from steps import cache_folder

FILE = cache_folder() / "durations.json"
# Of a test that has not been run here.
TYPICAL_SECONDS = 0.3


def _file_of(nodeid):
    return nodeid.partition("::")[0]


class Durations:
    """A plugin of pytest: orders the files of a run, and records what they took."""

    def __init__(self):
        try:
            self._known = json.loads(FILE.read_text())
        except (OSError, ValueError):
            self._known = {}
        self._taken = collections.Counter()

    def pytest_collection_modifyitems(self, config, items):
        counts = collections.Counter(_file_of(item.nodeid) for item in items)

        def seconds(item):
            file = _file_of(item.nodeid)
            return self._known.get(file, TYPICAL_SECONDS * counts[file])

        # Within a file the order stays.
        items.sort(key=seconds, reverse=True)
        # xdist would begin with the files that have most tests.
        config.option.loadscopereorder = False

    def pytest_runtest_logreport(self, report):
        self._taken[_file_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self, session):
        config = session.config
        option = config.option
        # Without the cache of pytest there is no --lf.
        last_failed = getattr(option, "lf", False)
        whole = not (option.keyword or option.collectonly or last_failed or option.maxfail)
        # Each process runs a part; the one that starts them sees all.
        if (
            whole
            and self._taken
            and not hasattr(config, "workerinput")
            and not any("::" in each for each in config.args)
        ):
            self._known.update({file: round(taken, 2) for file, taken in self._taken.items()})
            FILE.parent.mkdir(parents=True, exist_ok=True)
            part = FILE.with_suffix(f".{id(self)}")
            part.write_text(json.dumps(self._known, indent=1, sort_keys=True) + "\n")
            part.replace(FILE)
