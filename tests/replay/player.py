"""Plays a session against two servers, one request at a time if the recording allows it, and compares the answers."""

import dataclasses
import pathlib
import random
import time

from replay.calls import is_read, is_stream, may_be_mutated
from replay.compare import excerpt, first_difference, offset
from replay.mutations import Request, mutate
from replay.recording import Blobs, Session
from replay.served import NO_ANSWER, SIDES, Served, temporary_folder
from replay.unrecorded import unrecorded

ANSWER_SECONDS = 6  # for an answer that the recording has
LATE_SECONDS = 20  # for the second answer, after one server has answered
PATIENCE_SECONDS = 0.15  # for an answer that came after another request in the recording
PATIENCE_IN_ALL = 10  # seconds per session; then such requests overlap
SETTLE_SECONDS = 6  # for both servers to settle after a change
MUTATED_SECONDS = 1.5  # for the answer to a mutated request
SILENT_LIMIT = 6  # mutated requests without an answer; after this many, the session has no more of them


@dataclasses.dataclass
class Difference:
    """A difference between the two servers' answers."""

    session: str
    test: str
    request: str
    part: str
    old: str
    new: str
    how: str = ""

    @property
    def key(self):
        return (self.session, self.request, self.part, self.how)

    def __str__(self):
        how = f"\n  mutation: {self.how}" if self.how else ""
        return (
            f"{self.session}\n  test: {self.test}\n  request: {self.request}{how}\n  first difference: {self.part}\n"
            f"    old: {self.old}\n    new: {self.new}"
        )


@dataclasses.dataclass
class Result:
    """The result of one session."""

    session: str
    compared: int = 0
    mutated: int = 0
    silent: int = 0
    seconds: float = 0.0
    differences: list = dataclasses.field(default_factory=list)
    unstable: list = dataclasses.field(default_factory=list)
    problem: str = ""
    codes: dict = dataclasses.field(default_factory=dict)


class Pair:
    """One request, sent to both servers."""

    def __init__(self, begin, data, exchanges):
        self.begin = begin
        self.data = data
        self.exchanges = exchanges
        self.overtaken = False
        self.silent_messages = 0

    def wait(self, seconds, seen=None):
        """Returns whether both servers answer within `seconds`. If only one does, the other gets LATE_SECONDS more."""
        deadline = time.monotonic() + seconds
        arrived = [each.wait(max(0.001, deadline - time.monotonic()), seen) for each in self.exchanges]
        if any(arrived) and not all(arrived) and seconds >= ANSWER_SECONDS:
            arrived = [each.wait(LATE_SECONDS, seen) for each in self.exchanges]
        return all(arrived)

    @property
    def name(self):
        return request_name(self.begin, self.data)


def request_name(begin, data):
    if begin["kind"] == "grpc":
        return begin["method"]
    return data.split(b"\r\n", 1)[0].rpartition(b" HTTP/")[0].decode("latin-1")


class Player:
    """Plays one session. `mutations` is the number of mutated requests after each mutable one."""

    def __init__(self, path, binaries, recording, pause, mutations=0, seed=0):
        self._session = Session.load(path)
        self._blobs = Blobs(recording)
        self._binaries = binaries
        self._pause = pause
        self._mutations = mutations
        self._random = random.Random(f"{seed} {pathlib.Path(path).name}")
        self._result = Result(pathlib.Path(path).name.removesuffix(".json.gz"))
        self._pairs = {}
        self._patience = PATIENCE_IN_ALL
        self._donors = {}

    def play(self):
        start = time.monotonic()
        with temporary_folder() as folder:
            servers = []
            try:
                for side, binary in zip(SIDES, self._binaries, strict=True):
                    servers.append(Served(side, binary, self._session, self._blobs, pathlib.Path(folder)))
                self._servers = servers
                self._play()
            except Exception as error:  # a session that cannot be played is a finding, and does not end the run
                self._result.problem = f"{type(error).__name__}: {error}"
            finally:
                statuses = [each.stop() for each in servers]
            if len(servers) == 2 and not self._result.problem:
                self._compare_ends(statuses)
        self._result.seconds = time.monotonic() - start
        return self._result

    def _play(self):
        deadline = time.monotonic() + 60
        listening = [each.listen(deadline) for each in self._servers]
        if listening[0] != listening[1]:
            self._differ("", "start", "listening", *(str(each) for each in listening))
        if not all(listening):
            return
        while self._session.events and not all(each.ready() for each in self._servers):
            if time.monotonic() > min(deadline, deadline - 60 + SETTLE_SECONDS):
                break
            time.sleep(0.05)
        if not self._session.listened:
            return
        clock = 0.0
        for index, event in enumerate(self._session.events):
            if any(each.died for each in self._servers):
                self._differ(
                    event.get("test", ""), "", "process", *(str(each.process.poll()) for each in self._servers)
                )
                return
            if "t" in event:
                if event["t"] - clock > 0.05:
                    time.sleep(min(self._pause, event["t"] - clock))
                clock = event["t"]
            self._event(event, index)

    def _event(self, event, index):
        kind = event["e"]
        if kind == "files":
            for each in self._servers:
                each.change(event["changes"])
        elif kind == "begin":
            self._begin(event, index)
        elif event["n"] in self._pairs:
            pair = self._pairs[event["n"]]
            data = self._blobs.get(event["data"]) if "data" in event else None
            if kind == "message":
                self._message(pair, event, data)
            elif kind == "close":
                self._await_seen(pair, event["seen"])
                for each in pair.exchanges:
                    each.half_close()
            elif kind == "cancel":
                if pair.begin["kind"] == "grpc":
                    self._await_seen(pair, event["seen"])
                for each in pair.exchanges:
                    each.cancel()
                del self._pairs[event["n"]]
            else:
                del self._pairs[event["n"]]
                self._end(pair, event)

    def _begin(self, event, index):
        if unrecorded(event["test"]) or not all(each.has(event) for each in self._servers):
            return
        data = self._blobs.get(event["data"]) if "data" in event else None
        pair = Pair(event, data, self._send(event, data))
        self._pairs[event["n"]] = pair
        later = self._session.events[index + 1] if index + 1 < len(self._session.events) else None
        if later is not None and later.get("n") != event["n"] and not (event["kind"] == "grpc" and data is None):
            pair.overtaken = not self._patiently(pair)

    def _send(self, event, data):
        if event["kind"] == "grpc":
            return [each.grpc(event["method"], event["metadata"], data) for each in self._servers]
        return [
            each.http(event["kind"], event["connection"], data, event.get("partial", False)) for each in self._servers
        ]

    def _message(self, pair, event, data):
        self._await_seen(pair, event["seen"])
        before = min(each.seen for each in pair.exchanges)
        for server, exchange in zip(self._servers, pair.exchanges, strict=True):
            exchange.send(server.local(data))
        pair.data = (pair.data or []) + [data]
        # One at a time if possible: streams may have several requests in flight.
        if pair.silent_messages < 3 and not self._patiently(pair, before + 1):
            pair.silent_messages += 1

    def _patiently(self, pair, seen=None):
        """Waits for an answer that the recording has only later, so that requests run one at a time if they can."""
        start = time.monotonic()
        arrived = pair.wait(PATIENCE_SECONDS if self._patience > 0 else 0.002, seen)
        if not arrived:
            self._patience -= time.monotonic() - start
        return arrived

    def _await_seen(self, pair, seen):
        if seen:
            pair.wait(ANSWER_SECONDS, seen)

    def _end(self, pair, event):
        data = pair.data if isinstance(pair.data, bytes) else b""
        arrived = pair.wait(ANSWER_SECONDS)
        if arrived and is_read(pair.begin, data):
            pair = self._settled(pair, event["code"])
        self._compare(pair)
        if self._mutations and may_be_mutated(pair.begin, data) and pair.data:
            self._mutate(pair)

    def _settled(self, pair, code):
        """Repeats a request until both servers agree with each other and with the recorded code, or time is up."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < deadline:
            same = first_difference(pair.name, *self._answers(pair)) is None
            if same and (pair.exchanges[0].code == code or time.monotonic() > deadline - SETTLE_SECONDS + 2):
                break
            time.sleep(0.05)
            pair = Pair(pair.begin, pair.data, self._send(pair.begin, pair.data))
            pair.wait(ANSWER_SECONDS)
        return pair

    def _answers(self, pair):
        found = []
        for server, exchange in zip(self._servers, pair.exchanges, strict=True):
            found.append({part: server.neutral(data) for part, data in exchange.answer().items()})
        return found

    def _compare(self, pair, how=""):
        self._result.compared += 1
        answers = self._answers(pair)
        words = answers[0].get("status", b"none none").decode().split(" ")
        key = words[0] if pair.begin["kind"] == "grpc" else words[1]
        self._result.codes[key] = self._result.codes.get(key, 0) + 1
        for each in self._servers if not how else ():
            each.note_processes()
        if (found := self._difference(pair, answers, how)) is not None:
            part, old, new = found
            at = offset(old, new)
            self._differ(
                pair.begin.get("test", ""), pair.name, f"{part}, byte {at}", excerpt(old, at), excerpt(new, at), how
            )
        return answers

    def _difference(self, pair, answers, how):
        if first_difference(pair.name, *answers) is None:
            return None
        for server, answer in zip(self._servers, answers, strict=True):
            server.note_processes()
            for part in answer:
                answer[part] = server.without_processes(answer[part])
            if how and is_stream(pair.name):  # concurrent requests may overtake each other
                numbered = [part for part in answer if part.startswith("message ")]
                answer.update(zip(numbered, sorted(answer[part] for part in numbered), strict=True))
        return first_difference(pair.name, *answers)

    def _differ(self, test, request, part, old, new, how=""):
        self._result.differences.append(Difference(self._result.session, test, request, part, old, new, how))

    def _compare_ends(self, statuses):
        if statuses[0] != statuses[1]:
            self._differ("", "the end", "exit status", *statuses)

    # ---- mutations -------------------------------------------------------------------------------

    def _mutate(self, pair):
        begin = pair.begin
        messages = pair.data if isinstance(pair.data, list) else [pair.data]
        if len(messages) > 16 or sum(map(len, messages)) > 1 << 18:
            return
        original = Request(begin["kind"], begin.get("method"), begin.get("metadata"), messages)
        donors = self._donors.setdefault((begin["kind"], begin.get("method")), [])
        donors.append(original)
        for _ in range(self._mutations):
            if self._result.silent >= SILENT_LIMIT or any(each.died for each in self._servers):
                return
            request, how = mutate(original, donors, self._random)
            if request is None:
                continue
            self._result.mutated += 1
            exchanges = [self._send_mutated(each, request) for each in self._servers]
            mutated = Pair(
                {**begin, "method": request.method}, request.messages[0] if request.messages else b"", exchanges
            )
            if not mutated.wait(MUTATED_SECONDS) and any(each.wait(0.001) for each in exchanges):
                mutated.wait(ANSWER_SECONDS)
            answers = self._compare(mutated, how)
            if NO_ANSWER.encode() in (each.get("transport") for each in answers):
                self._result.silent += 1
                for each in exchanges:
                    each.cancel()

    def _send_mutated(self, server, request):
        if request.kind != "grpc":
            return server.http("http", "mutated", request.messages[0], request.partial)
        if not is_stream(request.method):
            return server.grpc(request.method, request.metadata, request.messages[0] if request.messages else b"")
        exchange = server.grpc(request.method, request.metadata)
        for each in request.messages:
            exchange.send(server.local(each))
        exchange.half_close()
        return exchange
