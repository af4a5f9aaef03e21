"""A process that forwards connections until it is cut: a network partition between its two sides."""

import asyncio
import contextlib
import signal
import subprocess
import sys


class Relay:
    """Forwards connections from `port` of the loopback interface to port `target`. Use as a context manager."""

    def __init__(self, target):
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(target)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        self.port = int(self._process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def cut(self):
        """Delays all data from now on. New connections are accepted but get no answer."""
        self._process.send_signal(signal.SIGSTOP)

    def mend(self):
        self._process.send_signal(signal.SIGCONT)


async def _pass(reader, writer):
    with contextlib.suppress(OSError):
        while piece := await reader.read(1 << 16):
            writer.write(piece)
            await writer.drain()
    writer.close()


async def _serve(target):
    async def connect(reader, writer):
        try:
            there = await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pass(reader, there[1]), _pass(there[0], writer))

    server = await asyncio.start_server(connect, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
