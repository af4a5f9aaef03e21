"""Clients that send requests to all strands over all protocols at the same time, until they are stopped."""

import random
import threading
import time

from campaigns.ledger import Ledger
from campaigns.strands import STRANDS
from campaigns.transports import TRANSPORTS


class Client:
    """One thread's connections over one protocol. `draw` chooses its next request."""

    def __init__(self, server, protocol, ledger, draw):
        self.server = server
        self.protocol = protocol
        self.ledger = ledger
        self.draw = draw
        self.connection = None
        self._strand = None
        self._connections = {}

    def ask(self, strand):
        """Sends one request to a strand, or several for a sequence; returns whether all were answered."""
        self._strand = strand
        # A graph needs a whole stream for itself.
        alone = strand.name in ("graph", "generator") and self.protocol == "gRPC stream"
        key = strand.name if alone else ""
        if key not in self._connections:
            self._connections[key] = TRANSPORTS[self.protocol](self.server)
        self.connection = self._connections[key]
        return strand.ask(self)

    def attempt(self, work):
        return self.ledger.attempt((self._strand.name, self.protocol), self.connection, work)

    def cut(self):
        """Ends the connection in use; called from another thread."""
        if (connection := self.connection) is not None:
            connection.cut()

    def close(self):
        for connection in self._connections.values():
            connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Load:
    """Threads for each protocol. `rate` is the requests per second of each thread; None: as many as possible."""

    def __init__(self, server, ledgers, seed, each=2, rate=None, strands=STRANDS):
        self.ledgers = ledgers
        self.clients = []
        self.stop = threading.Event()
        self._strands = strands
        self._rate = rate
        self._threads = []
        for number, protocol in enumerate(list(TRANSPORTS) * each):
            client = Client(server, protocol, ledgers.make(), random.Random(seed * 1000 + number))
            self.clients.append(client)
            self._threads.append(threading.Thread(target=self._run, args=(client,), daemon=True))

    def start(self):
        for thread in self._threads:
            thread.start()

    def _run(self, client):
        mine = [strand for strand in self._strands if client.protocol in strand.protocols]
        due = time.monotonic()
        try:
            with client:
                while not self.stop.is_set():
                    before = sum(client.ledger.sent.values())
                    answered = client.ask(client.draw.choice(mine))
                    if self._rate:
                        due += (sum(client.ledger.sent.values()) - before) / self._rate
                        self.stop.wait(due - time.monotonic())
                    elif not answered:
                        self.stop.wait(0.01)  # limits requests to a server that refuses all of them
        except Exception as error:
            self.ledgers.wrong.append(f"a client over {client.protocol}: {type(error).__name__}: {error}")

    def join(self, seconds=120.0):
        self.stop.set()
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in self._threads):
            self.ledgers.wrong.append("a client still waits for its answer")
        self.ledgers.check_outcomes()


def await_answers(server, ledgers, seed, within_s, strands=STRANDS):
    """Returns the seconds until each strand has answered over each of its protocols. Taking longer than `within_s` is a
    fault.

    Refusals before that are not faults.
    """
    began = time.monotonic()
    missing = {(strand, protocol) for strand in strands for protocol in strand.protocols}
    healed = 0.0
    clients = {
        protocol: Client(server, protocol, Ledger(ledgers.allowance), random.Random(seed)) for protocol in TRANSPORTS
    }
    while missing and server.process.poll() is None and time.monotonic() < began + max(60.0, within_s):
        for strand, protocol in sorted(missing, key=lambda pair: (pair[0].name, pair[1])):
            if clients[protocol].ask(strand):
                missing.discard((strand, protocol))
                healed = time.monotonic() - began
        time.sleep(0.01)
    for client in clients.values():
        client.close()
    if server.process.poll() is not None:
        ledgers.wrong.append(f"the server ended with {server.process.returncode}:\n{server.log[-20000:]}")
        return healed
    for strand, protocol in missing:
        ledgers.wrong.append(f"{strand.name} over {protocol}: no right answer after a minute")
    if not missing and healed > within_s:
        ledgers.wrong.append(f"all answered only {healed:.1f} s after the last blow")
    return healed
