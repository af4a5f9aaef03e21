"""Runs cases in both implementations, compares the answers, and reduces a case with a difference."""

import copy
import json
import subprocess
import sys

from generator import for_runners


class Runner:
    """A program that answers one case per line; restarted if it ended during a case."""

    def __init__(self, command):
        self.command = command
        self.process = None

    def ask(self, case):
        """Returns the answer; None if the program ended without one."""
        if self.process is None:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        try:
            self.process.stdin.write(json.dumps(case) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if line:
            return json.loads(line)
        self.close()
        return None

    def close(self):
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


def meaning(answer, waits=True):
    """Returns the compared part of an answer: the end, and each output's packets. Packets still on their way at a
    failure may or may not have arrived. Without waits, the arrival time of a packet is unknown."""
    if answer is None:
        return {"end": {"kind": "no answer"}, "outputs": {}}
    fields = ("where", "kind", "failed_in") if waits else ("where", "kind")
    end = {key: answer["end"][key] for key in fields if key in answer["end"]}
    if end["kind"] == "type":
        del end["where"]  # each implementation decides whether it knows a type before the run
    before = answer["end"].get("failed_in", sys.maxsize) if waits or end["kind"] == "ok" else 0
    outputs = {
        name: [packet[: 3 if waits else 2] for packet in packets if packet[2] < before]
        for name, packets in answer["outputs"].items()
    }
    return {"end": end, "outputs": outputs}


def agrees(real, ours, waits):
    """Whether Braid's answer equals the framework's, except for intended differences."""
    if real is not None and real["end"].get("where") == "start" and real["end"]["kind"] == "type":
        # The type is known only through calculators that accept any type. Braid detects the error when a packet
        # arrives, if one does.
        return ours is not None and ours["end"]["kind"] in ("type", "ok")
    return meaning(ours, waits) == meaning(real, waits)


def signature(difference):
    """Returns the part of a difference that must stay the same while a case is reduced."""
    return [answer and [answer["end"].get("where"), answer["end"]["kind"]] for answer in difference]


def waits_of(case):
    return ["idle"] in case["steps"]


def minimise(case, differs):
    """Returns a case with fewer steps, nodes and inputs for which differs(case) still holds."""
    smaller = True
    while smaller:
        smaller = False
        for key in ("nodes", "steps", "inputs", "outputs", "input_side_packets"):
            index = len(case[key]) - 1
            while index >= 0:
                if case[key][index] == ["idle"]:
                    index -= 1
                    continue
                attempt = copy.deepcopy(case)
                # Removes a step together with the wait behind it.
                behind = 2 if key == "steps" and attempt[key][index + 1 : index + 2] == [["idle"]] else 1
                del attempt[key][index : index + behind]
                if attempt["nodes"] and differs(attempt):
                    case = attempt
                    smaller = True
                index -= 1
    return case


def describe(case, real, ours):
    lines = [f"seed {case['seed']}", for_runners(case)["graph"]]
    lines += [f"side packets: {json.dumps(case['side_packets'])}"] if case["side_packets"] else []
    number = 0
    for step in case["steps"]:
        if step == ["idle"]:
            number += 1
        else:
            lines.append(f"  {number}: {json.dumps(step)}")
    for name, answer in (("MediaPipe", real), ("Braid", ours)):
        lines.append(f"{name}: {json.dumps(answer and answer['end'])}")
        for output, packets in (answer or {"outputs": {}})["outputs"].items():
            shown = " ".join(f"{at}:{next(iter((value or {'': None}).values()))}@{wait}" for at, value, wait in packets)
            lines.append(f"  {output}: {shown}")
    return "\n".join(lines)
