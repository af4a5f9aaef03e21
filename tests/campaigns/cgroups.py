"""Control groups for a campaign, below its own group, if the machine supports and allows them."""

import contextlib
import os
import pathlib
import re
import time


def _own(controller):
    """Returns (folder, version) of this process's group."""
    mounts = pathlib.Path("/proc/self/mounts").read_text().splitlines()
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        for mount in mounts:
            _, place, kind, options, *_ = mount.split()
            if kind == "cgroup" and controller in controllers.split(",") and controller in options.split(","):
                return pathlib.Path(place + path.rstrip("/")), 1
            if kind == "cgroup2" and number == "0":
                folder = pathlib.Path(place + path.rstrip("/"))
                with contextlib.suppress(OSError):
                    if controller in (folder / "cgroup.subtree_control").read_text().split():
                        return folder, 2
    return None, 0


class Group:
    """A group with one limit: "memory" in bytes, or "pids". Group.make() returns None if that is impossible."""

    FILES = {("memory", 1): "memory.limit_in_bytes", ("memory", 2): "memory.max", ("pids", 1): "pids.max",
             ("pids", 2): "pids.max"}  # fmt: skip

    @classmethod
    def make(cls, controller):
        parent, version = _own(controller)
        if parent is None:
            return None
        folder = parent / f"braid-campaign-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            return None
        group = cls(folder, folder / cls.FILES[controller, version], version)
        if not group._limit.exists():
            group.remove()
            return None
        return group

    def __init__(self, folder, limit, version):
        self._folder = folder
        self._limit = limit
        self._unlimited = "max" if limit.name.endswith(".max") else "-1"
        self._version = version

    def limit(self, value):
        """Sets the limit; None removes it."""
        self._limit.write_text(self._unlimited if value is None else str(value))

    def add(self, pid):
        with contextlib.suppress(ProcessLookupError):
            (self._folder / "cgroup.procs").write_text(str(pid))

    def current(self):
        return int((self._folder / "pids.current").read_text())

    def killed(self):
        """Returns how many processes the memory limit has killed."""
        file = "memory.oom_control" if self._version == 1 else "memory.events"
        found = re.search(r"^oom_kill (\d+)", (self._folder / file).read_text(), re.M)
        return int(found.group(1)) if found else 0

    def remove(self):
        """Must be called after all processes in the group have ended."""
        deadline = time.monotonic() + 20
        while True:
            try:
                return self._folder.rmdir()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
