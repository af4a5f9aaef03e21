"""Limits for user code that does not return, and stalled threads of the server."""

import concurrent.futures
import contextlib
import fcntl
import json
import os
import re
import signal
import threading
import time

import numpy as np
import pytest
from harness.clients import strings
from harness.graphs import config as graphs_config
from harness.graphs import single
from harness.graphs import tensor as graph_tensor
from harness.repository import config, per_request
from harness.server import Server, alive
from harness.waiting import wait_until
from tritonclient.utils import InferenceServerException

TEXT = [("IN", "STRING", [1])]
OUT = [("OUT", "STRING", [1])]

# "hang" and "busy" do not return, and "busy" keeps the GIL; "late" takes 1.1 s.
SOURCE = (
    per_request("""
    text = get(request, "IN")[0].decode()
    if text == "hang":
        hang_here()
    if text == "busy":
        busy_here()
    if text == "late":
        time.sleep(1.1)
    return respond(OUT=np.array([f"{text} {os.getpid()}".encode()], dtype=object))
""")
    + """

def hang_here():
    import threading
    threading.Event().wait()


def busy_here():
    import re
    re.match("(a+)+$", "a" * 64 + "b")
"""
)

PATIENCE = 20


def limit_of(model, milliseconds):
    return (
        f"execute() of model '{model}' has not answered for {milliseconds} ms in instance '{model}_0' "
        "(--execute-timeout-ms, EXECUTE_TIMEOUT_MS)"
    )


def parameter(key, value):
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}'


def ask(client, text="x", model="m"):
    """Returns the answer of a model of SOURCE, and its process."""
    answered, pid = client.infer(model, {"IN": strings(text)}).as_numpy("OUT")[0].decode().rsplit(" ", 1)
    assert answered == text
    return int(pid)


def timeouts(server, model):
    return server.metric_values().get(
        f'braid_worker_execute_timeouts_total{{instance="{model}_0",model="{model}",version="1"}}'
    )


# Each protocol and each way once, because the protocol does not affect how an execute() ends.
@pytest.mark.parametrize(
    ("how", "protocol"),
    [
        ("hang", "http"),
        ("busy", "grpc"),
        pytest.param("hang", "grpc", marks=pytest.mark.campaign),
        pytest.param("busy", "http", marks=pytest.mark.campaign),
    ],
)
def test_an_execute_that_does_not_come_back_fails_and_its_process_is_started_anew(
    repository, serve, connect, protocol, how
):
    repository.add("m", SOURCE, config("m", TEXT, OUT))
    server = serve(repository, "--execute-timeout-ms=1000")
    client = connect(protocol, server)
    before = ask(client)
    assert timeouts(server, "m") == 0
    began = time.monotonic()
    with client.fails("UNAVAILABLE", text=limit_of("m", 1000)):
        ask(client, how)
    assert 1 <= time.monotonic() - began < PATIENCE
    # The next request goes to the fresh process.
    assert ask(client) != before
    assert not alive(before)
    log = server.log
    told, stack, ended = (
        log.index(limit_of("m", 1000) + "; its stacks follow"),
        log.index(f" in {how}_here"),
        log.index("It was ended because " + limit_of("m", 1000)),
    )
    assert told < stack < ended
    assert timeouts(server, "m") == 1


def test_what_waits_goes_on_with_the_fresh_process_and_nothing_is_answered_twice(repository, serve, connect):
    repository.add("m", SOURCE, config("m", TEXT, OUT))
    server = serve(repository, "--execute-timeout-ms=1000")
    before = ask(connect("http", server))

    def one(index):
        client = connect("grpc", server)
        text = "hang" if index == 7 else f"number {index}"
        try:
            return ask(client, text)
        except InferenceServerException as error:
            return error.message()

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        outcomes = list(pool.map(one, range(32)))
    assert outcomes[7] == limit_of("m", 1000)
    del outcomes[7]
    assert all(isinstance(outcome, int) for outcome in outcomes), outcomes
    assert len(set(outcomes) - {before}) == 1
    statistics = server.json("GET", "/v2/models/m/stats")[1]["model_stats"][0]["inference_stats"]
    assert (statistics["success"]["count"], statistics["fail"]["count"]) == (32, 1)


def test_an_execute_that_comes_back_a_little_late_costs_its_requests_alone(repository, serve, connect):
    repository.add("m", SOURCE, config("m", TEXT, OUT))
    server = serve(repository, "--execute-timeout-ms=1000")
    client = connect("grpc", server)
    before = ask(client)
    with client.fails("UNAVAILABLE", text=limit_of("m", 1000)):
        ask(client, "late")
    server.wait_for_log(r"instance 'm_0' has returned")
    assert ask(client) == before


def test_a_model_has_its_own_limit(repository, serve, connect):
    repository.add("m", SOURCE, config("m", TEXT, OUT))
    repository.add("none", SOURCE, config("none", TEXT, OUT, extra=parameter("EXECUTE_TIMEOUT_MS", 0)))
    repository.add("own", SOURCE, config("own", TEXT, OUT, extra=parameter("EXECUTE_TIMEOUT_MS", 20000)))
    server = serve(repository, "--execute-timeout-ms=1000")
    clients = {model: connect("http", server) for model in ("m", "none", "own")}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        answers = [pool.submit(ask, clients[model], "late", model) for model in ("none", "own")]
        with clients["m"].fails("UNAVAILABLE", text=limit_of("m", 1000)):
            ask(clients["m"], "late")
        assert all(answer.result(PATIENCE) for answer in answers)


def test_a_process_that_stands_still_before_it_begins_loses_nothing(repository, serve, connect):
    repository.add("m", SOURCE, config("m", TEXT, OUT))
    server = serve(repository, "--execute-timeout-ms=1000")
    client = connect("grpc", server)
    before = ask(client)
    os.kill(before, signal.SIGSTOP)
    # It was handed to the process, but never reached user code.
    assert ask(client, "after all") != before


ASYNC = """
import asyncio
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    async def execute(self, requests):
        for request in requests:
            if pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0] == b"hang":
                await asyncio.Event().wait()
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor("OUT", pb_utils.get_input_tensor_by_name(request, "IN").as_numpy())]
            )
            for request in requests
        ]
"""


def test_an_asynchronous_execute_has_the_limit_too(repository, serve, connect):
    repository.add("m", ASYNC, config("m", TEXT, OUT))
    server = serve(repository, "--execute-timeout-ms=1000")
    client = connect("grpc", server)
    with client.fails("UNAVAILABLE", text=limit_of("m", 1000)):
        client.infer("m", {"IN": strings("hang")})
    assert client.infer("m", {"IN": strings("x")}).as_numpy("OUT")[0] == b"x"


# Sends N responses, a quarter of a second apart, from a thread. "quiet" sends neither more responses nor the end.
DECOUPLED = """
import threading, time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            text = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy().reshape(-1)[0].decode()
            threading.Thread(target=self.answer, args=(text, request.get_response_sender()), daemon=True).start()

    def answer(self, text, sender):
        for number in range(int(text.split()[0])):
            time.sleep(0.25)
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([str(number)], dtype=object))]))
        if "quiet" in text:
            quiet_here()
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


def quiet_here():
    threading.Event().wait()
"""


def streamed(server, text):
    body = json.dumps({"IN": text})
    status, _, answer = server.request("POST", "/v2/models/m/generate_stream", body)
    assert status == 200
    events = [json.loads(line.removeprefix("data: ")) for line in answer.decode().splitlines() if line]
    return [event.get("OUT", event.get("error")) for event in events]


def test_the_limit_of_a_decoupled_model_is_for_each_response(repository, serve):
    repository.add("m", DECOUPLED, config("m", TEXT, OUT, extra="model_transaction_policy { decoupled: true }"))
    server = serve(repository, "--execute-timeout-ms=1000")
    # Longer in total than the limit.
    assert streamed(server, "6") == [str(number) for number in range(6)]
    assert timeouts(server, "m") == 0
    assert streamed(server, "2 quiet") == ["0", "1", limit_of("m", 1000)]
    server.wait_for_log(r" in quiet_here")
    server.wait_for_log(r"instance 'm_0' is back")
    assert streamed(server, "1") == ["0"]


NODE = """
    import threading
    import numpy as np
    from pyovms import Tensor

    class OvmsPythonModel:
        def execute(self, inputs):
            values = np.array(inputs[0])
            if values[0] < 0:
                hang_here()
            return [Tensor("out", values + 1)]


    def hang_here():
        threading.Event().wait()
"""


def test_a_python_node_has_the_limit_of_the_option(tmp_path, connect):
    folder = tmp_path / "graphs"
    (tmp_path / "config.json").write_text(json.dumps(graphs_config(single(folder, "graph", NODE))))
    with Server([], "--config_path", tmp_path / "config.json", "--execute-timeout-ms=1000", workdir=tmp_path) as server:
        client = connect("grpc", server)

        def run(value):
            answer = client.raw.infer("graph", [graph_tensor("in", np.array([value], np.float32))])
            return answer.as_numpy("out").tolist()

        assert run(1) == [2]
        text = "execute() of a Python node of graph 'graph' has not answered for 1000 ms (--execute-timeout-ms)"
        with pytest.raises(InferenceServerException, match=re.escape(text)):
            run(-1)
        server.wait_for_log(r" in hang_here")
        server.wait_for_log(r"the Python worker of graph 'graph' is back")
        assert run(2) == [3]


HANGS = """
import threading


class TritonPythonModel:
    def {method}(self{arguments}):
        {method}_hangs_here()

    def execute(self, requests):
        return []


def {method}_hangs_here():
    threading.Event().wait()
"""


def test_a_model_that_does_not_initialize_in_time_is_not_loaded(repository, serve):
    repository.add("m", HANGS.format(method="initialize", arguments=", args"), config("m", TEXT, OUT))
    server = serve(repository, "--model-control-mode=explicit", "--initialize-timeout-ms=400")
    status, answer = server.json("POST", "/v2/repository/models/m/load")
    text = "instance 'm_0' has not been initialised within 400 ms (--initialize-timeout-ms, INITIALIZE_TIMEOUT_MS)"
    assert status != 200
    assert text in answer["error"]
    log = server.log
    assert log.index(text + "; its stacks follow") < log.index(" in initialize_hangs_here")


def test_a_model_that_does_not_complete_its_configuration_in_time_is_not_loaded(repository, serve):
    source = HANGS.format(method="auto_complete_config", arguments="").replace(
        "    def auto", "    @staticmethod\n    def auto"
    )
    text = config("m", TEXT, OUT, extra=parameter("INITIALIZE_TIMEOUT_MS", 400))
    repository.add("m", source.replace("(self)", "(config)"), text)
    server = serve(repository, "--model-control-mode=explicit")
    status, answer = server.json("POST", "/v2/repository/models/m/load")
    assert status != 200
    assert "model 'm' has not completed its configuration within 400 ms" in answer["error"]
    server.wait_for_log(r" in auto_complete_config_hangs_here")


def test_a_model_that_does_not_finalize_in_time_is_ended(repository, serve):
    repository.add("m", HANGS.format(method="finalize", arguments=""), config("m", TEXT, OUT))
    server = serve(repository, "--model-control-mode=explicit", "--load-model=m", "--finalize-timeout-ms=400")
    began = time.monotonic()
    assert server.json("POST", "/v2/repository/models/m/unload")[0] == 200
    server.wait_for_log(
        r"instance 'm_0' has not been finalized within 400 ms \(--finalize-timeout-ms, FINALIZE_TIMEOUT_MS\)"
    )
    assert time.monotonic() - began < PATIENCE
    assert " in finalize_hangs_here" in server.log


def test_the_stop_of_the_server_shows_what_does_not_end(repository, tmp_path):
    repository.add("m", HANGS.format(method="finalize", arguments=""), config("m", TEXT, OUT))
    with Server([repository.path], "--exit-timeout-secs=2", workdir=tmp_path) as server:
        server.stop()
        assert " in finalize_hangs_here" in server.log
        assert "instance 'm_0' did not end in time and was killed" in server.log


@pytest.mark.parametrize(
    "key", ["EXECUTE_TIMEOUT_MS", "INITIALIZE_TIMEOUT_MS", "FINALIZE_TIMEOUT_MS", "WORKER_MEMORY_MAX_BYTES"]
)
def test_a_limit_that_is_no_number_is_refused(repository, serve, key):
    repository.add("m", SOURCE, config("m", TEXT, OUT, extra=parameter(key, "2s")))
    server = serve(repository, "--model-control-mode=explicit")
    status, answer = server.json("POST", "/v2/repository/models/m/load")
    assert status != 200
    assert f"parameter {key} of model 'm' is '2s'; expected a whole number from 0 (no limit) to " in answer["error"]


def test_a_thread_that_stands_still_is_seen(repository, tmp_path):
    """A stalled thread is reported: the log's reader stops, so the thread that writes to the log stalls."""
    batching = "sequence_batching { max_sequence_idle_microseconds: 60000000 }"
    repository.add("m", SOURCE, config("m", TEXT, OUT, extra=batching))
    pipe = tmp_path / "log"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
    said = bytearray()
    stop = threading.Event()

    def read():
        while not stop.wait(0.01):
            with contextlib.suppress(BlockingIOError):
                said.extend(os.read(reader, 1 << 16))

    def reading():
        stop.clear()
        thread = threading.Thread(target=read)
        thread.start()
        return thread

    def stalls():
        return server.metric_values()['braid_thread_stalls_total{thread="brd-http-0"}']

    begin = {
        "inputs": [{"name": "IN", "datatype": "BYTES", "shape": [1], "data": ["x"]}],
        "parameters": {"sequence_id": 1, "sequence_start": True},
    }
    thread = reading()
    with Server([repository.path], "--log-file", pipe, "--http-thread-count=1", workdir=tmp_path) as server:
        try:
            assert stalls() == 0
            stop.set()
            thread.join()
            # The thread that has read the request logs that a sequence begins anew.
            with contextlib.suppress(TimeoutError):
                while True:
                    server.request("POST", "/v2/models/m/infer", json.dumps(begin), timeout=3)
            # It writes under the model's lock, which a scrape also needs, so the metrics are read afterwards.
            thread = reading()
            wait_until(lambda: b"thread brd-http-0 resumed after " in said, PATIENCE, "the end of the stall")
            assert stalls() >= 1
            text = said.decode(errors="replace")
            assert re.search(r"thread brd-http-0 has stalled for \d+ ms, in:", text)
            # Its stack: the write, and the caller.
            assert "braid::Logger::Write(" in text, text
            assert "braid::SequenceModel::Infer(" in text, text
            server.stop()
        finally:
            stop.set()
            thread.join()
    os.close(reader)
