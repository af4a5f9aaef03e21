"""Models in object storage (docs/object-storage.md), by way of rclone and emulators of the stores."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import uuid

import pytest
from harness import openvino_models
from harness.environments import REPORT, make_environment, pack, parameter
from harness.object_stores import S3, Azure, BadNetwork, Google, credential_file
from harness.ovms import OvmsServer
from harness.repository import config, per_request
from harness.server import BINARY, Server, alive, children
from harness.waiting import wait_until

pytestmark = pytest.mark.skipif(shutil.which("rclone") is None, reason="needs Debian's package rclone")

IO = [("IN", "INT32", [-1])], [("OUT", "INT32", [-1])]
POLL = ("--model-control-mode", "poll", "--repository-poll-secs", 1)
BIG = os.urandom(1 << 20)


def times(factor):
    return per_request(f"return respond(OUT=get(request, 'IN') * {factor})")


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    with S3(tmp_path_factory.mktemp("s3")) as store:
        yield store


@pytest.fixture
def bucket(s3):
    return s3.bucket(f"models-{uuid.uuid4().hex[:12]}")


def put_model(store, name, factor=2, version=1, prefix="repo/"):
    store.put(f"{prefix}{name}/{version}/model.py", times(factor))
    store.put(f"{prefix}{name}/config.pbtxt", config(name, *IO))


def infer(server, model, version=""):
    """Returns the answer to 5, or the error."""
    inputs = [{"name": "IN", "datatype": "INT32", "shape": [1], "data": [5]}]
    path = f"/v2/models/{model}" + (f"/versions/{version}" if version else "")
    status, answer = server.json("POST", f"{path}/infer", {"inputs": inputs})
    return answer["outputs"][0]["data"][0] if status == 200 else answer["error"]


def load(server, model):
    """Returns the error of a load; "" if it succeeds."""
    status, answer = server.json("POST", f"/v2/repository/models/{model}/load", {})
    return "" if status == 200 else answer["error"]


def index(server):
    return {(each["name"], each.get("state")) for each in server.json("POST", "/v2/repository/index")[1]}


def copies(server):
    """Returns the folders of all copies that the server has."""
    return sorted(server.tempdir.glob("braid-models-*/*"))


def copied_files(server):
    return sorted(str(path.name) for path in server.tempdir.glob("braid-models-*/**/*") if path.is_file())


def starts_not(url, env, tmp_path, *options):
    """Returns the output of a server that does not start."""
    ran = subprocess.run(
        [BINARY, "serve", url, "--http-port", "0", "--grpc-port", "0", "--metrics-port", "0", *map(str, options)],
        env={**os.environ, **env, "TMPDIR": str(tmp_path)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ran.returncode != 0
    assert not list(tmp_path.glob("braid-models-*"))
    return ran.stderr + ran.stdout


# ---- polling -----------------------------------------------------------------------------------------


def test_polling_follows_the_store(bucket, serve):
    put_model(bucket, "a")
    put_model(bucket, "b", 3)
    server = serve(bucket.url + "/repo", *POLL, env=bucket.env)
    assert (infer(server, "a"), infer(server, "b")) == (10, 15)
    unchanged = server.json("GET", "/v2/models/b/stats")[1]["model_stats"][0]["inference_count"]

    put_model(bucket, "a", 4, version=2)
    wait_until(lambda: infer(server, "a") == 20, what="the new version")
    bucket.put("repo/a/2/model.py", times(6))
    wait_until(lambda: infer(server, "a") == 30, what="the changed file")
    put_model(bucket, "c", 7)
    wait_until(lambda: infer(server, "c") == 35, what="the new model")
    # Of three changes, none made model b new.
    assert server.json("GET", "/v2/models/b/stats")[1]["model_stats"][0]["inference_count"] == unchanged
    assert infer(server, "b") == 15
    bucket.delete("repo/a/2/")
    wait_until(lambda: infer(server, "a") == 10, what="the previous version")
    bucket.delete("repo/c/")
    wait_until(lambda: ("c", "READY") not in index(server), what="the end of the deleted model")
    # One copy for each model; those of earlier states are removed.
    wait_until(lambda: len(copies(server)) == 2, what="the removal of unused copies")
    server.stop()  # asserts that nothing is left in the temporary folder


def test_a_running_version_keeps_its_files(bucket, serve):
    """The model reads its file after the store has another; the server links unchanged files."""
    source = per_request(
        "text = open(os.path.join(self.args['model_repository'], 'factor.txt')).read()\n"
        "return respond(OUT=get(request, 'IN') * int(text))"
    )
    bucket.put("repo/a/1/model.py", source)
    bucket.put("repo/a/config.pbtxt", config("a", *IO))
    bucket.put("repo/a/factor.txt", "2")
    bucket.put("repo/a/weights.bin", BIG)
    server = serve(bucket.url + "/repo", "--model-control-mode", "explicit", "--load-model", "a", env=bucket.env)
    [before] = server.tempdir.glob("braid-models-*/*/a/weights.bin")
    inode = before.stat().st_ino
    bucket.put("repo/a/factor.txt", "3")
    bucket.put("repo/a/1/model.py", "def")
    assert "SyntaxError" in load(server, "a")
    assert infer(server, "a") == 10
    bucket.put("repo/a/1/model.py", source)
    assert load(server, "a") == ""
    assert infer(server, "a") == 15
    wait_until(lambda: len(copies(server)) == 1, what="the removal of unused copies")
    [after] = server.tempdir.glob("braid-models-*/*/a/weights.bin")
    assert after.stat().st_ino == inode
    assert after != before


# ---- loads on request --------------------------------------------------------------------------------


def test_a_load_copies_its_model_only(bucket, serve):
    put_model(bucket, "a")
    put_model(bucket, "b", 3)
    ensemble = """
        platform: "ensemble"
        input { name: "IN" data_type: TYPE_INT32 dims: [-1] } output { name: "OUT" data_type: TYPE_INT32 dims: [-1] }
        ensemble_scheduling { step {
          model_name: "b" model_version: -1 input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" }
        } }
    """
    bucket.put("repo/e/config.pbtxt", ensemble)
    bucket.put("repo/e/1/empty", "x")
    server = serve(bucket.url + "/repo", "--model-control-mode", "explicit", env=bucket.env)
    assert {name for name, _ in index(server)} == {"a", "b", "e"}
    assert copies(server) == []
    assert load(server, "a") == ""
    assert infer(server, "a") == 10
    assert copied_files(server) == ["config.pbtxt", "model.py"]
    assert load(server, "e") == ""  # and the model that it uses
    assert infer(server, "e") == 15
    assert load(server, "nothing") == "failed to load 'nothing', failed to poll from model repository"
    bucket.put("repo/a/1/model.py", times(9))
    assert load(server, "a") == ""
    assert infer(server, "a") == 45


def test_a_model_without_its_bucket_says_so(bucket, tmp_path):
    out = starts_not(bucket.at(bucket.port).replace(bucket.name, "nothing-here") + "/repo", bucket.env, tmp_path)
    assert "nothing-here/repo': there is no such bucket or container (" in out
    # A prefix without objects is an empty repository.
    assert "has no model folder" in starts_not(
        bucket.url + "/wrong", bucket.env, tmp_path, "--model-control-mode", "explicit", "--load-model", "a"
    )


def test_without_rclone_the_error_names_it(bucket, tmp_path):
    (tmp_path / "empty").mkdir()
    out = starts_not(bucket.url, {**bucket.env, "PATH": str(tmp_path / "empty")}, tmp_path)
    assert "needs the program rclone, which is not on the PATH; install Debian's package rclone" in out


# ---- failures ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "seconds", "text"),
    [
        ("cut", 60, "unexpected EOF"),
        ("change", 60, "corrupted on transfer"),
        ("stall", 1, "made no progress in 1 s|i/o timeout|deadline exceeded"),
    ],
)
def test_a_bad_network_leaves_the_old_version(bucket, serve, fault, seconds, text):
    put_model(bucket, "a")
    with BadNetwork(bucket.port) as network:
        options = ("--model-control-mode", "explicit", "--storage-timeout-secs", seconds)
        server = serve(bucket.at(network.port) + "/repo", *options, env=bucket.env)
        # A busy machine may need more than a second.
        wait_until(lambda: load(server, "a") == "", what="the load")
        bucket.put("repo/a/1/model.py", times(3))
        bucket.put("repo/a/1/weights.bin", BIG)
        network.fault = fault
        answer = load(server, "a")
        assert answer.startswith("failed to load 'a', failed to poll from model repository: 's3://"), answer
        assert re.search(text, answer), answer
        assert infer(server, "a") == 10
        assert len(copies(server)) == 1
        network.fault = None
        wait_until(lambda: load(server, "a") == "", what="the load")
        assert infer(server, "a") == 15
        server.stop()


def test_a_full_disk_leaves_the_old_version(bucket, serve, tmp_path):
    """The limit on a file's size ends rclone as a full disk does; a copy that does not fit is not begun."""
    put_model(bucket, "a")
    options = ("--model-control-mode", "explicit", "--load-model", "a")
    limits = tmp_path / "limits"
    limits.write_text('#!/bin/sh\nulimit -f 1024\nexec /usr/bin/rclone "$@"\n')
    folder = tmp_path / "bin"
    folder.mkdir()
    limits.chmod(0o755)
    limits.rename(folder / "rclone")
    env = {**bucket.env, "PATH": f"{folder}:{os.environ['PATH']}"}
    server = serve(bucket.url + "/repo", *options, env=env)
    bucket.put("repo/a/1/weights.bin", BIG)
    assert "file too large" in load(server, "a")
    assert infer(server, "a") == 10
    bucket.delete("repo/a/1/weights.bin")
    assert load(server, "a") == ""


def test_a_poll_that_fails_unloads_nothing(bucket, serve):
    put_model(bucket, "a")
    with BadNetwork(bucket.port) as network:
        server = serve(bucket.at(network.port) + "/repo", *POLL, "--storage-timeout-secs", 5, env=bucket.env)
        network.close()
        server.wait_for_log("failed to poll the model repository: 's3://.*connection refused")
        assert infer(server, "a") == 10


def test_the_end_of_the_server_ends_a_copy(bucket, serve):
    put_model(bucket, "a")
    bucket.put("repo/a/1/weights.bin", BIG)
    with BadNetwork(bucket.port) as network:
        network.fault = "stall"
        server = serve(bucket.at(network.port) + "/repo", env=bucket.env, ready=False, listening=False)
        server.wait_for_log("copying 's3://")
        wait_until(lambda: rclones(server), what="a process of rclone")
        [pid] = rclones(server)
        arguments = pathlib.Path(f"/proc/{pid}/cmdline").read_text()
        assert bucket.env["AWS_SECRET_ACCESS_KEY"] not in arguments
        server.stop()
        assert not alive(pid)


def rclones(server):
    found = []
    for pid in children(server.process.pid):
        try:
            if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "rclone":
                found.append(pid)
        except OSError:
            pass
    return found


# ---- names -------------------------------------------------------------------------------------------

HOSTILE = {
    "a parent": "repo/m/1/../../../escaped",
    "a parent of the model": "repo/m/../escaped",
    "an empty part": "repo/m//etc/escaped",
    "a control character": "repo/m/1/esc\x01aped",
    "a backslash": "repo/m/1/esc\\aped",
    "a file and a folder": "repo/m/1/model.py/escaped",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_key_is_refused(bucket, serve, tmp_path, name):
    put_model(bucket, "good", 3)
    put_model(bucket, "m")
    bucket.put(HOSTILE[name], "x")
    server = serve(bucket.url + "/repo", "--exit-on-error=false", *POLL, env=bucket.env, ready=False)
    wait_until(lambda: infer(server, "good") == 15, what="the other model")
    assert "m" not in {model for model, state in index(server) if state == "READY"}
    assert "name that no file of a model can have" in server.log or "is also the folder of another" in server.log
    assert not [path for path in tmp_path.rglob("*") if "escaped" in path.name]


def test_a_hostile_name_of_a_model_is_skipped(bucket, serve, tmp_path):
    put_model(bucket, "good", 3)
    for key in ("repo/../escaped/config.pbtxt", "repo//escaped", "repo/./escaped/1/model.py", "repo/escaped"):
        bucket.put(key, "x")
    server = serve(bucket.url + "/repo", *POLL, env=bucket.env)
    assert infer(server, "good") == 15
    assert {name for name, _ in index(server)} == {"good"}
    assert "skipping a folder of the model repository" in server.log
    assert not [path for path in tmp_path.rglob("*") if "escaped" in path.name]


# ---- credentials -------------------------------------------------------------------------------------


def test_wrong_credentials_are_refused_and_not_shown(bucket, s3, tmp_path):
    env = {**bucket.env, "AWS_ACCESS_KEY_ID": "wrong", "AWS_SECRET_ACCESS_KEY": "the/wrong+secret"}
    s3.demand_credentials(True)
    try:
        out = starts_not(bucket.url, env, tmp_path)
    finally:
        s3.demand_credentials(False)
    assert "rclone: " in out
    assert "InvalidAccessKeyId" in out
    assert "the/wrong+secret" not in out


def test_the_endpoint_is_a_variable(bucket, serve):
    put_model(bucket, "a")
    env = {**bucket.env, "S3_ENDPOINT": f"http://127.0.0.1:{bucket.port}"}
    assert infer(serve(bucket.plain + "/repo", env=env), "a") == 10


def test_credentials_by_prefix(bucket, s3, serve, tmp_path):
    """Each repository has its own key; moto names the key of a request by the headers that it logs."""
    put_model(bucket, "a")
    other = s3.bucket(f"{bucket.name}-2")
    put_model(other, "b", 3)
    key = {"key_id": "first", "secret_key": "1", "region": "us-east-1", "session_token": "", "profile": ""}
    content = {"s3": {"": key, other.url: {**key, "key_id": "second"}}}
    env = {**bucket.env, "TRITON_CLOUD_CREDENTIAL_PATH": credential_file(tmp_path / "credentials.json", content)}
    env |= {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_EC2_METADATA_DISABLED": "true"}
    server = serve(bucket.url + "/repo", "--model-repository", other.url + "/repo", env=env)
    assert (infer(server, "a"), infer(server, "b")) == (10, 15)

    content["s3"][""]["secret"] = "typo"
    env["TRITON_CLOUD_CREDENTIAL_PATH"] = credential_file(tmp_path / "wrong.json", content)
    out = starts_not(bucket.url, env, tmp_path)
    assert "TRITON_CLOUD_CREDENTIAL_PATH '" in out
    assert "/s3//secret: unknown key" in out
    assert "typo" not in out


def test_a_public_bucket_needs_no_credentials(s3, serve):
    bucket = s3.bucket(f"public-{uuid.uuid4().hex[:12]}", "public-read")
    put_model(bucket, "a")
    env = {**bucket.env, "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_EC2_METADATA_DISABLED": "true"}
    env |= {"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"}
    assert infer(serve(bucket.url + "/repo", env=env), "a") == 10


def test_print_config_shows_the_url(tmp_path):
    for url, code, text in (
        ("s3://bucket/models", 0, "s3://bucket/models"),
        ("s3://key:secret@host:9000/bucket", 1, "without credentials"),
        ("hdfs://bucket/models", 1, "expected a folder, or a URL with s3://, gs://, as:// or az://"),
    ):
        ran = subprocess.run([BINARY, "serve", url, "--print-config"], capture_output=True, text=True, timeout=20)
        assert (ran.returncode, text in ran.stdout + ran.stderr) == (code, True), ran
        assert "secret" not in ran.stdout + ran.stderr


def test_check_refuses_a_url():
    ran = subprocess.run([BINARY, "check", "s3://bucket/models"], capture_output=True, text=True, timeout=20)
    assert ran.returncode != 0
    assert "'s3://bucket/models' is in object storage; braid check reads local files" in ran.stderr + ran.stdout


# ---- the other stores --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Google, Azure])
def test_other_stores(kind, serve, tmp_path):
    with kind(tmp_path) as store:
        put_model(store, "a")
        server = serve(store.url + "/repo", "--model-control-mode", "explicit", "--load-model", "*", env=store.env)
        assert infer(server, "a") == 10
        put_model(store, "a", 3, version=2)
        assert load(server, "a") == ""
        assert infer(server, "a") == 15
        server.stop()


# ---- config.json and environments --------------------------------------------------------------------


def put_network(bucket, folder, factor, version):
    openvino_models.save(openvino_models.scale((1, 2), factor), folder, version)
    bucket.put_folder(folder, "ovms/scale")


def scaled(server):
    status, answer = server.json("POST", "/v1/models/scale:predict", {"inputs": {"x": [[1, 2]]}})
    return answer["outputs"] if status == 200 else answer["error"]


def test_base_path_of_a_config_json(bucket, tmp_path):
    put_network(bucket, tmp_path / "scale", 2, 1)
    entry = {"config": {"name": "scale", "base_path": bucket.url + "/ovms/scale"}}
    content = {"model_config_list": [entry]}
    with OvmsServer(content, "--file_system_poll_wait_seconds", 1, workdir=tmp_path, env=bucket.env) as server:
        assert scaled(server) == [[2, 4]]
        put_network(bucket, tmp_path / "scale", 3, 2)
        wait_until(lambda: scaled(server) == [[3, 6]], what="the new version")
        bucket.delete("ovms/scale/2/")
        wait_until(lambda: scaled(server) == [[2, 4]], what="the previous version")
        server.write_config({"model_config_list": []})
        wait_until(lambda: copies(server) == [], what="the removal of the copies")


def test_base_path_that_cannot_be_copied(bucket, tmp_path):
    entry = {"config": {"name": "scale", "base_path": bucket.url + "/ovms/scale"}}
    with OvmsServer({"model_config_list": [entry]}, workdir=tmp_path, env=bucket.env) as server:
        assert f"'{bucket.url}/ovms/scale' has no objects" in server.log
        put_network(bucket, tmp_path / "scale", 2, 1)
        assert server.reload()[0] == 201
        assert scaled(server) == [[2, 4]]


def test_model_path_on_the_command_line(bucket, serve, tmp_path):
    put_network(bucket, tmp_path / "scale", 2, 1)
    options = ("--model_name", "scale", "--model_path", bucket.url + "/ovms/scale")
    with Server([], *options, workdir=tmp_path, env=bucket.env) as server:
        assert scaled(server) == [[2, 4]]


def test_an_environment_in_the_store(bucket, repository, serve, tmp_path):
    make_environment(tmp_path / "env", "one")
    pack(tmp_path / "env", tmp_path / "env.tar.gz")
    bucket.put("envs/env.tar.gz", (tmp_path / "env.tar.gz").read_bytes())
    for name, url in (("a", "env"), ("b", "env"), ("c", "nothing")):
        text = config(name, [], [("REPORT", "STRING", [1])])
        repository.add(name, REPORT, text + parameter("EXECUTION_ENV_PATH", f"{bucket.url}/envs/{url}.tar.gz"))
    options = ("--model-control-mode", "explicit", "--load-model", "a", "--load-model", "b")
    server = serve(repository, *options, env=bucket.env)
    places = set()
    for name in ("a", "b"):
        status, answer = server.json("POST", f"/v2/models/{name}/infer", {"inputs": []})
        report = json.loads(answer["outputs"][0]["data"][0])
        assert report["tiny"] == "one"
        places.add(report["prefix"])
    assert len(places) == 1  # both models share it
    assert copies(server) == []  # of the archive
    assert f"'{bucket.url}/envs/nothing.tar.gz' is not a file" in load(server, "c")
    server.stop()
