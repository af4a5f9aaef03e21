"""Runs cases in the real framework: reads one case per line (JSON), and writes its answer on one line.

It runs in the environment of the mediapipe wheel (see requirements/mediapipe.txt), separate from the project's. That
environment has only the standard library and the wheel. A case that hangs ends the process, so its answer is missing.
"""

import json
import os
import re
import signal
import sys
import threading

CASE_SECONDS = 10

# The kind of a failure, by a substring of its text; the first match counts. Both implementations report only the kind.
KINDS = [
    (r"Current minimum expected timestamp", "timestamp"),
    (r"is required but was not provided", "missing side packet"),
    (r"was requested", "type"),
    (r"must be the only Packet", "not alone"),
]


def kind_of(error):
    text = str(error)
    for pattern, kind in KINDS:
        if re.search(pattern, text):
            return kind
    return "error"


def make_packet(mp, value):
    (type_name, plain), *_ = value.items()
    creator = {
        "int": mp.packet_creator.create_int,
        "bool": mp.packet_creator.create_bool,
        "string": mp.packet_creator.create_string,
        "float": mp.packet_creator.create_float,
        "int64": mp.packet_creator.create_int64,
        "uint64": mp.packet_creator.create_uint64,
        "double": mp.packet_creator.create_double,
    }[type_name]
    return creator(plain)


# The packet's type has no registered name, so each type is tried.
def read_packet(mp, packet):
    if packet.is_empty():
        return None
    getters = mp.packet_getter
    for name, getter in [
        ("bool", getters.get_bool),
        ("string", getters.get_str),
        ("int", getters.get_int),
        ("float", getters.get_float),
    ]:
        try:
            return {name: getter(packet)}
        except Exception:
            continue
    return {"other": True}


class Replay:
    def __init__(self, mp, case):
        self.mp = mp
        self.case = case
        self.lock = threading.Lock()
        self.packets = {name: [] for name in case["outputs"]}
        self.texts = []
        self.idles = 0

    def observe(self, name, packet):
        with self.lock:
            self.packets[name].append([packet.timestamp.value, read_packet(self.mp, packet), self.idles])

    def attempt(self, where, action):
        """Returns whether the action succeeded; the answer's end is the first failure."""
        try:
            action()
            return True
        except Exception as error:
            self.texts.append(str(error))
            if self.end is None:
                self.end = {"where": where, "kind": kind_of(error), "failed_in": self.idles}
            return False

    def run(self):
        mp, case = self.mp, self.case
        self.end = None

        def load():
            self.graph = mp.CalculatorGraph(graph_config=case["graph"])
            for name in case["outputs"]:
                self.graph.observe_output_stream(name, self.observe)

        side_packets = {name: make_packet(mp, value) for name, value in case.get("side_packets", {}).items()}
        if self.attempt("load", load) and self.attempt("start", lambda: self.graph.start_run(side_packets)):
            for step in case["steps"]:
                if not self.attempt("run", lambda step=step: self.step(step)):
                    break
            self.attempt("run", self.graph.close_all_packet_sources)
            self.attempt("run", self.graph.wait_until_done)
        answer = {"end": self.end or {"kind": "ok"}, "outputs": self.packets}
        if os.environ.get("TEXTS"):
            answer["texts"] = self.texts
        return answer

    def step(self, step):
        what = step[0]
        if what == "add":
            _, stream, at, value = step
            self.graph.add_packet_to_input_stream(stream, make_packet(self.mp, value).at(at))
        elif what == "close":
            self.graph.close_input_stream(step[1])
        elif what == "idle":
            self.graph.wait_until_idle()
            self.idles += 1


def main():
    # The framework prints to standard output and error, so answers have a separate descriptor.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    if not os.environ.get("TEXTS"):
        os.dup2(quiet, 2)
    import mediapipe as mp

    for line in sys.stdin:
        signal.alarm(CASE_SECONDS)
        answers.write(json.dumps(Replay(mp, json.loads(line)).run()) + "\n")
        signal.alarm(0)
    answers.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
