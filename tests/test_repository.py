"""The model repository (16): control modes, loading and unloading, versions, and the index."""

import base64
import concurrent.futures
import json
import subprocess

import numpy as np
import pytest
import tritonclient.http as httpclient
from harness.repository import IDENTITY, Repository, config, per_request
from harness.server import BINARY
from harness.waiting import wait_until

ONE = np.array([1], dtype=np.float32)


def plus(number):
    """Returns a model that adds a number, so that a test can tell two models apart."""
    return per_request(f"return respond(OUT=get(request, 'IN') + np.float32({number}))")


PLUS_CONFIG = config(None, [("IN", "FP32", [1])], [("OUT", "FP32", [1])])
PLUS_JSON = {
    "backend": "python",
    "input": [{"name": "IN", "data_type": "TYPE_FP32", "dims": [1]}],
    "output": [{"name": "OUT", "data_type": "TYPE_FP32", "dims": [1]}],
}


def ask(client, model, version=""):
    return client.infer(model, {"IN": ONE}, model_version=version).as_numpy("OUT")[0] - 1


def index(server, **filters):
    status, body = server.json("POST", "/v2/repository/index", filters or None)
    assert status == 200
    return sorted(body, key=lambda model: (model["name"], model.get("version", "")))


@pytest.fixture
def explicit(repository, serve):
    """A server in explicit mode over a repository with models `a` and `b`."""
    repository.add("a", plus(1), PLUS_CONFIG)
    repository.add("b", plus(2), PLUS_CONFIG)
    return serve(repository, "--model-control-mode=explicit", "--load-model=a")


# ---- explicit mode -------------------------------------------------------------------------------


def test_only_named_models_are_loaded(explicit):
    assert index(explicit) == [{"name": "a", "version": "1", "state": "READY"}, {"name": "b"}] or [
        m.get("state") for m in index(explicit)
    ] == ["READY", None]
    assert [m["name"] for m in index(explicit, ready=True)] == ["a"]
    assert explicit.request("GET", "/v2/health/ready")[0] == 200


def test_a_version_without_its_file_says_so(explicit, repository):
    (repository.path / "b" / "1" / "model.py").unlink()
    status, body = explicit.json("POST", "/v2/repository/models/b/load")
    assert status == 400
    assert "Failed to preinitialize Python stub: Python model file not found in 'b/1/model.py'" in body["error"]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_load_and_unload(explicit, connect, protocol):
    client = connect(protocol, explicit)
    client.raw.load_model("b")
    assert client.raw.is_model_ready("b")
    assert ask(client, "b") == 2
    client.raw.unload_model("b")
    wait_until(lambda: not client.raw.is_model_ready("b"), 10, "the end of b")
    wait_until(lambda: index(explicit)[1].get("state") == "UNAVAILABLE", 10, "state UNAVAILABLE")
    assert index(explicit)[1]["reason"] == "unloaded"
    assert explicit.request("GET", "/v2/health/ready")[0] == 200
    assert ask(client, "a") == 1


def test_asking_an_unloaded_model(explicit, connect):
    client = connect("grpc", explicit)
    client.raw.unload_model("a")
    wait_until(lambda: not client.raw.is_model_ready("a"), 10, "the end of a")
    with client.fails("NOT_FOUND", contains="Request for unknown model: 'a'"):
        ask(client, "a")


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_model_that_is_not_in_the_repository(explicit, connect, protocol):
    client = connect(protocol, explicit)
    with client.fails("INTERNAL", contains="failed to load 'nope', failed to poll from model repository"):
        client.raw.load_model("nope")


def test_unloading_an_unknown_model_succeeds(explicit, connect):
    for protocol in ("http", "grpc"):
        connect(protocol, explicit).raw.unload_model("nope")


def test_load_of_an_unchanged_model_changes_nothing(explicit, connect):
    client = connect("http", explicit)
    ask(client, "a")
    client.raw.load_model("a")
    assert explicit.json("GET", "/v2/models/a/stats")[1]["model_stats"][0]["inference_count"] == 1


def test_load_of_a_changed_model_replaces_it(explicit, connect, repository):
    client = connect("http", explicit)
    assert ask(client, "a") == 1
    repository.add("a", plus(10), PLUS_CONFIG)
    client.raw.load_model("a")
    assert ask(client, "a") == 10


def test_failed_reload_keeps_the_old_model(explicit, connect, repository):
    client = connect("http", explicit)
    repository.add("a", "this is no Python", PLUS_CONFIG)
    status, body = explicit.json("POST", "/v2/repository/models/a/load", {})
    assert status == 400
    assert "SyntaxError" in body["error"]
    assert ask(client, "a") == 1


def test_text_of_a_failed_load(explicit, repository):
    repository.add("bad", "raise ValueError('at import')", PLUS_CONFIG)
    status, body = explicit.json("POST", "/v2/repository/models/bad/load", {})
    assert status == 400
    assert body["error"].startswith("load failed for model 'bad': version 1 is at UNAVAILABLE state: Internal: ")
    assert "ValueError: at import" in body["error"]
    assert body["error"].endswith(";\n")
    entry = [m for m in index(explicit) if m["name"] == "bad"][0]
    assert entry["state"] == "UNAVAILABLE"
    assert entry["reason"].startswith("Internal: ")
    explicit.wait_for_log(r"failed to load 'bad' version 1: Internal: ")


def test_config_override_takes_the_place_of_the_file(explicit, connect):
    client = connect("http", explicit)
    override = {**PLUS_JSON, "parameters": {"color": {"string_value": "blue"}}}
    client.raw.load_model("a", config=json.dumps(override))
    assert client.raw.get_model_config("a")["parameters"] == {"color": {"string_value": "blue"}}
    assert ask(client, "a") == 1


def test_bad_config_override_keeps_what_is_loaded(explicit, connect):
    for text in ("{nonsense", '{"no_such_field": 1}', '{"max_batch_size": "many"}'):
        status, body = explicit.json("POST", "/v2/repository/models/a/load", {"parameters": {"config": text}})
        assert status == 500, body
        assert body["error"].startswith(
            "failed to load 'a', failed to poll from model repository: Invalid config override: "
        )
    assert ask(connect("http", explicit), "a") == 1


def test_model_that_exists_only_in_the_request(explicit, connect, repository):
    for protocol in ("http", "grpc"):
        client = connect(protocol, explicit)
        client.raw.load_model("memory", config=json.dumps(PLUS_JSON), files={"file:1/model.py": plus(33).encode()})
        assert ask(client, "memory") == 33
        client.raw.unload_model("memory")
        wait_until(lambda c=client: not c.raw.is_model_ready("memory"), 10, "the end of memory")
    assert not (repository.path / "memory").exists()


def test_files_in_the_request_replace_the_folder(explicit, connect):
    client = connect("http", explicit)
    client.raw.load_model("a", config=json.dumps(PLUS_JSON), files={"file:7/model.py": plus(70).encode()})
    assert ask(client, "a") == 70
    assert explicit.json("GET", "/v2/models/a")[1]["versions"] == ["7"]


@pytest.mark.parametrize("path", ["../evil.py", "1/../../evil.py", "/etc/evil.py/../../x", "..", "1/../../../x"])
def test_files_cannot_leave_the_model(explicit, repository, path):
    parameters = {
        "config": json.dumps(PLUS_JSON),
        f"file:{path}": base64.b64encode(b"x").decode(),
        "file:1/model.py": base64.b64encode(plus(1).encode()).decode(),
    }
    status, _ = explicit.json("POST", "/v2/repository/models/evil/load", {"parameters": parameters})
    assert status >= 400
    assert not list(repository.path.parent.rglob("evil.py"))


def test_files_need_a_config(explicit):
    parameters = {"file:1/model.py": base64.b64encode(IDENTITY.encode()).decode()}
    status, _ = explicit.json("POST", "/v2/repository/models/files_only/load", {"parameters": parameters})
    assert status >= 400


@pytest.mark.parametrize("name", ["..", "a/../b", "%2e%2e", "%2e%2e%2f%2e%2e%2fetc"])
def test_model_names_are_not_paths(explicit, name):
    assert explicit.request("POST", f"/v2/repository/models/{name}/load", "{}")[0] in (400, 404, 405, 500)
    assert explicit.request("GET", f"/v2/models/{name}/config")[0] in (400, 404)


def test_repository_name_is_not_supported(explicit, connect):
    from tritonclient.grpc import service_pb2

    stub = connect("grpc", explicit).raw._client_stub
    with pytest.raises(Exception, match="'repository_name' specification is not supported"):
        stub.RepositoryModelLoad(service_pb2.RepositoryModelLoadRequest(repository_name="r", model_name="a"))
    with pytest.raises(Exception, match="'repository_name' specification is not supported"):
        stub.RepositoryIndex(service_pb2.RepositoryIndexRequest(repository_name="r"))


def test_index_refuses_a_filter_that_is_no_boolean(explicit):
    assert explicit.json("POST", "/v2/repository/index", {"ready": "yes"}) == (
        400,
        {"error": "Invalid value for 'ready': expected a boolean"},
    )
    # Deeper than the JSON of requests may be nested.
    for depth in (1, 99, 150, 3000):
        status, _, body = explicit.request(
            "POST", "/v2/repository/index", '{"x": 1, "ready": ' + "[" * depth + "]" * depth + "}"
        )
        assert status == 400
        assert json.loads(body)["error"] == "Invalid value for 'ready': expected a boolean"


def test_index_takes_an_empty_body(explicit):
    assert explicit.request("POST", "/v2/repository/index")[0] == 200


def test_requests_survive_a_reload(explicit, connect, repository):
    import threading

    stop = threading.Event()
    wrong = []

    def hammer():
        client = connect("grpc", explicit)
        while not stop.is_set():
            try:
                if ask(client, "a") not in (1, 2, 3, 4):
                    wrong.append("a wrong answer")
            except Exception as error:
                wrong.append(repr(error))

    threads = [threading.Thread(target=hammer) for _ in range(4)]
    for thread in threads:
        thread.start()
    client = connect("http", explicit)
    for number in (2, 3, 4):
        repository.add("a", plus(number), PLUS_CONFIG)
        client.raw.load_model("a")
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[:3]
    assert ask(client, "a") == 4


def test_a_server_is_ready_while_what_was_replaced_ends(repository, serve, connect):
    """A server stays ready while replaced models end; otherwise each change of a model would stop its traffic."""
    source = per_request("""
        folder = self.args["model_repository"]
        while self.args["model_version"] == "1" and not os.path.exists(folder + "/GO"):
            open(folder + "/STARTED", "w").close()
            time.sleep(0.01)
        return respond(OUT=get(request, "IN"))
    """)
    repository.add("m", source, PLUS_CONFIG)
    server = serve(repository, "--model-control-mode=explicit", "--load-model=m")
    client, other = connect("grpc", server), connect("grpc", server)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        runs = pool.submit(ask, client, "m")
        try:
            wait_until((repository.path / "m" / "STARTED").exists, 20, "the request to run")
            repository.add("m", source, PLUS_CONFIG, versions=(2,))
            other.raw.load_model("m")
            assert [(each["version"], each["state"]) for each in index(server)] == [("1", "UNLOADING"), ("2", "READY")]
            assert server.request("GET", "/v2/health/ready")[0] == 200
            assert other.raw.is_server_ready()
        finally:
            (repository.path / "m" / "GO").touch()
        assert runs.result() == 0


def test_star_loads_all(repository, serve):
    repository.add("a", plus(1), PLUS_CONFIG)
    repository.add("b", plus(2), PLUS_CONFIG)
    server = serve(repository, "--model-control-mode=explicit", "--load-model=*")
    assert [m["state"] for m in index(server)] == ["READY", "READY"]


# ---- none and poll -------------------------------------------------------------------------------


def test_no_load_by_request_in_mode_none(repository, serve, connect):
    repository.add("a", plus(1), PLUS_CONFIG)
    server = serve(repository)
    for protocol in ("http", "grpc"):
        client = connect(protocol, server)
        for call in (client.raw.load_model, client.raw.unload_model):
            with client.fails("UNAVAILABLE", "explicit model load / unload is not allowed if polling is enabled"):
                call("a")
    assert ask(connect("http", server), "a") == 1


def test_poll_sees_new_changed_and_removed_models(repository, serve, connect):
    repository.add("a", plus(1), PLUS_CONFIG)
    server = serve(repository, "--model-control-mode=poll", "--repository-poll-secs=1")
    client = connect("http", server)
    assert ask(client, "a") == 1
    repository.add("b", plus(2), PLUS_CONFIG)
    wait_until(lambda: client.raw.is_model_ready("b"), 20, "b")
    repository.add("a", plus(11), PLUS_CONFIG)
    wait_until(lambda: ask(client, "a") == 11, 20, "the new a")
    repository.remove("b")
    wait_until(lambda: not client.raw.is_model_ready("b"), 20, "the end of b")
    assert ask(client, "a") == 11


# ---- versions and layout -------------------------------------------------------------------------


def versions_of(server, name):
    return server.json("GET", f"/v2/models/{name}")[1]["versions"]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("", ["10"]),
        ("version_policy { latest { num_versions: 2 } }", ["9", "10"]),
        ("version_policy { all { } }", ["1", "9", "10"]),
        ("version_policy { specific { versions: [1, 9] } }", ["1", "9"]),
    ],
)
def test_version_policy(repository, serve, connect, policy, expected):
    source = per_request("return respond(OUT=np.array([int(self.args['model_version'])], dtype=np.float32))")
    repository.add("a", source, PLUS_CONFIG + policy, versions=(1, 9, 10))
    for ignored in ("01", "x", "0", "-1"):
        (repository.path / "a" / ignored).mkdir()
    server = serve(repository)
    assert sorted(versions_of(server, "a"), key=int) == expected
    client = connect("http", server)
    for version in expected:
        assert ask(client, "a", version) + 1 == int(version)
    assert ask(client, "a") + 1 == int(expected[-1])


def test_two_repositories(tmp_path, serve):
    from harness.repository import Repository

    first, second = Repository(tmp_path / "first"), Repository(tmp_path / "second")
    first.add("a", plus(1), PLUS_CONFIG)
    second.add("b", plus(2), PLUS_CONFIG)
    server = serve(first, "--model-repository", second.path)
    assert [m["name"] for m in index(server)] == ["a", "b"]


def test_name_in_the_file_must_be_that_of_the_folder(repository, serve):
    repository.add("folder", plus(1), config("other", [("IN", "FP32", [1])], [("OUT", "FP32", [1])]))
    server = serve(repository, "--exit-on-error=false", ready=False)
    server.wait_for_log("unexpected directory name 'folder' for model 'other', directory name must equal model name")


def test_custom_configuration(repository, serve, connect):
    repository.add(
        "a",
        plus(1),
        PLUS_CONFIG,
        files={"configs/blue.pbtxt": PLUS_CONFIG + 'parameters { key: "c" value: { string_value: "blue" } }'},
    )
    repository.add("b", plus(1), PLUS_CONFIG)
    server = serve(repository, "--model-config-name=blue")
    assert server.json("GET", "/v2/models/a/config")[1]["parameters"] == {"c": {"string_value": "blue"}}
    assert ask(connect("http", server), "b") == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('input [ { name: "IN" dims: [1] } ]', "model input 'IN' must specify 'data_type'"),
        ("max_batch_size: -1", "'max_batch_size' must be non-negative value for"),
        (
            'input [ { name: "IN" data_type: TYPE_FP32 dims: [0] } ]',
            "dimension must be integer >= 1, or -1 to indicate a variable-size dimension",
        ),
        ('input [ { name: "IN" data_type: TYPE_FP32 } ]', "must specify 'dims'"),
        ("no_such_field: 1", "no_such_field"),
        ("instance_group [ { kind: KIND_GPU } ]", "has kind KIND_GPU but"),
        (
            "version_policy { specific { versions: [5] } }",
            "at least one version must be available under the version policy of model 'a'",
        ),
        ('default_model_filename: "model.txt"', "Model name must end with '.py'. Model name is \"model.txt\"."),
    ],
)
def test_wrong_configuration_is_named(repository, serve, text, expected):
    base = 'backend: "python"\noutput [ { name: "OUT" data_type: TYPE_FP32 dims: [1] } ]\n'
    repository.add("a", plus(1), base + text)
    server = serve(repository, "--exit-on-error=false", ready=False)
    import re

    server.wait_for_log(re.escape(expected))


def test_models_beside_a_failed_one_serve(repository, serve, connect):
    repository.add("good", plus(1), PLUS_CONFIG)
    repository.add("bad", "raise ValueError('no')", PLUS_CONFIG)
    server = serve(repository, "--exit-on-error=false", "--strict-readiness=false")
    assert ask(connect("http", server), "good") == 1
    assert server.request("GET", "/v2/models/bad/ready")[0] in (400, 404)


def test_strict_readiness_counts_failed_models(repository, serve):
    repository.add("good", plus(1), PLUS_CONFIG)
    repository.add("bad", "raise ValueError('no')", PLUS_CONFIG)
    server = serve(repository, "--exit-on-error=false", ready=False)
    wait_until(lambda: server.request("GET", "/v2/models/good/ready")[0] == 200, 20, "the good model")
    assert server.request("GET", "/v2/health/live")[0] == 200
    assert server.request("GET", "/v2/health/ready")[0] == 400


@pytest.mark.parametrize(
    ("extra", "word"),
    [
        ('runtime: "other"', "runtime"),
        ('model_repository_agents { agents [ { name: "checksum" } ] }', "model_repository_agents"),
        (
            'sequence_batching { state { input_name: "S" output_name: "T" data_type: TYPE_FP32 dims: [1] '
            "use_growable_memory: true } }",
            "use_growable_memory",
        ),
    ],
)
def test_model_that_needs_what_is_not_there_is_refused(repository, serve, extra, word):
    repository.add("a", plus(1), PLUS_CONFIG + extra)
    server = serve(repository, "--exit-on-error=false", ready=False)
    server.wait_for_log(rf"failed to load 'a' version 1: .*{word}.* not supported")


# ---- links, and folders that are not repositories ------------------------------------------------

LABELLED = """
input [ { name: "IN" data_type: TYPE_FP32 dims: [1] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [1] label_filename: "labels.txt" } ]
"""


@pytest.fixture
def linked(tmp_path, repository):
    """A repository whose parts are elsewhere, as made by DVC, caches of Hugging Face and ConfigMaps."""
    store = Repository(tmp_path / "store")
    store.add("whole", plus(1), PLUS_CONFIG)
    store.add("parts", plus(2), LABELLED, files={"labels.txt": "cat\n"})
    (repository.path / "whole").symlink_to(store.path / "whole")
    version = repository.path / "version"
    version.mkdir()
    (version / "1").symlink_to(store.path / "parts" / "1")
    files = repository.path / "files"
    (files / "1").mkdir(parents=True)
    (files / "1" / "model.py").symlink_to(store.path / "parts" / "1" / "model.py")
    for folder in (version, files):
        for name in ("config.pbtxt", "labels.txt"):
            (folder / name).symlink_to(store.path / "parts" / name)
    # Like kubelet's files of a ConfigMap: a folder of files that is replaced as a whole.
    mapped = repository.add("mapped", plus(3), config_text=None, versions=())
    (mapped / "..2024_01" / "1").mkdir(parents=True)
    (mapped / "..2024_01" / "config.pbtxt").write_text(PLUS_CONFIG)
    (mapped / "..2024_01" / "1" / "model.py").write_text(plus(3))
    (mapped / "..data").symlink_to("..2024_01")
    for name in ("config.pbtxt", "1"):
        (mapped / name).symlink_to(f"..data/{name}")
    return repository


@pytest.mark.parametrize("level", ["none", "basic", "strict", "separate"])
def test_links_are_followed(linked, serve, connect, level):
    server = serve(linked, f"--worker-isolation={level}", "--worker-env", "BRAID_TEST_MARK")
    client = connect("http", server)
    asked = {name: ask(client, name) for name in ("whole", "version", "files", "mapped")}
    assert asked == {"whole": 1, "version": 2, "files": 2, "mapped": 3}
    answer = client.infer("files", {"IN": ONE}, outputs=[httpclient.InferRequestedOutput("OUT", class_count=1)])
    assert answer.as_numpy("OUT").tolist() == [b"3.000000:0:cat"]


def test_a_swapped_config_map_is_a_change(linked, serve, connect):
    server = serve(linked, "--model-control-mode=poll", "--repository-poll-secs=1")
    client = connect("http", server)
    mapped = linked.path / "mapped"
    (mapped / "..2024_02" / "1").mkdir(parents=True)
    (mapped / "..2024_02" / "config.pbtxt").write_text(PLUS_CONFIG)
    (mapped / "..2024_02" / "1" / "model.py").write_text(plus(40))
    (mapped / "..new").symlink_to("..2024_02")
    (mapped / "..new").replace(mapped / "..data")
    wait_until(lambda: ask(client, "mapped") == 40, what="the new model")


def test_a_link_to_nothing_is_told(repository, serve):
    repository.add("good", plus(1), PLUS_CONFIG)
    (repository.add("half", plus(1), PLUS_CONFIG) / "2").symlink_to("none")
    bad = repository.add("bad", plus(1), None)
    (bad / "config.pbtxt").symlink_to("none")
    (repository.path / "gone").symlink_to("none")
    server = serve(repository, "--exit-on-error=false", "--strict-readiness=false")
    what = "it is a dangling symbolic link"
    server.wait_for_log(f"skipping a folder of the model repository: failed to open {repository.path}/gone: {what}")
    server.wait_for_log(f"ignore version directory '2' of model 'half': failed to open .*/half/2: {what}")
    server.wait_for_log(f"Poll failed for model directory 'bad': failed to open .*/bad/config.pbtxt: {what}")
    text = subprocess.run([BINARY, "check", repository.path], capture_output=True, text=True, check=False).stdout
    for each in ("gone", "half/2", "bad/config.pbtxt"):
        assert f"failed to open {repository.path}/{each}: {what}" in text


def test_a_client_leaves_no_folder_by_a_path(linked, serve, tmp_path):
    (tmp_path / "secret.txt").write_text("secret\n")
    server = serve(linked, "--model-control-mode=explicit")
    for path in ("../../secret.txt", str(tmp_path / "secret.txt"), "1/../../../secret.txt"):
        given = {**PLUS_JSON, "output": [{**PLUS_JSON["output"][0], "label_filename": path}]}
        status, _ = server.json(
            "POST", "/v2/repository/models/whole/load", {"parameters": {"config": json.dumps(given)}}
        )
        assert status == 400
        assert index(server, ready=True) == []


def test_a_folder_that_is_no_repository(repository, serve, tmp_path):
    model = repository.add("m", plus(1), PLUS_CONFIG)
    (tmp_path / "empty").mkdir()
    mixed = Repository(tmp_path / "mixed")
    mixed.add("m", plus(1), PLUS_CONFIG)
    (mixed.path / "config.json").write_text('{"model_config_list": []}')
    server = serve(model, "--exit-on-error=false", "--strict-readiness=false")
    server.wait_for_log(f"'{model}' looks like the folder of a model; .* braid serve {repository.path}\n")
    server = serve(tmp_path / "empty")
    server.wait_for_log(f"'{tmp_path}/empty' has no model folder; expected MODEL/config.pbtxt and MODEL/1/ in it")
    server = serve(mixed)
    server.wait_for_log(
        f"'{mixed.path}' has a config.json, which a model repository does not use; .*--config_path {mixed.path}/config.json\n"
    )
