"""Replays a recording against two builds of the server; see README.md."""

import argparse
import collections
import concurrent.futures
import fnmatch
import json
import math
import multiprocessing
import pathlib
import signal
import time

from replay.calls import may_be_mutated, method_name
from replay.player import Player, request_name
from replay.recording import Blobs, Session, file_name, sessions
from replay.unrecorded import UNRECORDED

MUTATED_SESSIONS = 40


class Interrupted(BaseException):
    """Ends a worker's session: its servers are stopped and its files removed."""


class Worker:
    """Whether this process plays a session, and whether a signal has interrupted it."""

    playing = False
    interrupted = False

    @classmethod
    def begin(cls):
        # A signal from the keyboard reaches all processes; the first process decides.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, cls.interrupt)

    @classmethod
    def interrupt(cls, *_):
        first, cls.interrupted = not cls.interrupted, True
        if first and cls.playing:
            raise Interrupted


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="replay", description="Plays a recording against two builds of the server and compares what they answer."
    )
    parser.add_argument("recording", type=pathlib.Path)
    parser.add_argument("--old", required=True, type=pathlib.Path, help="the server that is right")
    parser.add_argument("--new", required=True, type=pathlib.Path, help="the server that is judged")
    parser.add_argument(
        "--mutations",
        type=int,
        default=0,
        help="send about so many mutated requests, in sessions chosen for their variety",
    )
    parser.add_argument("--seed", type=int, default=1, help="what the mutations are drawn from")
    parser.add_argument("--only", default="", help="only sessions whose names contain this")
    parser.add_argument("--jobs", type=int, default=2, help="sessions at a time")
    parser.add_argument(
        "--pause", type=float, default=0.1, help="the longest pause between requests that is kept, in seconds"
    )
    parser.add_argument(
        "--again",
        type=int,
        default=2,
        help="how often a session with differences is played again; those that do not come again are listed as unstable",
    )
    parser.add_argument("--show", type=int, default=20, help="differences to print")
    parser.add_argument("--report", type=pathlib.Path, help="write all results to this file, as JSON")
    return parser.parse_args(arguments)


def left_out(path):
    """Whether a session's first test is excluded from recordings; the list may have grown since."""
    return any(fnmatch.fnmatchcase(path.name, file_name(pattern) + "*") for pattern in UNRECORDED)


def features(path, blobs):
    """Returns (the features of a session for mutation, the number of its mutable requests)."""
    session, found, count = Session.load(path), set(), 0
    file = pathlib.Path(path).name.partition(".py")[0]
    ends = {event["n"]: event["code"] for event in session.events if event["e"] == "end"}
    sizes = collections.Counter(event["n"] for event in session.events if event["e"] == "message")
    for event in session.events:
        if event["e"] != "begin" or event["n"] not in ends:
            continue
        data = blobs.get(event["data"]) if "data" in event else b""
        if (
            not may_be_mutated(event, data)
            or ("data" not in event and not 0 < sizes[event["n"]] <= 16)
            or len(data) > 1 << 18
        ):
            continue
        count += 1
        if event["kind"] == "grpc":
            what = method_name(event["method"])
        else:
            what = request_name(event, data).rpartition("/")[2] + str(b"inference-header" in data.lower())
            what = what.rpartition(":")[2]
        found.add((file, what if len(what) < 40 else what[:10]))
        found.add((file, what[:10], ends[event["n"]]))
    return found, count


def chosen(paths, blobs, limit):
    """Returns {path: mutable requests} of a few sessions that cover most features."""
    known = {path: features(path, blobs) for path in paths}
    picked, covered = {}, set()
    while len(picked) < limit:
        best = max(
            (p for p in paths if p not in picked and known[p][1]),
            key=lambda p: len(known[p][0] - covered),
            default=None,
        )
        if best is None or (picked and not known[best][0] - covered):
            break
        picked[best] = known[best][1]
        covered |= known[best][0]
    return picked


def play(path, options, mutations):
    """Plays one session, and repeats it until it is clear which differences are stable."""

    def once():
        if Worker.interrupted:
            raise Interrupted
        return Player(
            path, (options.old, options.new), options.recording, options.pause, mutations, options.seed
        ).play()

    Worker.playing = True
    result = once()
    for _ in range(options.again):
        if not result.differences and not result.problem:
            break
        again = once()
        keys = {each.key for each in again.differences}
        result.unstable += [each for each in result.differences if each.key not in keys]
        result.differences = [each for each in result.differences if each.key in keys]
        result.problem = result.problem and again.problem
    Worker.playing = False
    return result


def main(arguments=None):
    options = parse(arguments)
    for each in (options.old, options.new):
        if not each.exists():
            raise SystemExit(f"{each} does not exist")
    options.old, options.new = options.old.resolve(), options.new.resolve()
    paths = [path for path in sessions(options.recording) if options.only in path.name and not left_out(path)]
    if not paths:
        raise SystemExit(f"no session in {options.recording}")
    work = dict.fromkeys(paths, 0)
    if options.mutations:
        picked = chosen(paths, Blobs(options.recording), MUTATED_SESSIONS)
        # The same number for each session: one with few requests gets more mutations of each.
        work = {path: math.ceil(options.mutations / len(picked) / count) for path, count in picked.items()}
    start = time.monotonic()
    results = []
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    context = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(options.jobs, mp_context=context, initializer=Worker.begin)
    running = [pool.submit(play, path, options, count) for path, count in work.items()]
    try:
        for done in concurrent.futures.as_completed(running):
            result = done.result()
            results.append(result)
            marks = [f"{len(result.differences)} DIFFERENCES"] if result.differences else []
            marks += [f"{len(result.unstable)} unstable"] if result.unstable else []
            marks += [result.problem] if result.problem else []
            print(
                f"[{len(results)}/{len(work)}] {result.session}: {result.compared} answers, {result.seconds:.1f} s {', '.join(marks)}",
                flush=True,
            )
    except KeyboardInterrupt:
        print("interrupted: what follows is of the sessions above", flush=True)
    finally:
        complete = all(each.done() for each in running)
        if not complete:
            for each in running:
                each.cancel()
            for each in multiprocessing.active_children():
                each.terminate()
        pool.shutdown()
    found = report(results, options, time.monotonic() - start)
    return found if complete else 2


def report(results, options, seconds):
    differences = [each for result in results for each in result.differences]
    unstable = [each for result in results for each in result.unstable]
    problems = [f"{result.session}: {result.problem}" for result in results if result.problem]
    for title, found in (("difference", differences), ("unstable", unstable)):
        for number, each in enumerate(found[: options.show], 1):
            print(f"\n{title} {number} of {len(found)}: {each}")
    for each in problems:
        print(f"\nnot played: {each}")
    codes = collections.Counter()
    for result in results:
        codes.update(result.codes)
    print(f"\ncodes: {', '.join(f'{code} {count}' for code, count in sorted(codes.items()))}")
    print(
        f"{len(results)} sessions, {sum(r.compared for r in results)} answers compared, {sum(r.mutated for r in results)} of them to "
        f"mutated requests ({sum(r.silent for r in results)} without an answer from either), in {seconds:.0f} s: "
        f"{len(differences)} differences, {len(unstable)} unstable, {len(problems)} sessions not played"
    )
    if options.report:
        options.report.write_text(
            json.dumps(
                {
                    "differences": [vars(each) for each in differences],
                    "unstable": [vars(each) for each in unstable],
                    "problems": problems,
                },
                indent=1,
            )
        )
    return 1 if differences or problems else 0
