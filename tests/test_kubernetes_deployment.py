"""docs/kubernetes-deployment.md, pasted block by block: the manifests are valid, and the server that they describe answers
its probes, Prometheus and the page's requests."""

import base64
import contextlib
import json
import socket
import ssl
import urllib.request

import numpy as np
import pytest
import tritonclient.grpc
import yaml
from harness.deployments import PAGE, Deployment, Replica, mount_secret
from harness.kubernetes import SchemaJudge
from harness.server import ROOT
from harness.waiting import wait_until

SUM = [11, 22, 33, 44]


@pytest.fixture(scope="module")
def deployed(tmp_path_factory):
    """The page until the servers are rolled out, and the server of one replica: (deployment, server)."""
    made = Deployment(tmp_path_factory.mktemp("page"))
    for block in made.blocks[: made.blocks.index(made.block("The servers")) + 1]:
        made.run(block)
    with Replica(made) as server:
        yield made, server


def token(deployment, name):
    return {"Authorization": f"Bearer {(deployment.folder / f'{name}.token').read_text()}"}


# ---- the manifests ---------------------------------------------------------------------------------


def test_the_manifests_by_the_schemas(deployed, tmp_path):
    made, _ = deployed
    before = made.applied
    made.run(made.block("Watching"))
    rules = made.applied.removeprefix(before)
    wrong, right = SchemaJudge(tmp_path / "schemas").judge(made.applied)
    assert not wrong
    kinds = [each["kind"] for each in yaml.safe_load_all(made.applied) if each]
    assert right == len(kinds)
    assert set(kinds) == {
        "Namespace", "PersistentVolumeClaim", "Pod", "Secret", "NetworkPolicy", "PodDisruptionBudget", "ServiceAccount",
        "Role", "RoleBinding", "Service", "StatefulSet", "ServiceMonitor", "PrometheusRule",
    }  # fmt: skip
    for rule, name in zip(filter(None, yaml.safe_load_all(rules)), ("recording", "alert"), strict=True):
        assert rule["metadata"]["name"] == f"braid-{name}"
        assert rule["spec"] == yaml.safe_load((ROOT / "deploy" / "prometheus" / f"{name}-rules.yml").read_text())


def test_names_of_the_objects_fit_together(deployed):
    made, _ = deployed
    pod = made.objects("StatefulSet", "braid")[0]["spec"]["template"]["spec"]
    claim = next(each for each in pod["volumes"] if each["name"] == "models")["persistentVolumeClaim"]["claimName"]
    assert made.objects("PersistentVolumeClaim", claim)[0]["spec"]["accessModes"] == ["ReadWriteMany"]
    filler = made.objects("Pod", "fill")[0]["spec"]
    assert filler["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim
    pushed = next(each for each in made.commands("skopeo"))[-1].removeprefix("docker://")
    assert pod["containers"][0]["image"] == filler["containers"][0]["image"] == pushed
    assert pod["securityContext"]["fsGroup"] == filler["securityContext"]["fsGroup"]


def test_alerts_that_the_page_names_exist():
    rules = (ROOT / "deploy" / "prometheus" / "alert-rules.yml").read_text()
    table = (ROOT / PAGE).read_text().partition("| alert |")[2]
    severity = {
        rule["alert"]: rule["labels"]["severity"]
        for group in yaml.safe_load(rules)["groups"]
        for rule in group["rules"]
    }
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert len(rows) >= 6
    for row in rows:
        for name in row.replace("(page)", "").replace("`", "").split(","):
            assert severity[name.strip()] == ("page" if "(page)" in row else "warning")


# ---- the server ------------------------------------------------------------------------------------


def test_probes_need_tls_and_no_token(deployed):
    _, server = deployed
    ports = {each["name"]: each["containerPort"] for each in server.container["ports"]}
    addresses = {8000: server.http, 8001: server.grpc, 8002: server.metrics}
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        probe = server.container[name]["httpGet"]
        assert probe["scheme"] == "HTTPS"
        assert "httpHeaders" not in probe
        address = addresses[ports[probe["port"]]]
        assert server.request("GET", probe["path"], address=address)[0] == 200
        # So a probe by HTTP would end the pod.
        with pytest.raises(OSError):
            urllib.request.urlopen(f"http://{address}{probe['path']}", timeout=10)


def test_prometheus_reads_metrics_with_what_the_service_monitor_names(deployed):
    made, server = deployed
    monitor = made.objects("ServiceMonitor", "braid")[0]
    service = made.objects("Service", "braid-replicas")[0]
    # Alerts are about the job `braid`.
    assert service["metadata"]["labels"][monitor["spec"]["jobLabel"]] == "braid"
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["scheme"] == "https"
    assert endpoint["port"] in [each["name"] for each in service["spec"]["ports"]]

    def value(reference):
        with contextlib.suppress(KeyError):
            text = made.objects("Secret", reference["name"])[0]["data"][reference["key"]]
            return base64.b64decode(text).decode()

    trusted = ssl.create_default_context(cadata=value(endpoint["tlsConfig"]["ca"]["secret"]))
    for name in (endpoint["tlsConfig"]["serverName"], "braid-2.braid-replicas.models.svc"):
        assert named(trusted, server.metrics, name)
    with pytest.raises(ssl.SSLCertVerificationError):
        named(trusted, server.metrics, "other.models.svc")
    bearer = {"Authorization": f"Bearer {value(endpoint['authorization']['credentials'])}"}
    status, _, body = server.request("GET", endpoint["path"], headers=bearer, address=server.metrics)
    assert (status, b"nv_inference_request_success" in body) == (200, True)
    assert server.request("GET", endpoint["path"], address=server.metrics)[0] == 401
    client = token(made, "client")
    assert server.request("GET", endpoint["path"], headers=client, address=server.metrics)[0] == 403


def named(context, address, name):
    """Whether the certificate at an address has this name."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), 10) as plain, context.wrap_socket(plain, server_hostname=name):
        return True


def test_the_requests_of_the_page(deployed):
    made, server = deployed
    for number in (0, 1):
        answer = json.loads(made.run(made.block("A request", number)))
        assert answer["outputs"][0]["data"] == SUM
    path, body = "/v2/models/add_sub/infer", (made.folder / "request.json").read_text()
    assert server.request("POST", path, body)[0] == 401
    assert server.request("POST", path, body, token(made, "prometheus"))[0] == 403
    assert server.request("POST", "/v2/repository/models/add_sub/load", "{}", token(made, "client"))[0] == 403


def test_grpc_has_the_certificate_and_the_tokens(deployed):
    made, server = deployed
    address = f"localhost:{server.grpc.rpartition(':')[2]}"
    authority = str(made.folder / "ca.crt")
    inputs = [tritonclient.grpc.InferInput(name, [4], "FP32") for name in ("INPUT0", "INPUT1")]
    for each, factor in zip(inputs, (1, 10), strict=True):
        each.set_data_from_numpy(factor * np.arange(1, 5, dtype=np.float32))
    with tritonclient.grpc.InferenceServerClient(address, ssl=True, root_certificates=authority) as client:
        headers = {name.lower(): value for name, value in token(made, "client").items()}
        assert client.infer("add_sub", inputs, headers=headers).as_numpy("OUTPUT0").tolist() == SUM
        with pytest.raises(tritonclient.grpc.InferenceServerException, match="UNAUTHENTICATED"):
            client.infer("add_sub", inputs)


def test_a_new_version_is_loaded(deployed):
    made, server = deployed
    client = token(made, "client")
    made.run(made.block("A new version of the model"))
    status, about = server.json("GET", "/v2/models/add_sub", headers=client)
    assert (status, about["versions"]) == (200, ["2"])
    answer = json.loads(made.run(made.block("A request")))
    assert answer["model_version"] == "2"
    assert answer["outputs"][0]["data"] == SUM


def test_a_changed_secret_reaches_the_server(deployed):
    """The server reads tokens and certificates again when the kubelet swaps the link to the folder of a Secret's files."""
    made, server = deployed
    old = token(made, "operator")
    made.run(made.block("Certificate, tokens, rights"))
    fresh = made.objects("Secret")[-2:]
    for secret, name in zip(fresh, ("tls", "access"), strict=True):
        mount_secret(secret, *server.secrets[name])
    wait_until(lambda: server.request("GET", "/v2", headers=token(made, "operator"))[0] == 200, 20, "the new token")
    assert server.request("GET", "/v2", headers=old)[0] == 401
    trusted = ssl.create_default_context(cafile=made.folder / "ca.crt")

    def served():
        with contextlib.suppress(ssl.SSLCertVerificationError):
            return named(trusted, server.http, "localhost")

    wait_until(served, 20, "the new certificate")


def test_an_upgrade_of_the_server_changes_only_the_image(deployed):
    made, _ = deployed
    before = made.objects("StatefulSet", "braid")[0]
    made.run(made.block("A new server"))
    after = made.objects("StatefulSet")[-1]
    (container,) = after["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/team/braid:0.2.0"
    container["image"] = before["spec"]["template"]["spec"]["containers"][0]["image"]
    assert after == before
