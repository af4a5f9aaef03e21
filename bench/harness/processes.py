"""Processes and their memory, from /proc."""

import os
import pathlib
import signal
import time


def _stat(pid):
    """(parent, start time) or None. The start time tells a process from a later one with the same number."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command, in brackets, may hold anything.
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[0] == "Z" else (int(fields[1]), int(fields[19]))


def tree(root):
    """{pid: start time} of a process and its living descendants."""
    stats = {int(name): _stat(name) for name in os.listdir("/proc") if name.isdigit()}
    children = {}
    for pid, stat in stats.items():
        if stat:
            children.setdefault(stat[0], []).append(pid)
    found, unvisited = {}, [root]
    while unvisited:
        pid = unvisited.pop()
        if stats.get(pid) and pid not in found:
            found[pid] = stats[pid][1]
            unvisited += children.get(pid, [])
    return found


def alive(processes):
    """Those of {pid: start time} that still run."""
    return {pid: start for pid, start in processes.items() if (stat := _stat(pid)) and stat[1] == start}


def end(processes, patience_s):
    """Waits for processes to go, then kills the rest by number. Returns how many had to be killed."""
    until = time.monotonic() + patience_s
    while (left := alive(processes)) and time.monotonic() < until:
        time.sleep(0.02)
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return len(left)


def memory_kb(root):
    """{"pss": ..., "private": ...} summed over the tree."""
    total = {"pss": 0, "private": 0}
    for pid in tree(root):
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
