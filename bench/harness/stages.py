"""The work of a process tree's threads for one request: processor time, sleeps, system calls, instructions."""

import collections
import contextlib
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess

from harness import processes

TICK_US = 1_000_000 / os.sysconf("SC_CLK_TCK")
COUNTERS = {"raw_syscalls:sys_enter": "system_calls", "instructions:u": "instructions"}


@dataclasses.dataclass
class Use:
    """Of one thread, or of several with one name. Fields of counters that the machine lacks hold None."""

    cpu_us: float = 0.0
    user_us: float = 0.0
    system_us: float = 0.0
    sleeps: float = 0.0
    system_calls: float | None = None
    instructions: float | None = None

    def __sub__(self, other):
        return Use(*(mine - its for mine, its in zip(self._measured(), other._measured(), strict=True)))

    def _measured(self):
        return self.cpu_us, self.user_us, self.system_us, self.sleeps


def _name(thread):
    """Threads that differ by their number are one stage."""
    return re.sub(r"-\d+$", "", (thread / "comm").read_text().strip())


def snapshot(leader):
    """Returns {(name, thread id): Use} of a session's threads since their start."""
    found = {}
    for pid in processes.family(leader):
        for thread in pathlib.Path(f"/proc/{pid}/task").glob("*"):
            with contextlib.suppress(OSError):
                fields = (thread / "stat").read_text().rpartition(")")[2].split()
                status = (thread / "status").read_text()
                found[_name(thread), int(thread.name)] = Use(
                    int((thread / "schedstat").read_text().split()[0]) / 1000,
                    int(fields[11]) * TICK_US,
                    int(fields[12]) * TICK_US,
                    int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.MULTILINE)[1]),
                )
    return found


class Counters:
    """perf's counters of a session's threads, where perf and these counters can be had."""

    def __init__(self, leader, seconds):
        pids = ",".join(map(str, processes.family(leader)))
        command = [
            "perf",
            "stat",
            "--per-thread",
            "-x;",
            "-e",
            ",".join(COUNTERS),
            "-p",
            pids,
            "--",
            "sleep",
            str(seconds),
        ]
        self._process = None
        if shutil.which("perf"):
            self._process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, "LC_ALL": "C"}
            )

    def read(self):
        """Waits for the end of the time; returns {thread id: {field of Use: count}}."""
        return parse(self._process.communicate()[1]) if self._process else {}


def parse(text):
    """Reads the output of `perf stat --per-thread -x;`; leaves out what was not counted."""
    found = collections.defaultdict(dict)
    for thread, count, _, event, *_ in (line.split(";") for line in text.splitlines() if line.count(";") > 3):
        number = thread.rpartition("-")[2]
        if number.isdigit() and count.isdigit() and event in COUNTERS:
            found[int(number)][COUNTERS[event]] = int(count)
    return dict(found)


def per_request(before, after, counted, requests, counted_requests):
    """Returns {stage: Use} for each request. `counted` may cover another time, with `counted_requests`."""
    stages = collections.defaultdict(Use)
    for key, use in after.items():
        stage = stages[key[0]]
        change = use - before.get(key, Use())
        for field in ("cpu_us", "user_us", "system_us", "sleeps"):
            setattr(stage, field, getattr(stage, field) + getattr(change, field) / requests)
        for field, count in counted.get(key[1], {}).items():
            setattr(stage, field, (getattr(stage, field) or 0) + count / counted_requests)
    return dict(stages)


def table(stages, least_us=0.05):
    """Returns lines of text, the busiest stages first, with their sum."""
    rows = sorted(
        ((name, use) for name, use in stages.items() if use.cpu_us >= least_us), key=lambda row: -row[1].cpu_us
    )
    total = Use()
    for _, use in rows:
        for field in dataclasses.fields(Use):
            if (value := getattr(use, field.name)) is not None:
                setattr(total, field.name, (getattr(total, field.name) or 0) + value)
    titles = ("CPU us", "user us", "system us", "sleeps", "system calls", "instructions")
    lines = [f"  {'thread':16}" + "".join(f"{title:>14}" for title in titles)]
    for name, use in [*rows, ("all", total)]:
        cells = [f"{value:>14.2f}" for value in (use.cpu_us, use.user_us, use.system_us, use.sleeps)]
        cells.append(f"{'-':>14}" if use.system_calls is None else f"{use.system_calls:>14.2f}")
        cells.append(f"{'-':>14}" if use.instructions is None else f"{use.instructions:>14.0f}")
        lines.append(f"  {name:16}" + "".join(cells))
    return lines
