"""Runs cases on both sides, says whether the answers mean the same, and makes a case that differs small."""

import copy
import json
import subprocess
import sys

from generator import for_runners


class Runner:
    """A program that answers one case a line; started again when it has ended within one."""

    def __init__(self, command):
        self.command = command
        self.process = None

    def ask(self, case):
        """The answer; None when the program ended without one."""
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
    """What of an answer is compared: the end, and each output's packets. A run that failed by itself may or may not
    have brought what was on its way; without waits nobody knows when a packet came."""
    if answer is None:
        return {"end": {"kind": "no answer"}, "outputs": {}}
    fields = ("where", "kind", "failed_in") if waits else ("where", "kind")
    end = {key: answer["end"][key] for key in fields if key in answer["end"]}
    if end["kind"] == "type":
        del end["where"]  # whether a type is known before the run is left to each side
    before = answer["end"].get("failed_in", sys.maxsize) if waits or end["kind"] == "ok" else 0
    outputs = {
        name: [packet[: 3 if waits else 2] for packet in packets if packet[2] < before]
        for name, packets in answer["outputs"].items()
    }
    return {"end": end, "outputs": outputs}


def agrees(real, ours, waits):
    """Whether our answer is the framework's, but for what differs on purpose."""
    if real is not None and real["end"].get("where") == "start" and real["end"]["kind"] == "type":
        # A type that is known only by way of calculators which take any: found when the packet comes, if one does.
        return ours is not None and ours["end"]["kind"] in ("type", "ok")
    return meaning(ours, waits) == meaning(real, waits)


def signature(difference):
    """What stays the same while a case is made smaller."""
    return [answer and [answer["end"].get("where"), answer["end"]["kind"]] for answer in difference]


def waits_of(case):
    return ["idle"] in case["steps"]


def minimise(case, differs):
    """A case with fewer steps, nodes and inputs for which differs(case) holds still."""
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
                # A step goes with the wait behind it.
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
