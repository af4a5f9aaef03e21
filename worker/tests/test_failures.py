"""Requests whose user code breaks the rules, and response senders."""

import json
import re

import numpy as np
import pytest
from worker_harness import standin, tensor

HEAD = """
import numpy as np, sys, threading, triton_python_backend_utils as pb_utils
def answer(text="ok"):
    return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([text.encode()], dtype=object))])
class TritonPythonModel:
"""


def execute(body):
    lines = "\n".join("        " + line for line in body.strip("\n").splitlines())
    return HEAD + "    def execute(self, requests):\n" + lines


def text_of(response):
    assert response["code"] == 0, response["error"]
    return response["outputs"]["OUT"][2][4:].decode()


def prefix(worker):
    return f"Failed to process the request(s) for model '{worker.config['name']}_0', message: "


@pytest.mark.parametrize(
    ("raising", "text"),
    [
        ("raise ValueError('no such thing')", "ValueError: no such thing"),
        ("raise pb_utils.TritonModelException('mine')", "TritonModelException: mine"),
        ("sys.exit(3)", "SystemExit: 3"),
        ("raise KeyboardInterrupt()", "KeyboardInterrupt: "),
        ("raise OSError('\\udcff')", "OSError: \\udcff"),
    ],
)
def test_an_exception_fails_the_batch_and_not_the_worker(model, raising, text):
    worker = model(execute(f"if requests[0].request_id():\n    {raising}\nreturn [answer()]"))
    for _ in range(3):
        responses = worker.execute({"request_id": "x"}, {})
        for i in range(2):
            assert responses[i]["code"] == 2
            assert responses[i]["final"]
            file = f"{worker.folder.name}/1/model.py"
            expected = re.escape(f"{prefix(worker)}{text}\n\nAt:\n  {file}") + r"\(\d+\): execute\n"
            assert re.fullmatch(expected, responses[i]["error"]), responses[i]["error"]
        # The log has the full path and the source.
        assert worker.logs[-1]["level"] == 2
        head, place, source = worker.logs[-1]["text"].removeprefix(f"{prefix(worker)}{text}\n").splitlines()[:3]
        assert head == "Traceback (most recent call last):"
        assert place == f'  File "{worker.folder}/1/model.py", line {worker.logs[-1]["line"]}, in execute'
        assert source == f"    {raising}"
        assert text_of(worker.execute({})[0]) == "ok"


def test_places_are_told_innermost_first(model):
    worker = model(execute("def inner():\n    {}['x']\ninner()"))
    error = worker.execute({})[0]["error"]
    assert [line.split(": ")[-1] for line in error.splitlines()[3:]] == ["inner", "execute"]
    assert "KeyError: 'x'" in error


def test_clients_see_no_path_of_the_machine(model):
    body = """
    import json, os
    if requests[0].request_id() == "library":
        json.loads("no json")
    open(os.path.join(os.path.dirname(__file__), "weights.bin"))
    """
    worker = model(execute(body))
    name = worker.folder.name
    library = worker.execute({"request_id": "library"})[0]["error"]
    # A library is named by its import path.
    assert re.search(r"\n  json/decoder\.py\(\d+\): raw_decode\n", library)
    assert re.search(rf"\n  {name}/1/model\.py\(\d+\): execute\n", library)
    assert f'  File "{json.__path__[0]}/decoder.py", line ' in worker.logs[-1]["text"]
    missing = worker.execute({})[0]["error"]
    assert f"FileNotFoundError: [Errno 2] No such file or directory: '{name}/1/weights.bin'" in missing
    assert f"'{worker.folder}/1/weights.bin'" in worker.logs[-1]["text"]
    for error in (library, missing):
        assert not re.search(r"(^|[\s'])/", error), error


def test_verbose_errors_tell_all(model):
    worker = model(execute("1 / 0"), verbose_errors=1)
    error = worker.execute({})[0]["error"]
    assert f"\n  {worker.folder}/1/model.py(" in error


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("return (answer(),)", "Expected a list in the execute return, found type '<class 'tuple'>'."),
        (
            "return [answer(), answer()]",
            "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
            "InferenceRequest(s) size is:1, and InferenceResponse(s) size is:2\n",
        ),
        (
            "return [1]",
            "Expected an 'InferenceResponse' object in the execute function return list, found type '<class 'int'>'.",
        ),
    ],
)
def test_wrong_returns(model, body, text):
    worker = model(execute(body))
    response = worker.execute({})[0]
    assert (response["code"], response["error"]) == (2, prefix(worker) + text)


def test_a_model_without_execute_says_so(model):
    worker = model("class TritonPythonModel: pass")
    expected = prefix(worker) + "Python model {}/1/model.py does not implement `execute` method."
    assert worker.execute({})[0]["error"] == expected.format(worker.folder.name)
    assert worker.logs[-1]["text"] == expected.format(worker.folder)


def test_an_attribute_error_of_execute_is_its_own(model):
    worker = model(execute("self.nothing"))
    assert "AttributeError: 'TritonPythonModel' object has no attribute 'nothing'" in worker.execute({})[0]["error"]


def test_an_error_response_is_for_its_request_alone(model):
    worker = model(
        execute("return [pb_utils.InferenceResponse([], pb_utils.TritonError('no', pb_utils.TritonError.NOT_FOUND)),"
                " answer()]")
    )  # fmt: skip
    responses = worker.execute({}, {})
    assert (responses[0]["code"], responses[0]["error"]) == (3, "no")
    assert text_of(responses[1]) == "ok"


def test_large_inputs_of_failed_executions_come_back(model):
    worker = model(execute("array = requests[0].inputs()[0].as_numpy()\nraise ValueError(len(array))"))
    for _ in range(3):
        assert "ValueError: 5000" in worker.execute({"inputs": [tensor("A", np.ones(5000, np.float32))]})[0]["error"]
    while standin.lent_blocks(worker.channel) != 0:
        worker.receive("release")


def test_requests_are_told_when_they_are_forgotten(model):
    worker = model(execute("return [None, answer()]"))
    responses = worker.execute({}, {})
    assert list(responses) == [1]
    index, response = worker.response()
    assert (index, response["code"]) == (0, 2)
    assert "released the request without a response" in response["error"]


def test_a_sender_that_is_dropped_fails_its_request(model):
    worker = model(
        execute("if requests[0].request_id():\n    self.sender = None\n    return [answer()]\n"
                "self.sender = requests[0].get_response_sender()")
    )  # fmt: skip
    assert worker.execute({}) == {}
    assert text_of(worker.execute({"request_id": "x"})[0]) == "ok"
    response = next(m for m in worker.stray if m["type"] == "response")["response"]
    assert response["id"] == 100
    assert response["code"] == 2


class TestSender:
    def test_before_return(self, model):
        worker = model(execute("requests[0].get_response_sender().send(answer())\nreturn [None]"))
        assert worker.execute({}) == {}
        message = worker.stray[0]["response"]
        assert message["final"]
        assert text_of(message) == "ok"

    def test_after_return_from_a_thread(self, model):
        worker = model(
            execute(
                """
                sender = requests[0].get_response_sender()
                self.go = getattr(self, "go", None) or threading.Event()
                def later():
                    self.go.wait()
                    sender.send(answer("late"), pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
                if requests[0].request_id():
                    self.go.set()
                    return [answer()]
                threading.Thread(target=later).start()
                return None
                """
            ).replace("                        ", "        ")
        )  # fmt: skip
        assert worker.execute({}) == {}
        worker.execute({"request_id": "go"})
        messages = [m for m in worker.stray if m["type"] == "response"] or [worker.receive("response")]
        assert text_of(messages[0]["response"]) == "late"

    def test_its_rules(self, model):
        worker = model(
            execute(
                """
errors = []
sender = requests[0].get_response_sender()
def attempt(*args):
    try:
        sender.send(*args)
        errors.append("ok")
    except pb_utils.TritonModelException as e:
        errors.append(str(e))
attempt(answer(), 2)
attempt(None, 0)
attempt(None, 1)
if requests[0].request_id() == "final":
    attempt(answer(), 1)
else:
    attempt(answer())
    attempt(None, 1)
attempt(answer(), 1)
attempt(None, 1)
pb_utils.Logger.log_info(repr(errors))
return None
"""
            )
        )
        no = "Unable to send response. "
        start = [
            no + "Unsupported flag provided.",
            "Inference Response object must be provided when the response flags is set to zero.",
            no + "Non-decoupled model cannot send complete final before sending a response.",
            "ok",
        ]
        second = no + "Non-decoupled model cannot send more than one response."
        closed = no + "Response sender has been closed."
        worker.execute({"request_id": "final"})
        assert eval(worker.logs[-1]["text"]) == [*start, second, closed]
        worker.execute({})
        assert eval(worker.logs[-1]["text"]) == [*start, "ok", second, closed]
        assert len([m for m in worker.stray if m["type"] == "response"]) == 2

    def test_an_answered_request_gets_no_second_answer(self, model):
        worker = model(execute("requests[0].get_response_sender().send(answer())\nreturn [answer(), answer()]"))
        responses = worker.execute({}, {})
        assert list(responses) == [1]
        assert responses[1]["error"] == prefix(worker) + (
            "Unable to send response. Non-decoupled model cannot send more than one response."
        )
        assert text_of(worker.stray[0]["response"]) == "ok"

    def test_is_closed_by_a_failure(self, model):
        worker = model(
            execute(
                "if requests[0].request_id():\n    self.sender.send(answer())\n"
                "self.sender = requests[0].get_response_sender()\nraise ValueError()"
            )
        )
        worker.execute({})
        assert "Response sender has been closed." in worker.execute({"request_id": "x"})[0]["error"]

    def test_wrong_arguments(self, model):
        worker = model(
            execute(
                "sender = requests[0].get_response_sender()\n"
                "for args in ((1,), (answer(), 'x'), (answer(), None)):\n"
                "    try:\n        sender.send(*args)\n        raise AssertionError(args)\n"
                "    except TypeError:\n        pass\nreturn [answer()]"
            )
        )
        assert text_of(worker.execute({})[0]) == "ok"

    def test_outputs_are_pruned(self, model):
        worker = model(
            execute("requests[0].get_response_sender().send(pb_utils.InferenceResponse("
                    "[pb_utils.Tensor(n, np.ones(1)) for n in 'AB']))"),
            outputs=["A", "B"],
        )  # fmt: skip
        worker.execute({"outputs": ["B"]})
        assert list(worker.stray[0]["response"]["outputs"]) == ["B"]


class TestDecoupled:
    def test_any_number_of_responses(self, model):
        worker = model(
            execute(
                """
sender = requests[0].get_response_sender()
for i in range(int(requests[0].request_id())):
    sender.send(answer(str(i)))
sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
            ),
            policy={"decoupled": True},
        )
        for count in (0, 1, 3):
            worker.stray.clear()
            assert worker.execute({"request_id": str(count)}) == {}
            sent = [m["response"] for m in worker.stray]
            assert [text_of(r) for r in sent[:-1]] == [str(i) for i in range(count)]
            assert [r["final"] for r in sent] == [False] * count + [True]
            assert not sent[-1]["has_response"]

    def test_returns_none(self, model):
        worker = model(execute("return [answer()]"), policy={"decoupled": True})
        assert worker.execute({})[0]["error"] == prefix(worker) + (
            f"Python model '{worker.config['name']}_0' is using the decoupled mode and the execute function must "
            "return None."
        )

    def test_a_failure_answers_what_is_open(self, model):
        worker = model(
            execute("requests[0].get_response_sender().send(answer(), 1)\n"
                    "requests[1].get_response_sender().send(answer())\nraise ValueError('Intentional Error')"),
            policy={"decoupled": True},
        )  # fmt: skip
        responses = worker.execute({}, {}, {})
        assert sorted(responses) == [1, 2]
        assert all("Intentional Error" in r["error"] and r["final"] for r in responses.values())


def test_forked_children_cannot_answer(model):
    worker = model(
        execute(
            """
import multiprocessing, time, os
sender = requests[0].get_response_sender()
def child(queue):
    try:
        sender.send(answer("from the child"))
        queue.put("sent")
    except pb_utils.TritonModelException as e:
        queue.put(str(e))
context = multiprocessing.get_context("fork")
queue = context.Queue()
process = context.Process(target=child, args=(queue,))
process.start()
text = queue.get()
process.join()
with context.Pool(2) as pool:
    squares = pool.map(abs, [-1, -2])
sleeper = context.Process(target=time.sleep, args=(100,))
sleeper.start()
sleeper.terminate()
sleeper.join()
return [answer(f"{process.exitcode} {squares} {sleeper.exitcode} {text}")]
"""
        )
    )
    text = text_of(worker.execute({"inputs": [tensor("A", np.ones(5000, np.float32))]})[0])
    assert text.startswith("0 [1, 2] -15 Unable to send response. This process was forked"), text
    assert [m["type"] for m in worker.stray if m["type"] != "release"] == []


def test_warnings_and_prints_go_to_the_pipes(model):
    worker = model(execute("import warnings\nwarnings.warn('careful')\nprint('said')\nreturn [answer(str(sys.argv))]"))
    assert text_of(worker.execute({})[0]) == "['']"
    assert "careful" in worker.text("stderr")
    assert worker.text("stdout") == "said\n"


# Memory for objects smaller than a thread's stack.
ROOM = 3 << 20


def test_a_model_whose_reader_gets_no_thread_ends_its_worker_in_words(worker, tmp_path):
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "model.py").write_text(
        HEAD
        + f"""
    def initialize(self, args):
        import resource
        pages = int(open("/proc/self/statm").read().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + {ROOM}, resource.RLIM_INFINITY))
    def is_ready(self):
        return True
    def execute(self, requests):
        return [answer()]
"""
    )
    made = worker(name="model_0")
    config = {"name": "model", "max_batch_size": 0, "input": [], "output": []}
    made.begin_load(tmp_path, config)
    assert made.wait() == 1
    assert re.search(
        r"braid worker \d+ ends: cannot start thread 'brd-read': Resource temporarily unavailable\n",
        made.text("stderr"),
    ), made.text("stderr")
