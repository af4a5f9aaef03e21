"""The JSON API of the console, and the ports that serve it."""

import contextlib
import http.client
import json
import os
import signal
import urllib.parse

import numpy as np
import pytest
import tritonclient.grpc
from harness import openvino_models as models
from harness.access import access
from harness.ensembles import ensemble, step
from harness.ovms import OvmsServer
from harness.pipelines import node, pipeline
from harness.repository import IDENTITY, config, per_request
from harness.server import ROOT, Server, listening_ports
from harness.waiting import wait_until

SIMPLE = config(None, [("IN", "FP32", [1])], [("OUT", "FP32", [1])])
BODY = json.dumps({"inputs": [{"name": "IN", "shape": [1], "datatype": "FP32", "data": [3]}]})
TALKS = per_request("""
value = float(get(request, "IN")[0])
if value < 0:
    raise ValueError("negative")
print(f"was given {value}", flush=True)
pb_utils.Logger.log_warn(f"a warning about {value}")
return respond(OUT=get(request, "IN"))
""")
SEQUENCE = """
instance_group [ { kind: KIND_CPU count: 2 } ]
sequence_batching {
  max_sequence_idle_microseconds: 60000000
  control_input [ { name: "START" control [ { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } ] } ]
}
"""
TOKENS = "alice a-token\nbob b-token\noperator o-token\n"
POLICY = {
    "rules": [
        {"identities": ["anonymous"], "apis": ["health"]},
        {"identities": ["alice"], "apis": ["statistics", "metadata", "inference", "logging"], "models": ["talk*"]},
        {"identities": ["bob"], "apis": ["inference"]},
        {"identities": ["operator"], "apis": ["*"]},
    ]
}


def ask(server, method, path, body=None, who=None, port="metrics", headers=None):
    """Returns (status, value) of a request to the port with the console."""
    headers = {**({"Authorization": f"Bearer {who[0]}-token"} if who else {}), **(headers or {})}
    status, _, answer = server.request(method, path, body, headers, address=getattr(server, port))
    return status, json.loads(answer) if answer else None


def get(server, path, **more):
    status, value = ask(server, "GET", f"/console/api/{path}", **more)
    assert status == 200, value
    return value


def row(server, name, version="1", **more):
    [found] = [r for r in get(server, "models", **more)["models"] if (r["name"], r["version"]) == (name, version)]
    return found


def detail(server, name, version=1, **more):
    return get(server, f"models/{urllib.parse.quote(name)}/versions/{version}", **more)


def console_port(server):
    """Returns the address of the port with the console, before the server has printed it."""
    for port in listening_ports(server.process.pid):
        address = f"127.0.0.1:{port}"
        # The gRPC port does not know the path.
        with contextlib.suppress(OSError, http.client.HTTPException):
            if server.request("GET", "/console/api/overview", address=address, timeout=5)[0] == 200:
                return address
    return None


def infer(server, model, value=3, **more):
    body = {"inputs": [{"name": "IN", "shape": [1], "datatype": "FP32", "data": [value]}]}
    return ask(server, "POST", f"/v2/models/{model}/infer", json.dumps(body), **more)


@pytest.fixture(scope="module")
def server(module_repository, module_serve):
    module_repository.add("talks", TALKS, SIMPLE)
    module_repository.add("asleep", IDENTITY, SIMPLE)
    module_repository.add("broken", "import nothing_of_this_name\n", SIMPLE)
    module_repository.add("sums", IDENTITY, config(None, [("IN", "FP32", [1])], [("OUT", "FP32", [1])], extra=SEQUENCE))
    return module_serve(
        module_repository,
        "--model-control-mode=explicit",
        "--load-model=talks",
        "--load-model=sums",
        "--load-model=broken",
        "--exit-on-error=false",
        "--id=a-name",
        ready=False,  # one of its models cannot be loaded
    )


def test_the_overview(server):
    overview = get(server, "overview")
    about = overview["server"]
    assert (about["name"], about["id"], about["live"], about["draining"]) == ("braid", "a-name", True, False)
    assert about["addresses"] == {"http": server.http, "grpc": server.grpc, "metrics": server.metrics}
    assert 0 <= about["now_ms"] - about["started_ms"] < 600_000
    assert overview["may"] == {"infer": True, "manage": True, "log": True, "trace": True}
    assert overview["manage_how"] == "load"
    process = overview["process"]
    assert process["pid"] == server.process.pid
    with open(f"/proc/{server.process.pid}/status") as status:
        threads = next(int(line.split()[1]) for line in status if line.startswith("Threads:"))
    assert abs(process["threads"] - threads) <= 2
    assert process["cpu_us"] > 0
    assert overview["machine"]["cores"] == os.cpu_count()
    # The share of memory is measured in the background, and available soon.
    share = wait_until(lambda: get(server, "overview")["process"].get("proportional_bytes"), what="the memory")
    assert share > 1 << 20
    with contextlib.closing(server.connection()) as held:
        held.request("GET", "/v2")
        held.getresponse().read()
        assert get(server, "overview")["connections"]["http"] >= 1


def test_counters_rise_by_what_was_sent(server):
    before = row(server, "talks")
    for _ in range(3):
        assert infer(server, "talks")[0] == 200
    assert infer(server, "talks", -1)[0] == 500
    after = row(server, "talks")
    rose = {key: after[key] - before[key] for key in ("requests", "failures", "rows", "executions", "rejected")}
    assert rose == {"requests": 3, "failures": 1, "rows": 3, "executions": 4, "rejected": 0}
    assert after["request_us"] - before["request_us"] >= after["compute_us"] - before["compute_us"] > 0
    assert (after["kind"], after["origin"], after["platform"], after["pending"]) == ("model", "triton", "python", 0)
    assert abs(after["last_inference_ms"] - get(server, "models")["now_ms"]) < 60_000


def test_versions_that_do_not_serve_say_why(server):
    assert row(server, "asleep", "")["state"] == "UNAVAILABLE"
    broken = row(server, "broken")
    assert broken["state"] == "UNAVAILABLE"
    assert "No module named 'nothing_of_this_name'" in broken["reason"]
    assert detail(server, "broken")["reason"] == broken["reason"]
    status, value = ask(server, "GET", "/console/api/models/talks/versions/7")
    assert (status, value["error"]) == (404, "version 7 of model 'talks' not found")


def test_one_model(server):
    model = detail(server, "talks")
    assert model["inputs"] == [{"name": "IN", "datatype": "FP32", "shape": [1], "optional": False, "labels": 0}]
    assert [tensor["name"] for tensor in model["outputs"]] == ["OUT"]
    assert model["config"]["backend"] == "python"
    assert (model["max_batch_size"], model["uses"], model["used_by"], model["structure"]) == (0, [], [], None)
    [worker] = model["workers"]
    with open(f"/proc/{worker['pid']}/stat") as stat:
        assert int(stat.read().rpartition(")")[2].split()[1]) == server.process.pid
    assert worker["name"].startswith("talks")
    assert worker["ready"] is True
    assert 0 <= get(server, "overview")["server"]["now_ms"] - worker["started_ms"] < 600_000
    executions = worker["executions"]
    assert infer(server, "talks")[0] == 200
    assert detail(server, "talks")["workers"][0]["executions"] == executions + 1
    memory = wait_until(lambda: detail(server, "talks")["workers"][0].get("memory_bytes"), what="the memory")
    assert memory > 1 << 20
    assert row(server, "talks")["memory_bytes"] == pytest.approx(memory, rel=0.5)


def test_an_execution_with_many_responses_is_one(serve):
    server = serve(ROOT / "examples" / "models")
    status, _, events = server.request("POST", "/v2/models/repeat/generate_stream", '{"TEXT": "x", "TIMES": 5}')
    assert (status, events.count(b"data: ")) == (200, 5)
    # The call may return a moment after its last response.
    wait_until(lambda: detail(server, "repeat")["workers"][0]["executions"], what="the execution")
    assert detail(server, "repeat")["workers"][0]["executions"] == 1


def test_a_worker_that_died_is_counted(repository, serve):
    repository.add("talks", TALKS, SIMPLE)
    server = serve(repository)
    [before] = detail(server, "talks")["workers"]
    assert before["restarts"] == row(server, "talks")["restarts"] == 0
    os.kill(before["pid"], signal.SIGKILL)
    wait_until(lambda: row(server, "talks")["restarts"] == 1, what="the restart")
    [after] = detail(server, "talks")["workers"]
    assert after["pid"] not in (0, before["pid"])
    assert after["started_ms"] >= before["started_ms"]
    assert after["ready"] is True
    assert infer(server, "talks")[0] == 200
    # The end and the restart are log lines of the model.
    lines = [line["text"] for line in get(server, "log?model=talks")["lines"]]
    assert any("Stub process" in line and "is not healthy" in line for line in lines), lines
    assert any(line.endswith("is back") for line in lines), lines


def test_the_log_of_a_model(server):
    start = get(server, "log?limit=1")["next"]
    assert infer(server, "talks", 7)[0] == 200

    def look():
        lines = get(server, f"log?model=talks&after={start}")["lines"]
        return {(line["level"], line["model"], line["text"]) for line in lines}

    [name] = [worker["name"] for worker in detail(server, "talks")["workers"]]
    wanted = {("output", "talks", f"[{name}] was given 7.0"), ("warning", "talks", "a warning about 7.0")}
    wait_until(lambda: wanted <= look(), what="the lines")
    assert get(server, f"log?model=sums&after={start}")["lines"] == []
    texts = [(line["model"], line["text"]) for line in get(server, "log")["lines"]]
    assert ("talks", "successfully loaded 'talks'") in texts
    assert any(model == "broken" and text.startswith("failed to load 'broken' version 1: ") for model, text in texts)
    assert any(model == "" and text.startswith("Python 3") for model, text in texts)
    # Pages of one line each reach the same end as one page.
    first = get(server, "log?after=0&limit=1")
    second = get(server, f"log?after={first['next']}&limit=1")
    assert [line["seq"] for line in first["lines"] + second["lines"]] == [1, 2]
    assert first["lost"] == second["lost"] == 0


def test_history_follows_the_counters(server):
    requests = row(server, "talks")["requests"]
    wait_until(lambda: get(server, "history?model=talks&version=1")["samples"], what="a sample before the requests")
    for _ in range(4):
        assert infer(server, "talks")[0] == 200

    def look():
        samples = get(server, "history?model=talks&version=1")["samples"]
        return samples if samples and samples[-1]["requests"] == requests + 4 else None

    samples = wait_until(look, what="a sample behind the requests")
    counters = [sample["requests"] for sample in samples]
    assert counters == sorted(counters)
    assert counters[0] <= requests
    steps = np.diff([sample["at_ms"] for sample in samples])
    assert (steps >= 1900).all()
    whole = get(server, "history")
    assert whole["step_ms"] == 2000
    assert whole["samples"][-1]["requests"] >= requests + 4


def test_models_are_loaded_and_unloaded_at_the_port(server):
    assert ask(server, "POST", "/v2/repository/models/asleep/load", "{}")[0] == 200
    assert row(server, "asleep")["state"] == "READY"
    assert infer(server, "asleep")[0] == 200
    assert ask(server, "POST", "/v2/repository/models/asleep/unload", "{}")[0] == 200
    wait_until(lambda: row(server, "asleep")["state"] == "UNAVAILABLE", what="the unload")
    assert row(server, "asleep")["reason"] == "unloaded"


def test_sequences(server):
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
        for number, start in ((5, True), (5, False), ("text", True)):
            tensor = tritonclient.grpc.InferInput("IN", [1], "FP32")
            tensor.set_data_from_numpy(np.array([1], np.float32))
            client.infer("sums", [tensor], sequence_id=number, sequence_start=start)
    found = get(server, "sequences?model=sums")
    assert found["total"] == row(server, "sums")["sequences"] == 2
    assert [(one["id"], one["requests"]) for one in found["sequences"]] == [("5", 2), ("text", 1)]
    assert all(0 <= one["idle_ms"] <= one["age_ms"] < 60_000 for one in found["sequences"])
    assert "sequences" not in row(server, "talks")


def test_the_slowest_requests_are_recorded_while_somebody_watches(server):
    assert get(server, "traces?model=talks")["watched_s"] == 0
    assert ask(server, "POST", "/console/api/traces?model=talks&seconds=60") == (200, {"watched_s": 60})
    assert infer(server, "talks")[0] == 200
    found = wait_until(lambda: get(server, "traces?model=talks")["traces"], what="a trace")
    assert found[0]["model"] == "talks"
    assert found[0]["duration_us"] > 0
    assert found[0]["spans"][0]["parent"] == -1
    assert 0 < get(server, "traces?model=talks")["watched_s"] <= 60
    assert ask(server, "POST", "/console/api/traces?model=talks&seconds=0") == (200, {"watched_s": 0})
    assert ask(server, "POST", "/console/api/traces?model=talks&seconds=601")[0] == 400


def test_pages_of_others_change_nothing(server):
    evil = {"Origin": "http://evil.example"}
    for path in ("/v2/repository/models/talks/unload", "/console/api/traces?model=talks", "/v2/models/talks/infer"):
        status, value = ask(server, "POST", path, "{}", headers=evil)
        assert (status, value["error"]) == (
            403,
            "Requests from origin 'http://evil.example' are refused; allow it with --allow-origin",
        )
        # A page at another port of this machine counts as a foreign origin.
        assert ask(server, "POST", path, "{}", headers={"Origin": f"http://{server.http}"})[0] == 403
    own = {"Origin": f"http://{server.metrics}"}
    assert infer(server, "talks", headers=own)[0] == 200
    assert row(server, "talks")["state"] == "READY"
    # A foreign name that leads here (DNS rebinding) is refused entirely.
    for path in ("overview", "log", "models"):
        status, value = ask(server, "GET", f"/console/api/{path}", headers={"Host": "evil.example"})
        assert status == 403
        assert "Host 'evil.example' is not allowed" in value["error"]
    # Pages of other origins cannot read responses.
    _, headers, _ = server.request("GET", "/console/api/overview", headers=evil, address=server.metrics)
    assert "Access-Control-Allow-Origin" not in headers


def test_bodies_are_limited(server):
    body = b" " * ((8 << 20) + 1)
    status, _, answer = server.request("POST", "/v2/models/talks/infer", body, address=server.metrics)
    assert status in (400, 413)
    assert b'exceeds the maximum allowed input size of 8388608 bytes."' in answer


def test_who_may_do_what(repository, serve, tmp_path):
    repository.add("talks", TALKS, SIMPLE)
    repository.add("other", TALKS, SIMPLE)
    ensemble(
        repository, "hidden", [step("talks", {"IN": "X"}, {"OUT": "Y"})], [("X", "FP32", [1])], [("Y", "FP32", [1])]
    )
    access_options = access(tmp_path, TOKENS, POLICY["rules"])
    server = serve(repository, "--model-control-mode=explicit", "--load-model=*", *access_options)
    for path in ("overview", "models", "models/talks/versions/1", "history", "log", "traces?model=talks"):
        status, headers, _ = server.request("GET", f"/console/api/{path}", address=server.metrics)
        assert (status, headers["WWW-Authenticate"]) == (401, "Bearer"), path
        assert ask(server, "GET", f"/console/api/{path}", who="operator")[0] == 200, path
    assert ask(server, "GET", "/console/api/overview", who="bob")[0] == 403

    assert ask(server, "GET", "/console/api/overview", who="alice")[0] == 403
    assert get(server, "models", who="alice")["may"] == {"infer": True, "manage": False, "log": True, "trace": False}
    assert [r["name"] for r in get(server, "models", who="alice")["models"]] == ["talks"]
    assert [r["name"] for r in get(server, "models", who="operator")["models"]] == ["hidden", "other", "talks"]
    assert detail(server, "talks", who="alice")["used_by"] == []
    assert detail(server, "talks", who="operator")["used_by"] == ["hidden"]
    assert detail(server, "talks", who="alice")["config"] is None
    assert detail(server, "talks", who="operator")["config"]["name"] == "talks"
    assert ask(server, "GET", "/console/api/models/other/versions/1", who="alice")[0] == 403
    assert {line["model"] for line in get(server, "log", who="alice")["lines"]} == {"talks"}
    assert {line["model"] for line in get(server, "log", who="operator")["lines"]} == {"", "hidden", "other", "talks"}
    assert ask(server, "GET", "/console/api/log?model=other", who="alice")[0] == 403

    assert infer(server, "talks", who="alice")[0] == 200
    assert infer(server, "other", who="alice")[0] == 403
    assert infer(server, "talks")[0] == 401
    assert ask(server, "POST", "/v2/repository/models/talks/unload", "{}", who="alice")[0] == 403
    assert ask(server, "POST", "/v2/repository/models/talks/unload", "{}")[0] == 401
    assert row(server, "talks", who="alice")["state"] == "READY"
    assert ask(server, "POST", "/v2/repository/models/talks/unload", "{}", who="operator")[0] == 200


def test_restricted_groups_hold(repository, serve):
    repository.add("talks", TALKS, SIMPLE)
    server = serve(repository, "--http-restricted-api=model-repository,logging:x-key=secret")
    assert get(server, "overview")["may"] == {"infer": True, "manage": False, "log": False, "trace": True}
    key = {"x-key": "secret"}
    assert get(server, "overview", headers=key)["may"] == dict.fromkeys(("infer", "manage", "log", "trace"), True)
    assert ask(server, "GET", "/console/api/log")[0] == 403
    assert get(server, "log", headers=key)["lines"] != []


def test_with_a_port_for_management_it_is_there(repository, serve):
    repository.add("talks", TALKS, SIMPLE)
    server = serve(repository, "--admin-address=127.0.0.1:0")
    assert f"console:   http://{server.admin}/console/\n" in server.stdout
    assert get(server, "overview", port="admin")["server"]["addresses"]["admin"] == server.admin
    assert infer(server, "talks", port="admin")[0] == 200
    for port in ("metrics", "http"):
        assert ask(server, "GET", "/console/api/overview", port=port)[0] == 404
    assert infer(server, "talks")[0] == 403
    # APIs of this port alone are not served at other ports.
    assert ask(server, "POST", "/v2/repository/index", "{}", port="http")[0] == 403


def test_it_can_be_switched_off(repository, serve):
    repository.add("talks", TALKS, SIMPLE)
    for option in ("--allow-console=false", "--admin-address=127.0.0.1:0"):
        server = serve(repository, "--allow-console=false", option)
        assert "console:" not in server.stdout
        for port in ("metrics", "http", *(["admin"] if server.admin else [])):
            for path in ("/console", "/console/", "/console/api/overview"):
                assert server.request("GET", path, address=getattr(server, port))[0] == 404, (port, path)
        # The ports serve the same APIs as without a console.
        assert infer(server, "talks") == (403, {"error": "the API 'inference' is not served at this port"})
        assert ask(server, "GET", "/v2/models/talks")[0] == 403
        if server.admin:
            assert infer(server, "talks", port="admin")[0] == 403


def test_metrics_for_others_bring_no_console(repository, serve):
    repository.add("talks", TALKS, SIMPLE)
    server = serve(repository, "--metrics-address=0.0.0.0")
    assert "console:" not in server.stdout
    assert ask(server, "GET", "/console/api/overview")[0] == 404
    assert infer(server, "talks")[0] == 403
    server = serve(repository, "--metrics-address=0.0.0.0", "--allow-console=true")
    assert f"console:   http://{server.metrics.replace('0.0.0.0', '127.0.0.1')}/console/\n" in server.stdout
    assert "reachable from other machines; use --host 127.0.0.1 for local clients only" in server.stdout
    assert infer(server, "talks")[0] == 200


def test_it_is_there_while_models_load(repository, tmp_path):
    gate = tmp_path / "gate"
    waits = f"import os, time\nwhile not os.path.exists({str(gate)!r}):\n    time.sleep(0.01)\n"
    repository.add("slow", waits + TALKS, SIMPLE)
    with Server([repository.path], workdir=tmp_path, listening=False, ready=False) as server:
        server.metrics = wait_until(lambda: console_port(server), what="the port")
        assert get(server, "overview")["server"]["ready"] is False
        wait_until(lambda: [r["state"] for r in get(server, "models")["models"]] == ["LOADING"], what="the load")
        gate.write_text("go")
        wait_until(lambda: get(server, "overview")["server"]["ready"], what="readiness")
        assert row(server, "slow")["state"] == "READY"


def test_a_pipeline_with_what_its_nodes_have_done(tmp_path):
    scale = models.entry("double", models.save(models.scale((-1, -1)), tmp_path / "double"))
    chain = pipeline("chain", node("a", "double", "request/in"), node("b", "double", "a/y"))
    with OvmsServer({"model_config_list": [scale], "pipeline_config_list": [chain]}, workdir=tmp_path) as server:
        body = {"inputs": [{"name": "in", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}
        for _ in range(3):
            status, answer = ask(server, "POST", "/v2/models/chain/infer", json.dumps(body))
            assert (status, answer["outputs"][0]["data"]) == (200, [4, 8])
        assert get(server, "overview")["manage_how"] == "reload"
        model = detail(server, "chain")
        assert (model["kind"], model["origin"], model["uses"]) == (
            "pipeline",
            "ovms",
            [{"name": "double", "version": -1}],
        )
        nodes = {each["name"]: each for each in model["structure"]["nodes"]}
        for name in ("a", "b"):
            assert (nodes[name]["kind"], nodes[name]["runs"]) == ("model", "double")
            assert (nodes[name]["started"], nodes[name]["ended"], nodes[name]["failed"]) == (3, 3, 0)
            assert nodes[name]["total_us"] > 0
        edges = {
            (model["structure"]["nodes"][edge["from"]]["name"], model["structure"]["nodes"][edge["to"]]["name"]): edge
            for edge in model["structure"]["edges"]
        }
        assert (edges["a", "b"]["from_port"], edges["a", "b"]["to_port"], edges["a", "b"]["passed"]) == ("y", "x", 3)
        double = detail(server, "double")
        assert double["used_by"] == ["chain"]
        assert sum(worker["executions"] for worker in double["workers"]) == 6
        assert ask(server, "POST", "/v1/config/reload")[0] == 200
