"""The logic of the bench: table, ratios, verdicts, pages. Starts no server."""

import dataclasses
import json
import pathlib
import socket
import subprocess
import sys
import types

import pytest

BENCH = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCH))

from harness import measure, peer, processes, ratios, report, servers, stages, workloads  # noqa: E402
from harness.ratios import Sample  # noqa: E402

W1 = dataclasses.replace(workloads.select("W1")[0], targets=workloads.load_targets(1.8, 0.55, 0.45))
NO_TARGET = workloads.select("W2j")[0]


def load(throughput=1000.0, p50=100.0, cpu=50.0, errors=0):
    values = {"throughput": throughput, "p50_us": p50, "cpu_us": cpu}
    values |= {"p99_us": 2 * p50, "peak_rss_kb": 1024.0, "peak_pss_kb": 512.0}
    return Sample(values, errors, "boom" if errors else "")


def rounds_of(*subjects):
    return [{"peer": load(), "subject": subject} for subject in subjects]


def verdicts(rounds):
    return {each.metric.key: each.verdict for each in ratios.ratios(W1, rounds) if each.verdict}


# --- the table


def test_workload_ids_differ():
    ids = [each.id for each in workloads.WORKLOADS]
    assert len(ids) == len(set(ids))


def test_workloads_have_the_promised_targets():
    promised = {each.id: tuple(bound for _, bound in each.targets) for each in workloads.WORKLOADS if each.targets}
    assert promised == {
        "W1": (2.4, 0.55, 0.27),
        "W1s": (2.5, 0.55, 0.25),
        "W2": (2.2, 0.7, 0.36),
        "W3": (10.0, 0.35, 0.08),
        "W3h": (8.0, 0.5, 0.12),
        "W4": (2.8, 0.6, 0.28),
        "W4h": (4.0, 0.5, 0.2),
        "W5g": (2.8, 0.65, 0.3),
        "W5h": (5.9, 0.35, 0.12),
        "W6": (4.0, 0.25, 0.25),
        "W7": (4.0, 0.4, 0.22),
        "W7a": (2.5, 0.4, 0.4),
        "W8": (3.0, 0.6, 0.28),
        "W9": (1.7, 0.6, 0.5),
        "W10": (2.5, 0.8, 0.25),
        "W11": (2.5, 0.4, 0.4),
        "W12": (0.25, 0.4),
        "W13": (4.0, 0.4, 0.22),
    }


def test_targets_name_metrics_of_their_workload():
    for workload in workloads.WORKLOADS:
        assert {key for key, _ in workload.targets} <= {metric.key for metric in workload.metrics}


def test_workloads_use_models_that_exist():
    for workload in workloads.WORKLOADS:
        models = workload.models if isinstance(workload, workloads.LoadWorkload) else (workload.model,)
        for model in models:
            folder = BENCH / "models" / (model.partition("=")[2] or model)
            assert (folder / "config.pbtxt").exists()


def test_workloads_beside_the_floor_have_the_promised_targets():
    promised = {each.id: dict(each.targets)["cpu_us"] for each in workloads.FLOOR_WORKLOADS}
    small = dict.fromkeys(("W1", "W1s", "W2", "W2j"), 1.25)
    many = dict.fromkeys(("W3", "W3h", "W3-64", "W3h-64", "W3-256", "W3h-256"), 1.5)
    assert promised == {**small, **many, "W4": 1.15, "W4h": 1.15, "W5g": 1.1, "W5h": 1.1}
    assert workloads.select("W3h-256", workloads.FLOOR_WORKLOADS)[0].concurrency == 256


def test_selection_keeps_the_order_of_the_table():
    assert [each.id for each in workloads.select("W4, W1")] == ["W1", "W4"]
    assert workloads.select("") == list(workloads.WORKLOADS)


def test_selection_refuses_unknown_names():
    with pytest.raises(ValueError, match="W99"):
        workloads.select("W1,W99")


# --- ratios and verdicts


def test_ratio_is_taken_within_each_round():
    # The machine was twice as fast in the second round; the ratio is 2 in each round.
    rounds = [
        {"peer": load(throughput=1000), "subject": load(throughput=2000)},
        {"peer": load(throughput=2000), "subject": load(throughput=4000)},
    ]
    assert ratios.round_ratios(rounds, workloads.THROUGHPUT) == [2.0, 2.0]


def test_median_with_smallest_and_largest():
    found = ratios.ratios(W1, rounds_of(load(3000), load(1000), load(2000)))[0]
    assert found.spread == ratios.Spread(2.0, 1.0, 3.0)


def test_targets_bound_throughput_below_and_the_rest_above():
    assert verdicts(rounds_of(load(1800, 55, 22.5))) == {"throughput": "met", "p50_us": "met", "cpu_us": "met"}
    assert verdicts(rounds_of(load(1799, 56, 22.6))) == {"throughput": "missed", "p50_us": "missed", "cpu_us": "missed"}


def test_workload_is_met_when_all_its_targets_are():
    assert ratios.overall(W1, rounds_of(load(2000, 50, 20))) == ratios.MET
    assert ratios.overall(W1, rounds_of(load(2000, 50, 40))) == ratios.MISSED
    assert ratios.overall(NO_TARGET, rounds_of(load())) == ratios.NO_TARGET


def test_an_error_in_any_round_fails_the_workload():
    assert ratios.overall(W1, rounds_of(load(2000, 50, 20), load(9000, 1, 1, errors=1))) == ratios.FAILED


def test_rounds_with_errors_give_no_ratio():
    rounds = rounds_of(load(2000), load(9000, errors=1))
    assert ratios.round_ratios(rounds, workloads.THROUGHPUT) == [2.0]
    assert ratios.ratios(W1, rounds_of(Sample({}, 1, "dead")))[0].verdict == ratios.MISSED


def test_a_missing_side_or_a_zero_peer_gives_no_ratio():
    assert ratios.round_ratios([{"peer": load()}], workloads.THROUGHPUT) == []
    assert ratios.round_ratios([{"peer": load(throughput=0), "subject": load()}], workloads.THROUGHPUT) == []


def test_sides_take_turns():
    assert [ratios.order(["peer", "subject"], index) for index in range(3)] == [
        ["peer", "subject"],
        ["subject", "peer"],
        ["peer", "subject"],
    ]


# --- samples


REPORT = {
    "requests": 10,
    "throughput": 10.0,
    "latency_us": {"p50": 1.0, "p99": 2.0},
    "server_cpu_us_per_request": 3.0,
    "client_cpu_us_per_request": 4.0,
    "peak_rss_kb": 5.0,
    "peak_pss_kb": 6.0,
    "errors": 0,
    "first_error": "",
}


def test_sample_of_a_good_run():
    sample = measure.load_sample(0, json.dumps(REPORT), "", 0)
    assert sample.usable
    assert {metric.key for metric in workloads.LOAD_METRICS} <= set(sample.values)


@pytest.mark.parametrize(
    ("changes", "killed", "reason"),
    [
        ({"errors": 2, "first_error": "wrong data"}, 0, "wrong data"),
        ({"requests": 0}, 0, "no request"),
        ({}, 3, "3 processes"),
    ],
)
def test_sample_of_a_bad_run_is_not_usable(changes, killed, reason):
    sample = measure.load_sample(2, json.dumps({**REPORT, **changes}), "", killed)
    assert not sample.usable
    assert reason in sample.error


def test_sample_without_output_tells_what_the_generator_said():
    assert "no route" in measure.load_sample(1, "", "no route", 0).error


def test_memory_of_a_model_is_the_slope():
    sample = measure.start_sample(
        {1: 1.0, 10: 4.0}, {1: {"pss": 1, "private": 100}, 10: {"pss": 9, "private": 1000}}, 10
    )
    assert sample.values["private_kb_per_model"] == 100
    assert {metric.key for metric in workloads.START_METRICS} == set(sample.values)


# --- the page


@pytest.mark.parametrize(
    ("value", "text"), [(0.123, "0.12"), (9.87, "9.87"), (12.34, "12.3"), (1234.5, "1234"), (0, "0.00")]
)
def test_numbers_are_short(value, text):
    assert report.number(value) == text


def test_page_shows_targets_and_verdicts():
    page = report.document([W1], {"W1": rounds_of(load(2000, 50, 40))}, ["peer", "subject"], [("Date", "today")])
    assert "| 2.00 (2.00-2.00) met | >= 1.8 |" in page
    assert "| 0.80 (0.80-0.80) missed | <= 0.45 | missed |" in page
    assert "| Date | today |" in page
    assert "Failed samples" not in page


def test_page_tells_what_went_wrong():
    page = report.document([W1], {"W1": rounds_of(Sample({}, 1, "dead"))}, ["peer", "subject"], [])
    assert "- W1, round 1, subject: 1 errors. dead" in page
    assert "| failed |" in page


def test_page_of_one_side_has_no_ratios():
    page = report.document([W1], {"W1": [{"peer": load()}]}, ["peer"], [])
    assert "Ratios" not in page
    assert "| peer | 1000 (1000-1000) |" in page


def test_page_leaves_out_what_was_not_measured():
    start = measure.start_sample({1: 1.0, 10: 4.0}, {n: {"pss": 1, "private": n} for n in (1, 10)}, 10)
    results = {"W1": [], "W12": [{"peer": start, "subject": start}]}
    page = report.document([W1, workloads.select("W12")[0]], results, ["peer", "subject"], [])
    assert "W1 add_sub" not in page
    assert "Start and memory" in page


# --- servers and processes


def test_ports_differ_and_are_free():
    ports = servers.free_ports(3)
    assert len(set(ports)) == 3
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", ports[0]))


def test_command_fills_its_placeholders():
    side = servers.CommandSide("subject", "serve '{repo}' {http} {grpc} {metrics} {python}", "py")
    assert side.command("a b", 1, 2, 3, "") == ["serve", "a b", "1", "2", "3", "py"]
    with pytest.raises(KeyError):
        servers.CommandSide("subject", "serve {unknown}", "py")


def test_repository_holds_models_and_copies(tmp_path):
    with servers.repository(BENCH / "models", ["identity", "other=identity"]) as folder:
        there = pathlib.Path(folder)
        assert (there / "other" / "1" / "model.py").read_text() == (there / "identity" / "1" / "model.py").read_text()
    assert not there.exists()


def test_server_that_exits_is_a_sample_with_its_log(tmp_path):
    side = servers.CommandSide("subject", "{python} -c 'import sys; sys.exit(\"no such option\")'", sys.executable)
    settings = types.SimpleNamespace(models=BENCH / "models", root=tmp_path, loadgen="", duration=1, warmup=0)
    sample = measure.measure(W1, side, settings)
    assert not sample.usable
    assert "no such option" in sample.error


def test_ending_kills_what_stays():
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        family = processes.family(child.pid)
        assert list(family) == [child.pid]
        assert processes.end(family, patience_s=0) == 1
    finally:
        child.kill()
        child.wait()
    assert processes.alive(family) == {}
    assert processes.end(family, patience_s=0) == 0


def test_orphans_of_a_dead_server_are_found():
    server = subprocess.Popen(["sh", "-c", "sleep 60 & kill -9 $$"], start_new_session=True)
    server.wait()
    family = processes.family(server.pid)
    assert len(family) == 1
    assert processes.end(family, patience_s=0) == 1


def test_a_number_used_again_is_another_process():
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        family = processes.family(child.pid)
        assert processes.alive(family) == family
        assert processes.alive({pid: start - 1 for pid, start in family.items()}) == {}
    finally:
        child.kill()
        child.wait()


# --- the peer's interpreter


def facts(**changes):
    usual = {
        "executable": "/x/python",
        "version": "3.11",
        "full_version": "3.11.7",
        "library_folder": "/x/lib",
        "can_make_venv": True,
    }
    return peer.InterpreterFacts(**{**usual, **changes})


def test_first_usable_interpreter_is_taken():
    known = {"python3": facts(library_folder=""), "/usr/bin/python3": facts(executable="/usr/bin/python3")}
    assert peer.choose_interpreter(probe=known.get).executable == "/usr/bin/python3"


def test_refusals_say_what_is_missing():
    known = {
        "python3": facts(version="3.9"),
        "/usr/bin/python3": facts(library_folder=""),
        "python3.11": facts(can_make_venv=False),
    }
    with pytest.raises(peer.PeerError) as caught:
        peer.choose_interpreter(probe=known.get)
    text = str(caught.value)
    for part in ("is Python 3.9", "libpython3.11-dev", "python3-venv", "python3.12: does not run"):
        assert part in text


def test_a_named_interpreter_is_the_only_candidate():
    known = {"python3": facts(), "mine": facts(version="3.8")}
    with pytest.raises(peer.PeerError, match="mine"):
        peer.choose_interpreter("mine", probe=known.get)


def test_page_beside_the_floor_has_both_sides_and_the_bound():
    table = [workloads.FLOOR_WORKLOADS[0]]
    page = report.floor_document(table, {"W1": rounds_of(load(500, 150, 60))}, [("Date", "today")])
    assert "| W1 add_sub 16 B, gRPC, c=1 | 1000 | 500 | 0.50 (0.50-0.50) | 100 | 150 | 1.50 (1.50-1.50) |" in page
    assert "| 50.0 | 60.0 | 1.20 (1.20-1.20) met <= 1.25 |" in page


# --- the stages of a request


def test_perfs_counters_are_read():
    lines = ["brd-py-21776;38316;;raw_syscalls:sys_enter;259012087;100.00;;", "x-2-7;9;;instructions:u;1;100.00;;"]
    lines += [
        "braid-21729;<not counted>;;raw_syscalls:sys_enter;0;100.00;;",
        "x-8;<not supported>;;instructions:u;0;1;;",
    ]
    assert stages.parse("\n".join(lines)) == {21776: {"system_calls": 38316}, 7: {"instructions": 9}}


def test_threads_with_one_name_are_one_stage():
    before = {("io", 1): stages.Use(100, 60, 40, 10), ("gone", 9): stages.Use(5, 5, 0, 1)}
    after = {("io", 1): stages.Use(300, 160, 140, 30), ("io", 2): stages.Use(100, 50, 50, 20)}
    found = stages.per_request(before, after, {1: {"system_calls": 30}, 2: {"system_calls": 10}}, 100, 20)
    assert found == {"io": stages.Use(3.0, 1.5, 1.5, 0.4, 2.0, None)}
    assert stages.table(found)[1].split() == ["io", "3.00", "1.50", "1.50", "0.40", "2.00", "-"]


def test_own_threads_are_seen():
    import os

    leader = os.getsid(0)
    assert any(use.cpu_us > 0 for use in stages.snapshot(leader).values())
