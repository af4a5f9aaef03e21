"""Unix sockets and lists of addresses: all three ports, permissions, files of dead and of living servers, and the
program's own clients."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import stat
import subprocess
import sys
import tempfile

import grpc
import numpy as np
import pytest
import tritonclient.grpc
from harness.access import access
from harness.ports import free_port
from harness.repository import config, per_request
from harness.server import BINARY, Server, UnixConnection
from harness.waiting import wait_until
from tritonclient.grpc import service_pb2, service_pb2_grpc

BODY = json.dumps({"inputs": [{"name": "IN", "shape": [2], "datatype": "FP32", "data": [3, 4]}]})
PORTS = ("http", "grpc", "metrics")


@pytest.fixture
def folder():
    """A folder with a short path."""
    with tempfile.TemporaryDirectory(prefix="ux-") as path:
        yield pathlib.Path(path)


@pytest.fixture(scope="module")
def module_folder():
    with tempfile.TemporaryDirectory(prefix="ux-") as path:
        yield pathlib.Path(path)


def at(folder, *ports):
    """Returns the options for sockets PORT.sock in the folder."""
    return [f"--{port}-address=unix:{folder}/{port}.sock" for port in ports or PORTS]


@pytest.fixture(scope="module")
def server(module_repository, module_serve, module_folder):
    module_repository.add_identity("echo")
    return module_serve(module_repository, *at(module_folder))


def ask(path, method="GET", target="/v2/health/ready", body=None, **more):
    """Returns status and body of one HTTP request over a Unix socket."""
    with contextlib.closing(UnixConnection(path, **more)) as connection:
        connection.request(method, target, body)
        response = connection.getresponse()
        return response.status, response.read()


def braid(*words, status=0):
    """Returns the output of a command of the program."""
    done = subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True, timeout=60)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def refused(repository, *options):
    """Returns the error text of a server that does not start."""
    done = subprocess.run(
        [BINARY, "serve", repository.path, "--host=127.0.0.1", "--http-port=0", "--grpc-port=0", "--metrics-port=0"]
        + ["--python", sys.executable, *options],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stderr


# ---- clients --------------------------------------------------------------------------------------


def test_the_addresses_are_shown_as_clients_write_them(server, module_folder):
    assert (server.http, server.grpc, server.metrics) == tuple(f"unix:{module_folder}/{port}.sock" for port in PORTS)
    assert f"curl -s --unix-socket '{module_folder}/http.sock' http://localhost/v2/models/echo/infer" in server.stdout
    # A browser cannot open a page there, and no other machine can connect.
    assert "console:" not in server.stdout
    assert "reachable from other machines" not in server.stdout
    assert "also at" not in server.stdout


def test_http(server, module_folder):
    path = module_folder / "http.sock"
    with contextlib.closing(UnixConnection(path)) as connection:
        for _ in range(3):
            connection.request("POST", "/v2/models/echo/infer", BODY)
            answer = json.loads(connection.getresponse().read())
            assert answer["outputs"][0]["data"] == [3.0, 4.0]
    # The name has no meaning here, so that of a proxy or of a script is as good as localhost.
    assert ask(path, host="braid.example")[0] == 200
    done = subprocess.run(
        ["curl", "-s", "--unix-socket", path, "http://any/v2/models/echo/infer", "-d", BODY],
        capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["outputs"][0]["data"] == [3.0, 4.0]


@pytest.mark.parametrize("form", ["unix:{}", "unix://{}"])
def test_grpc(server, module_folder, form):
    target = form.format(module_folder / "grpc.sock")
    with grpc.insecure_channel(target) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        assert stub.ServerReady(service_pb2.ServerReadyRequest(), timeout=60).ready
    with tritonclient.grpc.InferenceServerClient(target) as client:
        given = tritonclient.grpc.InferInput("IN", [300_000], "FP32")
        array = np.arange(300_000, dtype=np.float32)
        given.set_data_from_numpy(array)
        np.testing.assert_array_equal(client.infer("echo", [given]).as_numpy("OUT"), array)


def test_metrics(server, module_folder):
    status, body = ask(module_folder / "metrics.sock", target="/metrics")
    assert status == 200
    assert b"nv_inference_request_success" in body
    # Inference belongs to the other port.
    assert ask(module_folder / "metrics.sock", "POST", "/v2/models/echo/infer", BODY)[0] in (403, 404)


def test_the_commands_of_the_program(server, module_folder):
    http, grpc_socket = (f"unix:{module_folder}/{port}.sock" for port in ("http", "grpc"))
    for where, protocol in ((http, "http"), (grpc_socket, "grpc")):
        tried = braid("try", "echo", "-d", "IN=[1,2]", "--shape", "IN:2", "-u", where, "-i", protocol)
        assert f"echo at {where}, {protocol}" in tried
        assert "1, 2" in tried.rpartition("<")[2]
        measured = braid("bench", "-m", "echo", "-u", where, "-i", protocol, "--shape", "IN:2", "-p", "100", "-r", "1",
                         "--format", "json")  # fmt: skip
        report, _ = json.JSONDecoder().raw_decode(measured)  # the progress follows
        assert report["url"] == where
        assert report["measurements"][0]["requests"] > 0
        assert report["measurements"][0]["failed"] == 0
    command = braid("try", "echo", "-d", "IN=[1,2]", "--shape", "IN:2", "-u", http, "--curl")
    done = subprocess.run(command, shell=True, capture_output=True, timeout=60, check=True)
    assert json.loads(done.stdout)["outputs"][0]["data"] == [1.0, 2.0]
    assert braid("health", http) == f"{http} is ready\n"
    assert braid("health", "--live", f"unix://{module_folder}/metrics.sock").endswith("is live\n")
    away = f"unix:{module_folder}/away.sock"
    assert braid("health", away, status=1) == f"{away} is not ready: No such file or directory\n"
    assert f"cannot connect to {away}: No such file" in braid("try", "echo", "-u", away, status=1)


def test_limits_count_the_users_of_a_socket(repository, serve, folder):
    repository.add_identity("echo")
    server = serve(repository, *at(folder), "--max-connections-per-address=2")
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            client = stack.enter_context(contextlib.closing(UnixConnection(folder / "http.sock")))
            client.request("GET", "/v2/health/ready")
            assert client.getresponse().read() == b'{"ready": true}'
        with pytest.raises(OSError):
            ask(folder / "http.sock")
    assert server.metric_values()['braid_overload_refused_total{limit="max-connections-per-address"}'] == 1


def test_the_python_package(folder, tmp_path, repository):
    program = """
import sys, numpy as np, braid
braid._program.PROGRAM = sys.argv[3]
with braid.Server(sys.argv[1], options=["--http-address", "unix:" + sys.argv[2]]) as server:
    print(server.http, server.infer("echo", {"IN": np.float32([5, 6])})["OUT"].tolist())
"""
    repository.add_identity("echo")
    package = pathlib.Path(__file__).parent.parent / "python"
    done = subprocess.run(
        [sys.executable, "-c", program, repository.path, f"{folder}/p.sock", BINARY],
        capture_output=True, text=True, timeout=100, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(package)},
    )  # fmt: skip
    assert done.stdout == f"unix:{folder}/p.sock [5.0, 6.0]\n", done.stderr


# ---- TLS, tokens, management ----------------------------------------------------------------------


def test_tls_and_tokens_as_over_tcp(repository, serve, folder, tmp_path):
    repository.add_identity("echo")
    subprocess.run([BINARY.parent / "tests" / "native" / "make_certificates", tmp_path], check=True)
    tls = [f"--{protocol}-{rest}" for protocol in ("http", "grpc") for rest in (
        "use-ssl", f"server-cert={tmp_path}/server.pem", f"server-key={tmp_path}/server.key")]  # fmt: skip
    tokens, _ = access(tmp_path, "ann token-of-ann-0123456789\n", [])
    serve(repository, *at(folder), *tls, tokens, ready=False)
    words = ["-d", "IN=[1,2]", "--shape", "IN:2", "--ssl", "--ssl-ca", tmp_path / "root.pem"]
    token = ["-H", "Authorization: Bearer token-of-ann-0123456789"]
    for protocol in ("http", "grpc"):
        where = ["-u", f"unix:{folder}/{protocol}.sock", "-i", protocol]
        assert "1, 2" in braid("try", "echo", *words, *where, *token).rpartition("<")[2]
        braid("try", "echo", *words, *where, status=1)  # without the token
        untrusted = braid("try", "echo", *words[:-2], *where, *token, status=1)
        assert "TLS: unable to get local issuer certificate" in untrusted
    root = (tmp_path / "root.pem").read_bytes()
    name = [("grpc.ssl_target_name_override", "localhost")]
    with grpc.secure_channel(f"unix:{folder}/grpc.sock", grpc.ssl_channel_credentials(root), name) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        given = service_pb2.ModelMetadataRequest(name="echo")
        with pytest.raises(grpc.RpcError) as error:
            stub.ModelMetadata(given, timeout=60)
        assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED
        metadata = [("authorization", "Bearer token-of-ann-0123456789")]
        assert stub.ModelMetadata(given, metadata=metadata, timeout=60).name == "echo"
    assert braid("health", "--ssl", f"unix:{folder}/http.sock").endswith("is ready\n")
    braid("health", f"unix:{folder}/http.sock", status=1)


def test_management_at_a_socket(repository, serve, folder):
    repository.add_identity("echo")
    server = serve(
        repository, f"--admin-address=unix:{folder}/admin.sock", "--model-control-mode=explicit", "--load-model=echo"
    )
    assert server.admin == f"unix:{folder}/admin.sock"
    unload = "/v2/repository/models/echo/unload"
    assert server.request("POST", unload)[0] == 403
    assert ask(folder / "admin.sock", "POST", unload)[0] == 200


# ---- the file -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("option", "mode"), [([], 0o600), (["--unix-socket-mode=0660"], 0o660)])
def test_the_mode_of_the_file(repository, serve, folder, option, mode):
    repository.add_identity("echo")
    old = os.umask(0o077)
    try:
        serve(repository, *at(folder), *option)
    finally:
        os.umask(old)
    for port in PORTS:
        found = (folder / f"{port}.sock").stat().st_mode
        assert stat.S_ISSOCK(found)
        assert stat.S_IMODE(found) == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_other_users_may_connect_only_with_a_mode_for_them(repository, serve, folder):
    repository.add_identity("echo")
    folder.chmod(0o755)
    serve(repository, f"--http-address=unix:{folder}/a.sock")
    serve(repository, f"--http-address=unix:{folder}/b.sock", "--unix-socket-mode=0666")
    as_nobody = {"user": 65534, "group": 65534, "extra_groups": []}
    for name, status in (("a", 7), ("b", 0)):  # 7: curl could not connect
        done = subprocess.run(
            ["curl", "-s", "--unix-socket", folder / f"{name}.sock", "http://x/v2/health/ready"],
            timeout=60, cwd="/", **as_nobody,
        )  # fmt: skip
        assert done.returncode == status


def test_the_files_end_with_the_server(repository, serve, folder):
    repository.add_identity("echo")
    server = serve(repository, *at(folder), f"--admin-address=unix:{folder}/admin.sock")
    assert len(list(folder.iterdir())) == 4
    server.stop()
    assert list(folder.iterdir()) == []


def test_the_files_of_a_server_that_does_not_start_are_removed(repository, folder):
    repository.add("broken", "raise RuntimeError('no')")
    assert "creating server" in refused(repository, *at(folder))
    repository.remove("broken")
    assert "in use" in refused(repository, *at(folder, "http"), f"--grpc-address=unix:{folder}/http.sock")
    assert list(folder.iterdir()) == []


def test_the_file_of_another_is_left_when_the_server_ends(repository, serve, folder):
    repository.add_identity("echo")
    server = serve(repository, *at(folder, "http"))
    (folder / "http.sock").unlink()
    (folder / "http.sock").write_text("another file")
    server.stop()
    assert (folder / "http.sock").read_text() == "another file"


def test_a_dead_servers_file_is_replaced(repository, serve, folder):
    repository.add_identity("echo")
    serve(repository, *at(folder)).kill()
    left = (folder / "http.sock").stat().st_ino
    assert sorted(path.name for path in folder.iterdir()) == ["grpc.sock", "http.sock", "metrics.sock"]
    server = serve(repository, *at(folder), "--unix-socket-mode=0660")
    assert (folder / "http.sock").stat().st_mode & 0o777 == 0o660
    assert ask(folder / "http.sock")[0] == 200, left
    server.stop()


def test_a_living_servers_file_is_not_replaced(repository, serve, folder):
    repository.add_identity("echo")
    serve(repository, *at(folder))
    for port in PORTS:
        assert f"Socket 'unix:{folder}/{port}.sock' already in use" in refused(repository, *at(folder, port))
    assert ask(folder / "http.sock")[0] == 200
    with tritonclient.grpc.InferenceServerClient(f"unix:{folder}/grpc.sock") as client:
        assert client.is_server_live()


def test_one_of_many_servers_gets_the_file_of_a_dead_one(repository, folder, tmp_path):
    """Without a lock, one could remove another's new socket as a dead one."""
    repository.add_identity("echo")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(f"{folder}/http.sock")
    servers = []
    try:
        for _ in range(4):
            servers.append(
                Server([repository.path], *at(folder, "http"), workdir=tmp_path, ready=False, listening=False)
            )
        lost = 0
        for server in servers:
            with contextlib.suppress(AssertionError):
                server.find_ports()
                continue
            assert f"Socket 'unix:{folder}/http.sock' already in use" in server.log
            lost += 1
        assert lost == 3
        assert ask(folder / "http.sock")[0] == 200
    finally:
        for server in servers:
            server.kill()


def test_files_that_are_no_sockets_are_refused(repository, folder):
    repository.add_identity("echo")
    (folder / "file").write_text("mine")
    (folder / "link").symlink_to(folder / "away")
    (folder / "directory").mkdir()
    for name in ("file", "link", "directory"):
        text = refused(repository, f"--http-address=unix:{folder}/{name}")
        assert f"cannot listen on unix:{folder}/{name}: the file exists and is not a socket" in text
    assert (folder / "file").read_text() == "mine"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(f"{folder}/datagrams")
        assert "already in use" in refused(repository, f"--http-address=unix:{folder}/datagrams")
    text = refused(repository, f"--http-address=unix:{folder}/none/http.sock")
    assert f"cannot listen on unix:{folder}/none/http.sock: the folder {folder}/none: No such file or directory" in text


def test_faults_on_the_command_line(repository, folder):
    long = f"/{'x' * 120}"
    cases = {
        f"--http-address=127.0.0.1,unix:{long}": f"--http-address: 'unix:{long}' has a path of 121 bytes; a Unix "
        "socket's path has at most 107",
        "--grpc_bind_address=unix://host/x": "--grpc_bind_address: 'unix://host/x' names a host",
        "--grpc-address=unix-abstract:x": "abstract sockets have no permissions",
        "--metrics-address=unix:": "'unix:' has no file name",
        "--host=unix:/x": "--host: a Unix socket serves one protocol; use --http-address",
        "--admin-address=unix:/x,127.0.0.1:1": "is a list; management has one address",
        "--unix-socket-mode=0660": "--unix-socket-mode needs a Unix socket",
    }
    for option, text in cases.items():
        assert text in refused(repository, option)
    socket_option = f"--http-address=unix:{folder}/s"
    for mode in ("", "rw-rw----", "0o660", "680", "7", "1777", "00660", "-600", "0x1"):
        text = refused(repository, socket_option, f"--unix-socket-mode={mode}")
        assert f"--unix-socket-mode: '{mode}' must be an octal mode such as 0600 or 0660" in text
    assert "no client could connect with mode '0444'" in refused(repository, socket_option, "--unix-socket-mode=0444")
    assert "--reuse-http-port needs a port" in refused(repository, socket_option, "--reuse-http-port")
    # --host gives metrics an address; without it they have none.
    text = braid("serve", repository.path, socket_option, status=1)
    assert "--http-address has Unix sockets only, so metrics have no address" in text
    assert list(folder.iterdir()) == []


def test_print_config_shows_the_sockets(repository, folder):
    repository.add_identity("echo")
    shown = braid("serve", repository.path, *at(folder), "--unix-socket-mode=660", "--print-config")
    lines = {line.split()[0]: line.split()[1] for line in shown.splitlines() if len(line.split()) > 1}
    assert lines["http-address"] == f"unix:{folder}/http.sock"
    assert lines["metrics-address"] == f"unix:{folder}/metrics.sock"
    assert lines["unix-socket-mode"] == "0660"


# ---- lists ----------------------------------------------------------------------------------------


def test_lists_of_ip_addresses_and_sockets(repository, serve, folder):
    repository.add_identity("echo")
    server = serve(repository, *(f"--{port}-address=127.0.0.1,::1,unix:{folder}/{port}.sock" for port in PORTS))
    numbers = {}
    for port in PORTS:
        host, _, numbers[port] = getattr(server, port).rpartition(":")
        assert host == "127.0.0.1"
        for other in (f"[::1]:{numbers[port]}", f"unix:{folder}/{port}.sock"):
            assert f"{port} {other}" in server.stdout
    for address in (server.http, f"[::1]:{numbers['http']}", f"unix:{folder}/http.sock"):
        assert braid("health", address).endswith("is ready\n")
    for address in (server.grpc, f"[::1]:{numbers['grpc']}", f"unix:{folder}/grpc.sock"):
        with tritonclient.grpc.InferenceServerClient(address) as client:
            assert client.is_model_ready("echo")
    # The name in a request matters over TCP, where pages of a browser send requests.
    assert server.request("GET", "/v2/health/ready", headers={"Host": "evil.example"})[0] == 403
    assert ask(folder / "http.sock", host="evil.example")[0] == 200
    assert ask(folder / "metrics.sock", target="/metrics")[0] == 200


def test_lists_of_all_addresses_of_both_families(repository, serve):
    repository.add_identity("echo")
    server = serve(repository, "--http-address=0.0.0.0,::")
    port = server.http.rpartition(":")[2]
    for host in ("127.0.0.1", "[::1]"):
        assert braid("health", f"{host}:{port}").endswith("is ready\n")


def test_options_of_openvino_model_server(repository, serve, folder):
    repository.add_identity("echo")
    port = free_port()
    server = serve(
        repository, f"--grpc_bind_address=unix:{folder}/g.sock,127.0.0.1", f"--port={port}",
        f"--rest_bind_address=unix:{folder}/r.sock", "--rest_port=8123",
    )  # fmt: skip
    assert (server.http, server.grpc) == (f"unix:{folder}/r.sock", f"unix:{folder}/g.sock")
    assert "--rest_port has no effect: --http-address has Unix sockets only" in server.log
    for address in (server.grpc, f"127.0.0.1:{port}"):
        with tritonclient.grpc.InferenceServerClient(address) as client:
            assert client.is_server_live()


def test_a_socket_turns_its_protocol_on_without_a_port(folder, serve, repository, tmp_path):
    """With a config.json, a port alone turns the other protocol off."""
    repository.add_identity("echo")
    (tmp_path / "config.json").write_text('{"model_config_list": []}')
    port = free_port()
    server = serve(
        repository, f"--config_path={tmp_path}/config.json", f"--rest_bind_address=unix:{folder}/r.sock",
        f"--port={port}", "--metrics-port=0",
    )  # fmt: skip
    assert (server.http, server.grpc) == (f"unix:{folder}/r.sock", f"127.0.0.1:{port}")


def test_a_signal_during_requests_leaves_their_answers(repository, serve, folder):
    source = per_request(
        """
        open(os.path.join(self.args["model_repository"], "STARTED"), "w").close()
        time.sleep(0.3)
        return respond(OUT=get(request, "IN"))
        """
    )
    repository.add("slow", source, config("slow", [("IN", "FP32", [2])], [("OUT", "FP32", [2])]))
    server = serve(repository, *at(folder))
    with contextlib.closing(UnixConnection(folder / "http.sock")) as connection:
        connection.request("POST", "/v2/models/slow/infer", BODY)
        wait_until((repository.path / "slow" / "STARTED").exists, 20.0, "the execution")
        server.process.send_signal(signal.SIGTERM)
        assert json.loads(connection.getresponse().read())["outputs"][0]["data"] == [3.0, 4.0]
    server.stop()
    assert list(folder.iterdir()) == []
