"""A fleet of Braids as queues: clients with sequences, fronts (Envoy), replicas, and the shards of a store, event by event.

A step of a sequence goes from its client to a front, to the replica to which a ring of hashes maps the sequence, where the store is read if the replica
does not know the sequence, to the store again when its state is written before the answer, and back. Each of these is a queue, first come first
served, with as many servers as it has processors. The time of a model is drawn from an exponential
distribution, and so are those of fronts and store; all that is drawn comes from one seed, so a run can be repeated.

What is not in it: memory, the network's bandwidth, and that a machine slows down before it is full.
"""

import bisect
import dataclasses
import hashlib
import heapq
import itertools
import random


@dataclasses.dataclass(frozen=True)
class Costs:
    """Seconds of one processor, unless said otherwise; docs/fleet.md says where the figures come from."""

    front: float = 60e-6  # a request on its way there and back
    step: float = 70e-6  # a step at its replica beside its model, with the client of the store
    model: float = 2e-3  # the model's own work on a step
    write: float = 15e-6  # of the store's one thread, for the state of a step
    read: float = 15e-6  # the same, when a replica takes a sequence over
    check: float = 40e-6  # of a replica, for a question for its health
    network: float = 100e-6  # of time, from one machine to another and back


@dataclasses.dataclass(frozen=True)
class Fleet:
    replicas: int
    fronts: int
    shards: int  # of the store; 0: there is none
    cores: int = 2  # of each replica and each front
    zones: int = 3
    ring: int = 4096  # places on the ring, all together
    durable: bool = True  # a state is written before its answer; else behind it


@dataclasses.dataclass(frozen=True)
class Load:
    """Steps that come by themselves, whatever is answered: of sequences of `steps` steps each, with `pause` seconds between two."""

    rate: float  # steps in a second, all together
    steps: int = 50
    pause: float = 1.0
    # (seconds, zone): at that time all that is in the zone ends.
    zone_lost: tuple[float, int] | None = None
    detect: float = 1.0  # until fronts leave a replica that has gone, and clients a front
    retry: float = 0.05  # until a client sends a step again that has failed


class Station:
    """A queue with its servers. Keeps when each is free: what comes is served in the order in which it comes."""

    def __init__(self, servers):
        self.free = [0.0] * servers
        self.busy = 0.0

    def serve(self, now, seconds):
        """When it is done."""
        done = max(now, self.free[0]) + seconds
        heapq.heapreplace(self.free, done)
        self.busy += seconds
        return done


class Ring:
    """Places of replicas on a circle of 64 bits, as Envoy's ring_hash has it: each has the same number."""

    def __init__(self, replicas, size):
        each = max(1, size // replicas)
        self._places = sorted(
            (_hash(f"{replica}_{place}"), replica) for replica in range(replicas) for place in range(each)
        )
        self._keys = [key for key, _ in self._places]

    def find(self, sequence, gone):
        """The first replica behind the sequence's own place that is not in `gone`."""
        start = bisect.bisect(self._keys, _hash(str(sequence)))
        for place in range(len(self._places)):
            replica = self._places[(start + place) % len(self._places)][1]
            if replica not in gone:
                return replica
        raise ValueError("no replica is left")

    def shares(self, replicas):
        """How much of the circle each replica has, as multiples of an equal share."""
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
    """Of the steps that came after the warm-up."""

    latencies: list[float]  # seconds
    use: dict[str, float]  # of each kind of station: the share of time that the busiest has worked
    failed: int  # attempts that ended with a replica or a front, and were made again
    takeovers: int
    # The longest time between a step and its answer, for those that came in each second.
    worst: dict[int, float]

    def latency(self, share):
        """A quantile in seconds; `share` from 0 to 1."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def walls(fleet, costs):
    """{what is full first: steps a second that it can do}, for sequences that are spread as their ring spreads them."""
    largest = max(Ring(fleet.replicas, fleet.ring).shares(fleet.replicas))
    checks = 2 * fleet.fronts * costs.check  # one a second for each protocol
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
        self.left_replicas, self.left_fronts = set(), set()  # those that are known to be gone
        self.owner = {}  # of a sequence: the replica that has it
        self.left_steps = {}  # of a sequence
        self.events = []
        self.order = itertools.count()
        self.outcome = Outcome([], {}, 0, 0, {})

    def at(self, when, what, *arguments):
        heapq.heappush(self.events, (when, next(self.order), what, arguments))

    def time(self, mean):
        return self.draw.expovariate(1 / mean)

    def run(self):
        load = self.load
        # As many sequences as have that rate, each at some place of its life.
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

    # A sequence has its next step, and its client the one after that, whatever becomes of this one.
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
        # One that begins is nobody's yet.
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
    """Outcome of so many seconds of the fleet's time, of which the first `warm_up` are left out of the latencies."""
    return _Run(fleet, load, costs, seconds, warm_up, seed).run()
