"""The simulation of a fleet agrees with results of queueing theory."""

import dataclasses
import pathlib
import statistics
import subprocess
import sys

import pytest

BENCH = pathlib.Path(__file__).resolve().parent.parent / "bench"
sys.path.append(str(BENCH))  # after the tests: both have a package "harness"

from fleet.simulation import Costs, Fleet, Load, Ring, simulate, walls  # noqa: E402

FREE = Costs(front=1e-9, step=0.0, model=1e-3, write=1e-9, read=1e-9, check=0.0, network=0.0)
ONE = Fleet(replicas=1, fronts=1, shards=0, cores=1, zones=1)


def test_one_replica_is_a_queue_with_one_server():
    # M/M/1: the mean time in the system is service / (1 - load).
    outcome = simulate(ONE, Load(500.0, pause=10.0), FREE, seconds=60.0, warm_up=5.0)
    assert statistics.fmean(outcome.latencies) == pytest.approx(2e-3, rel=0.1)
    assert outcome.latency(0.5) == pytest.approx(2e-3 * 0.693, rel=0.1)
    assert outcome.use["replicas"] == pytest.approx(0.5, rel=0.05)
    assert (outcome.failed, outcome.takeovers) == (0, 0)


def test_the_same_seed_is_the_same_run():
    runs = [simulate(ONE, Load(200.0), FREE, seed=seed).latencies for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_a_write_before_the_answer_is_part_of_it():
    costs = dataclasses.replace(FREE, write=5e-3)
    stored = dataclasses.replace(ONE, shards=4)
    before = simulate(stored, Load(50.0), costs).latency(0.5)
    behind = simulate(dataclasses.replace(stored, durable=False), Load(50.0), costs).latency(0.5)
    assert before - behind > 3e-3


def test_a_lost_zone_costs_attempts_and_no_step():
    fleet = Fleet(replicas=6, fronts=3, shards=1, ring=4096)
    steps = simulate(fleet, Load(600.0), FREE, seconds=8.0)
    lost = simulate(fleet, Load(600.0, zone_lost=(2.0, 0)), FREE, seconds=8.0)
    assert lost.failed > 0
    # A third of the sequences moves once: 600 are alive, and some begin before the ended replicas are removed.
    assert 120 < lost.takeovers < 280
    assert len(lost.latencies) == pytest.approx(len(steps.latencies), rel=0.05)
    assert lost.worst[2] > 0.5
    assert lost.worst[7] < 0.1


def test_a_ring_spreads_by_its_places():
    few, many = (max(Ring(100, size).shares(100)) for size in (400, 25_600))
    assert many < 1.3 < 2 < few
    assert sum(Ring(100, 400).shares(100)) == pytest.approx(100)
    ring = Ring(10, 1000)
    moved = [each for each in range(1000) if ring.find(each, set()) != ring.find(each, {3})]
    assert {ring.find(each, set()) for each in moved} == {3}


def test_walls():
    costs = Costs(front=1e-4, step=1e-3, model=1e-3, write=1e-5, check=0.0)
    found = walls(Fleet(replicas=10, fronts=2, shards=1, cores=2, ring=100_000), costs)
    assert found["fronts"] == pytest.approx(40_000)
    assert found["replicas"] == pytest.approx(10_000)
    assert found["store"] == pytest.approx(100_000)
    assert found["the fullest replica"] == pytest.approx(10_000, rel=0.1)


def test_the_command_prints_its_tables():
    command = [sys.executable, BENCH / "run-fleet-model", "--replicas", "3", "--shards", "2", "--model-ms", "20"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert "| 3 | 3 | " in printed
    assert "| replicas | attempts that failed |" in printed
