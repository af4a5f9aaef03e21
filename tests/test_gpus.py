"""GPUs of a server, on the stand-in for NVIDIA's driver."""

import concurrent.futures
import pathlib
import re

import pytest
from harness.clients import strings
from harness.gpus import DRIVER as DRIVER_FOLDER
from harness.gpus import Gpus, uuid
from harness.repository import config, per_request
from harness.server import children
from harness.waiting import wait_until
from test_isolation import KEEPS_FILES

OUT = [("OUT", "STRING", [1])]
IN = [("IN", "STRING", [1])]


@pytest.fixture
def gpus(tmp_path):
    """Two GPUs, with a check at the end that nothing is left behind. Requested before `serve`, so that they outlive the
    server."""
    gpus = Gpus(tmp_path / "gpus")
    yield gpus
    gpus.assert_nothing_left()


def test_a_server_shows_its_gpus_and_makes_no_context(gpus, repository, serve):
    repository.add_identity("m")
    server = serve(repository, env=gpus.env)
    assert "\nGPUs:      0: Stand-in A (8.6, 1.0 GiB), 1: Stand-in B (9.0, 2.0 GiB)\n" in server.stdout
    assert gpus.calls("cuInit") == [(server.process.pid, ["cuInit"])]
    assert not gpus.calls("context", "alloc")


def test_a_server_without_a_driver_has_none(repository, serve):
    repository.add_identity("m")
    server = serve(repository)
    assert "GPUs:" not in server.stdout


def test_the_driver_says_which_devices_are_visible(gpus, repository, serve):
    repository.add_identity("m")
    server = serve(repository, env={**gpus.env, "CUDA_VISIBLE_DEVICES": "1"})
    assert "\nGPUs:      0: Stand-in B (9.0, 2.0 GiB)\n" in server.stdout


def test_devices_that_are_too_old_are_left_out(gpus, repository, serve):
    repository.add_identity("m")
    server = serve(repository, "--min-supported-compute-capability", "9.0", env=gpus.env)
    assert "\nGPUs:      1: Stand-in B (9.0, 2.0 GiB)\n" in server.stdout
    assert "GPU 0 (Stand-in A) is not used: its compute capability is 8.6" in server.log


def test_a_driver_that_fails_is_told_and_done_without(gpus, repository, serve):
    repository.add_identity("m")
    gpus.fail("cuInit 46")
    server = serve(repository, env=gpus.env)
    assert "GPUs:" not in server.stdout
    assert (
        "GPUs are not used: cuInit: CUDA_ERROR_DEVICE_UNAVAILABLE (CUDA-capable device(s) is/are busy or unavailable)"
        in server.log
    )


# Calls the driver like torch at a model's first use of a device.
DRIVER = per_request(
    """
    import ctypes

    cuda = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    results = [cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)]
    if get(request, "IN")[0] == b"fork":
        child = os.fork()
        if child == 0:
            os._exit(cuda.cuInit(0))
        results.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    return respond(OUT=np.array([json.dumps(results)], np.object_))
    """
)


@pytest.mark.parametrize("start", ["fork", "fresh"])
def test_models_can_use_the_driver_since_the_warm_process_never_does(gpus, repository, serve, connect, start):
    """A driver opened in a process is unusable in its forks: "cannot re-initialize CUDA in forked subprocess". Workers
    are forked from the warm process, so that process never opens the driver."""
    extra = "instance_group [ { count: 2 kind: KIND_CPU } ]"
    repository.add("driver", DRIVER, config("driver", IN, OUT, extra=extra))
    server = serve(repository, "--worker-start", start, env=gpus.env)
    client = connect("http", server)

    def ask(text):
        return client.infer("driver", {"IN": strings(text)}).as_numpy("OUT")[0]

    assert [ask("go") for _ in range(4)] == [b"[0, 0]"] * 4
    # The model's own fork is refused.
    assert ask("fork") == b"[0, 0, 3]"
    users = {pid for pid, _ in gpus.calls("cuInit")}
    workers = users - {server.process.pid}
    assert workers
    assert users > workers
    for pid in children(server.process.pid):
        if "libcuda" in pathlib.Path(f"/proc/{pid}/maps").read_text():
            assert pid in workers
    if start == "fork":
        warm = [
            pid
            for pid in children(server.process.pid)
            if b"zygote.py" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() and pid not in users
        ]
        assert warm
        assert all("libcuda" not in pathlib.Path(f"/proc/{pid}/maps").read_text() for pid in warm)


@KEEPS_FILES
def test_the_driver_works_at_strict_isolation(gpus, repository, serve, connect):
    """Folders of the driver and of the devices are named here; with a real driver they are in /usr and /dev."""
    repository.add(
        "driver", DRIVER, config("driver", IN, OUT, extra="instance_group [ { kind: KIND_GPU gpus: [ 0 ] } ]")
    )
    options = ["--worker-isolation=strict", "--worker-path", DRIVER_FOLDER, "--worker-path", f"{gpus.folder}=write"]
    server = serve(repository, *options, env=gpus.env)
    assert connect("http", server).infer("driver", {"IN": strings("go")}).as_numpy("OUT")[0] == b"[0, 0]"


# ---- placement ----

PLACE = per_request(
    """
    kind, device, name = (self.args["model_instance_" + each] for each in ("kind", "device_id", "name"))
    return respond(OUT=np.array([f"{name} {kind} {device}"], np.object_))
    """
)


def groups(*groups):
    return "instance_group [ " + ", ".join(f"{{ {group} }}" for group in groups) + " ]"


def instances_of(server, model):
    """Returns the groups in the server's configuration: (name, kind, gpus, count)."""
    _, answer = server.json("GET", f"/v2/models/{model}/config")
    return [(group["name"], group["kind"], group["gpus"], group["count"]) for group in answer["instance_group"]]


def places(client, model, count):
    """Returns the devices that a model's instances report, each asked at least once."""
    found = set()
    wait_until(
        lambda: found.add(client.infer(model, {"IN": strings("")}).as_numpy("OUT")[0].decode()) or len(found) == count,
        30.0,
        f"{count} instances of {model}",
    )
    return sorted(found)


def test_instances_are_placed_as_their_groups_say(gpus, repository, serve, connect):
    texts = {
        "plain": "",
        "auto": groups("count: 2 kind: KIND_AUTO"),
        "first": groups("kind: KIND_GPU gpus: [ 1 ]", "kind: KIND_CPU"),
        "third": groups("kind: KIND_AUTO gpus: [ 0, 2 ]"),
        "itself": groups("kind: KIND_MODEL"),
    }
    for name, text in texts.items():
        repository.add(name, PLACE, config(name, IN, OUT, extra=text))
    server = serve(repository, env=gpus.env)
    shown = {line.split("  ")[0]: line for line in server.stdout.splitlines() if "READY" in line}
    assert " 2 (GPU 0, 1) " in shown["plain"]
    assert " 1  " in shown["third"]
    assert instances_of(server, "plain") == [("plain", "KIND_GPU", [0, 1], 1)]
    assert instances_of(server, "auto") == [("auto_0", "KIND_GPU", [0, 1], 2)]
    assert instances_of(server, "first") == [("first_0", "KIND_GPU", [1], 1), ("first_1", "KIND_CPU", [], 1)]
    assert instances_of(server, "third") == [("third_0", "KIND_CPU", [], 1)]
    assert instances_of(server, "itself") == [("itself_0", "KIND_MODEL", [], 1)]
    # Concurrent requests, so that each instance gets one.
    client = connect("grpc", server)
    assert places(client, "third", 1) == ["third_0_0 CPU 0"]
    assert places(client, "itself", 1) == ["itself_0_0 MODEL 0"]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for model, expected in {
            "plain": {"plain_0 GPU 0", "plain_1 GPU 1"},
            "auto": {"auto_0_0 GPU 0", "auto_0_1 GPU 0", "auto_0_2 GPU 1", "auto_0_3 GPU 1"},
            "first": {"first_0_0 GPU 1", "first_1_0 CPU 0"},
        }.items():
            found = set()

            def ask(_, model=model):
                return client.infer(model, {"IN": strings("")}).as_numpy("OUT")[0].decode()

            def all_seen(found=found, ask=ask, expected=expected):
                found.update(pool.map(ask, range(64)))
                return found >= expected

            wait_until(all_seen, 30.0, f"all of {expected}, not {found}")
            assert found == expected
    assert not gpus.calls("context", "alloc")


@pytest.mark.parametrize("group", ["kind: KIND_GPU", "kind: KIND_GPU gpus: [ 0 ]"])
def test_a_gpu_that_is_not_there_is_an_error_or_the_cpu(repository, serve, connect, group):
    repository.add("m", PLACE, config("m", IN, OUT, extra=groups(group)))
    refusing = serve(repository, "--exit-on-error=false", ready=False)
    refusing.wait_for_log("instance group m_0 of model m has kind KIND_GPU but no GPUs are available")
    refusing.stop()
    server = serve(repository, "--gpu-fallback", "cpu")
    assert places(connect("http", server), "m", 1) == ["m_0_0 CPU 0"]
    assert (
        "instance group m_0 of model m has kind KIND_GPU but its GPUs are not available; its instances run on the CPU "
        "(--gpu-fallback=cpu)" in server.log
    )


def test_a_gpu_with_a_wrong_number_is_named(gpus, repository, serve):
    repository.add("m", PLACE, config("m", IN, OUT, extra=groups("kind: KIND_GPU gpus: [ 0, 7 ]")))
    server = serve(repository, "--exit-on-error=false", ready=False, env=gpus.env)
    server.wait_for_log(
        re.escape(
            "instance group m_0 of model m specifies invalid or unsupported gpu id 7. GPUs with at least  the minimum "
            "required CUDA compute compatibility of 6.000000 are: 0 1"
        )
    )


def test_resources_are_those_of_a_device_unless_they_are_global(gpus, repository, serve, connect):
    """Two instances on two devices run at once with a resource per device, and in sequence with a global one."""
    source = per_request(
        """
        import threading

        folder = get(request, "IN")[0].decode()
        mine = os.path.join(folder, self.args["model_instance_name"])
        open(mine, "w").close()
        deadline = time.monotonic() + 2
        while len(os.listdir(folder)) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        both = len(os.listdir(folder)) == 2
        os.unlink(mine) if not both else None
        return respond(OUT=np.array([str(both)], np.object_))
        """
    )
    for name, is_global in (("each", "false"), ("shared", "true")):
        limiter = f'rate_limiter {{ resources [ {{ name: "{name}" global: {is_global} count: 1 }} ] }}'
        repository.add(name, source, config(name, IN, OUT, extra=groups(f"kind: KIND_GPU {limiter}")))
    server = serve(repository, "--rate-limit=execution_count", env=gpus.env)
    client = connect("grpc", server)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for name, expected in (("each", {b"True"}), ("shared", {b"False"})):
            folder = gpus.folder / name
            folder.mkdir()
            asked = {"IN": strings(str(folder))}
            results = list(pool.map(lambda _, n=name, a=asked: client.infer(n, a).as_numpy("OUT")[0], range(2)))
            assert set(results) == expected, name


def test_a_gpu_that_is_full_gets_no_model(gpus, repository, serve, connect):
    """The memory in use includes that of all processes, here of a model."""
    holder = per_request(
        """
        import ctypes

        cuda = ctypes.CDLL("libcuda.so.1")
        context, address = ctypes.c_void_p(), ctypes.c_uint64()
        results = [
            cuda.cuInit(0),
            cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
            cuda.cuCtxSetCurrent(context),
            cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(int(get(request, "IN")[0]))),
        ]
        return respond(OUT=np.array([str(results)], np.object_))
        """
    )
    repository.add("holder", holder, config("holder", IN, OUT, extra=groups("kind: KIND_GPU gpus: [ 0 ]")))
    for gpu in (0, 1):
        repository.add(f"on{gpu}", PLACE, config(f"on{gpu}", IN, OUT, extra=groups(f"kind: KIND_GPU gpus: [ {gpu} ]")))
    limits = ["--model-load-gpu-limit", "0:0.5", "--model-load-gpu-limit=1:0.0"]
    server = serve(repository, "--model-control-mode=explicit", "--load-model=holder", *limits, env=gpus.env)
    client = connect("http", server)

    def take(share):
        asked = strings(str(int(share * (1 << 30))))
        assert client.infer("holder", {"IN": asked}).as_numpy("OUT")[0] == b"[0, 0, 0, 0]"

    take(0.4)
    client.raw.load_model("on0")
    client.raw.unload_model("on0")
    take(0.2)
    with client.fails("INVALID_ARG", contains="60.0% of its memory is in use, and --model-load-gpu-limit allows 50.0%"):
        client.raw.load_model("on0")
    client.raw.load_model("on1")
    gpus.fail("nvmlDeviceGetMemoryInfo 15")
    with client.fails("INVALID_ARG", contains="cannot check --model-load-gpu-limit: nvmlDeviceGetMemoryInfo"):
        client.raw.load_model("on0")


# ---- metrics ----


def test_metrics_of_the_devices(gpus, repository, serve):
    repository.add_identity("m")
    server = serve(repository, "--metrics-interval-ms=1", env=gpus.env)
    values = server.metric_values()
    for number, size in ((0, 1 << 30), (1, 2 << 30)):
        label = f'{{gpu_uuid="{uuid(number)}"}}'
        assert values[f"nv_gpu_memory_total_bytes{label}"] == size
        assert values[f"nv_gpu_memory_used_bytes{label}"] == 0
        assert values[f"nv_gpu_utilization{label}"] == pytest.approx(0.25 + number / 100)
        assert values[f"nv_gpu_power_usage{label}"] == 61.5
        assert values[f"nv_gpu_power_limit{label}"] == 300
        assert 0 < values[f"nv_energy_consumption{label}"] < 100
    gpus.fail("nvmlDeviceGetUtilizationRates 15")
    assert wait_until(lambda: not [name for name in server.metric_values() if "utilization{gpu" in name], 10.0, "it")
    assert not gpus.calls("context")


@pytest.mark.parametrize("options", [["--allow-gpu-metrics=false"], []])
def test_metrics_of_devices_are_for_machines_that_have_them(gpus, repository, serve, options):
    repository.add_identity("m")
    server = serve(repository, *options, env=gpus.env if options else {})
    assert not [name for name in server.metric_values() if "gpu_uuid" in name]
    assert not gpus.calls("nvmlInit_v2")
