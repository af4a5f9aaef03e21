"""deploy/: dashboards and rules name existing metrics, and a real Prometheus answers all their queries."""

import contextlib
import itertools
import json
import math
import re
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request

import pytest
import yaml
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard
from harness import openvino_models as models
from harness.ovms import OvmsServer
from harness.programs import Program
from harness.public_clients import need
from harness.repository import Repository, config
from harness.server import ROOT, Server
from harness.waiting import wait_until

GRAFANA = ROOT / "deploy" / "grafana"
RULES = ROOT / "deploy" / "prometheus"
FILES = sorted(GRAFANA.glob("*.json"))
NAME = re.compile(r"\b(?:nv|braid|ovms)_[a-z_0-9]+\b")
SUFFIXES = re.compile(r"_(bucket|count|sum)$")
# Families that no dashboard shows: Triton's GPU metrics, and those that other families make redundant.
UNSEEN = {
    "nv_pinned_memory_pool_total_bytes",
    "nv_pinned_memory_pool_used_bytes",
    "nv_inference_compute_input_summary_us",
    "nv_inference_compute_output_summary_us",
    "nv_cache_hit_duration_per_model",
    "nv_cache_miss_duration_per_model",
}
OVMS_METRICS = [
    "ovms_requests_success", "ovms_requests_fail", "ovms_request_time_us", "ovms_inference_time_us",
    "ovms_wait_for_infer_req_time_us", "ovms_current_requests", "ovms_streams", "ovms_infer_req_queue_size",
    "ovms_infer_req_active", "ovms_current_graphs", "ovms_requests_accepted", "ovms_requests_rejected", "ovms_responses",
    "ovms_graph_error", "ovms_graph_processing_time_us", "ovms_graph_request_latency_us",
]  # fmt: skip


@pytest.fixture(scope="session")
def programs():
    """The folder of prometheus and promtool."""
    return need("prometheus") / "usr" / "bin"


STEPS = """
platform: "ensemble"
ensemble_scheduling {
  step [{
    model_name: "cached" model_version: -1
    input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" }
  }]
}
"""


def panels(dashboard):
    """Returns all panels with a query."""
    for panel in dashboard["panels"]:
        yield from (each for each in [panel, *panel.get("panels", ())] if each["type"] != "row")


def questions(dashboard):
    """Returns (panel's title, query) of each."""
    return [(panel["title"], target["expr"]) for panel in panels(dashboard) for target in panel["targets"]]


def recorded_names():
    groups = yaml.safe_load((RULES / "recording-rules.yml").read_text())["groups"]
    return {rule["record"]: rule["expr"] for group in groups for rule in group["rules"]}


def alerts():
    groups = yaml.safe_load((RULES / "alert-rules.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


# ---- traffic ----


class Traffic:
    """Repeats requests of every kind until it ends."""

    def __init__(self, *calls):
        self._calls = calls
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.has_asked = threading.Event()  # each call was made once
        self.error = None

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        if self.error:
            raise self.error

    def _run(self):
        try:
            while not self._stop.wait(0.02):
                for call in self._calls:
                    call()
                self.has_asked.set()
        except Exception as error:
            self.error = error
            self.has_asked.set()


def tensor(name, shape, datatype, data):
    return {"name": name, "shape": shape, "datatype": datatype, "data": data}


def triton_traffic(server):
    sequences = itertools.count(1)

    def infer(model, *inputs, expected=200, **parameters):
        status, answer = server.json("POST", f"/v2/models/{model}/infer", {"inputs": inputs, "parameters": parameters})
        assert status == expected, answer

    def add():
        values = [tensor(name, [4], "FP32", [1, 2, 3, 4]) for name in ("INPUT0", "INPUT1")]
        infer("add_sub", *values)
        infer("add_sub", values[0], expected=400)

    def sequence():
        number = next(sequences)
        for value in range(2):
            ends = {"sequence_start": value == 0, "sequence_end": value == 1}
            infer("running_sum", tensor("VALUE", [1, 1], "INT32", [value]), sequence_id=number, **ends)

    def decoupled():
        status, _, answer = server.request(
            "POST", "/v2/models/repeat/generate_stream", json.dumps({"TEXT": "a", "TIMES": 2})
        )
        assert (status, answer.count(b"data: ")) == (200, 2), answer

    def one(model):
        infer(model, tensor("IN", [1], "FP32", [1]))

    return Traffic(add, sequence, decoupled, lambda: one("cached"), lambda: one("stepped"))


def ovms_traffic(server):
    def infer(name, value, expected):
        status, answer = server.json("POST", f"/v2/models/{name}/infer", {"inputs": [value]})
        assert status == expected, answer

    def graph():
        infer("increment", tensor("number", [1], "INT32", [1]), 200)

    return Traffic(
        lambda: infer("add", tensor("b", [1, 10], "FP32", [1] * 10), 200),
        lambda: infer("add", tensor("b", [1, 9], "FP32", [1] * 9), 400),
        graph,
    )


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """A server of Python models with all its metrics, and one of a config.json."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "tokens").write_text("alice a-token\n")
    (folder / "policy.json").write_text(json.dumps({"rules": [{"identities": ["anonymous"], "apis": ["*"]}]}))
    cached = Repository(folder / "cached")
    cached.add_identity("cached", dims=[1], extra="response_cache { enable: true }")
    text = config("stepped", [("IN", "FP32", [1])], [("OUT", "FP32", [1])], backend=None)
    cached.add("stepped", None, text + STEPS)
    options = ["--metrics-config", "summary_latencies=true", "--metrics-config", "histogram_latencies=true"]
    options += ["--cache-config", "local,size=1048576", "--metrics-interval-ms", "200"]
    options += ["--token-file", folder / "tokens", "--policy-file", folder / "policy.json"]
    served = {
        "model_config_list": [models.entry("add", models.save(models.add(), folder / "add"))],
        "mediapipe_config_list": [{"name": "increment", "base_path": str(ROOT / "examples" / "graphs" / "increment")}],
        "monitoring": {"metrics": {"enable": True, "metrics_list": OVMS_METRICS}},
    }
    with contextlib.ExitStack() as stack:
        triton = stack.enter_context(
            Server([ROOT / "examples" / "models", cached.path], *options, workdir=tmp_path_factory.mktemp("triton"))
        )
        ovms = stack.enter_context(OvmsServer(served, workdir=tmp_path_factory.mktemp("ovms")))
        for traffic in (triton_traffic(triton), ovms_traffic(ovms)):
            stack.enter_context(traffic)
            assert traffic.has_asked.wait(60)
            assert traffic.error is None
        yield triton, ovms


@pytest.fixture(scope="module")
def families(servers):
    """The names of the families on the servers' metrics pages."""
    triton, ovms = servers
    found = set()
    for server, address in ((triton, triton.metrics), (ovms, ovms.http)):
        _, _, page = server.request("GET", "/metrics", address=address)
        found |= set(re.findall(r"^# TYPE (\S+)", page.decode(), re.M))
    return found


# ---- the files themselves ----


def test_dashboards_are_as_their_script_makes_them():
    subprocess.run([GRAFANA / "make-dashboards", "--check"], check=True, timeout=60)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_dashboard_is_one_of_grafana(file):
    """Grafana's own types know all parts of a dashboard: read and written by them, it is unchanged."""
    plugins.register_default_plugins()
    dashboard = json.loads(file.read_text())
    read = Dashboard.from_json(dashboard)
    written = json.loads(JSONEncoder().encode(read))

    def assert_kept(value, kept, place):
        if isinstance(value, dict):
            assert value.keys() <= kept.keys(), place
            for key, each in value.items():
                assert_kept(each, kept[key], f"{place}.{key}")
        elif isinstance(value, list):
            assert len(value) == len(kept), place
            for number, pair in enumerate(zip(value, kept, strict=True)):
                assert_kept(*pair, f"{place}[{number}]")
        else:
            assert value == kept, place

    assert_kept(dashboard, written, file.name)
    assert len(read.panels) == len(dashboard["panels"])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_dashboard_is_complete(file):
    dashboard = json.loads(file.read_text())
    assert dashboard["uid"].startswith("braid-")
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    used = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & used, f"{panel['title']} lies over another"
        assert place["x"] + place["w"] <= 24
        used |= cells
    variables = {each["name"] for each in dashboard["templating"]["list"]}
    for panel in panels(dashboard):
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == panel["datasource"]["uid"] == "${datasource}"
            asked = set(re.findall(r"\$([a-z]+)", target["expr"]))
            assert {"job", "instance"} <= asked <= variables
            for window in re.findall(r"\[([^]]+)\]", target["expr"]):
                assert window == "$__rate_interval"


def test_dashboards_and_rules_name_what_there_is(families):
    def family_of(name):
        return name if name in families else SUFFIXES.sub("", name)

    def named(*files):
        return {family_of(name) for file in files for name in NAME.findall(file.read_text())}

    recorded = set(itertools.chain.from_iterable(NAME.findall(name) for name in recorded_names()))
    shown = named(*FILES)
    assert shown | (named(RULES / "alert-rules.yml", RULES / "recording-rules.yml") - recorded) <= families
    assert {family for family in families if NAME.fullmatch(family)} - shown == UNSEEN


def test_alerts_ask_for_what_is_recorded():
    records = recorded_names()
    for alert in alerts():
        for name in re.findall(r"\b\w+:\w+:\w+\b|\b\w+:\w+\b(?=[^:])", alert["expr"]):
            assert name in records or ":" not in name, name
        assert alert["labels"]["severity"] in ("page", "warning")
        assert {"summary", "description"} == alert["annotations"].keys()


def test_rules_are_good(programs):
    for command in (
        ["check", "config", "prometheus.yml"],
        ["check", "rules", "--lint=all", "--lint-fatal", "recording-rules.yml", "alert-rules.yml"],
        ["test", "rules", "rules-test.yml"],
    ):
        done = subprocess.run([programs / "promtool", *command], cwd=RULES, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_test():
    tested = yaml.safe_load((RULES / "rules-test.yml").read_text())["tests"]
    fired = {case["alertname"] for test in tested for case in test.get("alert_rule_test", ()) if case["exp_alerts"]}
    assert fired == {alert["alert"] for alert in alerts()}


# ---- a real Prometheus ----


class Prometheus(Program):
    """Prometheus with deploy/prometheus, and intervals short enough for a test."""

    def __init__(self, program, folder, targets):
        settings = yaml.safe_load((RULES / "prometheus.yml").read_text())
        settings["global"] = {"scrape_interval": "200ms", "scrape_timeout": "200ms", "evaluation_interval": "200ms"}
        for job in settings["scrape_configs"]:
            job["static_configs"] = [{"targets": [targets[job["job_name"]]]}]
        for name in settings["rule_files"]:
            # Windows of minutes become windows of seconds.
            (folder / name).write_text((RULES / name).read_text().replace("[5m]", "[3s]"))
        (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
        options = [f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"]
        super().__init__([program, *options, "--web.listen-address=127.0.0.1:0"], folder)

    def is_ready(self):
        with contextlib.suppress(urllib.error.HTTPError):
            return urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=10).close() is None

    def get(self, path, **query):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{query}: {error.read().decode()}") from None

    def values(self, expression):
        """Returns the current numbers of an expression."""
        found = self.get("query", query=expression)["result"]
        return [float(each["value"][1]) for each in found if not math.isnan(float(each["value"][1]))]


def filled(expression):
    """Returns a query of a dashboard as Grafana sends it, with all values selected."""
    for variable in ("job", "instance", "model", "name"):
        expression = expression.replace(f'"${variable}"', '".+"')
    return expression.replace("$__rate_interval", "2s")


@pytest.fixture(scope="module")
def prometheus(programs, servers, tmp_path_factory):
    triton, ovms = servers
    targets = {"braid": triton.metrics, "braid-ovms": ovms.http}
    with Prometheus(programs / "prometheus", tmp_path_factory.mktemp("prometheus"), targets) as prometheus:
        yield prometheus


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_panel_has_data(prometheus, file):
    asked = questions(json.loads(file.read_text()))
    assert len(asked) > 20

    def empty():
        return [(title, query) for title, query in asked if not prometheus.values(filled(query))]

    with contextlib.suppress(AssertionError):
        wait_until(lambda: not empty(), 25.0, "data of every panel")
    assert not empty()


def test_what_panels_show_is_true(prometheus):
    """Panels show the right values where the test's traffic determines them."""
    wait_until(lambda: prometheus.values("sum(rate(nv_inference_count[2s]))"), 20.0, "rates")
    by_title = {title: filled(query) for title, query in questions(json.loads((GRAFANA / "braid.json").read_text()))}
    assert prometheus.values(by_title["Servers"]) == [2]
    failures = wait_until(lambda: prometheus.values(by_title["Failures"]), 10.0, "failures")
    assert 0 <= failures[0] < 1
    memory = prometheus.values(by_title["Memory for clients"])
    assert 0 <= memory[0] < 0.1
    hits = wait_until(lambda: prometheus.values(by_title["Hits of the response cache"]), 10.0, "hits")
    assert max(hits) > 0.9


def test_rules_are_taken(prometheus):
    """Each rule is evaluated without an error, each recorded series has values, and a healthy server causes no alert."""

    def rules():
        found = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
        return found if all(rule["health"] == "ok" for rule in found) else None

    found = wait_until(rules, 20.0, "the evaluation of every rule")
    assert {rule["name"] for rule in found} == set(recorded_names()) | {alert["alert"] for alert in alerts()}
    for name in recorded_names():
        wait_until(lambda name=name: prometheus.values(name), 20.0, f"values of {name}")
    firing = {
        alert["labels"]["alertname"] for alert in prometheus.get("alerts")["alerts"] if alert["state"] == "firing"
    }
    assert not firing
    up = prometheus.get("targets", state="active")["activeTargets"]
    assert {(target["labels"]["job"], target["health"]) for target in up} == {("braid", "up"), ("braid-ovms", "up")}
