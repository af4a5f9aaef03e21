"""Control groups of workers. The tests run where a folder of cgroup v2 with all controllers is writable, and on a
virtual machine that has one."""

import json
import pathlib
import re
import sys

import pytest
from harness import machine
from harness.repository import config, per_request
from harness.server import children
from harness.waiting import wait_until

FOLDER = pathlib.Path("/run/cgroup")
CONTROLLERS = FOLDER / "cgroup.controllers"
HAS_CGROUPS = pytest.mark.skipif(
    not (CONTROLLERS.exists() and {"memory", "pids", "cpu"} <= set(CONTROLLERS.read_text().split())),
    reason="run on a machine with cgroup v2 below /run/cgroup, by test_on_a_machine_with_cgroup_v2",
)

TEXT = [("IN", "STRING", [1])]
OUT = [("OUT", "STRING", [1])]

# Carries out a command, and returns the result.
MODEL = per_request(
    """
    import os, subprocess

    def fill(megabytes):
        return len(bytearray(megabytes << 20))

    def start(count):
        children = []
        try:
            for _ in range(count):
                children.append(subprocess.Popen(["sleep", "60"]))
        except OSError as error:
            return [len(children), error.errno]
        finally:
            for child in children:
                child.kill()
                child.wait()
        return [len(children), 0]

    def leave(seconds):
        return [os.getpid(), subprocess.Popen(["sleep", str(seconds)], start_new_session=True).pid]

    name, argument = json.loads(get(request, "IN")[0])
    answer = {"fill": fill, "start": start, "leave": leave}[name](argument)
    return respond(OUT=np.array([json.dumps(answer).encode()], dtype=object))
    """
)


@pytest.fixture
def delegated(tmp_path_factory):
    """A folder for the server alone."""
    folder = FOLDER / tmp_path_factory.mktemp("group").name
    (FOLDER / "cgroup.subtree_control").write_text("+memory +pids +cpu")
    folder.mkdir()
    yield folder
    left = [path.name for path in folder.iterdir() if path.is_dir()]
    for name in left:
        (folder / name).rmdir()
    folder.rmdir()
    assert left == []


def ask(server, model, name, argument):
    """Returns (HTTP status, the model's answer or the error)."""
    request = {"inputs": [{"name": "IN", "shape": [1], "datatype": "BYTES", "data": [json.dumps([name, argument])]}]}
    status, answer = server.json("POST", f"/v2/models/{model}/infer", request)
    return status, json.loads(answer["outputs"][0]["data"][0]) if status == 200 else answer["error"]


def groups(folder):
    """Returns {group: {process}} of the workers."""
    return {path: set(map(int, (path / "cgroup.procs").read_text().split())) for path in folder.glob("braid-worker-*")}


@pytest.fixture
def start(delegated, repository, serve):
    def start(*options):
        for name in ("small", "large"):
            repository.add(name, MODEL, config(name, TEXT, OUT))
        return serve(repository, "--worker-cgroup", delegated, *options)

    return start


@HAS_CGROUPS
def test_each_worker_has_a_group_with_its_limits(start, delegated):
    server = start(
        "--worker-cgroup-limit=memory.max=512M", "--worker-cgroup-limit=cpu.max=50000 100000",
        "--worker-cgroup-limit=small=memory.max=128M", "--worker-cgroup-limit=small=pids.max=40",
    )  # fmt: skip
    workers = {}
    for model in ("small", "large"):
        worker, child = ask(server, model, "leave", 60)[1]
        group = next(path for path, processes in groups(delegated).items() if worker in processes)
        assert groups(delegated)[group] == {worker, child}
        workers[model] = group
    assert len(groups(delegated)) == 2
    assert {(workers[model] / "memory.max").read_text() for model in workers} == {"134217728\n", "536870912\n"}
    assert (workers["small"] / "memory.max").read_text() == "134217728\n"
    assert (workers["small"] / "pids.max").read_text() == "40\n"
    assert (workers["large"] / "pids.max").read_text() == "max\n"
    assert (workers["large"] / "cpu.max").read_text() == "50000 100000\n"
    assert server.process.pid not in set().union(*groups(delegated).values())
    server.stop()
    assert groups(delegated) == {}


@HAS_CGROUPS
def test_memory_that_is_out_costs_the_request(start, delegated):
    """Exceeding the memory limit fails the request and ends the worker, which is restarted; the other model is
    unaffected."""
    server = start("--worker-cgroup-limit=small=memory.max=128M", "--worker-cgroup-limit=small=memory.swap.max=0")
    before = groups(delegated)
    worker, child = ask(server, "small", "leave", 600)[1]
    status, error = ask(server, "small", "fill", 400)
    assert status == 500
    assert error.endswith("is not healthy. It was ended by signal 9 (Killed), out of memory: yes"), error
    wait_until(lambda: ask(server, "small", "fill", 10) == (200, 10 << 20), 20, "the worker's return")
    assert ask(server, "large", "fill", 400) == (200, 400 << 20)
    wait_until(lambda: not pathlib.Path(f"/proc/{child}").exists(), 10, "the end of what the worker had started")
    wait_until(lambda: len(groups(delegated)) == 2, 10, "the end of the group")
    assert len(set(before) - set(groups(delegated))) == 1


@HAS_CGROUPS
def test_processes_are_counted(start):
    server = start("--worker-cgroup-limit=small=pids.max=40")
    count, error = ask(server, "small", "start", 100)[1]
    assert error == 11, "EAGAIN"
    assert 10 < count < 40
    assert ask(server, "large", "start", 100) == (200, [100, 0])


@HAS_CGROUPS
def test_workers_that_are_forked_and_that_are_not(start, delegated):
    server = start("--worker-isolation=basic", "--worker-start=fresh", "--worker-cgroup-limit=pids.max=50")
    assert all(len(processes) == 1 for processes in groups(delegated).values())
    assert set().union(*groups(delegated).values()) <= set(children(server.process.pid))


@HAS_CGROUPS
def test_what_the_kernel_refuses_is_said_at_the_start(delegated, repository, serve):
    repository.add("small", MODEL, config("small", TEXT, OUT))
    server = serve(
        repository, "--worker-cgroup", delegated, "--worker-cgroup-limit=memory.max=much", ready=False, listening=False
    )
    server.wait_exit()
    server.stop(status=1)
    assert re.search(rf"--worker-cgroup={delegated}: 'much' into \S+/memory.max: Invalid argument", server.stderr)


@HAS_CGROUPS
def test_a_server_in_its_folder_goes_into_a_group_of_its_own(delegated, repository, serve):
    """As under systemd with Delegate=yes, a server in its folder moves into a group of its own. The next start removes
    groups of a killed server."""
    repository.add("small", MODEL, config("small", TEXT, OUT))
    enter = ["/bin/sh", "-c", f'echo $$ >{delegated}/cgroup.procs && exec "$@"', "sh"]
    options = ("--worker-cgroup", delegated, "--worker-cgroup-limit=memory.max=512M")
    server = serve(repository, *options, through=enter)
    own = delegated / f"braid-server-{server.process.pid}"
    assert (own / "cgroup.procs").read_text().split()[0] == str(server.process.pid)
    assert len(groups(delegated)) == 1
    server.kill()
    wait_until(lambda: not any(groups(delegated).values()), 10, "the end of the workers")
    assert own.exists()
    after = serve(repository, *options)
    assert not own.exists()
    assert len(groups(delegated)) == 1
    after.stop()


@HAS_CGROUPS
def test_groups_that_are_there_already_are_passed_over(delegated, repository, serve):
    """In a container, a server often has the same process id as its predecessor, and so the same names of groups."""
    repository.add("small", MODEL, config("small", TEXT, OUT))
    before = ["/bin/sh", "-c", f'for n in 1 2 3; do mkdir {delegated}/braid-worker-$$-$n; done && exec "$@"', "sh"]
    server = serve(repository, "--worker-cgroup", delegated, through=before)
    [populated] = [path.name for path, processes in groups(delegated).items() if processes]
    assert populated.startswith(f"braid-worker-{server.process.pid}-")
    assert int(populated.rpartition("-")[2]) > 3
    server.stop()
    assert len(groups(delegated)) == 3
    serve(repository, "--worker-cgroup", delegated).stop()
    assert groups(delegated) == {}


@HAS_CGROUPS
def test_a_controller_that_is_missing_is_named(delegated, repository, serve):
    """A missing controller is an error before the server has changed anything."""
    repository.add("small", MODEL, config("small", TEXT, OUT))
    inner = delegated / "inner"  # delegated passes no controller on to it
    inner.mkdir()
    enter = ["/bin/sh", "-c", f'echo $$ >{inner}/cgroup.procs && exec "$@"', "sh"]
    options = ("--worker-cgroup", inner, "--worker-cgroup-limit=memory.max=1G")
    server = serve(repository, *options, through=enter, ready=False, listening=False)
    server.wait_exit()
    server.stop(status=1)
    assert f"--worker-cgroup={inner}: the folder has no controller 'memory'" in server.stderr
    assert not any(path.is_dir() for path in inner.iterdir())
    inner.rmdir()


def test_limits_need_a_folder(repository, serve):
    repository.add("small", MODEL, config("small", TEXT, OUT))
    server = serve(repository, "--worker-cgroup-limit=memory.max=1G", ready=False, listening=False)
    server.wait_exit()
    server.stop(status=1)
    assert "--worker-cgroup-limit needs --worker-cgroup" in server.stderr


def test_another_folder_is_refused(repository, serve, tmp_path):
    repository.add("small", MODEL, config("small", TEXT, OUT))
    server = serve(repository, "--worker-cgroup", tmp_path, ready=False, listening=False)
    server.wait_exit()
    server.stop(status=1)
    assert f"--worker-cgroup={tmp_path}: it is not a cgroup v2 folder" in server.stderr


@pytest.mark.skipif(not machine.KERNEL.exists(), reason="scripts/public-clients uml was not run")
@pytest.mark.skipif(FOLDER.exists(), reason="this is that machine")
@pytest.mark.timeout(machine.SECONDS + 30)
@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        (["-k", "memory_that_is_out"], "1 passed, "),
        pytest.param([], "10 passed, 1 skipped", marks=pytest.mark.campaign),
    ],
    ids=["one", "all"],
)
def test_on_a_machine_with_cgroup_v2(tmp_path, chosen, told):
    """The machine's kernel is slow, so all of these tests run there only at night."""
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no", pathlib.Path(__file__)]
    status, output = machine.run([*tests, *chosen], tmp_path)
    assert status == 0, output
    assert re.search(f"^{told}", output, re.MULTILINE), output
