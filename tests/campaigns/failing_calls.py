"""The server's side of tests/native/failing_calls.c: which of its calls fail, and what its wall clock says."""

import mmap
import os
import struct

from harness.server import BINARY

LIBRARY = BINARY.parent / "tests" / "native" / "libfailing_calls.so"
HEAD = struct.Struct("=IIQq")  # one_in, calls, seed, wall_offset_ns
NAME_BYTES = 16


def preloaded(*libraries):
    """The environment of a server into which libraries are preloaded; BRAID_PRELOAD's come first, which workers load too."""
    everything = [*filter(None, [os.environ.get("BRAID_PRELOAD")]), *map(str, libraries)]
    return {"LD_PRELOAD": ":".join(everything)} if everything else {}


class FailingCalls:
    """Nothing fails until fail(). `environment` is for the server, which has to be started before anything else is used."""

    def __init__(self, folder, *more_libraries):
        self._path = folder / "failing-calls"
        self.environment = {**preloaded(LIBRARY, *more_libraries), "BRAID_FAILING_CALLS": str(self._path)}
        self._map = None

    @staticmethod
    def available():
        return LIBRARY.exists()

    def _control(self):
        if self._map is None:
            with self._path.open("r+b") as file:
                self._map = mmap.mmap(file.fileno(), 0)
        return self._map

    def _set(self, place, form, value):
        struct.pack_into(form, self._control(), place, value)

    def fail(self, one_in, seed):
        """From now on one in so many calls fails; 0: none."""
        self._set(8, "=Q", seed)
        self._set(0, "=I", one_in)

    def shift_clock(self, seconds):
        """The wall clock tells so many seconds more than it is, or less."""
        self._set(16, "=q", int(seconds * 1e9))

    def counts(self):
        """{call: (how many there were while some failed, how many failed)}."""
        control = self._control()
        _, calls, _, _ = HEAD.unpack_from(control)
        names = [control[HEAD.size + i * NAME_BYTES :][:NAME_BYTES].rstrip(b"\0").decode() for i in range(calls)]
        place = HEAD.size + calls * NAME_BYTES
        numbers = struct.unpack_from(f"={2 * calls}Q", control, place)
        return {name: (numbers[i], numbers[calls + i]) for i, name in enumerate(names)}
