"""All processes that a model's process has started end with it: those in other sessions, daemons, pools."""

import json
import os
import signal

import pytest
from harness.clients import strings
from harness.repository import config, per_request
from harness.server import alive
from harness.waiting import wait_until

TEXT = [("IN", "STRING", [1])]
OUT = [("OUT", "STRING", [1])]

# Starts processes in several ways; answers with its own id and theirs.
PARENT = per_request(
    """
    import multiprocessing, subprocess

    def daemon():
        # In the way of old: nothing is left that leads from it to who has started it.
        inward, outward = os.pipe()
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.chdir("/")
                null = os.open(os.devnull, os.O_RDWR)
                for number in range(3):
                    os.dup2(null, number)
                os.write(outward, str(os.getpid()).encode())
                os.closerange(3, 256)
                os.execve("/bin/sleep", ["sleep", "1000"], {})
            os._exit(0)
        os.wait()
        return int(os.read(inward, 20))

    how = get(request, "IN")[0].decode()
    if how == "exit":
        os._exit(3)
    pids = {"self": os.getpid()}
    if how == "start and end soon":
        # An interpreter that ends waits for its pools, until its process is ended. Here that is not after 5 s.
        for name in ("__main__", "braid_worker.main"):
            if hasattr(sys.modules.get(name), "EXIT_SECONDS"):
                sys.modules[name].EXIT_SECONDS = 0.5
    if how.startswith("start"):
        self.processes = [
            subprocess.Popen(["sleep", "1000"]),
            subprocess.Popen(["sleep", "1000"], start_new_session=True),
            multiprocessing.get_context("fork").Process(target=time.sleep, args=(1000,)),
        ]
        self.processes[2].start()
        pids.update(child=self.processes[0].pid, session=self.processes[1].pid, forked=self.processes[2].pid)
        # As loky does: a process of another session, with processes of its own.
        code = (
            "import subprocess, sys, time;"
            "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'],"
            " start_new_session=True).pid, flush=True); time.sleep(1000)"
        )
        manager = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdout=subprocess.PIPE)
        self.processes.append(manager)
        pids.update(manager=manager.pid, pooled=int(manager.stdout.readline()))
        pids["daemon"] = daemon()
    return respond(OUT=np.array([json.dumps(pids).encode()], dtype=object))

    """
)


def ask(client, model, text):
    return json.loads(client.infer(model, {"IN": strings(text)}).as_numpy("OUT")[0])


def wait_for_end(pids, seconds=5):
    wait_until(lambda: not any(map(alive, pids.values())), seconds, f"the end of {pids}")


@pytest.fixture(
    params=[
        pytest.param(("fork", "start and end soon"), id="fork"),
        pytest.param(("fresh", "start and end soon"), id="fresh"),
        pytest.param(("fork", "start"), id="fork-slow", marks=pytest.mark.campaign),
        pytest.param(("fresh", "start"), id="fresh-slow", marks=pytest.mark.campaign),
    ]
)
def parents(request, repository, serve, connect):
    worker_start, how = request.param
    for name in ("one", "two"):
        repository.add(name, PARENT, config(name, TEXT, OUT))
    server = serve(repository, f"--worker-start={worker_start}", "--model-control-mode=explicit", "--load-model=*")
    client = connect("grpc", server)
    started = {name: ask(client, name, how) for name in ("one", "two")}
    for pids in started.values():
        assert len(pids) == 7
        assert all(map(alive, pids.values()))
    yield server, client, started
    for pids in started.values():
        for pid in filter(alive, pids.values()):
            os.kill(pid, signal.SIGKILL)


def test_with_a_server_that_is_killed(parents):
    server, _, started = parents
    server.process.kill()
    server.wait_exit()
    for pids in started.values():
        wait_for_end(pids)
    server.kill()


@pytest.mark.parametrize("how", ["kill", "exit"])
def test_with_a_process_that_dies(parents, how):
    server, client, started = parents
    if how == "kill":
        os.kill(started["one"]["self"], signal.SIGKILL)
    else:
        with client.fails("INTERNAL"):
            ask(client, "one", "exit")
    wait_for_end(started["one"])
    # The other model's processes are unaffected.
    assert all(map(alive, started["two"].values()))
    wait_until(lambda: client.raw.is_model_ready("one"), 20, "the restart")
    assert ask(client, "one", "look")["self"] != started["one"]["self"]
    assert ask(client, "two", "look")["self"] == started["two"]["self"]
    server.stop()
    wait_for_end(started["two"])


def test_with_a_model_that_is_unloaded(parents):
    server, client, started = parents
    client.raw.unload_model("one")
    wait_for_end(started["one"], 20)
    assert all(map(alive, started["two"].values()))
