"""A fleet of Braids as queues: clients with sequences, fronts (Envoy), replicas, and the shards of a store, event by event.

A step of a sequence goes from its client to a front, and on to the replica to which a hash ring maps the sequence. The replica reads the store if it
does not know the sequence, and writes to it if states are written before the response. Then the response goes back. Each station is a first-come,
first-served queue with as many servers as it has processors. The times of models, fronts and store are exponentially distributed. All random numbers
come from one seed, so a run can be repeated.

Not modelled: memory, network bandwidth, and the slowdown of a machine before it is full.
"""

import bisect
import dataclasses
import hashlib
import heapq
import itertools
import random


@dataclasses.dataclass(frozen=True)
class Costs:
    """Seconds of one processor, unless stated otherwise. The figures are explained in docs/fleet.md."""

    front: float = 60e-6  # a request, both ways
    step: float = 70e-6  # a step at its replica without its model, with the client of the store
    model: float = 2e-3  # the model's own work on a step
    write: float = 15e-6  # the store's one thread, for the state of a step
    read: float = 15e-6  # the same, when a replica takes over a sequence
    check: float = 40e-6  # a replica, for a health check
    network: float = 100e-6  # elapsed time, from one machine to another and back


@dataclasses.dataclass(frozen=True)
class Fleet:
    replicas: int
    fronts: int
    shards: int  # of the store; 0: no store
    cores: int = 2  # of each replica and each front
    zones: int = 3
    ring: int = 4096  # points on the ring in total
    durable: bool = True  # the state is written before the response, otherwise after it


@dataclasses.dataclass(frozen=True)
class Load:
    """An open load: sequences of `steps` steps each, with `pause` seconds between two steps, regardless of responses."""

    rate: float  # steps per second in total
    steps: int = 50
    pause: float = 1.0
    # (seconds, zone): all machines in the zone end at that time.
    zone_lost: tuple[float, int] | None = None
    detect: float = 1.0  # until fronts stop using a lost replica, and clients a lost front
    retry: float = 0.05  # until a client retries a failed step


class Station:
    """A first-come, first-served queue. It records when each of its servers is free."""

    def __init__(self, servers):
        self.free = [0.0] * servers
        self.busy = 0.0

    def serve(self, now, seconds):
        """Returns the time at which the work is done."""
        done = max(now, self.free[0]) + seconds
        heapq.heapreplace(self.free, done)
        self.busy += seconds
        return done


class Ring:
    """The replicas' points on a 64-bit ring, as in Envoy's ring_hash; all replicas have equally many."""

    def __init__(self, replicas, size):
        each = max(1, size // replicas)
        self._places = sorted(
            (_hash(f"{replica}_{place}"), replica) for replica in range(replicas) for place in range(each)
        )
        self._keys = [key for key, _ in self._places]

    def find(self, sequence, gone):
        """Returns the first replica after the sequence's point that is not in `gone`."""
        start = bisect.bisect(self._keys, _hash(str(sequence)))
        for place in range(len(self._places)):
            replica = self._places[(start + place) % len(self._places)][1]
            if replica not in gone:
                return replica
        raise ValueError("no replica is left")

    def shares(self, replicas):
        """Returns each replica's part of the ring, as multiples of an equal share."""
        shares = [0.0] * replicas
        before = self._keys[-1] - 2**64
        for key, replica in self._places:
            shares[replica] += (key - before) / 2**64 * replicas
            before = key
        return shares


def _hash(text):
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


@dataclasses.dataclass
class Outcome:
    """The results for the steps after the warm-up."""

    latencies: list[float]  # seconds
    use: dict[str, float]  # by kind of station: the utilization of the busiest one
    failed: int  # attempts that a lost replica or front ended, and that were retried
    takeovers: int
    # The longest latency of the steps that began in each second.
    worst: dict[int, float]

    def latency(self, share):
        """Returns a quantile in seconds; `share` is from 0 to 1."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def walls(fleet, costs):
    """Returns {resource: steps per second at which it is full}, for sequences spread as by their ring."""
    largest = max(Ring(fleet.replicas, fleet.ring).shares(fleet.replicas))
    checks = 2 * fleet.fronts * costs.check  # one per second and protocol
    replicas = fleet.replicas * max(0.0, fleet.cores - checks) / (costs.step + costs.model)
    found = {
        "fronts": fleet.fronts * fleet.cores / costs.front,
        "replicas": replicas,
        "the fullest replica": replicas / largest,
    }
    if fleet.shards:
        found["store"] = fleet.shards / costs.write
    return found


class _Run:
    def __init__(self, fleet, load, costs, seconds, warm_up, seed):
        self.fleet, self.load, self.costs = fleet, load, costs
        self.draw = random.Random(seed)
        self.seconds, self.warm_up = seconds, warm_up
        self.ring = Ring(fleet.replicas, fleet.ring)
        self.fronts = [Station(fleet.cores) for _ in range(fleet.fronts)]
        self.replicas = [Station(fleet.cores) for _ in range(fleet.replicas)]
        self.shards = [Station(1) for _ in range(fleet.shards)]
        self.gone_replicas, self.gone_fronts = set(), set()
        self.left_replicas, self.left_fronts = set(), set()  # those that are known to be lost
        self.owner = {}  # by sequence: its replica
        self.left_steps = {}  # by sequence
        self.events = []
        self.order = itertools.count()
        self.outcome = Outcome([], {}, 0, 0, {})

    def at(self, when, what, *arguments):
        heapq.heappush(self.events, (when, next(self.order), what, arguments))

    def time(self, mean):
        return self.draw.expovariate(1 / mean)

    def run(self):
        load = self.load
        # Start with as many sequences as have that rate, each at a random step.
        alive = max(1, round(load.rate * load.pause))
        for sequence in range(alive):
            self.left_steps[sequence] = 1 + sequence * load.steps // alive
            self.at(self.time(load.pause), self.step, sequence, alive)
        if load.zone_lost:
            self.at(load.zone_lost[0], self.lose, load.zone_lost[1])
            self.at(load.zone_lost[0] + load.detect, self.notice)
        now = 0.0
        while self.events and self.events[0][0] < self.seconds:
            now, _, what, arguments = heapq.heappop(self.events)
            what(now, *arguments)
        for kind, stations in (("fronts", self.fronts), ("replicas", self.replicas), ("store", self.shards)):
            if stations:
                self.outcome.use[kind] = max(each.busy for each in stations) / len(stations[0].free) / self.seconds
        checks = 2 * self.fleet.fronts * self.costs.check / self.fleet.cores
        self.outcome.use["replicas"] += checks
        return self.outcome

    def lose(self, _, zone):
        self.gone_replicas = {each for each in range(self.fleet.replicas) if each % self.fleet.zones == zone}
        self.gone_fronts = {each for each in range(self.fleet.fronts) if each % self.fleet.zones == zone}

    def notice(self, _):
        self.left_replicas, self.left_fronts = self.gone_replicas, self.gone_fronts

    # Runs the next step of a sequence. The client sends the one after it regardless of the result.
    def step(self, now, sequence, alive):
        self.at(now + self.time(self.load.pause), self.step, self.next_of(sequence, alive), alive)
        self.ask(now, sequence, now)

    def next_of(self, sequence, alive):
        self.left_steps[sequence] -= 1
        if self.left_steps[sequence] > 0:
            return sequence
        del self.left_steps[sequence]
        self.left_steps[sequence + alive] = self.load.steps
        return sequence + alive

    def ask(self, now, sequence, since):
        left = self.left_fronts
        front = sequence % self.fleet.fronts
        while front in left:
            front = (front + 1) % self.fleet.fronts
        if front in self.gone_fronts:
            return self.again(now, sequence, since)
        done = self.fronts[front].serve(now, self.time(self.costs.front))
        self.at(done + self.costs.network, self.at_replica, sequence, since)

    def at_replica(self, now, sequence, since):
        replica = self.ring.find(sequence, self.left_replicas)
        if replica in self.gone_replicas:
            return self.again(now, sequence, since)
        # A new sequence has no owner yet.
        if self.owner.get(sequence, replica) != replica and self.shards:
            self.outcome.takeovers += 1
            done = self.shard(sequence).serve(now, self.time(self.costs.read)) + self.costs.network
            self.owner[sequence] = replica
            return self.at(done, self.work, sequence, since, replica)
        self.owner[sequence] = replica
        self.work(now, sequence, since, replica)

    def work(self, now, sequence, since, replica):
        if replica in self.gone_replicas:
            return self.again(now, sequence, since)
        done = self.replicas[replica].serve(now, self.costs.step + self.time(self.costs.model))
        self.at(done, self.worked, sequence, since, replica)

    def worked(self, now, sequence, since, replica):
        if replica in self.gone_replicas:
            return self.again(now, sequence, since)
        if self.shards:
            written = self.shard(sequence).serve(now, self.time(self.costs.write)) + self.costs.network
            if self.fleet.durable:
                return self.at(written, self.answer, sequence, since, replica)
        self.answer(now, sequence, since, replica)

    def answer(self, now, sequence, since, replica):
        if replica in self.gone_replicas:
            return self.again(now, sequence, since)
        if since >= self.warm_up:
            self.outcome.latencies.append(now - since)
            second = int(since)
            self.outcome.worst[second] = max(self.outcome.worst.get(second, 0.0), now - since)

    def again(self, now, sequence, since):
        self.outcome.failed += 1
        self.at(now + self.load.retry, self.ask, sequence, since)

    def shard(self, sequence):
        return self.shards[sequence % len(self.shards)]


def simulate(fleet, load, costs, seconds=5.0, warm_up=1.0, seed=1):
    """Simulates this many seconds of the fleet and returns the Outcome. Latencies exclude the first `warm_up` seconds."""
    return _Run(fleet, load, costs, seconds, warm_up, seed).run()
