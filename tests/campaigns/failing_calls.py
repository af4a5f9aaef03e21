"""Controls tests/native/failing_calls.c: which of the server's calls fail, and the server's wall clock."""

import mmap
import os
import struct

from harness.server import BINARY

LIBRARY = BINARY.parent / "tests" / "native" / "libfailing_calls.so"
HEAD = struct.Struct("=IIQq")  # one_in, calls, seed, wall_offset_ns
NAME_BYTES = 16


def preloaded(*libraries):
    """Returns the environment of a server with preloaded libraries. Those of BRAID_PRELOAD come first; workers load
    them too."""
    everything = [*filter(None, [os.environ.get("BRAID_PRELOAD")]), *map(str, libraries)]
    return {"LD_PRELOAD": ":".join(everything)} if everything else {}


class FailingCalls:
    """No call fails until fail(). `environment` is for the server, which must be started before other methods are used."""

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
        """From now on one in `one_in` calls fails; 0: none."""
        self._set(8, "=Q", seed)
        self._set(0, "=I", one_in)

    def shift_clock(self, seconds):
        """Shifts the server's wall clock by some seconds."""
        self._set(16, "=q", int(seconds * 1e9))

    def counts(self):
        """Returns {call: (calls while failures were on, failed calls)}."""
        control = self._control()
        _, calls, _, _ = HEAD.unpack_from(control)
        names = [control[HEAD.size + i * NAME_BYTES :][:NAME_BYTES].rstrip(b"\0").decode() for i in range(calls)]
        place = HEAD.size + calls * NAME_BYTES
        numbers = struct.unpack_from(f"={2 * calls}Q", control, place)
        return {name: (numbers[i], numbers[calls + i]) for i, name in enumerate(names)}
