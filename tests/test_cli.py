"""The command line: help, settings, refusals, and errors of a start that cannot succeed."""

import re
import socket
import subprocess

import pytest
import tritonclient.grpc
from harness.server import BINARY, ROOT


def braid(*arguments, env=None, timeout=30):
    return subprocess.run(
        [str(BINARY), *map(str, arguments)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=timeout,
        env=env,
        check=False,
    )


def test_version():
    done = braid("--version")
    assert done.returncode == 0
    assert re.fullmatch(r"braid \d+\.\d+\.\d+\n", done.stdout)


def test_links_nothing_that_only_tests_install():
    """`make build` and `make serve` do not install packages of the tests, such as grpc++ and its dependencies."""
    listed = subprocess.run(["readelf", "--dynamic", BINARY], capture_output=True, text=True, check=True).stdout
    needed = re.findall(r"\(NEEDED\).*\[lib([^.\]]*)", listed)
    assert "nghttp2" in needed
    assert not [name for name in needed if re.match("absl|grpc|gpr|gtest|gmock|benchmark", name)]


@pytest.mark.parametrize("arguments", [["--help"], ["serve", "--help"], ["serve", "-h"]])
def test_help(arguments):
    done = braid(*arguments)
    assert done.returncode == 0
    assert "usage:" in done.stdout
    assert not done.stderr


@pytest.mark.parametrize(
    "arguments", [[], ["frobnicate"], ["serve"], ["serve", "--frobnicate", "m"], ["serve", "m", "--http-port"]]
)
def test_wrong_use_shows_the_usage_and_fails(arguments):
    done = braid(*arguments)
    assert done.returncode == 1
    assert "usage:" in done.stderr


def test_print_config_names_value_default_and_origin():
    done = braid("serve", "models", "--print-config", "--http-port=9000", "--host", "127.0.0.1")
    assert done.returncode == 0
    rows = {line.split()[0]: line.split(None, 3)[1:] for line in done.stdout.splitlines()}
    assert rows["http-port"] == ["9000", "8000", "command line"]
    assert rows["http-address"] == ["127.0.0.1", "0.0.0.0", "other options"]
    assert rows["grpc-port"] == ["8001", "8001", "default"]


@pytest.mark.parametrize(
    "option",
    [
        "--repoagent-directory=x",
    ],
)
def test_refused_option_says_why(option):
    done = braid("serve", "models", option)
    assert done.returncode == 1
    assert f"{option.split('=')[0]}" in done.stderr
    assert "is refused: " in done.stderr


def test_option_that_means_nothing_here_is_noted_once(repository, serve):
    repository.add_identity("a")
    server = serve(repository, "--enable-peer-access=false", "--cuda-virtual-address-size=0:1024")
    assert server.log.count("--enable-peer-access has no effect") == 1
    assert server.log.count("--cuda-virtual-address-size has no effect") == 1


def test_option_table_of_the_documentation_is_up_to_date():
    text = (ROOT / "docs" / "configuration.md").read_text()
    table = text.split("<!-- options: begin -->\n", 1)[1].split("<!-- options: end -->", 1)[0]
    assert table.strip() == braid("serve", "--help-markdown").stdout.strip(), "run `make docs`"


@pytest.mark.parametrize("which", ["http", "grpc", "metrics"])
def test_port_in_use(repository, which):
    repository.add_identity("a")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ports = {"http": 0, "grpc": 0, "metrics": 0} | {which: port}
        done = braid("serve", repository.path, "--host=127.0.0.1", *(f"--{n}-port={p}" for n, p in ports.items()))
    assert done.returncode != 0
    assert f"Socket '127.0.0.1:{port}' already in use" in done.stdout + done.stderr


def test_each_of_several_addresses_is_served(repository, serve):
    repository.add_identity("a")
    both = "127.0.0.1, 127.0.0.2"
    server = serve(repository, *(f"--{port}-address={both}" for port in ("http", "grpc", "metrics")))
    for host in ("127.0.0.1", "127.0.0.2"):
        port = server.http.rpartition(":")[2]
        assert server.request("GET", "/v2/models/a/ready", address=f"{host}:{port}")[0] == 200
        assert server.request("GET", "/metrics", address=f"{host}:{server.metrics.rpartition(':')[2]}")[0] == 200
        address = f"{host}:{server.grpc.rpartition(':')[2]}"
        with tritonclient.grpc.InferenceServerClient(address) as client:
            assert client.is_server_live()
    assert f"also at http 127.0.0.2:{port}, grpc 127.0.0.2:" in server.stdout
    assert "reachable from other machines" not in server.stdout


def test_the_address_that_is_in_use_is_named(repository):
    repository.add_identity("a")
    with socket.socket() as taken:
        taken.bind(("127.0.0.2", 0))
        taken.listen()
        port = taken.getsockname()[1]
        options = ["--http-address=127.0.0.1,127.0.0.2", "--grpc-port=0", "--metrics-port=0", f"--http-port={port}"]
        done = braid("serve", repository.path, *options)
    assert done.returncode != 0
    assert f"Socket '127.0.0.2:{port}' already in use" in done.stdout + done.stderr


def test_python_that_is_not_there(repository):
    repository.add_identity("a")
    done = braid(
        "serve", repository.path, "--python=/nowhere/python3", "--http-port=0", "--grpc-port=0", "--metrics-port=0"
    )
    assert done.returncode != 0
    assert "/nowhere/python3" in done.stdout + done.stderr


def test_repository_that_is_not_there(tmp_path):
    done = braid(
        "serve", tmp_path / "nowhere", "--http-port=0", "--grpc-port=0", "--metrics-port=0", "--host=127.0.0.1"
    )
    assert done.returncode != 0
    assert "nowhere" in done.stdout + done.stderr


def test_protocols_can_be_switched_off(repository, serve, connect):
    repository.add_identity("a")
    server = serve(repository, "--allow-grpc=false")
    assert not server.grpc
    assert server.request("GET", "/v2/health/ready")[0] == 200


def test_server_without_http(repository, serve, connect):
    repository.add_identity("a")
    server = serve(repository, "--allow-http=false", ready=False)
    from harness.waiting import wait_until

    client = connect("grpc", server)
    wait_until(client.raw.is_server_ready, 30, "readiness")
    assert not server.http


def test_id_is_the_name_of_the_server(repository, serve):
    repository.add_identity("a")
    assert serve(repository, "--id=mine").json("GET", "/v2")[1]["name"] == "mine"


@pytest.mark.parametrize(
    "option",
    [
        "--http-restricted-api=health:key=hush",
        "--grpc-restricted-protocol=health:key=hush",
        "--http-restricted-api=nonsense:key=hush",
        "--http-restricted-apis=health:key=hush",
        "--sequence_state_store=redis://user:hush@127.0.0.1:1",
        "--sequence_state_store=redis://user:hush@127.0.0.1:x",
        "--trace-config=opentelemetry,url=http://user:hush@127.0.0.1:1/v1/traces",
        "--trace-config=opentelemetry,url=htp://user:hush@127.0.0.1:1/v1/traces",
        "--trace-config=opentelemetry,headers=authorization=hush",
        "--cache-config=redis,password=hush",
        "--worker-env=SECRET=hush",
        "--fleet-endpoints=http://user:hush@127.0.0.1:1",
        "--fleet-endpoints=user:hush@127.0.0.1:1",
        "--fleet-endpoints=dns://user:hush@name",
        "--fleet-endpoints=kubernetes://user:hush@namespace/service",
        "--model-repository=s3://key:hush@host/bucket",
        "--model_path=s3://key:hu/hush@host/bucket",
        "--repoagent-directory=s3://key:hush@host/bucket",
        "--allow-origin=https://user:hush@ui.example",
        "--api_key=hush",
    ],
)
def test_secrets_of_options_are_not_repeated(repository, option):
    repository.add_identity("a")
    shown = braid("serve", repository.path, option, "--print-config")
    assert "hush" not in shown.stdout + shown.stderr
    ended = braid("serve", repository.path, option, "--http-port=99999", "--host=127.0.0.1")
    assert ended.returncode != 0
    assert "hush" not in ended.stdout + ended.stderr


def test_a_running_server_tells_no_secrets(repository, serve, tmp_path):
    """Secrets appear neither in the log nor in printed settings, whether the options are valid or not."""
    repository.add_identity("a")
    (tmp_path / "tokens").write_text("operator hush-token\n")
    (tmp_path / "tokens").chmod(0o600)
    (tmp_path / "secrets").write_text("statistics:key=hush-from-a-file\n")
    (tmp_path / "secrets").chmod(0o600)
    (tmp_path / "password").write_text("hush\n")
    (tmp_path / "password").chmod(0o600)
    server = serve(
        repository,
        f"--token-file={tmp_path / 'tokens'}",
        "--http-restricted-api=trace:key=hush",
        f"--http-restricted-api-file={tmp_path / 'secrets'}",
        "--grpc-restricted-protocol=trace:key=hush",
        "--sequence_state_store=redis://user@127.0.0.1:1",
        f"--sequence_state_store_password_file={tmp_path / 'password'}",
        "--sequence_state_store_unavailable=continue",
        "--log-verbose=1",
    )
    for key in ("hush", "hush-wrong"):
        for path in ("/v2/trace/setting", "/v2/models/stats", "/v2", "/metrics", "/openapi.json"):
            headers = {"key": key, "authorization": f"Bearer {key}-token"}
            assert b"hush" not in server.request("GET", path, headers=headers)[2], path
    for path in ("/metrics", "/console/api/overview", "/console/api/log"):
        headers = {"authorization": "Bearer hush-token", "key": "hush-from-a-file"}
        answer = server.request("GET", path, headers=headers, address=server.metrics)
        assert (answer[0], b"hush" in answer[2]) == (200, False), path
    assert "hush" not in server.log


@pytest.mark.parametrize(
    "words",
    [
        ["health", "http://user:hush@127.0.0.1:1/x"],
        ["fleet", "status", "--endpoints", "http://user:hush@127.0.0.1:1"],
        ["fleet", "envoy", "--endpoints", "user:hush@host"],
    ],
)
def test_commands_repeat_no_credentials(words):
    done = braid(*words)
    assert done.returncode != 0
    assert "hush" not in done.stdout + done.stderr


def test_log_file(repository, serve, tmp_path):
    repository.add_identity("a")
    server = serve(repository, f"--log-file={tmp_path / 'server.log'}")
    server.stop()
    assert re.search(r"^I\d{4} \d\d:\d\d:\d\d\.\d{6} ", (tmp_path / "server.log").read_text(), re.M)


def test_bad_forward_pattern_and_restriction(repository):
    repository.add_identity("a")
    options = ["--http-port=0", "--grpc-port=0", "--metrics-port=0", "--host=127.0.0.1"]
    for wrong, text in (
        ("--http-restricted-api=nonsense:k=v", "unknown restricted api 'nonsense'"),
        ("--grpc-restricted-protocol=nonsense:k=v", "unknown restricted protocol 'nonsense'"),
    ):
        done = braid("serve", repository.path, wrong, *options)
        assert done.returncode != 0
        assert text in done.stdout + done.stderr
    done = braid(
        "serve", repository.path, "--http-restricted-api=health:a=b", "--http-restricted-api=health:c=d", *options
    )
    assert done.returncode != 0
    assert "restricted api 'health' can not be specified in multiple config groups" in done.stdout + done.stderr
