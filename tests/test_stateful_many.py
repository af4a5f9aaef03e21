"""Five hundred concurrent sequences get the same answers as each one alone: normally, over a restart, and while clients
disconnect."""

import os
import pathlib
import queue

import numpy as np
import openvino as ov
import pytest
from harness import sequences as many
from harness import stateful_models as models
from harness.ovms import OvmsServer
from harness.waiting import wait_until
from openvino._offline_transformations import apply_low_latency_transformation

SEQUENCES, INPUTS, HIDDEN = 500, 3, 5


@pytest.fixture(scope="module", params=[10, pytest.param(100, marks=pytest.mark.campaign)])
def steps(request):
    """The number of steps of each sequence."""
    return request.param


@pytest.fixture(scope="module")
def inputs(steps):
    return np.random.default_rng(11).standard_normal((SEQUENCES, steps, 1, 1, INPUTS)).astype(np.float32)


@pytest.fixture(scope="module")
def alone(inputs, steps):
    """[sequences, steps, hidden]: OpenVINO's answers to each sequence with its own variables."""
    network = models.lstm_model(inputs=INPUTS, hidden=HIDDEN)
    apply_low_latency_transformation(network, use_const_initializer=True)
    request = ov.Core().compile_model(network, "CPU", models.EXACT).create_infer_request()
    answers = np.empty((SEQUENCES, steps, HIDDEN), np.float32)
    for which in range(SEQUENCES):
        request.reset_state()
        for step in range(steps):
            answers[which, step] = request.infer({0: inputs[which, step]})[0].ravel()
    return answers


@pytest.fixture
def serve(tmp_path):
    network = models.lstm_model(inputs=INPUTS, hidden=HIDDEN)
    settings = {"low_latency_transformation": True, "nireq": 3}
    config = models.write_config(tmp_path, {"lstm": (network, settings)})
    return lambda *options: OvmsServer(config, *options, workdir=tmp_path)


def counts(server):
    return many.sequence_counts(server, "lstm")


def test_interleaved_as_alone(serve, inputs, alone, steps):
    with serve() as server:
        run = many.Sequences("lstm", inputs)
        run.run(server.grpc, steps)
        np.testing.assert_array_equal(np.array(run.answers), alone)
        assert counts(server) == {
            "active": 0,
            "started": SEQUENCES,
            "restored": 0,
            "ended": SEQUENCES,
            "expired": 0,
            "lost": 0,
            "rejected": 0,
        }


def test_restart_in_the_middle(serve, tmp_path, inputs, alone, steps):
    run = many.Sequences("lstm", inputs, seed=2)
    options = ["--sequence_state_path", tmp_path / "states"]
    with serve(*options) as server:
        run.run(server.grpc, steps // 2)
    with serve(*options) as server:
        assert counts(server)["active"] == counts(server)["restored"] == SEQUENCES
        run.run(server.grpc, steps)
        assert counts(server)["active"] == 0
    np.testing.assert_array_equal(np.array(run.answers), alone)


def test_one_stream_without_waiting(serve, inputs, alone, steps):
    """The steps of a sequence are sent one after the other, before any is answered."""
    some = 20
    order = np.random.default_rng(3).permutation(np.repeat(np.arange(some), steps))
    replies = queue.SimpleQueue()
    sent = [0] * some
    with serve() as server, many.streams(server.grpc, 1, replies) as [stream]:
        for which in order:
            step = sent[which]
            sent[which] += 1
            x = inputs[which, step]
            name = f"{which} {step}"
            stream.send(many.request("lstm", which + 1, x, step == 0, step == steps - 1, request_id=name))
        for _ in order:
            name, answer = replies.get(timeout=60)
            which, step = map(int, name.split())
            np.testing.assert_array_equal(np.frombuffer(answer["y"], np.float32), alone[which, step])


def resident_bytes(server):
    fields = pathlib.Path(f"/proc/{server.process.pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


# Abandoned sequences are removed after two to four seconds. Growth of memory shows between rounds.
@pytest.mark.parametrize("rounds", [1, pytest.param(3, marks=pytest.mark.campaign)])
def test_a_third_of_the_clients_vanishes(serve, inputs, alone, steps, rounds):
    """The remaining clients get the same answers as alone; the sequences of the others are removed, and memory does not
    grow."""
    stay = [which for which in range(SEQUENCES) if which % 3]
    leave = [which for which in range(SEQUENCES) if which % 3 == 0]
    steps = min(steps, 30)
    after = []
    with serve("--sequence_cleaner_poll_wait_seconds", "2") as server:
        for index in range(rounds):
            run = many.Sequences("lstm", inputs[:, :steps], seed=5 + index)
            run.run(server.grpc, 5)
            gone = many.Stream(server.grpc, queue.SimpleQueue())
            for which in leave:
                gone.send(run.message(which))
            gone.vanish()
            run.run(server.grpc, steps, of=stay)
            np.testing.assert_array_equal(np.array([run.answers[which] for which in stay]), alone[stay, :steps])
            wait_until(lambda: counts(server)["active"] == 0, 30, "the end of what clients have left")
            after.append(resident_bytes(server))
        found = counts(server)
        assert found["started"] == rounds * SEQUENCES
        assert found["ended"] == rounds * len(stay)
        assert found["expired"] == rounds * len(leave)
    # A leaked state would be 200 bytes and its bookkeeping as much again: 170 sequences a round. The allocator's pages
    # vary by more than that, so only growth from round to round counts.
    assert after[-1] - after[0] < 4 << 20, after
