"""Models that complete their own configuration (8)."""

import re

import numpy as np
import pytest
from harness.repository import config, per_request

EXECUTE = per_request("return respond(OUT=get(request, 'IN'))")


def completing(*lines):
    """Returns a model whose auto_complete_config runs these lines on `c`."""
    body = "\n".join(f"        {line}" for line in lines)
    return EXECUTE.replace(
        "class TritonPythonModel:\n",
        f"class TritonPythonModel:\n    @staticmethod\n    def auto_complete_config(c):\n{body}\n        return c\n",
    )


INPUT = "c.add_input({'name': 'IN', 'data_type': 'TYPE_FP32', 'dims': [4]})"
OUTPUT = "c.add_output({'name': 'OUT', 'data_type': 'TYPE_FP32', 'dims': [4]})"


def test_model_without_configuration(repository, serve, connect):
    repository.add("auto", completing("c.set_max_batch_size(4)", "c.set_dynamic_batching()", INPUT, OUTPUT), None)
    server = serve(repository)
    status, answer = server.json("GET", "/v2/models/auto/config")
    assert status == 200
    assert answer["name"] == "auto"
    assert answer["backend"] == "python"
    assert answer["max_batch_size"] == 4
    assert answer["dynamic_batching"]["preferred_batch_size"] == [4]
    assert answer["version_policy"] == {"latest": {"num_versions": 1}}
    assert [(g["count"], g["kind"], g["name"]) for g in answer["instance_group"]] == [(1, "KIND_CPU", "auto")]
    rows = np.ones((2, 4), dtype=np.float32)
    assert connect("http", server).infer("auto", {"IN": rows}).as_numpy("OUT").tolist() == rows.tolist()


def test_module_is_ready_for_use_while_completing(repository, serve):
    repository.add(
        "auto",
        completing(
            "assert pb_utils.get_model_dir().endswith('auto/1')",
            "assert c.as_dict()['name'] == 'auto'",
            "pb_utils.Logger.log_info('completing')",
            INPUT,
            OUTPUT,
        ),
        None,
    )
    serve(repository).wait_for_log("completing")


def test_constructor_is_not_called(repository, serve):
    source = (
        completing(INPUT, OUTPUT)
        + "\n    made = 0\n    def __init__(self):\n        print('constructed once', flush=True)\n"
    )
    repository.add("auto", source, None)
    server = serve(repository)
    server.wait_for_log("constructed once")
    assert server.log.count("constructed once") == 1


def test_configured_values_win_and_the_rest_is_completed(repository, serve):
    text = 'backend: "python" input [ { name: "IN" data_type: TYPE_FP32 dims: [ 4 ] } ]'
    repository.add("auto", completing(INPUT, OUTPUT), text)
    answer = serve(repository).json("GET", "/v2/models/auto/config")[1]
    assert [i["name"] for i in answer["input"]] == ["IN"]
    assert [o["name"] for o in answer["output"]] == ["OUT"]


@pytest.mark.parametrize("option", ["--disable-auto-complete-config", "--strict-model-config=true"])
def test_completion_can_be_switched_off(repository, serve, option):
    text = config("auto", [("IN", "FP32", [4])], [("OUT", "FP32", [4])])
    repository.add("auto", completing("raise ValueError('must not run')"), text)
    server = serve(repository, option)
    assert server.request("GET", "/v2/models/auto/ready")[0] == 200


FULL = config("m", [("IN", "FP32", [4])], [("OUT", "FP32", [4])], max_batch_size=4)

FAILURES = [
    (
        FULL,
        "c.set_max_batch_size(2)",
        "configuration specified max_batch_size 4, but in auto-complete-config function for model 'm' specified "
        "max_batch_size 2",
    ),
    (
        FULL,
        "c.add_input({'name': 'X', 'data_type': 'TYPE_FP32', 'dims': [1], 'extra': 1})",
        "input 'X' in auto-complete-config function for model 'm' contains property other than 'name', 'data_type', "
        "'dims' and 'optional'.",
    ),
    (
        FULL,
        "c.add_output({'name': 'X', 'data_type': 'TYPE_FP32', 'dims': [1], 'optional': True})",
        "output 'X' in auto-complete-config function for model 'm' contains property other than 'name', 'data_type' "
        "and 'dims'.",
    ),
    (
        FULL,
        "c.add_input({'data_type': 'TYPE_FP32', 'dims': [1]})",
        "input in auto-complete-config function for model 'm' is missing 'name' property.",
    ),
    (
        FULL,
        "c.add_input({'name': 'X', 'dims': [1]})",
        "input 'X' in auto-complete-config function for model 'm' is missing 'data_type' property.",
    ),
    (
        FULL,
        "c.add_output({'name': 'X', 'data_type': 'TYPE_FP32'})",
        "output 'X' in auto-complete-config function for model 'm' is missing 'dims' property.",
    ),
    (
        FULL,
        "c.add_input({'name': 'IN', 'data_type': 'TYPE_INT8', 'dims': [4]})",
        "unable to load model 'm', configuration expects datatype TYPE_FP32 for input 'IN', model provides TYPE_INT8",
    ),
    (
        FULL,
        "c.add_output({'name': 'OUT', 'data_type': 'TYPE_FP32', 'dims': [5]})",
        "model 'm', tensor 'OUT': the model expects dims [5] but the model configuration specifies dims [4]",
    ),
    (
        FULL,
        "c.add_input({'name': 'IN', 'data_type': 'TYPE_FP32', 'dims': [4], 'optional': True})",
        "model 'm', tensor 'IN': the model expects optional True but the model configuration specifies optional False",
    ),
    (
        FULL,
        "c.set_model_transaction_policy({'decoupled': True, 'more': 1})",
        "model transaction property in auto-complete-config function for model 'm' contains property other than "
        "'decoupled'.",
    ),
    (FULL, "c = None", "auto_complete_config function in model 'm' must return a valid pb.ModelConfig object."),
    (FULL, "raise KeyError('own error')", "own error"),
]


@pytest.mark.parametrize(("text", "line", "expected"), FAILURES)
def test_conflict_fails_the_load_with_its_text(repository, serve, text, line, expected):
    repository.add("m", completing(line), text)
    server = serve(repository, "--exit-on-error=false", ready=False)
    server.wait_for_log(re.escape(expected))


def test_conflicts_are_value_errors(repository, serve):
    repository.add(
        "m",
        completing(
            "errors = []",
            "other = {'name': 'IN', 'data_type': 'TYPE_INT8', 'dims': [4]}",
            "for call in (lambda: c.set_max_batch_size(1), lambda: c.add_input(other)):",
            "    try:",
            "        call()",
            "    except ValueError:",
            "        errors.append(1)",
            "assert errors == [1, 1]",
            # Repeating the same input is not a conflict.
            INPUT,
            INPUT,
            OUTPUT,
            "c.set_max_batch_size(8)",
        ),
        FULL,
    )
    assert serve(repository).json("GET", "/v2/models/m/config")[1]["max_batch_size"] == 8


def test_model_without_a_file_or_backend(repository, serve):
    repository.add("m", None, "max_batch_size: 1")
    server = serve(repository, "--exit-on-error=false", ready=False)
    server.wait_for_log("Could not determine backend for model 'm' with no backend in model configuration")
