"""Business Logic Scripting: models that call other models of the server."""

import concurrent.futures
import contextlib
import json
import os
import signal
import time

import numpy as np
import pytest
from harness.clients import strings
from harness.repository import config, per_request
from harness.waiting import wait_until

# Runs a snippet inside execute and returns its `result` as JSON. A snippet with `await` runs as a coroutine.
PROBE = """
import asyncio, inspect, json, os, textwrap, threading, time
import numpy as np
import triton_python_backend_utils as pb_utils


def tensor(name, value, dtype=np.float32):
    return pb_utils.Tensor(name, np.array(value, dtype=dtype))


def ask(model, inputs=None, outputs=("OUT",), **more):
    inputs = [tensor("IN", [1, 2, 3])] if inputs is None else inputs
    return pb_utils.InferenceRequest(
        model_name=model, requested_output_names=list(outputs), inputs=inputs, **more
    )


def text(response):
    return response.error().message() if response.has_error() else None


def out(response, name="OUT"):
    return pb_utils.get_output_tensor_by_name(response, name).as_numpy()


def of(response):
    if response.has_error():
        return "error: " + response.error().message()
    return {each.name(): each.as_numpy().tolist() for each in response.output_tensors()}


class TritonPythonModel:
    %s execute(self, requests):
        responses = []
        for request in requests:
            code = pb_utils.get_input_tensor_by_name(request, "CODE").as_numpy()[0].decode()
            names = {**globals(), "request": request, "model": self, "result": None}
            exec("%sdef snippet():\\n" + textwrap.indent(code + "\\nreturn result", "    "), names)
            try:
                answer = {"result": %s names["snippet"]()}
            except Exception as error:
                answer = {"error": type(error).__name__, "text": str(error)}
            value = np.array([json.dumps(answer).encode()], dtype=object)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("RESULT", value)]))
        return responses
"""
SYNC_PROBE = PROBE % ("def", "", "")
ASYNC_PROBE = PROBE % ("async def", "async ", "await")

# The sum of each sequence's values so far.
SUMS = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        responses = []
        for request in requests:
            sequence = request.correlation_id()
            if request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START:
                self.sums[sequence] = 0
            self.sums[sequence] += int(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0, 0])
            total = np.array([[self.sums[sequence]]], dtype=np.int32)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", total)]))
        return responses
"""

# Requests overlap in one event loop, which a blocking call delays.
LOOPING = """
import asyncio
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    async def execute(self, requests):
        for request in requests:
            value = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            await asyncio.sleep(0.01)
            text = "end"
            if value[0] > 0:
                inner = pb_utils.InferenceRequest(
                    model_name="bridge",
                    requested_output_names=["TEXT"],
                    inputs=[pb_utils.Tensor("IN", value - 1)],
                ).exec()
                text = inner.error().message() if inner.has_error() else "no cycle"
            response = pb_utils.InferenceResponse([pb_utils.Tensor("TEXT", np.array([text], dtype=object))])
            request.get_response_sender().send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
BRIDGE = per_request(
    """
    call = pb_utils.InferenceRequest(
        model_name="looping", requested_output_names=["TEXT"], inputs=[pb_utils.Tensor("IN", get(request, "IN"))]
    )
    (answer,) = call.exec(decoupled=True)
    return respond(TEXT=pb_utils.get_output_tensor_by_name(answer, "TEXT").as_numpy())
    """
)

PROBE_CONFIG = {"inputs": [("CODE", "STRING", [1])], "outputs": [("RESULT", "STRING", [1])]}

# Returns the facts that it sees of its request.
FACTS = per_request(
    """
    facts = {
        "id": request.request_id(),
        "correlation": request.correlation_id(),
        "flags": request.flags(),
        "timeout": request.timeout(),
        "parameters": json.loads(request.parameters() or "{}"),
        "outputs": sorted(request.requested_output_names()),
        "version": self.args["model_version"],
        "instance": self.args["model_instance_name"],
    }
    return respond(FACTS=np.array([json.dumps(facts).encode()], dtype=object))
    """
)

# Sends as many responses as IN has elements. If the parameter "with" is set, the end comes with the last one.
REPEAT = """
import json
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            values = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            together = json.loads(request.parameters() or "{}").get("with", False)
            for i, value in enumerate(values):
                response = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([value], dtype=np.float32))])
                last = together and i == len(values) - 1
                sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL if last else 0)
            if not together:
                sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return None
"""

# Waits until it is cancelled or IN[0] seconds have passed; returns which happened.
PATIENT = per_request(
    """
    pb_utils.Logger.log_info("patient begins")
    deadline = time.monotonic() + float(get(request, "IN").reshape(-1)[0])
    while time.monotonic() < deadline and not request.is_cancelled():
        time.sleep(0.01)
    if request.is_cancelled():
        pb_utils.Logger.log_info("cancelled in patient")
        return pb_utils.InferenceResponse(error=pb_utils.TritonError("it was cancelled", pb_utils.TritonError.CANCELLED))
    return respond(OUT=get(request, "IN"))
    """
)

DYING = per_request("os._exit(3)")

FAILING = per_request(
    """
    return pb_utils.InferenceResponse(error=pb_utils.TritonError("it says no", pb_utils.TritonError.NOT_FOUND))
    """
)

# Calls the first model in TEXT, with the rest of TEXT; the last model returns its input.
CHAIN = per_request(
    """
    names = get(request, "TEXT")[0].decode().split(",")
    if names == [""]:
        return respond(TEXT=np.array([b"end"], dtype=object))
    rest = np.array([",".join(names[1:]).encode()], dtype=object)
    nested = pb_utils.InferenceRequest(
        model_name=names[0], requested_output_names=["TEXT"], inputs=[pb_utils.Tensor("TEXT", rest)]
    )
    time.sleep(self.args.get("pause", 0.0))
    response = nested.exec()
    if response.has_error():
        answer = "error: " + response.error().message()
    else:
        answer = self.args["model_name"] + "," + pb_utils.get_output_tensor_by_name(response, "TEXT").as_numpy()[0].decode()
    return respond(TEXT=np.array([answer.encode()], dtype=object))
    """
)
SLOW_CHAIN = CHAIN.replace('self.args.get("pause", 0.0)', "1.0")
CHAIN_CONFIG = {"inputs": [("TEXT", "STRING", [1])], "outputs": [("TEXT", "STRING", [1])]}


# The ensemble passes TEXT to `a`, and `a` calls the model in TEXT, perhaps the ensemble itself.
AROUND = """
platform: "ensemble"
ensemble_scheduling { step [ {
  model_name: "a" model_version: -1
  input_map { key: "TEXT" value: "TEXT" } output_map { key: "TEXT" value: "OUTER" } } ] }
"""


def instances(count):
    return f"instance_group [ {{ kind: KIND_CPU count: {count} }} ]"


@pytest.fixture(scope="module")
def server(module_repository, module_serve):
    repository = module_repository
    vector = {"inputs": [("IN", "FP32", [-1])], "outputs": [("OUT", "FP32", [-1])]}
    repository.add("probe", SYNC_PROBE, config("probe", **PROBE_CONFIG))
    repository.add("async_probe", ASYNC_PROBE, config("async_probe", **PROBE_CONFIG))
    repository.add_identity("identity")
    repository.add("repeat", REPEAT, config("repeat", **vector, extra="model_transaction_policy { decoupled: true }"))
    repository.add("patient", PATIENT, config("patient", **vector, extra=instances(2)))
    repository.add(
        "queued",
        PATIENT,
        config(
            "queued",
            **vector,
            max_batch_size=4,
            extra="dynamic_batching { default_queue_policy { allow_timeout_override: true } }",
        ).replace("dims: [-1]", "dims: [1]"),
    )
    repository.add("dying", DYING, config("dying", **vector))
    repository.add("failing", FAILING, config("failing", **vector))
    facts = config(
        "facts",
        [("IN", "FP32", [-1])],
        [("FACTS", "STRING", [1]), ("OTHER", "FP32", [1])],
        extra="version_policy { all {} }",
    )
    repository.add("facts", FACTS, facts, versions=(1, 3))
    around = config("around", [("TEXT", "STRING", [1])], [("OUTER", "STRING", [1])], backend=None, extra=AROUND)
    repository.add("around", None, around)
    for name, count in (("a", 1), ("b", 1), ("pair", 2), ("many", 4)):
        source = SLOW_CHAIN if name == "pair" else CHAIN
        repository.add(name, source, config(name, **CHAIN_CONFIG, extra=instances(count)))
    sums = "sequence_batching { oldest { max_candidate_sequences: 4 } max_sequence_idle_microseconds: 20000000 }"
    summing = config("sums", [("IN", "INT32", [1])], [("OUT", "INT32", [1])], max_batch_size=4, extra=sums)
    repository.add("sums", SUMS, summing)
    texts = {"inputs": [("IN", "FP32", [1])], "outputs": [("TEXT", "STRING", [1])]}
    repository.add("looping", LOOPING, config("looping", **texts, extra="model_transaction_policy { decoupled: true }"))
    repository.add("bridge", BRIDGE, config("bridge", **texts))
    return module_serve(repository)


@pytest.fixture
def run(server, connect):
    """run(code) runs a snippet in a model and returns its result."""

    def go(code, model="probe", client=None):
        client = client or connect("grpc", server)
        answer = json.loads(client.infer(model, {"CODE": strings(code)}).as_numpy("RESULT")[0])
        assert "error" not in answer, answer
        return answer["result"]

    return go


@pytest.fixture
def chain(server, connect):
    """chain(model, "b,c") makes the model call b, which calls c."""

    def go(model, text):
        result = connect("grpc", server).infer(model, {"TEXT": strings(text)}, client_timeout=20)
        return result.as_numpy("TEXT")[0].decode()

    return go


# ---- values and properties of requests ---------------------------------------------------------------


def test_a_call_answers_with_the_callees_tensors(run):
    assert run('return of(ask("identity").exec())') == {"OUT": [1, 2, 3]}


def test_elements_of_string_tensors_are_names(run):
    code = """
names = np.array([name.encode() for name in ("identity", "OUT", "id", "facts", "FACTS", "key")], dtype=object)
model, output, identity, facts, fact, key = names
answers = [of(ask(model, outputs=[output]).exec())]
response = ask(facts, outputs=[fact], request_id=identity, correlation_id=key, parameters={key: key}).exec()
answers.append(json.loads(out(response, fact)[0]))
answers.append(pb_utils.is_model_ready(model, b"1"))
try:
    ask(b"caf\\xe9")
except ValueError as error:
    answers.append(str(error))
return answers
"""
    called, facts, ready, refused = run(code)
    assert called == {"OUT": [1, 2, 3]}
    assert facts["id"] == "id"
    assert facts["correlation"] == "key"
    assert facts["parameters"] == {"key": "key"}
    assert ready
    assert refused == r"model_name must be UTF-8, which b'caf\xe9' is not"


def test_large_tensors(run):
    code = """
x = np.arange(1 << 20, dtype=np.float32)
for i in range(5):
    response = ask("identity", [pb_utils.Tensor("IN", x)]).exec()
    x = out(response) + 1
return [x.shape, float(x[0]), float(x[-1])]
"""
    assert run(code) == [[1 << 20], 5.0, (1 << 20) - 1 + 5.0]


def test_a_request_can_be_executed_again_and_from_threads(run):
    code = """
request = ask("identity")
results = []
def one():
    for _ in range(20):
        results.append(of(request.exec()))
threads = [threading.Thread(target=one) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
return [len(results), all(each == {"OUT": [1, 2, 3]} for each in results)]
"""
    assert run(code) == [160, True]


def test_async_calls_are_gathered(run):
    code = """
requests = [ask("identity", [tensor("IN", [i])]) for i in range(50)]
responses = await asyncio.gather(*(each.async_exec() for each in requests))
return [out(each).tolist() for each in responses]
"""
    assert run(code, "async_probe") == [[float(i)] for i in range(50)]


def test_ten_thousand_pending_async_calls(run):
    code = """
requests = [ask("identity", [tensor("IN", [i])]) for i in range(10000)]
responses = await asyncio.gather(*(each.async_exec() for each in requests))
return sum(float(out(each)[0]) for each in responses)
"""
    assert run(code, "async_probe") == 9999 * 5000


def test_what_is_passed_on(run):
    code = """
answers = []
for more in (
    {},
    dict(request_id="id 7", correlation_id=42, flags=pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START),
    dict(correlation_id="name", timeout=12345, parameters={"b": True, "i": -3, "s": "text"}),
):
    response = ask("facts", outputs=["FACTS"], **more).exec()
    answers.append(json.loads(out(response, "FACTS")[0]))
return answers
"""
    plain, numbered, named = run(code)
    assert plain["id"] == ""
    assert plain["correlation"] == 0
    assert plain["flags"] == 0
    assert plain["parameters"] == {}
    assert plain["outputs"] == ["FACTS"]
    assert numbered["id"] == "id 7"
    assert numbered["correlation"] == 42
    assert numbered["flags"] == 1
    assert named["correlation"] == "name"
    assert named["timeout"] == 12345
    assert named["parameters"] == {"b": True, "i": -3, "s": "text"}


def test_versions(run):
    code = """
answers = []
for version in (-1, 1, 3):
    response = ask("facts", outputs=["FACTS"], model_version=version).exec()
    answers.append(json.loads(out(response, "FACTS")[0])["version"])
answers.append(text(ask("facts", outputs=["FACTS"], model_version=2).exec()))
return answers
"""
    assert run(code) == [
        "3",
        "1",
        "3",
        "Model facts - Error when running inference: Request for unknown model: 'facts' version 2 is not found",
    ]


def test_errors(run):
    code = """
return [
    text(ask("nobody").exec()),
    text(ask("repeat").exec()),
    text(ask("identity", []).exec()),
    text(ask("identity", outputs=["NO"]).exec()),
    text(ask("failing").exec()),
    ask("failing").exec().error().code() == pb_utils.TritonError.NOT_FOUND,
    len(ask("failing").exec().output_tensors()),
]
"""
    unknown, decoupled, missing, output, refused, code, outputs = run(code)
    assert unknown == "Model nobody - Error when running inference: Request for unknown model: 'nobody' is not found"
    assert decoupled == (
        "Model repeat - Error when running inference: Model repeat is using the decoupled. The current BLS request "
        "call doesn't support models using the decoupled transaction policy. Please use 'decoupled=True' argument "
        "to the 'exec' or 'async_exec' calls for decoupled models.'"
    )
    assert "expected 1 inputs but got 0 inputs for model 'identity'" in missing
    assert "NO" in output
    assert refused == "it says no"
    assert code
    assert outputs == 0


def test_decoupled_calls(run):
    code = """
three = ask("repeat")
together = ask("repeat", parameters={"with": True})
plain = ask("identity")
return [[of(each) for each in request.exec(decoupled=True)] for request in (three, together, plain)]
"""
    three, together, plain = run(code)
    assert three == [{"OUT": [1]}, {"OUT": [2]}, {"OUT": [3]}, {}]
    assert together == [{"OUT": [1]}, {"OUT": [2]}, {"OUT": [3]}]
    assert plain == [{"OUT": [1, 2, 3]}]


def test_decoupled_async_calls(run):
    code = """
responses = await asyncio.gather(*(ask("repeat").async_exec(decoupled=True) for _ in range(3)))
return [[of(each) for each in each_responses] for each_responses in responses]
"""
    assert run(code, "async_probe") == [[{"OUT": [1]}, {"OUT": [2]}, {"OUT": [3]}, {}]] * 3


def test_nested_calls_are_counted_as_others(run, server, connect):
    client = connect("http", server)

    def count():
        return client.raw.get_inference_statistics("identity")["model_stats"][0]["inference_stats"]["success"]["count"]

    before = count()
    run('for _ in range(5): ask("identity").exec()')
    assert count() == before + 5


def test_chains_over_models(chain):
    assert chain("a", "b") == "a,end"
    assert chain("many", "many,a,many,b,many") == "many,many,a,many,b,end"


def test_a_model_recurses_through_its_instances(chain):
    assert chain("many", "many,many,many") == "many,many,many,end"


# ---- the end of calls ------------------------------------------------------------------------------


def test_a_call_waits_no_longer_than_its_timeout(run):
    code = """
holder = [threading.Thread(target=lambda: ask("queued", [tensor("IN", [[4.0]])]).exec()) for _ in range(1)]
for thread in holder: thread.start()
time.sleep(0.5)
begin = time.monotonic()
answer = text(ask("queued", [tensor("IN", [[0.0]])], timeout=100000).exec())
took = time.monotonic() - begin
for thread in holder: thread.join()
return [answer, took < 3]
"""
    assert run(code) == ["Request timeout expired", True]


def test_the_time_of_a_call_counts_from_the_call(run):
    """A timeout shorter than the way to the callee always expires, even if the callee is idle."""
    code = """
import asyncio
answers = {text(ask("queued", [tensor("IN", [[0.0]])], timeout=5).exec()) for _ in range(20)}
thread = []
async def awaited():
    thread.append(text(await ask("queued", [tensor("IN", [[0.0]])], timeout=5).async_exec()))
other = threading.Thread(target=lambda: asyncio.run(awaited()))
other.start()
other.join()
return [sorted(answers), thread, text(ask("queued", [tensor("IN", [[0.0]])], timeout=60000000).exec())]
"""
    expired = "Request timeout expired"
    answers, thread, last = run(code)
    assert (answers, thread) == ([expired], [expired])
    assert last != expired


def test_cancel_reaches_the_callee(run, server):
    code = """
iterator = ask("patient", [tensor("IN", [20.0])]).exec(decoupled=True)
time.sleep(0.3)
begin = time.monotonic()
iterator.cancel()
answers = [text(each) for each in iterator]
return [answers, time.monotonic() - begin < 5]
"""
    answers, soon = run(code)
    assert soon
    assert answers == ["it was cancelled"]


def test_a_killed_caller_takes_its_calls_with_it(repository, serve, connect):
    vector = {"inputs": [("IN", "FP32", [-1])], "outputs": [("OUT", "FP32", [-1])]}
    repository.add("probe", SYNC_PROBE, config("probe", **PROBE_CONFIG))
    repository.add("patient", PATIENT, config("patient", **vector))
    server = serve(repository)
    client = connect("grpc", server)
    first = "result = os.getpid()"
    pid = json.loads(client.infer("probe", {"CODE": strings(first)}).as_numpy("RESULT")[0])["result"]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        code = 'return of(ask("patient", [tensor("IN", [60.0])]).exec())'
        waiting = pool.submit(connect("http", server).infer, "probe", {"CODE": strings(code)})
        server.wait_for_log("patient begins")
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(
            Exception, match="Stub process 'probe' is not healthy|Stub process 'probe_0' is not healthy"
        ):
            waiting.result(20)
    server.wait_for_log("cancelled in patient")
    # Both serve again.
    answer = wait_until(
        lambda: _try(client, 'return of(ask("patient", [tensor("IN", [0.0])]).exec())'), what="a restart"
    )
    assert answer == {"result": {"OUT": [0.0]}}


def _try(client, code):
    with contextlib.suppress(Exception):
        return json.loads(client.infer("probe", {"CODE": strings(code)}).as_numpy("RESULT")[0])
    return None


def test_a_callee_that_dies_is_an_error(run):
    answer = run('return text(ask("dying").exec())')
    assert answer.startswith("Stub process 'dying")
    assert "is not healthy" in answer
    assert run('return of(ask("identity").exec())') == {"OUT": [1, 2, 3]}


def test_calls_in_flight_end_before_the_server_does(repository, serve, connect):
    repository.add("probe", SYNC_PROBE, config("probe", **PROBE_CONFIG))
    repository.add_identity("identity")
    server = serve(repository)
    code = """
print("it has begun", flush=True)
for i in range(20):
    time.sleep(0.05)
    answer = of(ask("identity").exec())
return answer
"""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(connect("grpc", server).infer, "probe", {"CODE": strings(code)})
        server.wait_for_log("it has begun")
        server.process.send_signal(signal.SIGTERM)
        answer = json.loads(waiting.result(20).as_numpy("RESULT")[0])
    assert answer == {"result": {"OUT": [1, 2, 3]}}
    server.stop()


def test_not_in_initialize(repository, serve):
    source = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        tensor = pb_utils.Tensor("IN", np.zeros(1, dtype=np.float32))
        pb_utils.InferenceRequest(model_name="identity", requested_output_names=["OUT"], inputs=[tensor]).exec()

    def execute(self, requests):
        return []
"""
    repository.add("early", source, config("early"))
    repository.add_identity("identity")
    server = serve(repository, ready=False, listening=False)
    assert server.wait_exit() != 0
    assert "BLS is only supported during the 'execute' function." in server.log
    server.stopped = True


# ---- forked processes ------------------------------------------------------------------------------

FORKING = """
import json, multiprocessing, os
import numpy as np
import triton_python_backend_utils as pb_utils


def call(value):
    tensor = pb_utils.Tensor("IN", np.full(1000, value, dtype=np.float32))
    request = pb_utils.InferenceRequest(model_name="identity", requested_output_names=["OUT"], inputs=[tensor])
    response = request.exec()
    if response.has_error():
        return response.error().message()
    return float(pb_utils.get_output_tensor_by_name(response, "OUT").as_numpy()[-1])


def in_a_fork(value):
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, json.dumps(call(value)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = json.loads(pipe.read())
    os.waitpid(pid, 0)
    return answer


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            mode = pb_utils.get_input_tensor_by_name(request, "MODE").as_numpy()[0].decode()
            if mode == "pool":
                with multiprocessing.get_context("fork").Pool(10) as pool:
                    result = pool.map(call, range(100))
            elif mode == "fork":
                # The parent calls before, between and after.
                result = [call(1), in_a_fork(2), call(3), in_a_fork(4), call(5)]
            else:
                pid = os.fork()
                if pid == 0:
                    pb_utils.InferenceRequest(
                        model_name="patient",
                        requested_output_names=["OUT"],
                        inputs=[pb_utils.Tensor("IN", np.array([60], dtype=np.float32))],
                    ).exec()
                    os._exit(0)
                result = pid
            value = np.array([json.dumps(result).encode()], dtype=object)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("RESULT", value)]))
        return responses
"""


@pytest.fixture
def forking(repository, serve, connect):
    vector = {"inputs": [("IN", "FP32", [-1])], "outputs": [("OUT", "FP32", [-1])]}
    repository.add("forking", FORKING, config("forking", [("MODE", "STRING", [1])], [("RESULT", "STRING", [1])]))
    repository.add_identity("identity")
    repository.add("patient", PATIENT, config("patient", **vector))
    server = serve(repository)
    client = connect("grpc", server)

    def go(mode):
        return json.loads(client.infer("forking", {"MODE": strings(mode)}, client_timeout=60).as_numpy("RESULT")[0])

    return server, go


def test_a_pool_of_forked_processes(forking):
    _, go = forking
    for _ in range(2):
        assert go("pool") == [float(i) for i in range(100)]


def test_a_fork_and_its_parent(forking):
    _, go = forking
    assert go("fork") == [1, 2, 3, 4, 5]


def test_a_killed_fork_takes_its_calls_with_it(forking):
    server, go = forking
    pid = go("leave")
    server.wait_for_log("patient begins")
    os.kill(pid, signal.SIGKILL)
    server.wait_for_log("cancelled in patient")
    assert go("fork") == [1, 2, 3, 4, 5]


# ---- cycles ----------------------------------------------------------------------------------------


def test_a_model_that_calls_itself_hears_it_at_once(chain):
    begin = time.monotonic()
    answer = chain("a", "a")
    assert answer == "error: the call to model 'a' would wait for itself: a_0_0 -> a"
    assert time.monotonic() - begin < 5


def test_a_cycle_over_two_models_is_named(chain):
    answer = chain("a", "b,a")
    assert answer == "a,error: the call to model 'a' would wait for itself: a_0_0 -> b_0_0 -> a"


def test_two_clients_that_hold_the_last_instances(chain):
    """If both instances are held by calls to the model itself, one call fails, and the other then finds an instance."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        answers = sorted(each.result(20) for each in [pool.submit(chain, "pair", "pair") for _ in range(2)])
    assert "the call to model 'pair' would wait for itself: pair_0_" in answers[0]
    assert answers[1] == "pair,end"


def test_a_cycle_through_an_ensemble(run):
    code = """
def call(model, value, output):
    request = ask(model, [pb_utils.Tensor("TEXT", np.array([value], dtype=object))], outputs=[output])
    response = request.exec()
    return text(response) or out(response, output)[0].decode()

return [call("around", b"", "OUTER"), call("around", b"b", "OUTER"), call("around", b"b,a", "OUTER")]
"""
    good, deeper, cycle = run(code)
    assert good == "end"
    assert deeper == "a,end"
    assert cycle == "a,error: the call to model 'a' would wait for itself: a_0_0 -> b_0_0 -> a"


def test_a_cycle_in_gathered_calls(run):
    code = """
responses = await asyncio.gather(ask("identity").async_exec(), ask("async_probe", [pb_utils.Tensor(
    "CODE", np.array([b"return 1"], dtype=object))], outputs=["RESULT"]).async_exec())
return [of(responses[0]), text(responses[1])]
"""
    good, cycle = run(code, "async_probe")
    assert good == {"OUT": [1, 2, 3]}
    assert "the call to model 'async_probe' would wait for itself" in cycle


def test_waiting_for_a_busy_model_is_no_cycle(chain):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = [each.result(30) for each in [pool.submit(chain, "many", "b") for _ in range(40)]]
    assert answers == ["many,end"] * 40


def test_a_cycle_through_a_call_that_holds_up_an_event_loop(server, connect):
    client = connect("grpc", server)

    def ask(value):
        begin = time.monotonic()
        text = client.infer("bridge", {"IN": np.array([value], dtype=np.float32)}, client_timeout=20).as_numpy("TEXT")
        assert time.monotonic() - begin < 5
        return text[0].decode()

    assert ask(0) == "end"
    assert ask(1) == "the call to model 'bridge' would wait for itself: bridge_0 -> looping_0 -> bridge"


# ---- sequences, and memory -------------------------------------------------------------------------


def test_sequences_at_the_same_time(run):
    code = """
def add(sequence, totals):
    for flags, value in ((1, 1), (0, 2), (0, 3), (2, 4)):
        call = ask("sums", [tensor("IN", [[value * (10 if sequence == "text" else 1)]], np.int32)],
                   correlation_id=sequence)
        call.set_flags(flags)
        totals.append(int(out(call.exec())[0, 0]))

totals = {7: [], "text": []}
threads = [threading.Thread(target=add, args=each) for each in totals.items()]
for each in threads:
    each.start()
for each in threads:
    each.join()
late = ask("sums", [tensor("IN", [[1]], np.int32)], correlation_id=7).exec()
return [totals[7], totals["text"], text(late)]
"""
    numbers, texts, late = run(code)
    assert numbers == [1, 3, 6, 10]
    assert texts == [10, 30, 60, 100]
    assert "must specify the START flag on the first request of the sequence" in late


def test_fifty_large_tensors_leave_nothing_behind(run):
    code = """
def held():
    with open("/proc/self/smaps_rollup") as rollup:
        return sum(int(line.split()[1]) for line in rollup if line.startswith("Pss:"))

values = np.arange(10_000_000, dtype=np.float32)
for i in range(50):
    response = ask("identity", [pb_utils.Tensor("IN", values)]).exec()
    assert text(response) is None and out(response)[-1] == values[-1]
    del response
    if i == 4:
        before = held()
return (held() - before) / 1024
"""
    assert run(code) < 100
