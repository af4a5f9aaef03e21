"""Finds what initialize() has left in a process that a fork would break."""

import os
import threading

_TASKS = "/proc/self/task"
_DESCRIPTORS = "/proc/self/fd"
# The worker's own thread, which a fork does not need.
_OWN_THREAD = "brd-watch"


class Snapshot:
    """The threads and descriptors of the process before initialize()."""

    def __init__(self):
        self._threads = _threads()
        self._descriptors = _descriptors()

    def obstacles(self) -> list[str]:
        """Returns the reasons why the process cannot be forked any more, each with its remedy. Threads that end before
        a fork, such as those of OpenBLAS, are not among them."""
        _try_fork()
        found = []
        names = [name for thread, name in _threads().items() if thread not in self._threads and name != _OWN_THREAD]
        if names:
            listed = ", ".join(f"'{name}'" for name in sorted(set(names)))
            found.append(
                f"initialize() left {len(names)} running threads ({listed}); limit libraries to one thread "
                "(OMP_NUM_THREADS=1, torch.set_num_threads(1)), or start the threads in initialize_instance()"
            )
        left = {_kind(target) for fd, target in _descriptors().items() if self._descriptors.get(fd) != target}
        found += [f"initialize() left {kind} open; open it in initialize_instance()" for kind in sorted(left - {""})]
        return found


def _threads() -> dict[int, str]:
    """Returns the names of the process's threads by their ids."""
    python = {thread.native_id: thread.name for thread in threading.enumerate()}
    names = {}
    for task in os.listdir(_TASKS):
        try:
            with open(f"{_TASKS}/{task}/comm", encoding="utf-8", errors="replace") as file:
                names[int(task)] = python.get(int(task), file.read().strip())
        except OSError:
            continue  # it has ended
    return names


def _descriptors() -> dict[int, str]:
    """Returns the targets of the process's open descriptors."""
    targets = {}
    for descriptor in os.listdir(_DESCRIPTORS):
        try:
            targets[int(descriptor)] = os.readlink(f"{_DESCRIPTORS}/{descriptor}")
        except OSError:
            continue  # it was that of the list itself
    return targets


def _kind(target: str) -> str:
    if target.startswith("socket:"):
        return "a socket"
    if target == "anon_inode:[eventpoll]":
        return "an event loop"
    if target.startswith("/dev/nvidia"):
        return "a GPU"
    return ""


def _try_fork() -> None:
    """Runs the fork handlers of all libraries."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
