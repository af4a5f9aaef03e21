"""The guarantees in the table of docs/security.md that no other test file covers."""

import json
import os
import pathlib
import re
import signal
import threading
import time

import grpc
import numpy as np
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from harness import openvino_models as models
from harness.ensembles import ensemble, step
from harness.environments import make_environment, parameter
from harness.ovms import OvmsServer
from harness.repository import IDENTITY, Repository, config, per_request
from harness.server import ROOT, descriptors, wait_until
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

SIMPLE = config(None, [("IN", "FP32", [1])], [("OUT", "FP32", [1])])
BODY = json.dumps({"inputs": [{"name": "IN", "shape": [1], "datatype": "FP32", "data": [3]}]})
TOKEN = {"authorization": "Bearer o-token"}
POLICY = {"rules": [{"identities": ["anonymous"], "apis": ["health"]}, {"identities": ["operator"], "apis": ["*"]}]}


PAGE = (ROOT / "docs/security.md").read_text()
# Advisories and changes of the peers that the page must mention. The page chooses those of libraries itself.
ADVISORIES = """
    2025: 23268 23310 23311 23316 23317 23318 23319 23320 23321 23322 23323 23324 23325 23326 23327 23328 23329 23331
          23333 23334 23335 23336 33201 33202 33211
    2026: 16497 24146 24147 24173 24174 24175 24206 24207 24208 24209 24210 24213 24214 24215 24264 24266 47476 47477
          47478 47479 47480 47481 47482 47487 47606 47625 47627 47628 47629 47630
    2021: 26251
    server: 8570 8571 8680 8686 8701 8708 8721 8741 8745 8763 8764 8768 8770 8787 8833 8880 8925
    python_backend: 403 404 405 406 437 439
"""


def table():
    """Returns (guarantee, [tests]) of each row of docs/security.md."""
    rows = re.findall(r"^\| (\d+) \| (.*) \| (.*) \|$", PAGE, re.M)
    assert [int(number) for number, _, _ in rows] == list(range(1, 31))
    return [(what, re.findall(r"`([^`]+)`", tests)) for _, what, tests in rows]


def advisories():
    """Returns (advisory, [tests]) of each row of the tables of advisories."""
    section = PAGE.partition("\n## Advisories of others")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.*) \| .* \| .* \| (.*) \|$", section, re.M)
    return [(what, re.findall(r"`([^`]+)`", tests)) for what, tests in rows if what != "advisory" and "---" not in what]


@pytest.mark.parametrize(("what", "tests"), table() + advisories())
def test_the_tests_that_the_page_names_exist(what, tests):
    assert tests, what
    for test in tests:
        path, _, name = test.partition("::")
        assert (ROOT / path).is_file(), test
        text = (ROOT / path).read_text()
        if path.endswith(".cc"):
            suite, _, case = name.partition(".")
            assert re.search(rf"^TEST(_F|_P)?\({suite}, {case}\)", text, re.M), test
        elif name:
            assert re.search(rf"^(    )?def {name}\(", text, re.M), test


def test_each_advisory_of_the_peers_has_a_row():
    spoken = " ".join(what for what, _ in advisories())
    kind = ""
    for word in ADVISORIES.split():
        if word.endswith(":"):
            kind = word[:-1]
        elif kind.isdigit():
            assert spoken.count(f"CVE-{kind}-{word}") == 1, word
        else:
            assert len(re.findall(rf"\b{word}\b", spoken)) == 1, word


def test_each_reader_of_what_comes_from_outside_has_a_fuzzer():
    """Each reader of outside data has a fuzzer with a seed corpus. A fuzzer's name is that of its library and of its
    format."""
    fuzzers = set()
    for path in [*(ROOT / "src").rglob("*_fuzz.cc"), *(ROOT / "tools").rglob("*_fuzz.cc")]:
        assert "LLVMFuzzerTestOneInput" in path.read_text(), path
        name = re.sub(r"^(src/protocols|src|tools)/|_fuzz.cc$", "", path.relative_to(ROOT).as_posix())
        fuzzers.add(re.sub(r"^backends/(\w+)", r"\1_backend", name).replace("/", "_"))
    corpora = {folder.name for folder in (ROOT / "tests/corpora").iterdir() if any(folder.iterdir())}
    assert fuzzers == corpora
    read = {"http_connection", "http2_session", "grpc_connection", "kserve_http_infer_request", "config_config"}
    assert read | {"kserve_grpc_request_reader", "ipc_messages", "mediapipe_graph_graph_definition"} <= fuzzers


def echoes(server):
    """Whether model `echo` returns its input."""
    status, answer = server.json("POST", "/v2/models/echo/infer", json.loads(BODY))
    return status == 200 and answer["outputs"][0]["data"] == [3]


def routes(server, port, headers=None):
    """Returns (method, path) of all HTTP routes in a port's description; the model is `echo`."""
    status, _, body = server.request("GET", "/openapi.json", headers=headers, address=getattr(server, port))
    assert status == 200, body
    values = {"model": "echo", "version": "1", "label": "canary"}
    return [
        (method.upper(), re.sub(r"\{(\w+)\}", lambda name: values.get(name[1], "x"), path))
        for path, operations in json.loads(body)["paths"].items()
        for method in operations
    ]


def methods(server, metadata=None):
    """Returns the paths of all methods that gRPC's reflection lists."""
    with grpc.insecure_channel(server.grpc) as channel:

        def ask(**question):
            requests = iter([reflection_pb2.ServerReflectionRequest(**question)])
            return next(
                reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(requests, metadata=metadata)
            )

        found = []
        for service in ask(list_services="*").list_services_response.service:
            for text in ask(file_containing_symbol=service.name).file_descriptor_response.file_descriptor_proto:
                file = FileDescriptorProto.FromString(text)
                for one in file.service:
                    if f"{file.package}.{one.name}" == service.name:
                        found += [f"/{service.name}/{method.name}" for method in one.method]
    return found


def outcome(channel, path, message=b""):
    """Returns (code, text) of a call."""
    try:
        channel.unary_unary(path)(message, timeout=30)
    except grpc.RpcError as error:
        return error.code(), error.details()
    return grpc.StatusCode.OK, ""


def test_every_route_and_method_that_is_described_asks_who_it_is(repository, serve, tmp_path):
    repository.add("echo", IDENTITY, SIMPLE)
    (tmp_path / "tokens").write_text("operator o-token\n")
    (tmp_path / "tokens").chmod(0o600)
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    options = [f"--token-file={tmp_path / 'tokens'}", f"--policy-file={tmp_path / 'policy.json'}"]
    options += ["--model-control-mode=explicit", "--load-model=*"]
    asked = set()
    for more in ([], ["--admin-address=127.0.0.1:0"]):
        server = serve(repository, *options, *more)
        for port in ("http", "metrics", "admin"):
            described = routes(server, port, TOKEN) if getattr(server, port) else []
            health = {
                one for one in described if re.fullmatch(r"/v2/health/\w+|/v2/models/echo(/versions/1)?/ready", one[1])
            }
            # The description of a port that serves only health has the same access rules as health.
            if {path for _, path in set(described) - health} == {"/openapi.json"}:
                health = set(described)
            for method, path in described:
                status, _, body = server.request(
                    method, path, "{}" if method == "POST" else None, address=getattr(server, port)
                )
                assert status == (200 if (method, path) in health else 401), (port, method, path, body)
                asked.add(path)
    assert len(asked) > 40
    assert {"/v2/models/echo/infer", "/v1/models/echo:predict", "/metrics"} <= asked
    for path in (
        "overview",
        "models",
        "models/echo/versions/1",
        "log",
        "history",
        "sequences?model=echo",
        "traces?model=echo",
    ):
        assert server.request("GET", f"/console/api/{path}", address=server.admin)[0] == 401, path
    paths = methods(server, list(TOKEN.items()))
    assert len(paths) >= 26
    with grpc.insecure_channel(server.grpc) as channel:
        for path in paths:
            if path.rpartition("/")[2] not in {"ServerLive", "ServerReady", "ModelReady", "Check", "Watch"}:
                code, text = outcome(channel, path)
                moved = code == grpc.StatusCode.PERMISSION_DENIED and text.endswith("is not served at this port")
                assert moved or code == grpc.StatusCode.UNAUTHENTICATED, (path, code, text)
    assert server.json("POST", "/v2/models/echo/infer", json.loads(BODY), TOKEN)[0] == 200


# ---- names and numbers ----


def sources():
    """Returns Braid's sources that handle users' data, without tests and their helpers."""
    for folder, kinds in (
        ("src", "cc h"),
        ("tools", "cc h"),
        ("worker", "cc h py"),
        ("include", "h"),
        ("python", "py"),
    ):
        for kind in kinds.split():
            for path in sorted((ROOT / folder).rglob(f"*.{kind}")):
                if not re.search(r"_(test|fuzz|bench)\.cc$|/tests/|/testing/", str(path)):
                    yield path, path.read_text()


def test_no_source_calls_a_shell():
    shells = re.compile(
        r"\b(system|popen|wordexp|execlp|execvp|execvpe)\(|/bin/(ba|da)?sh|shell\s*=\s*True|\bos\.(system|popen)"
    )
    checked = 0
    for path, text in sources():
        assert not shells.search(text), path
        checked += 1
    assert checked > 400


def test_paths_are_not_read_by_a_shell(serve, tmp_path):
    """No shell interprets paths: special characters are harmless in every path that leads to the start of a process."""
    words = "a; touch ran & touch ran | $(touch ran) `touch ran` > ran 'x' #"
    repository = tmp_path / words / "models"
    environment = make_environment(tmp_path / words / "env", "1")
    (repository / "echo" / "1").mkdir(parents=True)
    (repository / "echo" / "config.pbtxt").write_text(SIMPLE + parameter("EXECUTION_ENV_PATH", environment))
    (repository / "echo" / "1" / "model.py").write_text(IDENTITY)
    for start in ("fork", "fresh"):
        server = serve(repository, f"--worker-start={start}")
        assert echoes(server)
    assert not list(tmp_path.rglob("ran"))


def test_no_source_converts_numbers_loosely_or_takes_the_stack_for_data():
    """Numbers are parsed by from_chars or by checked readers, and no buffer of unknown size is on the stack."""
    loose = re.compile(r"\b(alloca|ato[ilf]|atoll|strto[a-z]+|sscanf|std::sto[a-z]+|sprintf|strcpy|strcat|gets)\s*\(")
    for path, text in sources():
        if path.stem != "process_memory":  # reads text of the kernel
            assert not loose.search(text), path


def test_no_source_unpickles():
    """Data of clients and of models' processes is never unpickled: no code makes objects or code of it."""
    unpickles = re.compile(r"\b(c?pickle|marshal|shelve|dill)\b|\bnp\.load\(|allow_pickle", re.I)
    for path, text in sources():
        assert not unpickles.search(text), path


ONE = '{"name": "IN", "shape": [1], "datatype": "FP32", "data": [1]}'


@pytest.mark.parametrize(
    ("path", "body", "error"),
    [
        (
            "v2/models/echo/infer",
            f'{{"inputs": [], "inputs": [{ONE}]}}',
            "duplicate key 'inputs' in 'request'",
        ),
        ("v2/models/echo/infer", f'{{"inputs": [{ONE}, {ONE}]}}', "input 'IN' already exists in request"),
        (
            "v2/models/echo/infer",
            f'{{"inputs": [{ONE[:-1]}, "shape": [2]}}]}}',
            "duplicate key 'shape' in 'inputs'",
        ),
        (
            "v2/models/echo/infer",
            f'{{"inputs": [{ONE}], "parameters": {{"a": 1, "a": 2}}}}',
            "duplicate key 'a' in 'parameters'",
        ),
        (
            "v2/models/echo/infer",
            f'{{"inputs": [{ONE}], "outputs": [{{"name": "OUT"}}, {{"name": "OUT"}}]}}',
            "output 'OUT' already exists in request",
        ),
        ("v2/logging", '{"log_info": true, "log_info": false}', "duplicate key 'log_info' in 'request'"),
        ("v1/models/echo:predict", '{"inputs": {"IN": [1], "IN": [2]}}', "duplicate key 'IN' in 'inputs'"),
    ],
)
def test_what_is_given_twice_is_refused(shared, path, body, error):
    status, _, answer = shared.request("POST", f"/{path}", body)
    assert (status, error in json.loads(answer)["error"]) == (400, True), answer


@pytest.mark.parametrize("value", ["01", "1.", ".5", "+1", "0x1", "1e", "nan", "1NaN", "--1", '"1"', "1 2"])
def test_numbers_are_read_strictly(shared, value):
    body = f'{{"inputs": [{{"name": "IN", "shape": [1], "datatype": "FP32", "data": [{value}]}}]}}'
    status, _, answer = shared.request("POST", "/v2/models/echo/infer", body)
    assert (status >= 400, bool(json.loads(answer)["error"])) == (True, True), answer
    for shape in (f"[{value}]", "[1.0]", "[99999999999999999999]"):
        body = f'{{"inputs": [{{"name": "IN", "shape": {shape}, "datatype": "FP32", "data": [1]}}]}}'
        assert shared.request("POST", "/v2/models/echo/infer", body)[0] >= 400, shape


@pytest.fixture(scope="module")
def shared(module_repository, module_serve):
    module_repository.add("echo", IDENTITY, SIMPLE)
    return module_serve(module_repository)


def test_a_reload_takes_no_path(tmp_path):
    """A reload reads the operator's own file again, and ignores the request."""
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"model_config_list": [{"config": {"name": "evil", "base_path": str(tmp_path)}}]}))
    body = json.dumps({"config_path": str(other), "path": str(other), "file": str(other)})
    with OvmsServer({"model_config_list": []}, workdir=tmp_path) as server:
        for path in ("/v1/config/reload", f"/v1/config/reload?config_path={other}"):
            assert server.request("POST", path, body)[0] in (200, 201)
            assert server.json("GET", "/v1/config") == (200, {})
        assert str(other) not in server.log


# ---- processes ----


@pytest.mark.parametrize("start", ["fork", "fresh"])
def test_a_worker_has_its_own_descriptors_alone(repository, serve, connect, start):
    pid = per_request("return respond(PID=np.array([os.getpid()], np.int32))")
    for name in ("first", "second"):
        repository.add(name, pid, config(None, [("IN", "FP32", [1])], [("PID", "INT32", [1])]))
    options = ["--model-control-mode=explicit", "--load-model=first", f"--worker-start={start}"]
    server = serve(repository, *options, f"--log-file={server_log(repository)}")
    # The server's descriptors when the second worker starts: clients of both protocols, the log, the first worker's
    # channel.
    connection = server.connection()
    connection.request("GET", "/v2")
    connection.getresponse().read()
    client = connect("grpc", server)
    one = {"IN": np.zeros(1, np.float32)}
    first = int(client.infer("first", one).as_numpy("PID")[0])
    client.raw.load_model("second")
    second = int(client.infer("second", one).as_numpy("PID")[0])
    connection.close()
    ours = descriptors(server.process.pid)
    sockets = {what for what in ours.values() if what.startswith("socket:")}
    kinds = {"first": descriptors(first), "second": descriptors(second)}
    for worker in kinds.values():
        assert [worker[number] for number in (0,)] == ["/dev/null"]
        for what in worker.values():
            assert re.fullmatch(r"/dev/null|pipe:.*|socket:.*|/memfd:braid \(deleted\)|anon_inode:.*", what), worker
        assert not sockets & set(worker.values()), worker
        assert len(worker) < 20, worker
    pipes = [{what for what in worker.values() if what.startswith(("pipe:", "socket:"))} for worker in kinds.values()]
    assert not pipes[0] & pipes[1]


def server_log(repository):
    return repository.path.parent / "server.log"


def test_descriptors_end_at_exec_and_sigpipe_is_ignored(shared):
    pid = shared.process.pid
    kept = []
    for number in descriptors(pid):
        info = pathlib.Path(f"/proc/{pid}/fdinfo/{number}").read_text()
        if number > 2 and not int(re.search(r"flags:\s+(\d+)", info)[1], 8) & os.O_CLOEXEC:
            kept.append(number)
    assert kept == []
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    assert int(re.search(r"SigIgn:\s+(\w+)", status)[1], 16) >> (signal.SIGPIPE - 1) & 1


def test_nothing_of_the_servers_has_a_name(shared, tmp_path):
    """Files, queues and sockets of the server have no names: its processes share them only by descriptors."""
    assert echoes(shared)
    pid = shared.process.pid
    inodes = {re.search(r"\d+", what)[0] for what in descriptors(pid).values() if what.startswith("socket:")}
    named = [
        line
        for line in pathlib.Path("/proc/net/unix").read_text().splitlines()[1:]
        if line.split()[6] in inodes and len(line.split()) > 7
    ]
    assert named == []
    assert not re.search(r" (/dev/shm|/tmp)/", pathlib.Path(f"/proc/{pid}/maps").read_text())


@pytest.mark.parametrize(
    "key", ["/memfd:braid", "memfd:braid (deleted)", "/proc/self/fd/{fd}", "../../proc/{pid}/fd/{fd}"]
)
def test_clients_cannot_name_the_servers_memory(shared, connect, key):
    pid = shared.process.pid
    fd = next(number for number, what in descriptors(pid).items() if what.startswith("/memfd:braid"))
    name = key.format(pid=pid, fd=fd)
    client = connect("http", shared)
    with client.fails("INTERNAL", f"Unable to open shared memory region: '{name}'"):
        client.raw.register_system_shared_memory("r", name, 16)


# ---- what requests may say ----


def resident_bytes(server):
    return int(pathlib.Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_outputs_without_number_cost_nothing(shared):
    """Unlimited or repeated names of outputs are refused, and leave no memory in use."""
    names = [[f"{i}" for i in range(200_000)], ["OUT"] * 4000, ["OUT", "OUT"], [f"{i}" for i in range(4000)]]
    bodies = [json.dumps({**json.loads(BODY), "outputs": [{"name": name} for name in each]}) for each in names]
    messages = []
    for each in names:
        message = service_pb2.ModelInferRequest(model_name="echo", raw_input_contents=[b"\0\0\0\0"])
        message.inputs.add(name="IN", datatype="FP32", shape=[1])
        for name in each:
            message.outputs.add(name=name)
        messages.append(message.SerializeToString())
    with grpc.insecure_channel(shared.grpc) as channel:

        def ask_all():
            for body in bodies:
                assert shared.request("POST", "/v2/models/echo/infer", body)[0] == 400
            for message in messages:
                code, text = outcome(channel, "/inference.GRPCInferenceService/ModelInfer", message)
                assert code == grpc.StatusCode.INVALID_ARGUMENT, text

        ask_all()
        before = resident_bytes(shared)
        for _ in range(8):
            ask_all()
        assert resident_bytes(shared) - before < 32 << 20
    assert echoes(shared)


def processor_seconds(server):
    fields = pathlib.Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_numbers_of_requests_lead_to_no_work(shared):
    """The largest numbers in every field of a request cause no work: none is a number of iterations."""
    tensor = json.loads(BODY)["inputs"][0]
    bodies = []
    for number in (2**31 - 1, 2**32, 2**63 - 1, 2**64 - 1):
        for key in ("priority", "timeout", "sequence_id", "binary_data_size", "shared_memory_offset", "any"):
            bodies.append({"parameters": {key: number}, "inputs": [tensor]})
            bodies.append({"inputs": [{**tensor, "parameters": {key: number}}]})
            bodies.append({"inputs": [tensor], "outputs": [{"name": "OUT", "parameters": {key: number}}]})
        bodies.append({"inputs": [tensor], "outputs": [{"name": "OUT", "parameters": {"classification": number}}]})
        bodies.append({"inputs": [{**tensor, "shape": [number]}]})
        bodies.append({"inputs": [{**tensor, "shape": [0, number]}]})
        bodies.append({"inputs": [{**tensor, "shape": [1] * 64 + [number]}]})
    before = processor_seconds(shared)
    for body in bodies:
        for path in ("infer", "generate"):
            status, _, answer = shared.request("POST", f"/v2/models/echo/{path}", json.dumps(body))
            assert status in (200, 400, 500, 503), answer
    assert processor_seconds(shared) - before < 2
    assert echoes(shared)


@pytest.fixture(scope="module")
def any_size(tmp_path_factory, module_serve):
    """Models of each kind that take tensors of any two dimensions; the outputs of one have labels."""
    repository = Repository(tmp_path_factory.mktemp("sizes") / "models")
    tensors = [("IN", "FP32", [-1, -1])], [("OUT", "FP32", [-1, -1])]
    repository.add("python", IDENTITY, config(None, *tensors))
    repository.add("batched", IDENTITY, config(None, *tensors, max_batch_size=4, extra="dynamic_batching { }"))
    labelled = config(None, tensors[0], [(*tensors[1][0], 'label_filename: "labels"')])
    repository.add("labelled", IDENTITY, labelled, files={"labels": "one\ntwo\n"})
    models.save(models.identity((-1, -1), input_name="IN", output="OUT"), repository.path / "openvino")
    steps = [step("python", {"IN": "IN"}, {"OUT": "BETWEEN"}), step("openvino", {"IN": "BETWEEN"}, {"OUT": "OUT"})]
    ensemble(repository, "steps", steps, *tensors)
    return module_serve(repository)


@pytest.mark.parametrize("model", ["python", "batched", "labelled", "openvino", "steps"])
def test_tensors_without_elements_end_nothing(any_size, connect, model):
    for shape in ([0], [0, 0], [0, 3], [3, 0], [0, 0, 0], [1, 0, 0], [2, 0, 3], [0, 2, 3], [4, 3, 0]):
        asked = {"name": "IN", "shape": shape, "datatype": "FP32", "data": []}
        for wish in ({}, {"classification": 2}, {"binary_data": True}):
            body = {"inputs": [asked], "outputs": [{"name": "OUT", "parameters": wish}]}
            status, _, answer = any_size.request("POST", f"/v2/models/{model}/infer", json.dumps(body))
            assert status in (200, 400), answer
        for client in (connect("http", any_size), connect("grpc", any_size)):
            try:
                got = client.infer(model, {"IN": np.zeros(shape, np.float32)}).as_numpy("OUT")
                assert got.shape == tuple(shape)
            except InferenceServerException as error:
                assert "shape" in error.message() or "batch" in error.message(), error
    for rows in ([], [[]], [[], []], [[[]]]):
        for body in ({"instances": rows}, {"inputs": rows}, {"inputs": {"IN": rows}}):
            status, _, answer = any_size.request("POST", f"/v1/models/{model}:predict", json.dumps(body))
            assert status in (200, 400, 404), answer
    assert any_size.json("GET", f"/v2/models/{model}/ready")[0] == 200


LOADS = [
    b"",
    b"null",
    b"[]",
    b"7",
    b'{"parameters": null}',
    b'{"parameters": []}',
    b'{"parameters": {"config": 7}}',
    b'{"parameters": {"config": null}}',
    b'{"parameters": {"config": "null"}}',
    b'{"parameters": {"config": "[]"}}',
    b'{"parameters": {"config": "{\\"name\\": 7}"}}',
    b'{"parameters": {"config": "{\\"max_batch_size\\": 1e400}"}}',
    b'{"parameters": {"config": "{\\"instance_group\\": [{\\"count\\": 2147483648}]}"}}',
    b'{"parameters": {"config": "' + b"[" * 100_000 + b'"}}',
    b'{"parameters": {"config": "{\\"input\\": ' + b"[" * 100_000 + b'"}}',
    b'{"parameters": ' + b'{"a": ' * 100_000,
    b'{"parameters": {"file:1/model.py": "%%%"}}',
    b'{"parameters": {"config": "{}", "file:1/model.py": "%%%"}}',
    b'{"parameters": {"config": "{}", "file:1/model.py": 7}}',
    b'{"parameters": {"config": "{}", "file:": "eA=="}}',
    b'{"parameters": {"config": "{}", "file:' + b"a/" * 5000 + b'b": "eA=="}}',
    b'{"parameters": {"unload_dependents": "yes"}}',
    b'{"parameters": {"\\ud800": 1}}',
    b'{"parameters": {"config": "{\\"output\\": [{\\"label_filename\\": \\"/etc/passwd\\"}]}"}}',
    b'{"parameters": {"config": "{\\"default_model_filename\\": \\"../../../etc/passwd\\"}"}}',
]


def test_a_load_may_say_anything(repository, serve):
    """Each invalid body of a load request gets an error that reveals no files, and the model stays."""
    repository.add("echo", IDENTITY, SIMPLE)
    server = serve(repository, "--model-control-mode=explicit", "--load-model=echo")
    for body in LOADS:
        for action in ("load", "unload"):
            name = "echo" if action == "load" else "nothing"
            status, _, answer = server.request("POST", f"/v2/repository/models/{name}/{action}", body)
            assert status in (200, 400, 413, 500), (body[:80], answer)
            assert b"root:" not in answer
            if status != 200:
                assert json.loads(answer)["error"], body[:80]
    with grpc.insecure_channel(server.grpc) as channel:
        for body in LOADS:
            message = service_pb2.RepositoryModelLoadRequest(model_name="echo")
            message.parameters["config"].string_param = body.decode()
            message.parameters["file:1/model.py"].bytes_param = b"\0"
            code, text = outcome(
                channel, "/inference.GRPCInferenceService/RepositoryModelLoad", message.SerializeToString()
            )
            assert code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.INTERNAL), text
    assert echoes(server)


# ---- servers with missing parts ----


def test_a_server_of_which_parts_are_missing_says_so_and_lives(repository, serve):
    """With a failed model, and without traces, client memory or metrics, every route and method answers."""
    broken = "class TritonPythonModel:\n    def initialize(self, args):\n        raise RuntimeError('no weights')\n"
    repository.add("broken", broken + "    def execute(self, requests):\n        return []\n", SIMPLE)
    repository.add("echo", IDENTITY, SIMPLE)
    options = ["--exit-on-error=false", "--allow-client-shm=false", "--allow-metrics=false"]
    server = serve(repository, *options, ready=False)
    wait_until(lambda: echoes(server), 30, "the model beside the broken one")
    codes = {200: 0, 400: 0, 404: 0, 412: 0, 501: 0, 503: 0}
    for model in ("broken", "nothing"):
        for method, path in routes(server, "http"):
            path = path.replace("echo", model)
            body = BODY if path.endswith("infer") else "{}"
            status, _, answer = server.request(method, path, body if method == "POST" else None)
            codes[status] += 1
            if status >= 400 and path != "/v2/health/ready":
                assert json.loads(answer)["error"], (method, path)
    assert min(codes[404], codes[501], codes[503]) > 2, codes
    status, answer = server.json("POST", "/v2/models/broken/infer", json.loads(BODY))
    assert (status, answer["error"]) == (404, "Request for unknown model: 'broken' has no available versions")
    with grpc.insecure_channel(server.grpc) as channel:
        for path in methods(server):
            for message in (b"", b"\x0a\x06broken"):
                assert outcome(channel, path, message)[0] not in (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL), (
                    path
                )
    assert echoes(server)


# ---- a worker's writes to memory that the server reads ----

# Writes random numbers over all memory shared with the server, as long as its thread lives.
SCRIBBLER = """
import ctypes, random, re, threading
import numpy as np
import triton_python_backend_utils as pb_utils


def shared():
    found = []
    with open("/proc/self/maps") as maps:
        for line in maps:
            place = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw-s .*/memfd:braid", line)
            if place:
                found.append((int(place[1], 16), int(place[2], 16)))
    return found


class TritonPythonModel:
    def execute(self, requests):
        seed = int(pb_utils.get_input_tensor_by_name(requests[0], "IN").as_numpy()[0])
        threading.Thread(target=self.scribble, args=(seed,), daemon=True).start()
        out = pb_utils.Tensor("OUT", np.full(100_000, seed, np.float32))
        return [pb_utils.InferenceResponse([out]) for _ in requests]

    def scribble(self, seed):
        random.seed(seed)
        for turn in range(20_000):
            if turn % 500 == 0:
                places = shared()
            for begin, end in places:
                # A ring begins with its positions; behind them, and elsewhere, are messages and tensors.
                place = begin + random.randrange(0, min(end - begin, random.choice([64, 256, 4096, 1 << 20])), 4)
                value = random.choice([0, 1, 0x7FFFFFFF, 0xFFFFFFFF, random.getrandbits(32), random.getrandbits(6)])
                ctypes.c_uint32.from_address(place).value = value
"""

# Changes the lengths of its answer's strings repeatedly, while the server reads them.
FLIPPER = """
import re, threading
import ctypes
import numpy as np
import triton_python_backend_utils as pb_utils

LENGTH, WRONG = 12345, 0x7FFFFFF0


class TritonPythonModel:
    def initialize(self, args):
        self.flips = 0
        threading.Thread(target=self.flip, daemon=True).start()

    def flip(self):
        while True:
            with open("/proc/self/maps") as maps:
                places = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) rw-s .*/memfd:braid", maps.read(), re.M)
            for begin, end in places:
                begin, size = int(begin, 16), int(end, 16) - int(begin, 16)
                words = np.frombuffer((ctypes.c_uint32 * (size // 4)).from_address(begin), np.uint32)
                (found,) = np.nonzero(words == LENGTH)
                for _ in range(3000 if len(found) else 0):
                    words[found] = WRONG
                    words[found] = LENGTH
                self.flips += 3000 * len(found)

    def execute(self, requests):
        texts = np.array([b"x" * LENGTH] * 40, dtype=object)
        outputs = [pb_utils.Tensor("TEXTS", texts), pb_utils.Tensor("FLIPS", np.array([self.flips], np.int64))]
        return [pb_utils.InferenceResponse(outputs) for _ in requests]
"""


class Bystander:
    """Sends requests to model `echo` from a thread, and counts right answers; any other answer is an error."""

    def __init__(self, server):
        self._server = server
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.right = 0
        self.wrong = []

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()

    def _run(self):
        while not self._ended.is_set():
            if echoes(self._server):
                self.right += 1
            else:
                self.wrong.append("echo")


def test_a_worker_that_writes_all_over_shared_memory_harms_itself_alone(repository, serve, connect):
    repository.add("scribbler", SCRIBBLER, config(None, [("IN", "FP32", [1])], [("OUT", "FP32", [100_000])]))
    repository.add("echo", IDENTITY, SIMPLE)
    server = serve(repository)
    client = connect("grpc", server)
    outcomes = {"answered": 0, "failed": 0}
    seed = 0
    deadline = time.monotonic() + 60
    with Bystander(server) as bystander:
        # On a busy machine, twelve may be over before the bystander has sent many requests.
        while seed < 12 or bystander.right <= 10:
            assert time.monotonic() < deadline, bystander.right
            seed += 1
            try:
                client.infer("scribbler", {"IN": np.array([seed], np.float32)}, client_timeout=20)
                outcomes["answered"] += 1
            except InferenceServerException as error:
                assert "Deadline" not in str(error), error
                outcomes["failed"] += 1
    assert sum(outcomes.values()) == seed >= 12
    assert outcomes["failed"] > 0, outcomes
    assert bystander.right > 10
    assert not bystander.wrong
    assert server.process.poll() is None


def test_lengths_that_change_while_they_are_read(repository, serve, connect):
    outputs = [("TEXTS", "STRING", [40]), ("FLIPS", "INT64", [1])]
    repository.add("flipper", FLIPPER, config(None, [("IN", "FP32", [1])], outputs))
    repository.add("echo", IDENTITY, SIMPLE)
    server = serve(repository)
    clients = [connect("http", server), connect("grpc", server)]
    flips = 0
    answers = {"json": 0, "binary": 0, "refused": 0}
    with Bystander(server) as bystander:
        for turn in range(40):
            # JSON must be built from the strings one by one.
            status, _, body = server.request("POST", "/v2/models/flipper/infer", BODY, timeout=30)
            if status == 200:
                texts, count = (output["data"] for output in json.loads(body)["outputs"])
                assert texts == ["x" * 12345] * 40
                flips = max(flips, count[0])
                answers["json"] += 1
            else:
                assert json.loads(body)["error"]
                answers["refused"] += 1
            try:
                result = clients[turn % 2].infer("flipper", {"IN": np.zeros(1, np.float32)})
                flips = max(flips, int(result.as_numpy("FLIPS")[0]))
                answers["binary"] += 1
            except InferenceServerException:
                answers["refused"] += 1
    print(answers, flips)
    assert flips > 40
    assert answers["json"] > 0
    assert bystander.right > 10
    assert not bystander.wrong
    assert server.process.poll() is None
