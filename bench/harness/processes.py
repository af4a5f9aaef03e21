"""Processes and their memory, from /proc."""

import contextlib
import os
import pathlib
import signal
import time
import typing


class _Stat(typing.NamedTuple):
    parent: int
    session: int
    start: int  # distinguishes a process from a later one with the same number


def _stat(pid):
    """Reads a process's stat; None if it is gone or a zombie."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command, in brackets, may contain any characters.
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[0] == "Z" else _Stat(int(fields[1]), int(fields[3]), int(fields[19]))


def family(leader):
    """Returns {pid: start time} of a session's living processes and their descendants. The session is named by its leader.

    It includes processes that a dead leader has left behind.
    """
    stats = {int(name): stat for name in os.listdir("/proc") if name.isdigit() and (stat := _stat(name))}
    children = {}
    for pid, stat in stats.items():
        children.setdefault(stat.parent, []).append(pid)
    found = {}
    unvisited = [pid for pid, stat in stats.items() if stat.session == leader]
    while unvisited:
        pid = unvisited.pop()
        if pid not in found:
            found[pid] = stats[pid].start
            unvisited += children.get(pid, [])
    return found


def alive(processes):
    """Returns the processes of {pid: start time} that still run."""
    return {pid: start for pid, start in processes.items() if (stat := _stat(pid)) and stat.start == start}


def end(processes, patience_s):
    """Waits for processes to end, then kills the rest by number. Returns how many were killed."""
    until = time.monotonic() + patience_s
    while (left := alive(processes)) and time.monotonic() < until:
        time.sleep(0.02)
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return len(left)


def cpu_s(leader):
    """Returns the user and system time of the family's living processes since their start, and of ended children that they waited for."""
    ticks = 0
    for pid in family(leader):
        with contextlib.suppress(OSError):
            text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
            ticks += sum(map(int, text[text.rindex(")") + 2 :].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def memory_kb(leader):
    """Returns {"pss": ..., "private": ...}, summed over the family."""
    total = {"pss": 0, "private": 0}
    for pid in family(leader):
        try:
            lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, rest = line.partition(":")
            if name == "Pss":
                total["pss"] += int(rest.split()[0])
            elif name in ("Private_Clean", "Private_Dirty"):
                total["private"] += int(rest.split()[0])
    return total
