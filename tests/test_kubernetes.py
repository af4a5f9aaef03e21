"""deploy/kubernetes: the chart, its manifests, and KServe's runtimes are valid by Kubernetes' schemas and a
kube-apiserver. The containers' commands work."""

import base64
import contextlib
import json
import re
import urllib.request

import onnx
import onnx.helper
import pytest
import yaml
from harness import openvino_models
from harness.deployments import Deployment
from harness.kube_apiserver import KubeApiserver, RefusedError
from harness.kubernetes import SchemaJudge, helm
from harness.public_clients import need
from harness.server import ROOT, Server

FOLDER = ROOT / "deploy" / "kubernetes"
CHART = FOLDER / "chart"
EVERYTHING = {
    "autoscaling.enabled": "true",
    "serviceMonitor.enabled": "true",
    "tls.secretName": "braid-tls",
    "access.secretName": "braid-access",
    "serviceMonitor.labels.release": "prometheus",
    "sequences.stateStorage": "1Gi",
    "sequences.storageClassName": "fast",
    "fleet.endpoints": "kubernetes",
    "options[0]": "--model-control-mode=explicit",
    "env[0].name": "A",
    "env[0].value": "b",
    "image.pullSecrets[0].name": "registry",
    "priorityClassName": "high",
    "nodeSelector.disk": "ssd",
    "tolerations[0].operator": "Exists",
    "podAnnotations.a": "b",
    "service.annotations.a": "b",
    "serviceAccount.annotations.a": "b",
    "networkPolicy.clients[0].namespaceSelector.matchLabels.team": "a",
    "networkPolicy.egress[0].to[0].ipBlock.cidr": "10.0.0.0/8",
}


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    return SchemaJudge(tmp_path_factory.mktemp("schemas") / "all").judge


def rendered(values=()):
    sets = [f"--set-string={key}={value}" if key.startswith("env") else f"--set={key}={value}" for key, value in values]
    # A Helm built without its release script assumes a very old Kubernetes.
    version = ["--kube-version", "1.34.0"]
    return helm("template", "braid", CHART, "--namespace", "models", *version, *sets).stdout


def documents(text):
    return [each for each in yaml.safe_load_all(text) if each]


def of_kind(text, kind):
    return [each for each in documents(text) if each["kind"] == kind]


# ---- the chart -------------------------------------------------------------------------------------


def test_helm_finds_nothing_wrong():
    assert "1 chart(s) linted, 0 chart(s) failed" in helm("lint", "--strict", CHART).stdout


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "everything"])
def test_the_chart_by_the_schemas(judge, values):
    text = rendered(values.items())
    wrong, right = judge(text)
    assert not wrong
    assert right == len(documents(text)) == (10 if values else 6)


def test_the_judge_can_find_something(judge):
    text = (FOLDER / "braid.yaml").read_text()
    wrong, _ = judge(text.replace("readOnlyRootFilesystem", "readOnlyRoot"))
    assert len(wrong) == 1
    assert wrong[0].startswith("StatefulSet braid: ")
    wrong, _ = judge((FOLDER / "kserve" / "inference-services.yaml").read_text().replace("storageUri", "storageUrl"))
    assert len(wrong) == 4


def test_the_plain_manifests_are_those_of_the_chart():
    assert (FOLDER / "braid.yaml").read_text() == rendered()


def test_the_plain_manifests_by_the_schemas(judge):
    wrong, right = judge((FOLDER / "braid.yaml").read_text())
    assert (wrong, right) == ([], 6)


def test_a_pod_has_the_time_that_its_end_takes():
    for seconds in (0, 600):
        (made,) = of_kind(rendered([("sequences.drainSeconds", seconds)]), "StatefulSet")
        pod = made["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert f"--sequence-drain-seconds={seconds}" in container["args"]
        assert pod["terminationGracePeriodSeconds"] == 5 + seconds + 30 + 15


def test_an_autoscaler_is_not_held_against_a_number_of_replicas():
    (made,) = of_kind(rendered([("autoscaling.enabled", "true")]), "StatefulSet")
    assert "replicas" not in made["spec"]
    rule = yaml.safe_load((FOLDER / "adapter-rules.yaml").read_text())["rules"]["custom"][0]
    (scaler,) = of_kind(rendered([("autoscaling.enabled", "true")]), "HorizontalPodAutoscaler")
    assert scaler["spec"]["metrics"][0]["pods"]["metric"]["name"] == rule["name"]["as"]


def test_tls_has_one_option_for_ports_probes_and_services():
    tls = [("tls.secretName", "braid-tls"), ("fleet.endpoints", "kubernetes")]
    (made,) = of_kind(rendered(tls), "StatefulSet")
    (container,) = made["spec"]["template"]["spec"]["containers"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["scheme"] == "HTTPS"
    assert "--fleet-ca-file=/etc/braid/tls/ca.crt" in container["args"]
    for service in of_kind(rendered(tls), "Service"):
        assert {each["appProtocol"] for each in service["spec"]["ports"]} == {"https"}
    for values, error in (
        ([("options[0]", "--http-use-ssl-mutual")], "options: .* set tls.secretName instead of --http-use-ssl"),
        ([("tls.secretName", "braid-tls"), ("fleet.endpoints", "dns")], "fleet.endpoints: with tls.secretName it is"),
    ):
        sets = [f"--set={key}={value}" for key, value in values]
        refused = helm("template", "braid", CHART, "--kube-version", "1.34.0", *sets, check=False)
        assert refused.returncode != 0
        assert re.search(error, refused.stderr), refused.stderr


def test_a_load_balancer_has_no_port_for_metrics():
    for kind, ports in (("ClusterIP", ["http", "grpc", "metrics"]), ("LoadBalancer", ["http", "grpc"])):
        clients, replicas = of_kind(rendered([("service.type", kind)]), "Service")
        assert [each["name"] for each in clients["spec"]["ports"]] == ports
        assert [each["name"] for each in replicas["spec"]["ports"]] == ["http", "grpc", "metrics"]


@pytest.mark.parametrize(
    ("how", "where"),
    [
        ("dns", "dns://braid-replicas.models.svc:8001:8000:8002"),
        ("kubernetes", "kubernetes://models/braid-replicas"),
    ],
)
def test_a_fleet_finds_its_replicas(how, where):
    text = rendered([("fleet.endpoints", how)])
    (made,) = of_kind(text, "StatefulSet")
    pod = made["spec"]["template"]["spec"]
    assert f"--fleet-endpoints={where}" in pod["containers"][0]["args"]
    (policy,) = of_kind(text, "NetworkPolicy")
    pods = [{"podSelector": {"matchLabels": made["spec"]["selector"]["matchLabels"]}}]
    ports = [{"port": "http"}, {"port": "metrics"}]
    assert {"ports": ports, "from": pods} in policy["spec"]["ingress"]
    assert {"ports": ports, "to": pods} in policy["spec"]["egress"]
    # The cluster's token exists only where it is used, and has no other rights.
    by_api = how == "kubernetes"
    assert pod["automountServiceAccountToken"] is by_api
    assert ({"ports": [{"port": 443}, {"port": 6443}]} in policy["spec"]["egress"]) is by_api
    rules = [role["rules"] for role in of_kind(text, "Role")]
    right = {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list"]}
    assert rules == ([[right]] if by_api else [])
    for binding in of_kind(text, "RoleBinding"):
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": pod["serviceAccountName"], "namespace": "models"}
        ]
        assert binding["roleRef"]["name"] == of_kind(text, "Role")[0]["metadata"]["name"]


# ---- the containers' commands ----------------------------------------------------------------------


def manifest(path, kind):
    return of_kind((FOLDER / path).read_text(), kind)


def containers():
    """Returns (its name, the pod's specification, the container) of each described pod."""
    (made,) = manifest("braid.yaml", "StatefulSet")
    pods = [("braid", made["spec"]["template"]["spec"])]
    runtimes = manifest("kserve/cluster-serving-runtimes.yaml", "ClusterServingRuntime")
    pods += [(each["metadata"]["name"], each["spec"]) for each in runtimes]
    return [(name, pod, container) for name, pod in pods for container in pod["containers"]]


@pytest.mark.parametrize(
    ("name", "pod", "container"), containers(), ids=lambda each: each if isinstance(each, str) else ""
)
def test_a_container_has_no_rights_that_it_does_not_need(name, pod, container):
    security = {**pod.get("securityContext", {}), **container["securityContext"]}
    assert security["runAsNonRoot"] is True
    assert security["runAsUser"] == 1000
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not any(key in str(pod) for key in ("hostPath", "hostNetwork", "hostPID", "privileged"))
    # Writable paths: memory shared with its workers, and temporary files.
    assert {each["mountPath"] for each in container["volumeMounts"]} >= {"/dev/shm", "/tmp"}


@pytest.fixture
def models(tmp_path):
    """Folders in place of the mounts, by the name of the pod."""
    openvino_models.save(openvino_models.add(), tmp_path / "ir")
    (tmp_path / "onnx" / "1").mkdir(parents=True)
    shape = [("x", onnx.TensorProto.FLOAT, [1, 4]), ("y", onnx.TensorProto.FLOAT, [1, 4])]
    x, y = (onnx.helper.make_tensor_value_info(*each) for each in shape)
    graph = onnx.helper.make_graph([onnx.helper.make_node("Abs", ["x"], ["y"])], "g", [x], [y])
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)]),
        tmp_path / "onnx" / "1" / "model.onnx",
    )
    openvino_models.save(openvino_models.add(), tmp_path / "config" / "m")
    entry = {"config": {"name": "m", "base_path": "m"}}
    (tmp_path / "config" / "config.json").write_text(json.dumps({"model_config_list": [entry]}))
    examples = ROOT / "examples" / "models"
    return {
        "braid": examples,
        "braid-python": examples,
        "braid-openvino-ir": tmp_path / "ir",
        "braid-onnx": tmp_path / "onnx",
        "braid-config-json": tmp_path / "config",
    }


@pytest.mark.parametrize(
    ("name", "pod", "container"), containers(), ids=lambda each: each if isinstance(each, str) else ""
)
def test_what_a_container_runs_answers_its_probes(name, pod, container, models, tmp_path):
    """A container's command, with other paths and ports, answers the probes at their ports."""
    ports = {"http": 8000, "grpc": 8001, "metrics": 8002}
    options = []
    for argument in container["args"][1:]:
        argument = argument.replace("/mnt/models", "/models").replace("/models", str(models[name]), 1)
        if match := re.fullmatch(r"--(http-port|grpc-port|metrics-port|port|rest_port)=(\d+)", argument):
            kind = {"port": "grpc", "rest_port": "http"}.get(match[1], match[1].removesuffix("-port"))
            ports[kind] = int(match[2])
            continue  # set by the harness
        options.append(argument.replace("{{.Name}}", "m"))
    with contextlib.closing(Runner(options, tmp_path)) as server:
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            asked = container[probe]["httpGet"]
            named = {each["name"]: each["containerPort"] for each in container["ports"]}
            port = named.get(asked["port"], asked["port"])
            (kind,) = [kind for kind, number in ports.items() if number == port]
            assert server.get(kind, asked["path"]) == 200
        annotations = pod.get("annotations", {})
        metrics = annotations.get("prometheus.kserve.io/port", 8002)
        (kind,) = [kind for kind, number in ports.items() if number == int(metrics)]
        assert server.get(kind, "/metrics") == 200
        model = "add_sub" if "python" in name or name == "braid" else "m"
        assert server.get("http", f"/v2/models/{model}/ready") == 200


class Runner(Server):
    """A server with only its given options, on free ports."""

    def __init__(self, options, workdir):
        positional = [each for each in options if not each.startswith("--")]
        rest = [each for each in options if each.startswith("--")]
        super().__init__(positional, *rest, workdir=workdir)

    def get(self, kind, path):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{getattr(self, kind)}{path}", timeout=10) as answer:
            return answer.status

    def close(self):
        self.stop()


# ---- KServe ----------------------------------------------------------------------------------------


def test_kserve_by_the_schemas(judge):
    for file, count in (("cluster-serving-runtimes.yaml", 4), ("inference-services.yaml", 4)):
        wrong, right = judge((FOLDER / "kserve" / file).read_text())
        assert (wrong, right) == ([], count)


def test_each_service_finds_its_runtime():
    runtimes = {
        each["metadata"]["name"]: each["spec"]
        for each in manifest("kserve/cluster-serving-runtimes.yaml", "ClusterServingRuntime")
    }
    found = []
    for service in manifest("kserve/inference-services.yaml", "InferenceService"):
        model = service["spec"]["predictor"]["model"]
        named = model.get("runtime")
        for name, runtime in runtimes.items():
            formats = [
                each
                for each in runtime["supportedModelFormats"]
                if each["name"] == model["modelFormat"]["name"] and each["version"] == model["modelFormat"]["version"]
            ]
            fits = formats and model["protocolVersion"] in runtime["protocolVersions"]
            if fits and (named == name or (named is None and formats[0].get("autoSelect"))):
                found.append(name)
    assert sorted(found) == sorted(runtimes)


# ---- the API of a cluster, as asked by `kubectl apply --server-side --dry-run=server` ------------------


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    schemas = need("kubernetes-schemas")
    with KubeApiserver(tmp_path_factory.mktemp("kubernetes")) as started:
        started.apply('{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "models"}}')
        for file in sorted(schemas.glob("*.yaml")):
            (made,) = started.apply(file.read_text())
            group, names = made["spec"]["group"], made["spec"]["names"]
            for version in made["spec"]["versions"]:
                started.wait_for_kind(f"{group}/{version['name']}", names["kind"])
        yield started


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "everything"])
def test_the_chart_by_the_api(api, values):
    applied = api.apply(rendered(values.items()), dry_run=True)
    assert len(applied) == (10 if values else 6)
    stateful = next(each for each in applied if each["kind"] == "StatefulSet")
    assert stateful["metadata"]["namespace"] == "models"
    assert stateful["metadata"]["uid"]


def test_the_plain_manifests_by_the_api(api):
    assert "StatefulSet" in {each["kind"] for each in api.apply((FOLDER / "braid.yaml").read_text(), dry_run=True)}


def test_kserve_by_the_api(api):
    runtimes = api.apply((FOLDER / "kserve" / "cluster-serving-runtimes.yaml").read_text(), dry_run=True)
    assert [each["kind"] for each in runtimes] == ["ClusterServingRuntime"] * 4
    services = api.apply((FOLDER / "kserve" / "inference-services.yaml").read_text(), dry_run=True)
    assert [each["kind"] for each in services] == ["InferenceService"] * 4


def test_an_upgrade_with_other_values_is_one_that_the_api_allows(api):
    """The API accepts an upgrade with other values, although most fields of a StatefulSet are immutable."""
    installed = api.apply(rendered())
    more = {"replicas": "5", "sequences.drainSeconds": "60", "podAnnotations.a": "b", "options[0]": "--log-verbose=1"}
    upgraded = api.apply(rendered(more.items()), dry_run=True)
    assert [each["metadata"]["uid"] for each in upgraded] == [each["metadata"]["uid"] for each in installed]
    stateful = next(each for each in upgraded if each["kind"] == "StatefulSet")
    assert stateful["spec"]["replicas"] == 5


def test_the_deployment_of_the_page_by_the_api(api, tmp_path):
    """kubectl itself gives all objects of docs/kubernetes-deployment.md to the API."""
    need("kube-apiserver", "kubectl")
    page = Deployment(tmp_path, api.kubeconfig())
    # A controller makes it in each namespace.
    api.apply('{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}')
    for block in page.blocks:
        page.run(block)
    for kind, path, name in {
        (each["kind"], api.path(each), each["metadata"]["name"])
        for each in documents(page.applied)
        if each["kind"] != "Pod"  # deleted by the page
    }:
        assert api.ask("GET", f"{path}/{name}")["kind"] == kind
    secrets = {each["metadata"]["name"]: each for each in api.ask("GET", "/api/v1/namespaces/models/secrets")["items"]}
    assert secrets["braid-tls"]["type"] == "kubernetes.io/tls"
    for name, files in (
        ("braid-tls", {"tls.crt": "tls.crt", "tls.key": "tls.key", "ca.crt": "ca.crt"}),
        ("braid-access", {"tokens": "tokens", "policy.json": "policy.json", "prometheus": "prometheus.token"}),
    ):
        data = {key: base64.b64encode((page.folder / file).read_bytes()).decode() for key, file in files.items()}
        assert secrets[name]["data"] == data
    made = api.ask("GET", "/apis/apps/v1/namespaces/models/statefulsets/braid")
    (container,) = made["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/team/braid:0.2.0"
    assert container["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"
    (volume,) = (each for each in made["spec"]["template"]["spec"]["volumes"] if each["name"] == "tls")
    assert volume["secret"]["defaultMode"] == 0o400


def test_the_api_refuses_what_schemas_let_pass(api, judge):
    (made,) = manifest("braid.yaml", "StatefulSet")
    made["spec"]["selector"]["matchLabels"]["other"] = "label"
    assert judge(json.dumps(made)) == ([], 1)
    with pytest.raises(RefusedError, match="422.*`selector` does not match template `labels`"):
        api.apply(json.dumps(made), dry_run=True)
    made["spec"]["selectors"] = {}
    with pytest.raises(RefusedError, match="spec.selectors: field not declared in schema"):
        api.apply(json.dumps(made), dry_run=True)
