"""What graph.pbtxt and its entries may be, and what is said of those that are wrong: states, log, names, reload."""

import json
import queue
import textwrap
import threading

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from harness import openvino_models as models
from harness.graphs import Stream, boundary, config, python_node, tensor, write_graph
from harness.ovms import OvmsServer
from harness.server import Server
from harness.waiting import wait_until
from ovmsclient.tfs_compat.protos.tensorflow_serving.apis import get_model_status_pb2, model_service_pb2_grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

ONE = np.ones(1, np.float32)
OV = 'input_stream: "OVTENSOR:in"\noutput_stream: "OVTENSOR:out"\n'
PASS = 'node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }\n'
GOOD = OV + PASS

NODE = """
    from pyovms import Tensor

    class OvmsPythonModel:
        def initialize(self, kwargs):
            print("initialized", kwargs["node_name"])

        def execute(self, inputs):
            return [Tensor("out", bytes(inputs[0]))]
"""

BACK_EDGE = 'input_stream_info: { tag_index: "LOOPBACK:0", back_edge: true }'
SYNC_SET = """input_stream_handler {
    input_stream_handler: "SyncSetInputStreamHandler"
    options { [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: "LOOPBACK:0" } } } }"""


def passing(stream_in="OVTENSOR:in", stream_out="OVTENSOR:out", more=""):
    return f'input_stream: "{stream_in}"\noutput_stream: "{stream_out}"\n{more}\n{PASS}'


def python(inputs=("IN:in",), outputs=("OUT:out",), more="", node=None):
    made = python_node("n", inputs, outputs, more=more)
    return boundary(["in"], ["out"]) + (node(made) if node else made)


def looped(more, inputs=("IN:in", "LOOPBACK:back"), outputs=("OUT:out", "LOOPBACK:back")):
    return python(inputs, outputs, more)


def converter(input_stream, output_stream, key=None, value="out"):
    options = f'tag_to_output_tensor_names {{ key: "{key}" value: "{value}" }}' if key else ""
    return (
        f'node {{ calculator: "PyTensorOvTensorConverterCalculator" input_stream: "{input_stream}" '
        f'output_stream: "{output_stream}" node_options {{ '
        f"[type.googleapis.com/mediapipe.PyTensorOvTensorConverterCalculatorOptions] {{ {options} }} }} }}\n"
    )


SESSION = """
node {{ calculator: "OpenVINOModelServerSessionCalculator" output_side_packet: "SESSION:s"
  options {{ [mediapipe.OpenVINOModelServerSessionCalculatorOptions.ext] {{ servable_name: "{0}" }} }} }}
"""


def inference(options="", before="IN:in", after="OUT:out", side='input_side_packet: "SESSION:s"', servable="plus"):
    return (
        OV + SESSION.format(servable) + f'node {{ calculator: "OpenVINOInferenceCalculator" {side} '
        f'input_stream: "{before}" output_stream: "{after}" node_options {{ '
        f"[type.googleapis.com/mediapipe.OpenVINOInferenceCalculatorOptions] {{ {options} }} }} }}\n"
    )


def renamed(direction, key, value):
    return f'tag_to_{direction}_tensor_names {{ key: "{key}" value: "{value}" }}'


UNPARSED = "Failed to read protobuf graph configuration file"
UNSOUND = "Failed to initialize mediapipe graph"
BOTH_SIDES = "If LOOPBACK is used, it must be defined on both input and output of the node"

# graph.pbtxt and what the log has of it. A name that begins with py_ has a good handler, which must not be initialized.
BAD = {
    # The file.
    "empty": ("", UNPARSED),
    "comment": ("# nothing but a comment\n", UNPARSED),
    "no_pbtxt": ("node {", UNPARSED),
    "unknown_field": (GOOD + "colour: 5\n", UNPARSED),
    "unknown_node_field": (GOOD.replace("node {", "node { colour: 5 "), UNPARSED),
    "unknown_any": (GOOD + 'node { calculator: "PassThroughCalculator" node_options { [type.googleapis.com/mediapipe.No] {} } }',
        UNPARSED),
    "unknown_extension": (GOOD + 'node { calculator: "PassThroughCalculator" options { [mediapipe.No.ext] {} } }', UNPARSED),
    "wrong_type": (GOOD + 'num_threads: "many"\n', UNPARSED),
    # Boundaries.
    "no_input": ('output_stream: "OVTENSOR:out"\n' + PASS, "it has no input_stream"),
    "no_output": ('input_stream: "OVTENSOR:in"\n' + PASS, "it has no output_stream"),
    "twice_in": ('input_stream: "A:in"\ninput_stream: "B:in"\noutput_stream: "out"\n' + PASS,
        "Mediapipe unexpected input stream packets name"),
    "twice_out": ('input_stream: "in"\noutput_stream: "A:out"\noutput_stream: "B:out"\n' + PASS,
        "Mediapipe unexpected output stream packets name"),
    "twice_side": (passing(more='input_side_packet: "a"\ninput_side_packet: "a"'), "input_side_packet 'a'"),
    "tflite_in": (passing("TFLITE_TENSOR:in"), "Functionality not implemented"),
    "tflite_out": (passing(stream_out="TFLITE_TENSOR:out"), "Functionality not implemented"),
    "request_alone": (passing("REQUEST:in"), "graph is missing RESPONSE: string in the output name"),
    "response_alone": (passing(stream_out="RESPONSE:out"), "graph is missing REQUEST: string in the input name"),
    "request_and_more": ('input_stream: "REQUEST:in"\ninput_stream: "OVTENSOR:more"\noutput_stream: "RESPONSE:out"\n' + PASS,
        "Mediapipe unexpected input stream packets count"),
    "response_and_more": ('input_stream: "REQUEST:in"\noutput_stream: "RESPONSE:out"\noutput_stream: "OVTENSOR:more"\n' + PASS,
        "Mediapipe unexpected output stream packets count"),
    "py_types_differ": (python().replace("OVMS_PY_TENSOR:in", "OVTENSOR:in"), UNSOUND),
    # Names and connections.
    "capital_stream": (GOOD.replace("out", "Out"), "Out"),
    "small_tag": (GOOD.replace("OVTENSOR:in", "ovtensor:in"), "ovtensor"),
    "number_stream": (GOOD.replace(":out", ":1out").replace('"out"', '"1out"'), "1out"),
    "gap_in_indices": (
        GOOD + 'node { calculator: "PassThroughCalculator" input_stream: "A:0:in" input_stream: "A:2:in" '
        'output_stream: "A:0:x" output_stream: "A:2:y" }', UNSOUND),
    "nobody_makes_it": (GOOD.replace('input_stream: "in"', 'input_stream: "nobody"'), "nobody"),
    "nobody_makes_the_output": (GOOD.replace("OVTENSOR:out", "OVTENSOR:nobody"), "nobody"),
    "two_make_it": (GOOD + PASS, "out"),
    "cycle": (OV + 'node { calculator: "MergeCalculator" input_stream: "in" input_stream: "back" output_stream: "out" }\n'
        'node { calculator: "PassThroughCalculator" input_stream: "out" output_stream: "back" }', "back_edge: true"),
    "unknown_calculator": (GOOD.replace("PassThrough", "PassTrough"), "PassThroughCalculator"),
    "unknown_handler": (GOOD.replace("node {", 'node { input_stream_handler { input_stream_handler: "NoHandler" }'), "NoHandler"),
    "unknown_output_handler": (GOOD.replace("node {", 'node { output_stream_handler { output_stream_handler: "Other" }'),
        "InOrderOutputStreamHandler"),
    "unknown_executor": (GOOD.replace("node {", 'node { executor: "mine"'), "executor 'mine' is not there"),
    "executor_type": (GOOD + 'executor { name: "mine" type: "Gpu" }', "type 'Gpu' is not known"),
    "negative_threads": (GOOD + "num_threads: -1\n", "num_threads is -1"),
    "packet_factory": (GOOD + 'packet_factory { packet_factory: "F" }', "packet_factory is not supported"),
    "packet_generator": (GOOD + 'packet_generator { packet_generator: "G" }', "packet_generator is not supported"),
    "status_handler": (GOOD + 'status_handler { status_handler: "H" }', "status_handler is not supported"),
    "sync_set_of_nobody": (GOOD.replace("node {", "node {" + SYNC_SET), "LOOPBACK:0"),
    "py_sync_set_index": (looped(BACK_EDGE + SYNC_SET.replace("LOOPBACK:0", "LOOPBACK:1")), "LOOPBACK:1"),
    "side_packet_of_nobody": (GOOD.replace("node {", 'node { input_side_packet: "nobody"'), "nobody"),
    # Python nodes.
    "py_no_resources": (python(node=lambda text: text.replace('input_side_packet: "PYTHON_NODE_RESOURCES:py"', "")),
        'input_side_packet: "PYTHON_NODE_RESOURCES:py"'),
    "py_other_resources": (python(node=lambda text: text.replace("RESOURCES:py", "RESOURCES:mine")), "mine"),
    "py_no_options": (python(node=lambda text: text.split("node_options")[0] + "}\n"), "The Python Node is missing options definition"),
    "py_empty_path": (python(node=lambda text: text.replace("model.py", "")), "The Python Node is missing options definition"),
    "py_folder": (python(node=lambda text: text.replace("model.py", ".")), "The Python Node file path does not exist"),
    "py_absolute": (python(node=lambda text: text.replace("model.py", "/not/here.py")), "The Python Node file path does not exist"),
    "py_no_inputs": (python(()), "no input_stream"),
    "py_no_outputs": (python(outputs=()), "no output_stream"),
    "py_loopback_in": (looped(BACK_EDGE + SYNC_SET, outputs=("OUT:out",)), BOTH_SIDES),
    "py_loopback_out": (looped("", inputs=("IN:in",)), BOTH_SIDES),
    "py_no_back_edge": (looped(SYNC_SET), "LOOPBACK must be marked as a back edge"),
    "py_back_edge_false": (looped(BACK_EDGE.replace("true", "false") + SYNC_SET), "LOOPBACK must be marked as a back edge"),
    "py_back_edge_index": (looped(BACK_EDGE.replace("LOOPBACK:0", "LOOPBACK:1") + SYNC_SET), "LOOPBACK"),
    "py_default_handler": (looped(BACK_EDGE), "it has the default one"),
    # The queue.
    "queue_negative": ("# OVMS_GRAPH_QUEUE_MAX_SIZE: -1\n" + GOOD, "OVMS_GRAPH_QUEUE_MAX_SIZE is '-1'"),
    "queue_garbage": ("# OVMS_GRAPH_QUEUE_MAX_SIZE: many\n" + GOOD, "OVMS_GRAPH_QUEUE_MAX_SIZE is 'many'"),
    "queue_more": ("#OVMS_GRAPH_QUEUE_MAX_SIZE:3 of them\n" + GOOD, "OVMS_GRAPH_QUEUE_MAX_SIZE is '3 of them'"),
    "py_queue_loopback": ("# OVMS_GRAPH_QUEUE_MAX_SIZE: 2\n" + looped(BACK_EDGE + SYNC_SET), "has LOOPBACK, which a graph with"),
    # Converters.
    "converter_no_key": (passing("OVTENSOR:in", "OVMS_PY_TENSOR:out").replace(PASS, converter("OVTENSOR:in", "OVMS_PY_TENSOR:out")),
        "tag_to_output_tensor_names has no key 'OVMS_PY_TENSOR'"),
    "converter_other_key": (
        passing("OVTENSOR:in", "OVMS_PY_TENSOR:out").replace(PASS, converter("OVTENSOR:in", "OVMS_PY_TENSOR:out", "OVTENSOR")),
        "tag_to_output_tensor_names has no key 'OVMS_PY_TENSOR'"),
    "converter_same": (OV + converter("OVTENSOR:in", "OVTENSOR:out"), "the other OVMS_PY_TENSOR"),
    "converter_tag": (OV + converter("OVTENSOR:in", "PYTHON:out"), "tags begin with OVTENSOR or OVMS_PY_TENSOR"),
    "converter_two": (
        OV + 'input_stream: "OVTENSOR2:more"\n'
        + converter("OVTENSOR:in", "OVMS_PY_TENSOR:x", "OVMS_PY_TENSOR").replace('output_stream: "OVMS', 'input_stream: "OVTENSOR_B:more" output_stream: "OVMS'),
        "as many inputs as outputs"),
    # Sessions and inference.
    "session_no_name": (inference(servable=""), "servable_name is missing"),
    "session_input": (inference().replace('SESSION:s"\n', 'SESSION:s" input_stream: "in"\n', 1), "no input and no output streams"),
    "inference_no_session": (inference(side=""), 'input_side_packet: "SESSION:<name>"'),
    "inference_map_and_list": (inference(renamed("input", "OVTENSORS", "b") + ' input_order_list: "b"', "OVTENSORS:in"),
        "tag_to_input_tensor_names and input_order_list are both set"),
    "inference_list_alone": (inference('input_order_list: "b"'), "input_order_list is set, and no input stream carries a vector"),
    "inference_vector_alone": (inference("", "OVTENSORS:in"), "carries a vector, and input_order_list is not set"),
    "inference_vector_out": (inference("", "IN:in", "OVTENSORS:out"), "carries a vector, and output_order_list is not set"),
    "inference_unused_key": (inference(renamed("input", "OTHER", "b")), "has the key 'OTHER', which is the tag of no stream"),
    "inference_unused_out": (inference(renamed("output", "OTHER", "b")), "has the key 'OTHER', which is the tag of no stream"),
    "inference_tflite": (inference("", "TFLITE_TENSOR:in"), "streams tagged TFLITE_TENSOR are not served"),
}  # fmt: skip


def options_of_a_converter(text):
    return (
        'input_stream: "OVTENSOR:in"\noutput_stream: "OVMS_PY_TENSOR:out"\nnode {\n'
        '  calculator: "PyTensorOvTensorConverterCalculator"\n  input_stream: "OVTENSOR:in"\n'
        '  output_stream: "OVMS_PY_TENSOR:out"\n' + text + "\n}\n"
    )


ANY = "type.googleapis.com/mediapipe.PyTensorOvTensorConverterCalculatorOptions"
NAMES = 'tag_to_output_tensor_names { key: "OVMS_PY_TENSOR" value: "out" }'
SPACED = ANY.replace("/", " / ")

# Graphs that hand their input to their output.
SOUND = {
    "good": GOOD,
    "any": options_of_a_converter(f"node_options {{ [{ANY}] {{ {NAMES} }} }}"),
    "any_spaced": options_of_a_converter(f"node_options: {{ [{SPACED}]: {{ {NAMES} }} }}"),
    "any_in_a_list": options_of_a_converter(f"node_options: [ {{ [{SPACED}]: {{ {NAMES} }} }} ]"),
    "any_in_angles": options_of_a_converter(f"node_options < [{ANY}] < {NAMES} > >"),
    "any_in_lines": options_of_a_converter(f"node_options {{\n [ {SPACED} ]\n:\n {{ {NAMES} }} \n}}"),
    "any_in_bytes": options_of_a_converter(
        f'node_options {{ type_url: "{ANY}" value: "\\n\\025\\n\\016OVMS_PY_TENSOR\\022\\003out" }}'
    ),
    "extension": options_of_a_converter(
        f"options {{ [mediapipe.PyTensorOvTensorConverterCalculatorOptions.ext] {{ {NAMES} }} }}"
    ),
    "extension_colon": options_of_a_converter(
        f"options: {{ [mediapipe.PyTensorOvTensorConverterCalculatorOptions.ext]: {{ {NAMES} }}; }};"
    ),
    "map_with_colons": options_of_a_converter(
        f"node_options {{ [{ANY}] {{ tag_to_output_tensor_names: {{ key: 'OVMS_PY_TENSOR', value: 'o' \"u\" 't' }} }} }}"
    ),
    "punctuation": """# A comment
        input_stream: ["OVTENSOR:in"], output_stream: 'OVTENSOR:' # the name follows
          "out";
        node: { calculator: "PassThrough" 'Calculator', input_stream: ["in"]; output_stream: ["out"], },
    """.replace("},\n    ", "};\n"),
    "indices": OV
    + """
        node { calculator: "PassThroughCalculator" input_stream: "A:1:in" input_stream: "A:0:in"
               output_stream: "A:0:first" output_stream: "A:1:second" }
        node { calculator: "PassThroughCalculator" input_stream: ":0:second" output_stream: "out" }""",
    # Checked, and of no effect: threads belong to the server.
    "threads": GOOD.replace("node {", 'node { executor: "mine" max_in_flight: 4 buffer_size_hint: 3 source_layer: 2')
    + """num_threads: 7
        max_queue_size: -1
        report_deadlock: true
        executor { name: "mine" type: "ThreadPoolExecutor"
                   options { [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 3 require_processor_performance: LOW } } }
        executor { type: "ApplicationThreadExecutor" }
        package: "mine" type: "Graph"
        """,
    "handlers": GOOD.replace(
        "node {",
        'node { input_stream_handler { input_stream_handler: "FixedSizeInputStreamHandler" options { '
        "[mediapipe.FixedSizeInputStreamHandlerOptions.ext] { trigger_queue_size: 20 target_queue_size: 10 } } } "
        'output_stream_handler { output_stream_handler: "InOrderOutputStreamHandler" }',
    ),
    **{
        f"handler_{name}": GOOD.replace(
            "node {", f'node {{ input_stream_handler {{ input_stream_handler: "{name}InputStreamHandler" {options} }}'
        )
        for name, options in {
            "Default": "options { [mediapipe.DefaultInputStreamHandlerOptions.ext] { batch_size: 1 } }",
            "Immediate": "",
            "Barrier": "",
            "EarlyClose": "",
            "SyncSet": 'options { [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: ":0" } } }',
            "TimestampAlign": "options { [mediapipe.TimestampAlignInputStreamHandlerOptions.ext] "
            '{ timestamp_base_tag_index: ":0" } }',
        }.items()
    },
    "queue_auto": "# OVMS_GRAPH_QUEUE_MAX_SIZE: AUTO\n" + GOOD,
    "queue_off": "# OVMS_GRAPH_QUEUE_MAX_SIZE: 0\n" + GOOD,
    "queue_one": GOOD + "   #OVMS_GRAPH_QUEUE_MAX_SIZE:1",
    # Boundaries of other kinds.
    "no_tag": passing("in", "out"),
    "other_tag": passing("PICTURE:in", "RESULT:out"),
    "suffix": passing("OVTENSOR_IMAGE:in", "OVTENSOR_RESULT:out"),
    "indexed": passing("OVTENSOR:0:in", "OVTENSOR:0:out"),
    "tensor": passing("TENSOR:in", "TENSOR:out"),
    "tftensor": passing("TFTENSOR:in", "TFTENSOR:out"),
    "image": passing("IMAGE:in", "IMAGE:out"),
    "back_to_ov": OV
    + converter("OVTENSOR:in", "OVMS_PY_TENSOR:middle", "OVMS_PY_TENSOR", "middle")
    + converter("OVMS_PY_TENSOR:middle", "OVTENSOR:out"),
    "to_ov": passing("OVMS_PY_TENSOR:in").replace(PASS, converter("OVMS_PY_TENSOR:in", "OVTENSOR:out")),
}

# Side packets that can be seen: a gate of a bool, and the time at which it opens.
GATES = {
    "gate": passing(more='input_side_packet: "allow"').replace(
        PASS,
        'node { calculator: "GateCalculator" input_stream: "in" output_stream: "out" input_side_packet: "ALLOW:allow" }',
    ),
    "gate_at": passing(more='input_side_packet: "allow"\ninput_side_packet: "when"').replace(
        PASS,
        """node { calculator: "SidePacketToStreamCalculator" input_side_packet: "allow" input_side_packet: "TIMESTAMP:when"
                  output_stream: "AT_TIMESTAMP:allowed" }
           node { calculator: "GateCalculator" input_stream: "in" input_stream: "ALLOW:allowed" output_stream: "out" }""",
    ),
}

# Parameters of any type that come to nodes which want one.
TYPES = {
    "to_python": boundary(["in"], ["out"])
    + 'input_side_packet: "mine"\nnode { calculator: "SidePacketToStreamCalculator" input_stream: "TICK:in" '
    'input_side_packet: "mine" output_stream: "AT_TICK:text" }\n' + python_node("typed", ["IN:text"], ["OUT:out"]),
    "to_converter": passing(more='input_side_packet: "mine"').replace(
        PASS,
        'node { calculator: "SidePacketToStreamCalculator" input_stream: "TICK:in" input_side_packet: "mine" '
        'output_stream: "AT_TICK:x" }\n' + converter("OVMS_PY_TENSOR:x", "OVTENSOR:out"),
    ),
    "to_limiter": passing(more='input_side_packet: "mine"').replace(
        PASS,
        'node { calculator: "FlowLimiterCalculator" input_stream: "in" input_stream: "FINISHED:out" output_stream: "out" '
        'input_stream_info { tag_index: "FINISHED" back_edge: true } input_side_packet: "MAX_IN_FLIGHT:mine" }',
    ),
    "to_session": OV
    + 'input_side_packet: "mine"\nnode { calculator: "OpenVINOInferenceCalculator" input_side_packet: "SESSION:mine" '
    'input_stream: "in" output_stream: "out" }',
    "to_resources": boundary(["in"], ["out"])
    + 'input_side_packet: "mine"\n'
    + python_node("typed", ["IN:in"], ["OUT:out"]).replace("RESOURCES:py", "RESOURCES:mine"),
}

INFERENCE = "type.googleapis.com/mediapipe.OpenVINOInferenceCalculatorOptions"
INFERENCES = {
    # The tag is the name in the model, where nothing else is said.
    "by_tag": 'input_stream: "in"\noutput_stream: "out"\n'
    + SESSION.format("capitals")
    + 'node { calculator: "OpenVINOInferenceCalculator" input_side_packet: "SESSION:s" input_stream: "X:in" output_stream: "Y:out" }',
    "by_map": inference(renamed("input", "IN", "b") + renamed("output", "OUT", "a")),
    "no_tags": inference("", "in", "out"),
    "vectors": 'input_stream: "A:x"\ninput_stream: "B:y"\noutput_stream: "A:a"\noutput_stream: "B:b"\n'
    + SESSION.format("both")
    + f"""node {{ calculator: "OpenVINOInferenceCalculator" input_side_packet: "SESSION:s"
             input_stream: "X:x" input_stream: "Y:y" output_stream: "OVTENSORS:v"
             node_options {{ [{INFERENCE}] {{ output_order_list: ["sum", "difference"]
               {renamed("input", "X", "x")} {renamed("input", "Y", "y")} }} }} }}
           node {{ calculator: "OpenVINOInferenceCalculator" input_side_packet: "SESSION:s"
             input_stream: "OVTENSORS:v" output_stream: "S:a" output_stream: "D:b"
             node_options {{ [{INFERENCE}] {{ input_order_list: ["y", "x"]
               {renamed("output", "S", "sum")} {renamed("output", "D", "difference")} }} }} }}""",
    "pairs": 'input_stream: "OVTENSOR_A:a"\ninput_stream: "OVMS_PY_TENSOR_B:b"\n'
    + 'output_stream: "OVTENSOR_B:out_b"\noutput_stream: "OVMS_PY_TENSOR_A:out_a"\n'
    + converter("OVTENSOR_A:a", "OVTENSOR_B:out_b", "OVMS_PY_TENSOR_A", "out_a").replace(
        "output_stream:", 'input_stream: "OVMS_PY_TENSOR_B:b" output_stream: "OVMS_PY_TENSOR_A:out_a" output_stream:'
    ),
    "nobody": inference(servable="not_there"),
    "itself": inference(renamed("input", "IN", "in") + renamed("output", "OUT", "out"), servable="itself"),
    # What goes through a calculator that takes anything is known when it comes.
    "differs": passing("OVTENSOR:in", "OVMS_PY_TENSOR:out"),
    "differs_in_type": passing(more='input_side_packet: "mine"').replace(
        PASS,
        'node { calculator: "SidePacketToStreamCalculator" input_stream: "TICK:in" input_side_packet: "mine" '
        'output_stream: "AT_TICK:out" }',
    ),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graphs")
    entries = [
        write_graph(folder, name, text, **({"model": NODE} if name.startswith("py_") else {}))
        for name, (text, _) in BAD.items()
    ]
    entries += [write_graph(folder, name, text) for name, text in {**SOUND, **GATES, **INFERENCES}.items()]
    entries += [write_graph(folder, name, text, model=NODE) for name, text in TYPES.items()]
    entries.append({"name": "missing_folder", "base_path": str(folder / "not_there")})
    bases = [
        models.entry("plus", models.save(models.add(), folder / "models" / "plus")),
        models.entry("capitals", models.save(models.scale(input_name="X", output="Y"), folder / "models" / "capitals")),
    ]
    bases.append(models.entry("both", models.save(models.two_outputs(), folder / "models" / "both")))
    workdir = tmp_path_factory.mktemp("server")
    with OvmsServer(config(*entries, models=bases), workdir=workdir) as server:
        yield server


@pytest.fixture(scope="module")
def client(server):
    with grpcclient.InferenceServerClient(server.grpc) as client:
        yield client


@pytest.fixture(scope="module")
def status_of(server):
    """GetModelStatus of TensorFlow Serving: (version, state, error_code, error_message)."""
    with grpc.insecure_channel(server.grpc) as channel:
        stub = model_service_pb2_grpc.ModelServiceStub(channel)

        def ask(name):
            request = get_model_status_pb2.GetModelStatusRequest()
            request.model_spec.name = name
            [found] = stub.GetModelStatus(request).model_version_status
            return found.version, found.state, found.status.error_code, found.status.error_message

        yield ask


def ask(client, graph, array=ONE, **parameters):
    return client.infer(graph, [tensor("in", array)], parameters=parameters or None).as_numpy("out")


def refused(client, graph, *inputs, **more):
    with pytest.raises(InferenceServerException) as caught:
        client.infer(graph, list(inputs) or [tensor("in", ONE)], **more)
    return caught.value


def lines_about(server, graph):
    """What the log says of a graph that is not available: its line and those that go with it."""
    found, within = [], False
    for line in server.log.splitlines():
        if f"graph '{graph}' is not available" in line:
            within = True
        elif "is not available" in line:
            within = False
        if within:
            found.append(line)
    return "\n".join(found)


# --- What is wrong


@pytest.mark.parametrize("graph", BAD)
def test_a_graph_that_is_wrong(server, client, status_of, graph):
    assert BAD[graph][1] in lines_about(server, graph)
    assert status_of(graph) == (1, 20, 9, "FAILED_PRECONDITION")
    assert not client.is_model_ready(graph)
    error = refused(client, graph)
    assert (error.status(), error.message()) == ("StatusCode.UNAVAILABLE", "Mediapipe is not loaded yet")


def test_nothing_of_a_graph_that_is_wrong_is_initialized(server):
    assert "initialized n" not in server.log


def test_a_folder_that_is_not_there(server, client, status_of):
    assert "File not found or cannot open" in lines_about(server, "missing_folder")
    assert status_of("missing_folder") == (1, 20, 9, "FAILED_PRECONDITION")
    assert not client.is_model_ready("missing_folder")


def test_a_graph_that_is_wrong_over_rest(server):
    told = {"version": "1", "state": "LOADING", "status": {"error_code": "FAILED_PRECONDITION"}}
    told["status"]["error_message"] = "FAILED_PRECONDITION"
    status, answer = server.json("GET", "/v1/models/cycle")
    assert (status, answer) == (200, {"model_version_status": [told]})
    assert server.json("GET", "/v1/config")[1]["cycle"] == {"model_version_status": [told]}
    assert server.request("GET", "/v2/models/cycle/ready")[0] == 404
    body = {"inputs": [{"name": "in", "shape": [1], "datatype": "FP32", "data": [1]}]}
    status, answer = server.json("POST", "/v2/models/cycle/infer", body)
    assert status >= 500
    assert answer == {"error": "Mediapipe is not loaded yet"}


def test_metadata_of_graphs_that_are_wrong_or_unknown(client):
    with pytest.raises(InferenceServerException) as caught:
        client.get_model_metadata("cycle")
    assert caught.value.status() in ("StatusCode.UNAVAILABLE", "StatusCode.NOT_FOUND")
    for call in (client.get_model_metadata, client.is_model_ready):
        with pytest.raises(InferenceServerException) as caught:
            call("nobody_at_all")
        assert caught.value.status() == "StatusCode.NOT_FOUND"
        assert caught.value.message() == "Model with requested name is not found"


def test_graphs_are_no_models_of_tensorflow_serving(server):
    status, answer = server.json("POST", "/v1/models/good:predict", {"instances": [1]})
    assert status == 404, answer


def test_a_stream_to_a_graph_that_is_wrong(server):
    stream = Stream(server.grpc, "cycle")
    stream.send(**{"in": ONE})
    error = stream.error()
    assert (error.status(), error.message()) == ("StatusCode.UNAVAILABLE", "Mediapipe is not loaded yet")
    stream.finish()


# --- What is right


@pytest.mark.parametrize("graph", SOUND)
def test_a_graph_that_is_right(client, status_of, graph):
    assert status_of(graph) == (1, 30, 0, "OK")
    array = np.arange(6, dtype=np.uint8).reshape(1, 2, 3) if graph == "image" else np.arange(3, dtype=np.float32)
    answer = ask(client, graph, array)
    assert answer.dtype == array.dtype
    assert answer.tolist() == array.tolist()


@pytest.mark.parametrize("graph", ["threads", "handlers", "indices", "queue_one", "back_to_ov"])
def test_streams_to_them(server, graph):
    with Stream(server.grpc, graph) as stream:
        for number in range(5):
            stream.send(**{"in": ONE * number})
            assert stream.receive() == ("out", [number], number)


def test_an_output_has_the_name_that_a_converter_gives(client):
    assert client.infer("any", [tensor("in", ONE)]).get_response().outputs[0].name == "out"


# --- What streams of clients carry


IMAGES = [
    ("float16", (1, 3, 4)),
    ("float32", (1, 2, 4)),
    *((t, (1, 3, 4)) for t in ("uint8", "int8", "uint16", "int16")),
]


@pytest.mark.parametrize(("dtype", "channels"), IMAGES)
def test_images(client, dtype, channels):
    for count in range(1, 6):
        array = np.arange(6 * count).reshape(2, 3, count).astype(dtype)
        if count in channels:
            answer = ask(client, "image", array)
            assert answer.dtype == array.dtype
            assert (answer == array).all()
        else:
            error = refused(client, "image", tensor("in", array))
            assert error.status() == "StatusCode.INVALID_ARGUMENT"
            assert "Invalid number of channels in binary input" in error.message()


@pytest.mark.parametrize("version", ["", "/versions/1", "/versions/7"])
def test_versions_over_rest(server, version):
    given = {"name": "in", "shape": [1], "datatype": "FP32", "data": [2]}
    status, answer = server.json("POST", f"/v2/models/good{version}/infer", {"inputs": [given]})
    assert (status, answer["model_version"], answer["outputs"][0]["data"]) == (200, "1", [2])


def test_an_image_in_json(server):
    given = {"name": "in", "shape": [1, 2, 3], "datatype": "UINT8", "data": [[[1, 2, 3], [4, 5, 6]]]}
    status, answer = server.json("POST", "/v2/models/image/infer", {"inputs": [given]})
    assert status == 200, answer
    assert answer["outputs"] == [{"name": "out", "shape": [1, 2, 3], "datatype": "UINT8", "data": [1, 2, 3, 4, 5, 6]}]


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.zeros((2, 2), np.uint8), "Invalid number of shape dimensions - Expected: (height,width,channels); Actual: (2,2)"),
        (np.zeros((1, 2, 2, 3), np.uint8), "Invalid number of shape dimensions"),
        (np.zeros((0, 2, 3), np.uint8), "Invalid input shape"),
        (np.zeros((2, 2, 3), np.int64), "Invalid input precision - Expected: FP32, FP16"),
        (np.array([[[b"x"]]], np.object_), "Invalid input precision"),
    ],
)  # fmt: skip
def test_what_is_no_image(client, array, text):
    error = refused(client, "image", tensor("in", array))
    assert error.status() == "StatusCode.INVALID_ARGUMENT"
    assert text in error.message()


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "int32", "int8", "uint8", "bool", "int64", "uint16", "float64"]
)
def test_types_of_media_tensors(client, dtype):
    array = np.arange(4).astype(dtype)
    if dtype in ("int64", "uint16", "float64"):
        error = refused(client, "tensor", tensor("in", array))
        assert "Invalid input precision - Expected: FP32, FP16, INT32, INT8, UINT8, BOOL" in error.message()
    else:
        answer = ask(client, "tensor", array)
        assert answer.dtype == array.dtype
        assert answer.tolist() == array.tolist()


@pytest.mark.parametrize("graph", ["good", "tftensor", "no_tag"])
def test_types_of_tensors_for_models(client, graph):
    for dtype in (
        "bool",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "int8",
        "int16",
        "int32",
        "int64",
        "float16",
        "float64",
    ):
        array = np.arange(4).astype(dtype)
        answer = ask(client, graph, array)
        assert answer.dtype == array.dtype
        assert answer.tolist() == array.tolist()
    assert ask(client, graph, np.array([b"a", b"bc"], np.object_)).tolist() == [b"a", b"bc"]
    error = refused(client, graph, tensor("in", b"xyz", "my_type"))
    assert "Invalid input precision" in error.message()


def test_bytes_that_do_not_fit(client):
    given = tensor("in", b"xyz", "FP32")
    error = refused(client, "good", given)
    assert error.status() == "StatusCode.INVALID_ARGUMENT"
    assert error.message() == (
        "Invalid content size of tensor proto - Expected: 4 bytes; Actual: 3 bytes; input name: in"
    )


# --- Converters


def test_what_a_converter_refuses(client):
    for datatype, data in (("BYTES", b"abc"), ("my_type", b"abc")):
        error = refused(client, "to_ov", tensor("in", data, datatype))
        assert error.status() == "StatusCode.INVALID_ARGUMENT"
        assert f"Undefined precision in input python tensor: {datatype}" in error.message()
    error = refused(client, "any", tensor("in", np.array([b"a"], np.object_)))
    assert "Undefined precision in input tensor: BYTES" in error.message()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16",
                                   "float32", "float64"])  # fmt: skip
def test_what_a_converter_takes(client, dtype):
    array = np.arange(6).astype(dtype).reshape(2, 3)
    answer = ask(client, "back_to_ov", array)
    assert answer.dtype == array.dtype
    assert answer.tolist() == array.tolist()


def test_nodes_without_a_name_have_that_of_their_calculator(client):
    strings = tensor("in", np.array([b"a"], np.object_))
    node = 'Calculator::Process() for node "PyTensorOvTensorConverterCalculator{}" failed'
    assert node.format("") in refused(client, "any", strings).message()
    assert node.format("_1") in refused(client, "back_to_ov", strings).message()


def test_a_converter_takes_bf16(client):
    given = tensor("in", b"abcdef", "BF16")
    given.set_shape([3])
    response = client.infer("back_to_ov", [given]).get_response()
    assert (response.outputs[0].datatype, response.raw_output_contents[0]) == ("BF16", b"abcdef")


# --- Inference


def test_names_of_a_model(client):
    row = np.arange(10, dtype=np.float32).reshape(1, 10)
    assert ask(client, "by_tag", row).tolist() == (2 * row).tolist()
    assert ask(client, "by_map", row).tolist() == (row + 1).tolist()
    assert ask(client, "no_tags", row).tolist() == (row + 1).tolist()


def test_vectors_have_the_order_of_their_lists(client):
    x, y = np.full((1, 10), 3, np.float32), np.full((1, 10), 5, np.float32)
    answer = client.infer("vectors", [tensor("x", x), tensor("y", y)])
    # First the sum, 8, and the difference, -2; then the sum is y, and the difference x.
    assert answer.as_numpy("a").tolist() == [[6] * 10]
    assert answer.as_numpy("b").tolist() == [[-10] * 10]


def test_inference_needs_all_of_its_inputs(server):
    stream = Stream(server.grpc, "vectors")
    stream.send(x=np.ones((1, 10), np.float32))
    [(_, error)] = stream.finish()
    assert error.status() == "StatusCode.INVALID_ARGUMENT"
    assert "Mediapipe execution failed" in error.message()
    assert "input stream 'y' has no packet at 0" in error.message()


def test_a_converter_of_several_streams(client):
    answer = client.infer("pairs", [tensor("a", ONE), tensor("b", ONE * 2)])
    assert (answer.as_numpy("out_a").tolist(), answer.as_numpy("out_b").tolist()) == ([1], [2])


def test_what_a_model_refuses_is_an_error_of_the_node(client):
    error = refused(client, "by_map", tensor("in", np.zeros((1, 3), np.float32)))
    assert error.status() == "StatusCode.INVALID_ARGUMENT"
    assert error.message().startswith("Mediapipe execution failed. MP status - INTERNAL: CalculatorGraph::Run() failed")
    assert "Expected: (1,10); Actual: (1,3)" in error.message()


def test_a_session_to_nobody_fails_when_the_graph_starts(client, status_of):
    assert status_of("nobody") == (1, 30, 0, "OK")
    error = refused(client, "nobody")
    assert error.status() == "StatusCode.FAILED_PRECONDITION"
    assert "OpenVINOModelServerSessionCalculator failed to load the model" in error.message()


def test_a_session_to_itself_ends(client):
    error = refused(client, "itself", tensor("in", np.ones((1, 10), np.float32)))
    assert "graph 'itself' would wait for itself: itself -> itself" in error.message()


def test_packets_of_another_type(client, server):
    error = refused(client, "differs")
    assert error.status() == "StatusCode.INVALID_ARGUMENT"
    assert error.message() == (
        "Mediapipe execution failed. MP status - INTERNAL: output_stream 'out' with the tag 'OVMS_PY_TENSOR' carries "
        "braid::PythonTensor; its packet has braid::OvTensor"
    )
    assert "its packet has std::string" in refused(client, "differs_in_type", parameters={"mine": "text"}).message()
    stream = Stream(server.grpc, "differs_in_type")
    stream.send(parameters={"mine": 5}, **{"in": ONE})
    error = stream.error()
    assert error.status() == "StatusCode.INVALID_ARGUMENT"
    assert "'out' with the tag 'OVTENSOR' carries braid::OvTensor; its packet has" in error.message()
    stream.finish()


# --- Side packets


def test_a_bool(client):
    assert ask(client, "gate", allow=True).tolist() == [1]
    assert "Unknown error during mediapipe execution" in refused(client, "gate", parameters={"allow": False}).message()


def test_a_bool_and_a_number(client):
    assert ask(client, "gate_at", allow=True, when=5, OVMS_MP_TIMESTAMP=5).tolist() == [1]
    late = refused(client, "gate_at", parameters={"allow": True, "when": 5, "OVMS_MP_TIMESTAMP": 6})
    assert "Unknown error during mediapipe execution" in late.message()


def test_over_rest(server):
    with httpclient.InferenceServerClient(server.http) as rest:
        given = tensor("in", ONE, module=httpclient)
        answer = rest.infer("gate_at", [given], parameters={"allow": True, "when": 5, "OVMS_MP_TIMESTAMP": 5})
        assert answer.as_numpy("out").tolist() == [1]
    body = {"inputs": [{"name": "in", "shape": [1], "datatype": "FP32", "data": [1]}], "parameters": {"allow": 1.5}}
    status, answer = server.json("POST", "/v2/models/gate/infer", body)
    assert status >= 400, answer


@pytest.mark.parametrize("value", ["text", 5, True])
@pytest.mark.parametrize("graph", [*TYPES, "gate_at"])
def test_parameters_of_another_type_than_nodes_want(server, client, graph, value):
    if graph == "to_limiter" and value == 5:
        assert ask(client, graph, mine=value).tolist() == [1]  # an int64 is one of the right types
        return
    parameters = {"allow": True, "when": value} if graph == "gate_at" else {"mine": value}
    if graph == "gate_at" and value == 5:
        parameters = {"allow": "text", "when": 0}
    error = refused(client, graph, parameters=parameters)
    assert error.status() in ("StatusCode.FAILED_PRECONDITION", "StatusCode.INVALID_ARGUMENT")
    assert "type" in error.message()
    stream = Stream(server.grpc, graph)
    stream.send(parameters=parameters, **{"in": ONE})
    assert "type" in stream.error().message()
    stream.finish()


def test_a_side_packet_of_a_kind_that_is_none(server):
    request = service_pb2.ModelInferRequest(model_name="gate", raw_input_contents=[ONE.tobytes()])
    request.inputs.add(name="in", datatype="FP32", shape=[1])
    request.parameters["allow"].double_param = 1.5
    with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.RpcError) as caught:
        service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request)
    assert caught.value.details().startswith("Functionality not implemented - parameter 'allow'")


@pytest.mark.parametrize(("value", "kind"), [("yes", "std::string"), (1, "long")])
def test_a_side_packet_of_another_type(client, value, kind):
    error = refused(client, "gate", parameters={"allow": value})
    assert error.status() in ("StatusCode.FAILED_PRECONDITION", "StatusCode.INVALID_ARGUMENT")
    assert kind in error.message()
    assert "bool" in error.message()


def test_side_packets_that_are_missing_or_reserved(client):
    error = refused(client, "gate_at", parameters={"when": 0})
    assert error.status() == "StatusCode.FAILED_PRECONDITION"
    assert error.message().startswith("Failed to start mediapipe graph")
    assert '"allow"' in error.message()
    error = refused(client, "gate", parameters={"allow": True, "py": "mine"})
    assert error.message() == (
        "Failed to initialize mediapipe graph - Incoming input side packet: py is special reserved name and cannot be used"
    )


def test_only_the_first_message_of_a_stream_has_side_packets(server):
    with Stream(server.grpc, "gate") as stream:
        stream.send(parameters={"allow": True}, **{"in": ONE})
        assert stream.receive()[2] == 0
        stream.send(parameters={"allow": False}, **{"in": ONE})
        assert stream.receive()[2] == 1
    stream = Stream(server.grpc, "gate_at")
    stream.send(parameters={"when": 0}, **{"in": ONE})
    error = stream.error()
    assert error.status() == "StatusCode.FAILED_PRECONDITION"
    assert '"allow"' in error.message()
    stream.finish()


@pytest.mark.parametrize("graph", ["queue_auto", "queue_one"])
def test_a_queue_takes_no_side_packets(client, graph):
    assert ask(client, graph, OVMS_MP_TIMESTAMP=9).tolist() == [1]
    error = refused(client, graph, parameters={"mine": 1})
    assert error.status() == "StatusCode.FAILED_PRECONDITION"
    assert error.message().endswith("Input side packets are not supported for graphs with queue enabled")


# --- Names and places


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Graphs that are found in many places, and names that several things want. OUT of each names where it is from."""
    folder = tmp_path_factory.mktemp("places")

    def adds(place, value):
        """A graph that asks a model of its own subconfig."""
        text = inference(renamed("input", "IN", "b") + renamed("output", "OUT", "a"), servable=f"plus{value}")
        entry = write_graph(folder, place, text)
        models.save(models.add(value=value), folder / place / "plus")
        return entry, {"model_config_list": [models.entry(f"plus{value}", "plus")]}

    relative, sub = adds("relative", 3)
    (folder / "relative" / "subconfig.json").write_text(json.dumps(sub))
    named, sub = adds("named", 4)
    (folder / "named" / "other.pbtxt").write_text((folder / "named" / "graph.pbtxt").read_text())
    (folder / "named" / "graph.pbtxt").unlink()
    (folder / "named" / "other.json").write_text(json.dumps(sub))
    again, sub = adds("again", 5)
    # The model of this name that config.json has is the one.
    sub["model_config_list"].append(models.entry("plus", "plus"))
    (folder / "again" / "subconfig.json").write_text(json.dumps(sub))
    listed, sub = adds("listed", 6)
    (folder / "listed" / "subconfig.json").write_text(json.dumps(sub))
    asks = renamed("input", "IN", "b") + renamed("output", "OUT", "a")
    plus = write_graph(folder, "asks_plus", inference(asks))
    pipeline = {
        "name": "dag", "inputs": ["b"], "outputs": [{"result": {"node_name": "n", "data_item": "sum"}}],
        "nodes": [{"name": "n", "type": "DL model", "model_name": "plus", "inputs": [{"b": {"node_name": "request", "data_item": "b"}}],
                   "outputs": [{"data_item": "a", "alias": "sum"}]}],
    }  # fmt: skip
    written = config(
        {"name": "relative"},
        {**named, "base_path": "named", "graph_path": "other.pbtxt", "subconfig": "other.json"},
        again,
        plus,
        {**plus, "name": "twice"},
        {**relative, "name": "twice"},
        {**plus, "name": "plus"},
        {**plus, "name": "dag"},
        models=[
            models.entry("plus", models.save(models.add(), folder / "models" / "plus")),
            {"config": {"name": "listed", "base_path": listed["base_path"]}},
        ],
        pipeline_config_list=[pipeline],
    )
    (folder / "config.json").write_text(json.dumps(written))
    server = OvmsServer(folder / "config.json", workdir=tmp_path_factory.mktemp("server"))
    with server, grpcclient.InferenceServerClient(server.grpc) as client:
        yield server, client


ROW = np.arange(10, dtype=np.float32).reshape(1, 10)


@pytest.mark.parametrize(
    ("graph", "added"),
    [("relative", 3), ("named", 4), ("again", 5), ("listed", 6), ("asks_plus", 1), ("twice", 1)],
)
def test_where_graphs_and_their_models_are(places, graph, added):
    server, client = places
    assert ask(client, graph, ROW).tolist() == (ROW + added).tolist()
    assert server.states(graph) == {1: "AVAILABLE"}


def test_models_of_a_subconfig_are_models(places):
    server, client = places
    assert client.infer("plus3", [tensor("b", ROW)]).as_numpy("a").tolist() == (ROW + 3).tolist()
    assert server.states("plus4") == {1: "AVAILABLE"}


def test_names_that_are_taken(places):
    server, client = places
    assert client.infer("plus", [tensor("b", ROW)]).as_numpy("a").tolist() == (ROW + 1).tolist()
    assert client.infer("dag", [tensor("b", ROW)]).as_numpy("result").tolist() == (ROW + 1).tolist()
    for name in ("plus", "dag"):
        assert [line for line in server.log.splitlines() if "already occupied" in line and f"'{name}'" in line], name


@pytest.mark.parametrize("place", ["", "1"])
def test_a_single_graph(tmp_path, place):
    folder = tmp_path / "mine"
    write_graph(folder, place, GOOD)
    options = "--model_name", "mine", "--model_path", folder
    with Server([], *options, workdir=tmp_path) as server, grpcclient.InferenceServerClient(server.grpc) as client:
        assert ask(client, "mine").tolist() == [1]
        assert client.get_model_metadata("mine", as_json=True)["versions"] == ["1"]


# --- Queues

COUNT = """
    import threading, time
    import numpy as np
    from pyovms import Tensor

    class OvmsPythonModel:
        def initialize(self, kwargs):
            self.changed = threading.Condition()
            self.inside = self.most = 0

        def execute(self, inputs):
            wanted = int(np.array(inputs[0])[0])
            with self.changed:
                self.inside += 1
                self.most = max(self.most, self.inside)
                self.changed.notify_all()
                self.changed.wait_for(lambda: self.most >= wanted, timeout=0.3 if wanted == 9 else 10)
                self.inside -= 1
                return [Tensor("out", np.array([self.most], np.int64))]
"""


def most_inside(server, graph, wanted, requests=4):
    """The most that were inside execute at once, of requests that wait there until `wanted` are (9: for 0.3 seconds)."""
    with grpcclient.InferenceServerClient(server.grpc) as client:
        answers = queue.Queue()
        for _ in range(requests):
            client.async_infer(
                graph, [tensor("in", np.array([wanted], np.int64))], lambda result, error: answers.put((result, error))
            )
        found = [answers.get(timeout=30) for _ in range(requests)]
        assert [error for _, error in found] == [None] * requests
        return max(int(result.as_numpy("out")[0]) for result, _ in found)


def test_how_many_run_at_once(tmp_path):
    one = write_graph(tmp_path / "g", "one", "# OVMS_GRAPH_QUEUE_MAX_SIZE: 1\n" + python(), model=COUNT)
    free = write_graph(tmp_path / "g", "free", python(), model=COUNT)
    with OvmsServer(config(one, free), workdir=tmp_path) as server:
        assert most_inside(server, "free", 4) == 4
        assert most_inside(server, "one", 9) == 1


def test_queues_that_are_switched_off(tmp_path):
    one = write_graph(tmp_path / "g", "one", "# OVMS_GRAPH_QUEUE_MAX_SIZE: 1\n" + python(), model=COUNT)
    gate = write_graph(tmp_path / "g", "gate", "# OVMS_GRAPH_QUEUE_MAX_SIZE: AUTO\n" + GATES["gate"])
    env = {"OVMS_GRAPH_QUEUE_OFF": "1"}
    with OvmsServer(config(one, gate), workdir=tmp_path, env=env) as server:
        assert most_inside(server, "one", 4) == 4
        with grpcclient.InferenceServerClient(server.grpc) as client:
            assert ask(client, "gate", allow=True).tolist() == [1]


# --- Reload


def test_a_graph_that_is_being_loaded(tmp_path):
    """Its state is LOADING without an error, and requests do not wait."""
    go = tmp_path / "go"
    slow = "import pathlib, time\n" + textwrap.dedent(NODE).replace(
        "        print(",
        f"        while not pathlib.Path({str(go)!r}).exists():\n            time.sleep(0.01)\n        print(",
    )
    graph = write_graph(tmp_path / "g", "slow", python(), model=slow)
    quick = write_graph(tmp_path / "g", "quick", GOOD)
    server = OvmsServer(config(quick), workdir=tmp_path)
    with server, grpcclient.InferenceServerClient(server.grpc) as client:
        server.write_config(config(quick, graph))
        reloading = threading.Thread(target=server.reload)
        reloading.start()
        wait_until(lambda: server.states("slow") == {1: "LOADING"}, what="the loading")
        assert not client.is_model_ready("slow")
        error = refused(client, "slow")
        assert (error.status(), error.message()) == ("StatusCode.UNAVAILABLE", "Mediapipe is not loaded yet")
        told = server.json("GET", "/v1/models/slow")[1]["model_version_status"][0]
        assert told == {"version": "1", "state": "LOADING", "status": {"error_code": "OK", "error_message": "OK"}}
        assert ask(client, "quick").tolist() == [1]
        go.write_text("")
        reloading.join(20)
        assert client.infer("slow", [tensor("in", ONE)]).as_numpy("out").tobytes() == ONE.tobytes()


def test_a_graph_is_repaired_changed_and_taken_away(tmp_path):
    graph = write_graph(tmp_path / "g", "mine", GOOD.replace("PassThrough", "PassTrough"))
    file = tmp_path / "g" / "mine" / "graph.pbtxt"
    server = OvmsServer(config(graph), workdir=tmp_path)
    with server, grpcclient.InferenceServerClient(server.grpc) as client:
        error = refused(client, "mine")
        assert error.status() == "StatusCode.UNAVAILABLE"
        file.write_text(GOOD)
        assert server.reload()[0] == 201
        assert ask(client, "mine").tolist() == [1]
        # What runs is left alone by a change that does not load.
        file.write_text(GOOD + "colour: 5\n")
        assert server.reload()[0] >= 400
        assert ask(client, "mine").tolist() == [1]
        file.write_text(
            'input_stream: "OVTENSOR:other"\n'
            + GOOD.replace('input_stream: "OVTENSOR:in"\n', "").replace('"in"', '"other"')
        )
        assert server.reload()[0] == 201
        assert "Unexpected input - in is unexpected" in refused(client, "mine").message()
        assert client.infer("mine", [tensor("other", ONE)]).as_numpy("out").tolist() == [1]
        server.write_config(config())
        assert server.reload()[0] == 201
        wait_until(lambda: server.states("mine") == {1: "END"}, what="the end of the graph")
        assert refused(client, "mine").message() == "Mediapipe is retired"
        file.write_text(GOOD)
        server.write_config(config(graph))
        assert server.reload()[0] == 201
        assert ask(client, "mine").tolist() == [1]
        assert server.states("mine") == {1: "AVAILABLE"}
