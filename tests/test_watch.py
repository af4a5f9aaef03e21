"""`braid serve --watch`: saved files take effect at once."""

import concurrent.futures
import os
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest
import tritonclient.http as httpclient
from harness import graphs, openvino_models
from harness.ovms import OvmsServer
from harness.repository import config, per_request
from harness.server import BINARY, Server
from harness.waiting import wait_until
from tritonclient.utils import InferenceServerException

TEXT = config(inputs=[("IN", "FP32", [1])], outputs=[("OUT", "FP32", [1])])
# A bound on reloads, which take well under a second on an idle machine.
SOON = 10


def source(value, before=""):
    return before + per_request(f"return respond(OUT=get(request, 'IN') + np.float32({value}))")


class Asking:
    """A client of one model that adds a number to its input."""

    def __init__(self, server, model="m", to=("IN", "OUT")):
        self.server, self.model, self.to = server, model, to
        self.client = httpclient.InferenceServerClient(server.http)

    def added(self):
        given = httpclient.InferInput(self.to[0], [1], "FP32")
        given.set_data_from_numpy(np.zeros(1, np.float32))
        answer = self.client.infer(self.model, [given]).as_numpy(self.to[1])
        return None if answer is None else float(answer[0])

    def expect(self, value):
        def look():
            try:
                return self.added() == value
            except InferenceServerException:
                return False

        wait_until(look, SOON, f"the answer {value} of {self.model}:\n{self.server.log}")


def index(server):
    """Returns {model: [(version, state, reason)]}."""
    found = {}
    for row in server.json("POST", "/v2/repository/index", {})[1]:
        found.setdefault(row["name"], []).append((row.get("version"), row.get("state"), row.get("reason", "")))
    return found


def loads(server, model="m"):
    return server.log.count(f"loading: {model}:1\n")


@pytest.fixture
def model(repository):
    """Returns the file of a model that adds 1."""
    repository.add("m", source(1), TEXT)
    return repository.path / "m" / "1" / "model.py"


def test_a_saved_file_reloads_its_model(repository, serve, model):
    repository.add("other", source(100), TEXT)
    server = serve(repository, "--watch")
    asking = Asking(server)
    assert asking.added() == 1
    model.write_text(source(2))
    asking.expect(2)
    new = model.with_name("model.py.new")
    new.write_text(source(3))
    new.rename(model)  # as many editors save
    asking.expect(3)
    server.wait_for_log(r"reloaded 'm' in \d+ ms\n")
    assert loads(server, "other") == 1


def test_helpers_are_not_read_from_a_cache(repository, serve):
    """Two saves of the same size within a second: Python's own cache would not see the second one."""
    text = per_request("import helper; return respond(OUT=get(request, 'IN') + np.float32(helper.VALUE))")
    repository.add("m", text, TEXT, files={"1/helper.py": "VALUE = 1\n"})
    server = serve(repository, "--watch", env={"PYTHONDONTWRITEBYTECODE": ""})
    asking = Asking(server)
    for value in (2, 3, 4):
        (repository.path / "m" / "1" / "helper.py").write_text(f"VALUE = {value}\n")
        asking.expect(value)


def test_a_broken_file_leaves_the_old_model(repository, serve, model):
    server = serve(repository, "--watch")
    asking = Asking(server)
    model.write_text(source(2, before="raise ValueError('not like this')\n"))
    server.wait_for_log("failed to load 'm'; the previous version serves until its files are mended")
    assert f'File "{model}", line 1, in <module>' in server.log
    assert asking.added() == 1
    [(version, state, reason)] = index(server)["m"]
    assert (version, state) == ("1", "READY")
    assert "ValueError: not like this" in reason
    assert str(repository.path) not in reason
    model.write_text(source(3))
    asking.expect(3)
    assert index(server)["m"] == [("1", "READY", "")]


def test_a_broken_configuration_leaves_the_old_model(repository, serve, model):
    server = serve(repository, "--watch")
    asking = Asking(server)
    file = repository.path / "m" / "config.pbtxt"
    file.write_text("input [ {")
    wait_until(lambda: "config.pbtxt" in index(server)["m"][0][2], SOON, f"the reason:\n{server.log}")
    assert asking.added() == 1
    file.write_text(TEXT.replace('"OUT"', '"RESULT"'))
    model.write_text(source(2).replace("OUT=", "RESULT="))
    Asking(server, to=("IN", "RESULT")).expect(2)


def test_the_server_starts_with_a_broken_model(repository, serve, model):
    model.write_text("import nothing_of_this_name\n")
    repository.add("good", source(1), TEXT)
    server = serve(repository, "--watch", ready=False)
    assert Asking(server, "good").added() == 1
    assert "nothing_of_this_name" in index(server)["m"][0][2]
    server.wait_for_log("failed to load 'm'\n")
    (repository.path / "good" / "1" / "model.py").write_text(source(2))
    Asking(server, "good").expect(2)
    assert loads(server) == 1  # it is tried again when its own files are saved
    model.write_text(source(5))
    Asking(server).expect(5)


def test_new_and_removed_folders(repository, serve, model):
    server = serve(repository, "--watch")
    shutil.copytree(repository.path / "m", repository.path / "n")
    Asking(server, "n").expect(1)
    (repository.path / "n" / "1" / "model.py").write_text(source(7))
    Asking(server, "n").expect(7)
    shutil.rmtree(repository.path / "n")
    wait_until(lambda: "n" not in index(server), SOON, "the end of n")
    assert Asking(server).added() == 1


def test_a_linked_folder(repository, serve, tmp_path, model):
    (repository.path / "m").rename(tmp_path / "elsewhere")
    (repository.path / "m").symlink_to(tmp_path / "elsewhere")
    server = serve(repository, "--watch")
    (tmp_path / "elsewhere" / "1" / "model.py").write_text(source(2))
    Asking(server).expect(2)


def test_ignored_files_do_not_reload(repository, serve, model):
    server = serve(repository, "--watch")
    for name in (".model.py.swp", "model.py~", "#model.py#", "__pycache__/model.pyc"):
        (model.parent / name).parent.mkdir(exist_ok=True)
        (model.parent / name).write_text("x")
    (model.parent / "4913").write_text("")  # Vim tests the folder so
    (model.parent / "4913").unlink()
    repository.add("n", source(1), TEXT)
    Asking(server, "n").expect(1)  # the pass that sees n has seen the others
    assert loads(server) == 1


def test_no_request_is_lost(repository, serve, model):
    server = serve(repository, "--watch")
    ended = threading.Event()

    def ask():
        asking, answers = Asking(server), []
        while not ended.is_set():
            answers.append(asking.added())
        return answers

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(ask) for _ in range(4)]
        try:
            for value in (2, 3, 4):
                model.write_text(source(value))
                Asking(server).expect(value)
        finally:
            ended.set()
        for run in runs:
            answers = run.result()
            assert answers == sorted(answers)
            assert set(answers) <= {1, 2, 3, 4}


def test_the_newest_state_wins(repository, serve, tmp_path, model):
    """A file is saved while the one before it loads."""
    server = serve(repository, "--watch")
    gate = tmp_path / "gate"
    slow = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)\n"
    model.write_text(source(2, before=slow))
    wait_until(lambda: loads(server) == 2, SOON, "the second load")
    model.write_text(source(3))
    assert Asking(server).added() == 1
    gate.touch()
    Asking(server).expect(3)


def test_a_model_that_writes_while_it_loads_is_not_reloaded_for_ever(repository, serve, model):
    writes = "import os\nopen(os.path.join(os.path.dirname(__file__), 'cache.bin'), 'a').write('x')\n"
    model.write_text(source(1, before=writes))
    server = serve(repository, "--watch")
    server.wait_for_log("the files of model 'm' have changed during each of its last 3 loads")
    count = loads(server)
    repository.add("n", source(1), TEXT)
    Asking(server, "n").expect(1)
    assert loads(server) == count
    model.write_text(source(2, before=writes))
    Asking(server).expect(2)


def test_explicit_mode_reloads_only_loaded_models(repository, serve, model):
    for name in ("never", "unloaded", "broken"):
        repository.add(name, source(1), TEXT)
    broken = repository.path / "broken" / "1" / "model.py"
    broken.write_text("nonsense")
    options = ["--model-control-mode=explicit", "--load-model=m", "--load-model=unloaded", "--load-model=broken"]
    server = serve(repository, "--watch", *options, ready=False)
    assert server.json("POST", "/v2/repository/models/unloaded/unload", {})[0] == 200
    for name in ("never", "unloaded"):
        (repository.path / name / "1" / "model.py").write_text(source(2))
    broken.write_text(source(2))
    model.write_text(source(2))
    Asking(server).expect(2)
    Asking(server, "broken").expect(2)
    assert (loads(server, "never"), loads(server, "unloaded")) == (0, 1)


def test_a_load_with_a_configuration_keeps_it(repository, serve, model):
    server = serve(repository, "--watch", "--model-control-mode=explicit")
    override = '{"input": [{"name": "IN", "data_type": "TYPE_FP32", "dims": [1]}], "output": [{"name": "OUT", '
    override += (
        '"data_type": "TYPE_FP32", "dims": [1]}], "backend": "python", "parameters": {"k": {"string_value": "v"}}}'
    )
    client = httpclient.InferenceServerClient(server.http)
    client.load_model("m", config=override)
    model.write_text(source(2))
    Asking(server).expect(2)
    assert client.get_model_config("m")["parameters"] == {"k": {"string_value": "v"}}


def test_an_ensemble_follows_its_step(repository, serve, model):
    steps = 'step [ { model_name: "m" model_version: -1 input_map { key: "IN" value: "IN" } '
    steps += 'output_map { key: "OUT" value: "OUT" } } ]'
    repository.add(
        "e", None, TEXT.replace('backend: "python"', 'platform: "ensemble"') + f"ensemble_scheduling {{ {steps} }}"
    )
    server = serve(repository, "--watch")
    model.write_text(source(2))
    Asking(server, "e").expect(2)


# ---- config.json -----------------------------------------------------------------------------------

HANDLER = """
import numpy as np
from pyovms import Tensor
{more}

class OvmsPythonModel:
    def execute(self, inputs):
        return [Tensor("out", np.asarray(inputs[0]).view(np.float32) + np.float32({value}))]
"""


@pytest.fixture
def graph_server(tmp_path):
    entry = graphs.single(tmp_path / "graphs", "g", HANDLER.format(more="", value=1))
    openvino_models.save(openvino_models.scale(shape=(1,), factor=1.0), tmp_path / "scaled")
    model = openvino_models.entry("scaled", tmp_path / "scaled")
    options = ("--watch", "--file_system_poll_wait_seconds", "0")
    with OvmsServer(graphs.config(entry, models=[model]), *options, workdir=tmp_path) as server:
        yield server


def graph_answer(server):
    client = httpclient.InferenceServerClient(server.http)
    given = graphs.tensor("in", np.zeros(1, np.float32), module=httpclient)
    return float(np.frombuffer(client.infer("g", [given]).as_numpy("out").tobytes(), np.float32)[0])


def expect_graph(server, value):
    wait_until(lambda: graph_answer(server) == value, SOON, f"the answer {value}:\n{server.log}")


def test_a_graph_follows_its_handler_and_what_it_imports(graph_server, tmp_path):
    server, folder = graph_server, tmp_path / "graphs" / "g"
    handler = folder / "model.py"
    assert graph_answer(server) == 1
    handler.write_text(HANDLER.format(more="", value=2))
    expect_graph(server, 2)
    server.wait_for_log(r"reloaded graph 'g' in \d+ ms")
    handler.write_text(HANDLER.format(more="import a_helper", value="a_helper.VALUE"))
    server.wait_for_log("No module named 'a_helper'")
    assert graph_answer(server) == 2
    (folder / "a_helper.py").write_text("VALUE = 3\n")
    expect_graph(server, 3)
    (folder / "a_helper.py").write_text("VALUE = 4\n")
    expect_graph(server, 4)


def test_the_config_json_and_files_of_its_models(graph_server, tmp_path):
    server = graph_server
    assert set(server.states("scaled").values()) == {"AVAILABLE"}
    # The files of a served version.
    openvino_models.save(openvino_models.scale(shape=(1,), factor=2.0), tmp_path / "scaled")
    server.wait_for_log(r"reloaded 'scaled' version 1 in \d+ ms")
    # A graph of another folder, which is then watched too.
    other = graphs.single(tmp_path / "more", "other", HANDLER.format(more="", value=1))
    entry = {"name": "g", "base_path": str(tmp_path / "graphs" / "g")}
    server.write_config(graphs.config(entry, other))
    wait_until(lambda: set(server.states("other").values()) == {"AVAILABLE"}, SOON, server.log)
    wait_until(lambda: set(server.states("scaled").values()) <= {"END"}, SOON, server.log)
    (tmp_path / "more" / "other" / "model.py").write_text(HANDLER.format(more="", value=2))
    server.wait_for_log("reloaded graph 'other'")
    # The pbtxt.
    text = (tmp_path / "graphs" / "g" / "graph.pbtxt").read_text()
    (tmp_path / "graphs" / "g" / "graph.pbtxt").write_text("nonsense {")
    server.wait_for_log("the new definition of graph 'g' is not applied")
    assert graph_answer(server) == 1
    (tmp_path / "graphs" / "g" / "graph.pbtxt").write_text(text + "# mended\n")
    server.wait_for_log("reloaded graph 'g'")


# ---- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--model-control-mode=poll"], "and --model-control-mode=poll at intervals; give one of them"),
        (["--file_system_poll_wait_seconds=2"], "--watch takes the place of --file_system_poll_wait_seconds"),
        (
            ["--model-control-mode=explicit", "--load-on-demand"],
            "--watch and --load-on-demand cannot be set together",
        ),
        (
            ["--config_path=config.json", "--watch-graph-files=false"],
            "--watch includes --watch-graph-files; do not turn it off",
        ),
    ],
)
def test_options_that_contradict(options, text, tmp_path):
    done = subprocess.run([BINARY, "serve", tmp_path, "--watch", *options], capture_output=True, text=True)
    assert done.returncode != 0
    assert text in done.stderr


def limited(count):
    """Returns a command prefix that limits the folders that its process can watch."""
    limit = f'echo {count} > /proc/sys/user/max_inotify_watches && exec "$@"'
    prefix = ["unshare", "--user", "--map-root-user", "sh", "-c", limit, "sh"]
    if subprocess.run([*prefix, "true"], capture_output=True).returncode != 0:
        pytest.skip("this machine allows no user namespaces")
    return prefix


def test_the_limit_of_watches_at_the_start(repository, model):
    command = [*limited(1), str(BINARY), "serve", "--watch", "--host", "127.0.0.1", "--http-port=0", "--grpc-port=0"]
    command += ["--metrics-port=0", "--python", sys.executable, str(repository.path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert f"--watch: cannot watch '{repository.path}/m': the limit fs.inotify.max_user_watches" in done.stderr


def test_the_limit_of_watches_later(repository, tmp_path, model):
    with Server([repository.path], "--watch", workdir=tmp_path, through=limited(3)) as server:
        shutil.copytree(repository.path / "m", repository.path / "n")
        Asking(server, "n").expect(1)
        server.wait_for_log("the limit fs.inotify.max_user_watches .* some changes will not be noticed")
        model.write_text(source(2))
        Asking(server).expect(2)


# ---- in a terminal ---------------------------------------------------------------------------------


class Terminal:
    """A server whose standard error is a terminal."""

    def __init__(self, repository, *options, env=None):
        self.output = b""
        self.master, slave = os.openpty()
        command = [BINARY, "serve", "--host", "127.0.0.1", "--http-port=0", "--grpc-port=0", "--metrics-port=0"]
        self.process = subprocess.Popen(
            [*command, "--python", sys.executable, *options, repository.path],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=slave, text=True,
            env={**os.environ, "TERM": "xterm", "NO_COLOR": "", **(env or {})},
        )  # fmt: skip
        os.close(slave)
        self.reader = threading.Thread(target=self._read)
        self.reader.start()
        for line in self.process.stdout:
            if line.startswith("listening: "):
                self.http = line.split('"http":"')[1].split('"')[0]
                break

    def _read(self):
        try:
            while chunk := os.read(self.master, 65536):
                self.output += chunk
        except OSError:  # the other end is closed
            pass

    def stop(self):
        """Returns the output."""
        self.process.terminate()
        self.process.communicate(timeout=40)
        self.reader.join(20)
        os.close(self.master)
        assert self.process.returncode == 0
        return self.output.decode().replace("\r\n", "\n")


FAILS = """
class TritonPythonModel:
    def execute(self, requests):
        print("a print")
        raise ValueError("on purpose")
"""


def fail(server):
    client = httpclient.InferenceServerClient(server.http)
    given = httpclient.InferInput("IN", [1], "FP32")
    given.set_data_from_numpy(np.zeros(1, np.float32))
    with pytest.raises(InferenceServerException, match="on purpose"):
        client.infer("m", [given], request_id="my-request")


def test_a_terminal_shows_colours(repository):
    repository.add("m", FAILS, TEXT)
    server = Terminal(repository)
    fail(server)
    output = server.stop()
    file = repository.path / "m" / "1" / "model.py"
    assert "\x1b[32mI\x1b[0m" in output
    [line] = [line for line in output.splitlines() if "Failed to process" in line]
    assert line.startswith("\x1b[1;31mE\x1b[0m")
    assert "\x1b[36m[request my-request] \x1b[0m" in line
    assert f"\n      File \x1b[1;36m{file}:5\x1b[0m, in execute\n" in output
    assert "\x1b[36m[m_0]\x1b[0m a print\n" in output


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_can_be_turned_off(repository, env):
    repository.add("m", FAILS, TEXT)
    server = Terminal(repository, env=env)
    fail(server)
    output = server.stop()
    assert "\x1b" not in output
    assert f'\n      File "{repository.path}/m/1/model.py", line 5, in execute\n' in output
    assert "my-request" not in output
    assert "[m_0] a print\n" in output
