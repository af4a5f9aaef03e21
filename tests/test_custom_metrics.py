"""Custom metrics (section 6): families and series of user code at the metrics endpoint."""

import os
import signal

import numpy as np
import pytest
from harness.clients import strings
from harness.repository import config
from harness.waiting import wait_until

# A model that runs the Python code in its input, and returns the `result` of the code.
RUNNER = """
import json
import os

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.keep = {}
        if "{name}" == "starter":
            self.keep["family"] = pb_utils.MetricFamily("from_initialize", "made early", pb_utils.MetricFamily.COUNTER)
            self.keep["metric"] = self.keep["family"].Metric()
            self.keep["metric"].increment(2)

    def execute(self, requests):
        responses = []
        for request in requests:
            code = pb_utils.get_input_tensor_by_name(request, "CODE").as_numpy()[0].decode()
            scope = {"keep": self.keep, "pb_utils": pb_utils, "os": os, "result": None, "MF": pb_utils.MetricFamily}
            try:
                exec(code, scope)
                result = scope["result"]
            except Exception as error:
                result = f"{type(error).__name__}: {error}"
            del scope
            text = np.array([json.dumps(result)], dtype=object)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("RESULT", text)]))
        return responses
"""


def add_runner(repository, name):
    text = config(name, [("CODE", "STRING", [1])], [("RESULT", "STRING", [1])])
    repository.add(name, RUNNER.replace("{name}", name), text)


@pytest.fixture(scope="module")
def server(module_repository, module_serve):
    for name in ("one", "two", "starter"):
        add_runner(module_repository, name)
    return module_serve(module_repository, "--model-control-mode=explicit", "--load-model=*")


@pytest.fixture
def run(server, connect):
    """run(model, code) runs code inside a model; returns its `result`."""
    import json
    import textwrap

    client = connect("http", server)

    def call(model, code):
        answer = client.infer(model, {"CODE": strings(textwrap.dedent(code))})
        return json.loads(answer.as_numpy("RESULT")[0])

    yield call
    for model in ("one", "two"):
        call(model, "keep.clear()")


def page(server):
    status, _, body = server.request("GET", "/metrics", address=server.metrics)
    assert status == 200
    return body.decode()


MAKE = """
keep["family"] = MF(name="{name}", description="what it is", kind=MF.{kind})
keep["metric"] = keep["family"].Metric(labels={labels})
"""


def test_a_counter_is_written_to_the_letter(server, run):
    run("one", MAKE.format(name="test", kind="COUNTER", labels={"custom_metric_key": "label1", "a": "2"}))
    assert 'test{a="2",custom_metric_key="label1"} 0\n' in page(server)
    assert "# HELP test what it is\n# TYPE test counter\n" in page(server)
    assert run("one", "keep['metric'].increment(1); result = keep['metric'].value()") == 1.0
    assert 'test{a="2",custom_metric_key="label1"} 1\n' in page(server)
    run("one", "keep['metric'].increment(0.5)")
    assert 'test{a="2",custom_metric_key="label1"} 1.5\n' in page(server)


def test_a_gauge_goes_both_ways(server, run):
    run("one", MAKE.format(name="level", kind="GAUGE", labels=None))
    assert run("one", "m = keep['metric']; m.set(9.5); m.increment(-2); result = m.value()") == 7.5
    assert "# TYPE level gauge\nlevel 7.5\n" in page(server)
    assert run("one", "m.set(float('inf')); result = str(m.value())".replace("m.", "keep['metric'].")) == "inf"
    assert "\nlevel +Inf\n" in page(server)


def test_a_histogram(server, run):
    run(
        "one",
        """
        keep["family"] = MF("times", "of something", MF.HISTOGRAM)
        keep["metric"] = keep["family"].Metric(labels={"z": "1"}, buckets=[0.1, 1, 2.5, 10])
        for value in (0.05, 2, 100):
            keep["metric"].observe(value)
        """,
    )
    assert (
        "# HELP times of something\n"
        "# TYPE times histogram\n"
        'times_count{z="1"} 3\n'
        'times_sum{z="1"} 102.05\n'
        'times_bucket{z="1",le="0.1"} 1\n'
        'times_bucket{z="1",le="1"} 1\n'
        'times_bucket{z="1",le="2.5"} 2\n'
        'times_bucket{z="1",le="10"} 2\n'
        'times_bucket{z="1",le="+Inf"} 3\n'
    ) in page(server)


def test_models_share_a_series_of_one_name_and_labels(server, run):
    for model in ("one", "two"):
        run(model, MAKE.format(name="shared", kind="COUNTER", labels={"x": "y"}) + "keep['metric'].increment(2)")
    assert run("one", "result = keep['metric'].value()") == 4.0
    assert 'shared{x="y"} 4\n' in page(server)
    run("one", "keep.clear()")
    assert 'shared{x="y"} 4\n' in page(server)
    run("two", "keep.clear()")
    assert "shared" not in page(server)


def test_the_first_description_stays_and_the_kind_too(server, run):
    run("one", MAKE.format(name="kinds", kind="COUNTER", labels=None))
    run("two", MAKE.format(name="kinds", kind="COUNTER", labels=None).replace("what it is", "another"))
    assert "# HELP kinds what it is\n" in page(server)
    assert run("two", "MF('kinds', '', MF.GAUGE)") == (
        "TritonModelException: Error when creating MetricFamily: Failed to process the request for model 'two_0', "
        "message: Family name already exists with different type"
    )


def test_a_series_lives_as_long_as_its_metric(server, run):
    run("one", MAKE.format(name="brief", kind="GAUGE", labels={"n": "1"}))
    run("one", "keep['other'] = keep['family'].Metric({'n': '1'}); keep['other'].set(3); del keep['metric']")
    assert 'brief{n="1"} 3\n' in page(server)
    run("one", "del keep['other']")
    assert "brief{" not in page(server)


def test_deleting_a_family_ends_its_metrics(server, run):
    run("one", MAKE.format(name="gone", kind="GAUGE", labels=None))
    run("one", "del keep['family']")
    assert "gone" not in page(server)
    for operation in ("increment(1)", "set(1)", "value()"):
        assert run("one", f"keep['metric'].{operation}").startswith(
            "TritonModelException: Invalid metric operation as the corresponding 'MetricFamily' has been deleted."
        )


@pytest.mark.parametrize(
    ("kind", "operation", "text"),
    [
        (
            "COUNTER",
            "increment(-1)",
            "Failed to increment metric value: {} TRITONSERVER_METRIC_KIND_COUNTER can only be incremented "
            "monotonically by non-negative values.",
        ),
        ("COUNTER", "set(1)", "Failed to set metric value: {} TRITONSERVER_METRIC_KIND_COUNTER does not support Set"),
        (
            "COUNTER",
            "observe(1)",
            "Failed to observe metric value: {} TRITONSERVER_METRIC_KIND_COUNTER does not support Observe",
        ),
        (
            "GAUGE",
            "observe(1)",
            "Failed to observe metric value: {} TRITONSERVER_METRIC_KIND_GAUGE does not support Observe",
        ),
        (
            "HISTOGRAM",
            "value()",
            "Failed to get metric value: {} TRITONSERVER_METRIC_KIND_HISTOGRAM does not support Value",
        ),
        (
            "HISTOGRAM",
            "increment(1)",
            "Failed to increment metric value: {} TRITONSERVER_METRIC_KIND_HISTOGRAM does not support Increment",
        ),
        (
            "HISTOGRAM",
            "set(1)",
            "Failed to set metric value: {} TRITONSERVER_METRIC_KIND_HISTOGRAM does not support Set",
        ),
    ],
)
def test_what_a_kind_cannot_do(run, kind, operation, text):
    buckets = "buckets=[1]" if kind == "HISTOGRAM" else ""
    error = run("one", f"f = MF('x', '', MF.{kind}); f.Metric({buckets}).{operation}")
    middle = "Failed to process the request for model 'one_0', message:"
    assert error == "TritonModelException: " + text.format(middle)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("MF()", "TypeError"),
        ("MF('n', 'd')", "TypeError"),
        ("MF('n', 'd', 0)", "TypeError"),
        ("MF(None, 'd', MF.COUNTER)", "TypeError"),
        ("F.Metric().increment('a')", "TypeError"),
        ("F.Metric().increment(None)", "TypeError"),
        ("F.Metric(labels=3)", "TritonModelException: Failed to create metric. Labels must be a dictionary."),
        ("F.Metric(buckets=(1, 2))", "TritonModelException: Failed to create metric. Buckets must be a list."),
        ("F.Metric(buckets=[1])", "TritonModelException: Failed to create metric. Unexpected buckets found."),
        ("H.Metric()", "TritonModelException: Failed to create metric. Missing required buckets."),
        ("H.Metric(buckets=[2, 1])", "TritonModelException: Error when creating Metric: "),
        (
            "F.Metric(labels={'a': 1})",
            "TritonModelException: Error when creating Metric: Failed to process the request for model 'one_0', "
            "message: attempt to access JSON non-string as string",
        ),
        ("MF('bad name', '', MF.COUNTER)", "TritonModelException: Error when creating MetricFamily: "),
        ("MF('nv_inference_count', '', MF.COUNTER)", "TritonModelException: Error when creating MetricFamily: "),
    ],
)
def test_wrong_arguments(run, call, error):
    made = "F = MF('f', '', MF.COUNTER); H = MF('h', '', MF.HISTOGRAM);"
    assert run("one", f"{made} {call}").startswith(error)


def test_a_histogram_may_have_no_buckets(server, run):
    run(
        "one",
        "keep['f'] = MF('bare', '', MF.HISTOGRAM); keep['m'] = keep['f'].Metric(buckets=[]); keep['m'].observe(3)",
    )
    assert 'bare_count 1\nbare_sum 3\nbare_bucket{le="+Inf"} 1\n' in page(server)


def test_the_page_can_be_read_inside_execute(server, run):
    text = run(
        "one",
        MAKE.format(name="inside", kind="COUNTER", labels=None)
        + f"""
import urllib.request
keep["metric"].increment(3)
result = urllib.request.urlopen("http://{server.metrics}/metrics", timeout=10).read().decode()
""",
    )
    assert "\ninside 3\n" in text


def test_a_metric_of_initialize_ends_with_its_model(server, run, connect):
    assert "\nfrom_initialize 2\n" in page(server)
    client = connect("http", server)
    client.raw.unload_model("starter")
    wait_until(lambda: "from_initialize" not in page(server), 10, "the end of the family")
    client.raw.load_model("starter")
    assert "\nfrom_initialize 2\n" in page(server)


def test_what_a_process_that_dies_referred_to_goes(server, run):
    run("one", MAKE.format(name="orphan", kind="COUNTER", labels=None))
    pid = run("one", "result = os.getpid()")
    assert "\norphan 0\n" in page(server)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: "orphan" not in page(server), 10, "the end of the family")
    wait_until(lambda: server.request("GET", "/v2/models/one/ready")[0] == 200, 20, "the instance's return")


def test_a_forked_process_changes_the_same_series(server, run):
    run("one", MAKE.format(name="forked", kind="COUNTER", labels=None))
    run(
        "one",
        """
        child = os.fork()
        if child == 0:
            try:
                keep["metric"].increment(5)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        """,
    )
    wait_until(lambda: "\nforked 5\n" in page(server), 10, "what the child has counted")
    assert run("one", "keep['metric'].increment(1); result = keep['metric'].value()") == 6.0


def test_a_thread_asks_for_a_value(run):
    code = """
    import threading
    f = MF("threads", "", MF.GAUGE)
    m = f.Metric()
    values = []

    def work():
        m.increment(1)
        values.append(m.value())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    result = sorted(values)[-1]
    """
    assert run("one", code) == 4.0


AT_IMPORT = """
import numpy as np
import triton_python_backend_utils as pb_utils

FAMILY = pb_utils.MetricFamily("at_import", "made with the module", pb_utils.MetricFamily.GAUGE)


class TritonPythonModel:
    metric = FAMILY.Metric()

    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "IN", "data_type": "TYPE_FP32", "dims": [1]})
        config.add_output({"name": "OUT", "data_type": "TYPE_FP32", "dims": [1]})
        return config

    def initialize(self, args):
        self.metric.set(3)

    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.zeros(1, np.float32))]) for _ in requests]
"""


def test_metrics_can_be_made_when_a_module_is_imported(repository, serve):
    repository.add("early", AT_IMPORT, None)
    assert "\nat_import 3\n" in page(serve(repository))


def test_changes_are_seen_with_the_response(server, run):
    run("one", MAKE.format(name="each", kind="COUNTER", labels=None))
    for number in range(1, 30):
        run("one", "keep['metric'].increment(1)")
        assert f"\neach {number}\n" in page(server)


def test_values_of_numpy_are_numbers(run):
    code = "import numpy; f = MF('np', '', MF.GAUGE); m = f.Metric(); m.set(numpy.float32(1.5)); result = m.value()"
    assert run("one", code) == 1.5
    assert np.float32(1.5) == 1.5
