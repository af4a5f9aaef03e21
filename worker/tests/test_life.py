"""Loading, configuration, the warm process, and the end and the log of a worker."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from worker_harness import WORKER_DIR, Worker, Zygote, standin, wait_for

ECHO = """
import json, os, sys
import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def initialize(self, args):
        self.args = args
    def execute(self, requests):
        value = eval(requests[0].request_id())
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([json.dumps(value)], dtype=object))])]
"""


def ask(worker, expression):
    response = worker.execute({"request_id": expression})[0]
    assert response["code"] == 0, response["error"]
    return json.loads(response["outputs"]["OUT"][2][4:])


@pytest.mark.parametrize(
    ("function", "text"),
    [("connect", "the channel already exists"), ("reconnect", "this process is not a fork")],
)
def test_a_worker_has_one_channel(model, function, text):
    source = ECHO + textwrap.dedent(
        """
        import _braid_worker

        def refusal(function):
            try:
                getattr(_braid_worker, function)(-1, -1, -1, "", "")
            except RuntimeError as error:
                return str(error)
        """
    )
    assert ask(model(source), f"refusal('{function}')") == text


def test_arguments_of_initialize(model):
    worker = model(ECHO)
    args = ask(worker, "self.args")
    assert args == {
        "model_config": json.dumps(worker.config),
        "model_instance_kind": "CPU",
        "model_instance_name": worker.config["name"] + "_0",
        "model_instance_device_id": "0",
        "model_repository": str(worker.folder),
        "model_version": "1",
        "model_name": worker.config["name"],
    }
    assert ask(worker, "pb_utils.get_model_dir()") == str(worker.folder / "1")


def test_imports_of_neighbours(model):
    worker = model(
        """
        import triton_python_backend_utils as pb_utils
        assert __name__ == "model" or not hasattr(pb_utils, "get_model_dir")
        if __name__ == "1.model":
            from .sibling import VALUE
            from . import sibling as relative
        import sibling as absolute
        """
        + ECHO.replace("\n", "\n        "),
        files={"sibling.py": "VALUE = 5"},
    )
    folder = str(worker.folder)
    assert ask(worker, "[__name__, VALUE, relative.VALUE, absolute.VALUE]") == ["1.model", 5, 5, 5]
    assert ask(worker, "sys.path[-3:]") == [folder + "/1", folder, str(WORKER_DIR)]
    assert ask(worker, "sys.path.count(sys.path[-1])") == 1
    assert ask(worker, "__import__('model').__name__") == "model"
    assert ask(worker, "__import__('model') is sys.modules[__name__]") is False
    assert ask(worker, "__file__") == folder + "/1/model.py"


def test_a_package_has_its_init(model):
    worker = model(ECHO, files={"__init__.py": "HERE = 1"})
    assert ask(worker, "sys.modules['1'].HERE") == 1


def test_a_module_of_a_backend_has_a_plain_name(model, tmp_path):
    backend = tmp_path / "backend"
    backend.mkdir()
    (backend / "model.py").write_text(ECHO)
    worker = model("", model_file=backend / "model.py", module_name="model")
    assert ask(worker, "[__name__, sys.path[-3], pb_utils.get_model_dir()]") == [
        "model",
        str(backend),
        str(worker.folder / "1"),
    ]


def test_the_newest_file_counts(model, worker):
    first = model(ECHO + "\nV = 1")
    file = first.folder / "1" / "model.py"
    times = os.stat(file)
    file.write_text(ECHO + "\nV = 2")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    second = worker()
    assert second.load(first.folder, first.config)["code"] == 0
    assert (ask(first, "V"), ask(second, "V")) == (1, 2)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("raise ValueError('at import')", "ValueError: at import\n\nAt:\n"),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'\n\nAt:\n"),
        ("def (", "SyntaxError: "),
        ("x = 1", "AttributeError: module '1.model' has no attribute 'TritonPythonModel'"),
        ("class TritonPythonModel:\n    def __init__(self): self.x", "AttributeError: "),
        ("class TritonPythonModel:\n    def initialize(self, args): 1 / 0", "ZeroDivisionError: division by zero"),
        ("class TritonPythonModel:\n    def initialize(self, args): open('/no/such')", "FileNotFoundError: [Errno 2]"),
        ("import sys; sys.exit(4)", "SystemExit: 4"),
    ],
)
def test_a_failed_load_says_why_and_ends_the_worker(model, source, text):
    worker = model(source, expect_ok=False)
    assert worker.loaded["code"] == 2
    assert worker.loaded["error"].startswith(text)
    assert worker.wait() == 0


def test_places_of_a_failed_initialize(model):
    worker = model("class TritonPythonModel:\n    def initialize(self, args): 1 / 0", expect_ok=False)
    name = worker.folder.name
    assert worker.loaded["error"].splitlines()[2:] == ["At:", f"  {name}/1/model.py(2): initialize"]
    (log,) = worker.logs
    assert log["line"] == 2
    assert log["text"].splitlines()[:4] == [
        "ZeroDivisionError: division by zero",
        "Traceback (most recent call last):",
        f'  File "{worker.folder}/1/model.py", line 2, in initialize',
        "    def initialize(self, args): 1 / 0",
    ]
    assert log["text"].endswith("\nZeroDivisionError: division by zero\n")


def test_a_failed_import_has_no_frames_of_the_import(model):
    worker = model("import json\njson.loads('no json')", expect_ok=False)
    name = worker.folder.name
    told = worker.loaded["error"].splitlines()[3:]
    assert [line.split("(")[0] for line in told] == ["  json/decoder.py"] * 2 + [
        "  json/__init__.py",
        f"  {name}/1/model.py",
    ]
    (log,) = worker.logs
    assert log["line"] == 2
    frames = [line.split('"')[1] for line in log["text"].splitlines() if line.startswith("  File ")]
    assert frames[0] == f"{worker.folder}/1/model.py"
    assert len(frames) == 4
    assert "    json.loads('no json')\n" in log["text"]


def test_an_exception_is_logged_with_its_cause(model):
    source = """
    class TritonPythonModel:
        def initialize(self, args):
            try:
                1 / 0
            except ZeroDivisionError as error:
                raise ValueError("second\\nline") from error
    """
    worker = model(textwrap.dedent(source), expect_ok=False)
    (log,) = worker.logs
    assert log["text"].startswith("ValueError: second\nline\nTraceback (most recent call last):\n")
    assert "ZeroDivisionError: division by zero\n\nThe above exception was the direct cause" in log["text"]
    assert "braid_worker" not in log["text"]


def test_an_exception_that_cannot_be_shown(model):
    source = """
    class Odd(Exception):
        def __str__(self):
            raise ValueError
        @property
        def __notes__(self):
            raise ValueError
    class TritonPythonModel:
        def initialize(self, args):
            raise Odd()
    """
    worker = model(textwrap.dedent(source), expect_ok=False)
    assert worker.loaded["error"].startswith("Odd: <the exception cannot be shown as text>\n\nAt:\n")
    assert worker.logs[0]["text"].startswith("Odd: <the exception cannot be shown as text>\n")


def test_the_place_of_a_syntax_error(model):
    source = "import os\n\nx = 1 +\n"
    worker = model(source, expect_ok=False)
    told = worker.loaded["error"]
    assert told.startswith("SyntaxError: invalid syntax (model.py, line 3)\n\nAt:\n")
    assert told.splitlines()[3] == f"  {worker.folder.name}/1/model.py(3): <module>"
    assert "x = 1 +" not in told
    (log,) = worker.logs
    assert log["level"] == 2
    assert log["line"] == 3
    assert log["text"].splitlines() == [
        "SyntaxError: invalid syntax (model.py, line 3)",
        f'  File "{worker.folder}/1/model.py", line 3',
        "    x = 1 +",
        "           ^",
        "SyntaxError: invalid syntax",
    ]
    assert told.splitlines()[4:] == []
    verbose = model(source, expect_ok=False, verbose_errors=1)
    assert f"  {verbose.folder}/1/model.py(3): <module>\n    x = 1 +\n" in verbose.loaded["error"]


def test_a_missing_file(worker, tmp_path):
    made = worker()
    loaded = made.load(tmp_path / "m", {"name": "m"})
    assert loaded["error"] == "Python model file not found in 'm/1/model.py'"
    assert made.logs[-1]["text"] == f"Python model file not found in '{tmp_path}/m/1/model.py'"


def test_bls_waits_for_execute(model):
    call = "pb_utils.InferenceRequest(inputs=[], requested_output_names=[], model_name='m').exec()"
    text = "TritonModelException: BLS is only supported during the 'execute' function."
    source = (
        f"import triton_python_backend_utils as pb_utils\nclass TritonPythonModel:\n    def initialize(self, a): {call}"
    )
    assert model(source, expect_ok=False).loaded["error"].startswith(text)
    worker = model(source.replace("initialize(self, a)", "finalize(self)"))
    worker.finalize()
    assert worker.logs[-1]["text"].startswith(text)


class TestAutoComplete:
    def complete(self, model, body, static=True):
        lines = "\n".join("        " + line for line in body.splitlines())
        return model(
            "import triton_python_backend_utils as pb_utils\nclass TritonPythonModel:\n"
            + ("    @staticmethod\n" if static else "")
            + f"    def auto_complete_config(config):\n{lines}\n"
            "    def __init__(self): raise ValueError()",
            auto_complete=True,
            expect_ok=False,
        )

    def test_completes(self, model):
        worker = self.complete(
            model,
            "config.set_max_batch_size(16)\nassert pb_utils.get_model_dir().endswith('/1')\nreturn config",
        )
        assert worker.loaded["code"] == 0, worker.loaded["error"]
        assert json.loads(worker.loaded["config"])["max_batch_size"] == 16
        assert worker.wait() == 0

    def test_is_optional(self, model):
        worker = model("class TritonPythonModel: pass", auto_complete=True)
        assert worker.loaded["config"] == ""
        assert worker.wait() == 0

    def test_returns_a_config(self, model):
        worker = self.complete(model, "pass")
        name = worker.config["name"]
        assert worker.loaded["code"] == 2
        assert worker.loaded["error"] == (
            f"auto_complete_config function in model '{name}' must return a valid pb.ModelConfig object."
        )

    def test_may_fail(self, model):
        worker = self.complete(model, "config.set_max_batch_size(1)")
        assert worker.loaded["error"].startswith("ValueError: configuration specified max_batch_size 8")


class TestEnd:
    def test_finalize(self, model):
        worker = model(
            """
            import atexit, triton_python_backend_utils as pb_utils
            class TritonPythonModel:
                def finalize(self):
                    pb_utils.Logger.log_warn("bye")
                    print("finalized")
                    atexit.register(print, "at exit")
            """
        )
        worker.finalize()
        assert [(m["level"], m["text"]) for m in worker.logs] == [(1, "bye")]
        assert worker.logs[0]["file"].endswith("/1/model.py")
        assert worker.logs[0]["line"] == 5
        assert worker.wait() == 0
        assert worker.text("stdout") == "finalized\nat exit\n"

    def test_a_failing_finalize_is_logged(self, model):
        worker = model("class TritonPythonModel:\n    def finalize(self): 1 / 0")
        worker.finalize()
        assert worker.logs[0]["level"] == 0
        assert worker.logs[0]["text"].startswith("ZeroDivisionError: ")
        assert worker.wait() == 0

    def test_forgotten_threads_do_not_hold_it(self, model):
        worker = model(
            """
            import threading, time
            class TritonPythonModel:
                def initialize(self, args):
                    threading.Thread(target=time.sleep, args=(1000,)).start()
            """
        )
        worker.finalize()
        assert worker.wait(20) == 0

    def test_it_ends_with_the_server_also_in_user_code(self, model):
        worker = model(ECHO)
        worker.send({"request_id": "__import__('time').sleep(1000)"})
        assert not wait_for(lambda: standin.receive(worker.channel, 0) is not None, 0.1)
        del worker.channel
        assert worker.wait(2) == 1

    def test_signals_do_not_end_it(self, model):
        worker = model(ECHO)
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(worker.pid, number)
        assert ask(worker, "1") == 1
        # The programs that it starts still end by these signals.
        script = "import subprocess; p = subprocess.Popen(['sleep', '100']); p.terminate(); print(p.wait(5))"
        assert ask(worker, f"exec({script!r})") is None
        assert worker.text("stdout") == "-15\n"

    def test_exit_in_user_code(self, model):
        worker = model(ECHO)
        worker.send({"request_id": "os._exit(7)"})
        assert worker.wait() == 7


class TestZygote:
    def test_says_what_it_is(self, zygote):
        import numpy

        assert zygote.ready == {
            "ready": True,
            "python": ".".join(map(str, sys.version_info[:3])),
            "numpy": numpy.__version__,
        }

    def test_workers_are_ours(self, model):
        worker = model(ECHO)
        assert worker.hello["python"] == sys.version.split()[0]
        assert ask(worker, "[os.getppid(), os.getpid()]") == [os.getpid(), worker.pid]
        assert Path(f"/proc/{worker.pid}/comm").read_text().strip() == worker.config["name"] + "_0"
        threads = f"/proc/{worker.pid}/task"
        assert wait_for(lambda: "brd-watch\n" in [Path(f"{threads}/{t}/comm").read_text() for t in os.listdir(threads)])

    def test_workers_have_only_their_own_descriptors(self, model, worker):
        worker()
        made = model(ECHO)
        folder = f"/proc/{made.pid}/fd"
        links = sorted(os.readlink(f"{folder}/{f}").split(":")[0].split("[")[0] for f in os.listdir(folder))
        # Descriptors of memory can be closed once it is mapped.
        assert links == ["/dev/null", "/memfd", "pipe", "pipe", "pipe", "socket"], links

    def test_bad_requests_are_refused(self, zygote):
        assert "descriptors instead of 5" in zygote.fork("x", [0])["error"]
        zygote.socket.send(b"nonsense")
        assert "error" in json.loads(zygote.socket.recv(1000))

    def test_leaves_no_zombies_and_no_descriptors(self, zygote, worker):
        before = len(os.listdir(f"/proc/{zygote.process.pid}/fd"))
        for _ in range(3):
            worker()
        assert len(os.listdir(f"/proc/{zygote.process.pid}/fd")) == before
        children = Path(f"/proc/{zygote.process.pid}/task/{zygote.process.pid}/children").read_text()
        assert children == ""

    def test_ends_with_the_server(self):
        warm = Zygote()
        os.kill(warm.process.pid, signal.SIGTERM)
        warm.close()

    def test_tells_what_is_missing(self, tmp_path):
        (tmp_path / "numpy.py").write_text("raise ModuleNotFoundError(\"No module named 'numpy'\", name='numpy')")
        warm = Zygote(env={**os.environ, "PYTHONPATH": str(tmp_path)})
        assert warm.ready["ready"] is False
        assert f"numpy is not installed in {sys.executable}" in warm.ready["error"]
        warm.close()


def test_a_worker_on_its_own(tmp_path):
    worker = Worker()
    try:
        (tmp_path / "1").mkdir()
        (tmp_path / "1" / "model.py").write_text(ECHO)
        assert worker.load(tmp_path, {"name": "m", "output": [{"name": "OUT"}]})["code"] == 0
        assert ask(worker, "[sys.argv, __name__]") == [[""], "1.model"]
        assert Path(f"/proc/{worker.pid}/comm").read_text() == "m_0\n"
        worker.finalize()
        assert worker.wait() == 0
    finally:
        worker.close()


def test_log_levels_and_places(model):
    worker = model(
        """
        import threading, triton_python_backend_utils as pb_utils
        class TritonPythonModel:
            def initialize(self, args):
                pb_utils.Logger.log("a")
                pb_utils.Logger.log("b", pb_utils.Logger.ERROR)
                pb_utils.Logger.log_verbose("c")
                thread = threading.Thread(target=pb_utils.Logger.log_warn, args=("d \\n \\udcff",))
                thread.start()
                thread.join()
        """
    )
    assert [(m["level"], m["line"], m["text"]) for m in worker.logs[:3]] == [(0, 5, "a"), (2, 6, "b"), (3, 7, "c")]
    assert worker.logs[3]["text"] == "d \n \\udcff"
    assert worker.logs[3]["file"].endswith("threading.py")


def test_the_extension_needs_nothing_but_libc():
    out = subprocess.run(["ldd", str(WORKER_DIR / "_braid_worker.abi3.so")], capture_output=True, text=True).stdout
    needed = {line.split()[0].rsplit("/", 1)[-1] for line in out.splitlines()}
    if "libasan.so" in " ".join(needed):
        pytest.skip("this one is built with a sanitizer")
    assert needed <= {"linux-vdso.so.1", "libc.so.6", "libm.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2"}
