"""Random graphs of the core calculators, with random packets; a seed determines the case.

A case is plain data (see src/graph/testing/graph_replay.cc) whose graph is still a list of nodes; as_text() writes it
as a graph.pbtxt. The value of each packet identifies its origin.
"""

import random


def options_text(kind, fields):
    return f"options {{ [mediapipe.{kind}.ext] {{ {fields} }} }}" if fields else ""


def handler_text(name, fields=""):
    options = options_text(f"{name}Options", fields)
    return f'input_stream_handler {{ input_stream_handler: "{name}" {options} }}'


def node_text(node):
    lines = [f'calculator: "{node["calculator"]}"']
    for field in ("input_stream", "output_stream", "input_side_packet", "output_side_packet"):
        lines += [f'{field}: "{port}"' for port in node.get(field, [])]
    lines += [f'input_stream_info {{ tag_index: "{tag}" back_edge: true }}' for tag in node.get("back_edges", [])]
    lines += [text for text in (node.get("options"), node.get("handler")) if text]
    return "node {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


def as_text(case):
    lines = [f'input_stream: "{name}"\n' for name in case["inputs"]]
    lines += [f'output_stream: "{name}"\n' for name in case["outputs"]]
    lines += [f'input_side_packet: "{name}"\n' for name in case["input_side_packets"]]
    lines += [f"num_threads: {case['num_threads']}\n"] if case.get("num_threads") else []
    return "".join(lines + [node_text(node) for node in case["nodes"]])


def for_runners(case, **more):
    """Returns the input for both implementations."""
    case = {**case, **more}
    return {
        "graph": as_text(case),
        "outputs": case["outputs"],
        "side_packets": case["side_packets"],
        "steps": case["steps"],
    }


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.seed = seed
        self.nodes = []
        self.streams = {}  # name -> "int" or "bool"
        self.side = {}
        self.side_packets = {}
        self.inputs = []
        self.later = []  # (node, index of its input, tag): back edges that get their stream at the end
        # Whether each packet is followed by a wait. Without waits, only results that do not depend on threads are
        # compared.
        self.idle_each = self.random.random() < 0.85

    def chance(self, probability):
        return self.random.random() < probability

    def stream(self, kind=None):
        fit = [name for name, of in self.streams.items() if kind in (None, of)]
        # Prefers newer streams, so that graphs are deep.
        return self.random.choice(fit[-4:] if self.chance(0.6) else fit) if fit else None

    def new_stream(self, kind):
        name = f"s{sum(stream.startswith('s') for stream in self.streams)}"
        self.streams[name] = kind
        return name

    # If two inputs have one origin, the immediate handler's calls depend on the order of arrival.
    def handler(self, inputs):
        if not self.idle_each or self.chance(0.8):
            return ""
        which = self.random.choice(["Default", "FixedSize", "FixedSize", "Immediate"])
        if which == "Immediate" and (len(set(inputs)) < len(inputs) or not set(inputs) <= set(self.inputs)):
            return ""
        fields = ""
        if which == "FixedSize" and self.chance(0.7):
            target = self.random.randint(1, 3)
            fields = f"trigger_queue_size: {target + self.random.randint(0, 2)} target_queue_size: {target}"
            if self.chance(0.4):
                fields += " fixed_min_size: true"
        return handler_text(f"{which}InputStreamHandler", fields)

    def add(self, calculator, **fields):
        node = {"calculator": calculator, **{key: value for key, value in fields.items() if value}}
        self.nodes.append(node)
        return node

    def pass_through(self):
        inputs = [self.stream() for _ in range(self.random.randint(1, 3))]
        tagged = self.chance(0.3)
        order = list(range(len(inputs)))
        if tagged:
            self.random.shuffle(order)
        outputs = [self.new_stream(self.streams[name]) for name in inputs]
        self.add(
            "PassThroughCalculator",
            input_stream=[f"T:{i}:{name}" if tagged else name for i, name in enumerate(inputs)],
            output_stream=[f"T:{i}:{outputs[i]}" if tagged else outputs[i] for i in order],
            handler=self.handler(inputs),
        )

    def gate(self):
        inputs = [self.stream() for _ in range(self.random.randint(1, 2))]
        streams = list(inputs)
        tag = self.random.choice(["ALLOW", "DISALLOW"])
        side_packets = []
        fields = []
        controls = []
        how = self.random.choice(["stream", "stream", "stream", "side", "option"])
        control = self.stream("bool")
        if how == "stream" and control:
            streams.append(f"{tag}:{control}")
            controls = [control]
        elif how == "side":
            side_packets.append(f"{tag}:{self.side_packet('bool')}")
        if self.chance(0.3):
            fields.append(f"allow: {self.random.choice(['true', 'false'])}")
        if self.chance(0.3):
            fields.append(f"empty_packets_as_allow: {self.random.choice(['true', 'false'])}")
        if self.chance(0.3):
            state = self.random.choice(["GATE_UNINITIALIZED", "GATE_ALLOW", "GATE_DISALLOW", "UNSPECIFIED"])
            fields.append(f"initial_gate_state: {state}")
        outputs = [self.new_stream(self.streams[name]) for name in inputs]
        if self.chance(0.4):
            outputs.append("STATE_CHANGE:" + self.new_stream("bool"))
        self.add(
            "GateCalculator",
            input_stream=streams,
            output_stream=outputs,
            input_side_packet=side_packets,
            options=options_text("GateCalculatorOptions", " ".join(fields)),
            handler=self.handler(inputs + controls),
        )

    def merge(self):
        kind = self.streams[self.stream()]
        inputs = [self.stream(kind) for _ in range(self.random.randint(1, 3))]
        self.add(
            "MergeCalculator",
            input_stream=inputs,
            output_stream=[self.new_stream(kind)],
            handler=self.handler(inputs),
        )

    def presence(self):
        if not self.idle_each:
            return
        self.add(
            "PacketPresenceCalculator",
            input_stream=["PACKET:" + self.stream()],
            output_stream=["PRESENCE:" + self.new_stream("bool")],
        )

    # The input of a loop: an existing stream, or one that is created later.
    def loop(self, node, tag):
        if self.chance(0.3):
            node["input_stream"].append(f"{tag}:{self.stream()}")
            return
        node["input_stream"].append(None)
        self.later.append((node, len(node["input_stream"]) - 1, tag, len(self.streams)))

    def previous_loopback(self):
        main = self.stream()
        node = self.add("PreviousLoopbackCalculator", input_stream=["MAIN:" + main])
        self.loop(node, "LOOP")
        node["output_stream"] = ["PREV_LOOP:" + self.new_stream("int")]

    def flow_limiter(self):
        if not self.idle_each:
            return
        # It also has the immediate handler: a stream used twice arrives in one call or in two.
        inputs = list(dict.fromkeys(self.stream() for _ in range(self.random.choice([1, 1, 2]))))
        fields = []
        side_packets = []
        if self.chance(0.5):
            fields.append(f"max_in_flight: {self.random.randint(0, 3)}")
        elif self.chance(0.2):
            side_packets.append("MAX_IN_FLIGHT:" + self.side_packet("int"))
        if self.chance(0.5):
            fields.append(f"max_in_queue: {self.random.randint(0, 3)}")
        if self.chance(0.2):
            fields.append(f"in_flight_timeout: {self.random.randint(1, 5)}")
        node = self.add(
            "FlowLimiterCalculator",
            input_stream=list(inputs),
            input_side_packet=side_packets,
            options=options_text("FlowLimiterCalculatorOptions", " ".join(fields)),
        )
        self.loop(node, "FINISHED")
        outputs = [self.new_stream(self.streams[name]) for name in inputs]
        if self.chance(0.5):
            outputs.append("ALLOW:" + self.new_stream("bool"))
        node["output_stream"] = outputs

    def side_packet(self, kind):
        fit = [name for name, of in self.side.items() if of == kind]
        if fit and self.chance(0.5):
            return self.random.choice(fit)
        name = f"p{len(self.side)}"
        self.side[name] = kind
        value = {"int": self.random.randint(0, 3), "bool": self.chance(0.5), "int64": self.random.randint(-3, 12)}[kind]
        if self.chance(0.4):
            text = str(value).lower()
            field = {"int": "int_value", "bool": "bool_value", "int64": "int64_value"}[kind]
            self.add(
                "ConstantSidePacketCalculator",
                output_side_packet=[f"PACKET:{name}"],
                options=options_text("ConstantSidePacketCalculatorOptions", f"packet {{ {field}: {text} }}"),
            )
        elif self.chance(0.9):
            self.side_packets[name] = {kind: value}
        elif self.chance(0.5):
            self.side_packets[name] = {"string": "another type"}
        else:
            self.side_packets[name] = None  # missing
        return name

    def side_packet_to_stream(self):
        tag = self.random.choice(
            ["AT_PRESTREAM", "AT_POSTSTREAM", "AT_ZERO", "AT_TICK", "AT_FIRST_TICK", "AT_TIMESTAMP"]
        )
        kinds = [self.random.choice(["int", "bool"]) for _ in range(self.random.choice([1, 1, 2]))]
        side_packets = [self.side_packet(kind) for kind in kinds]
        if tag == "AT_TIMESTAMP":
            side_packets.append("TIMESTAMP:" + self.side_packet("int64"))
        self.add(
            "SidePacketToStreamCalculator",
            input_stream=["TICK:" + self.stream()] if tag.endswith("TICK") else [],
            input_side_packet=side_packets,
            output_stream=[f"{tag}:{i}:{self.new_stream(kind)}" for i, kind in enumerate(kinds)],
        )

    def resolve_loops(self):
        names = list(self.streams)
        for node, index, tag, made_before in self.later:
            candidates = names[made_before:]
            name = self.random.choice(candidates)
            node["input_stream"][index] = f"{tag}:{name}"
            if not self.chance(0.03):
                node.setdefault("back_edges", []).append(tag)

    def steps(self, inputs):
        # Packets of nodes without inputs arrive before the first packet.
        steps = [["idle"]] if self.idle_each else []
        last = dict.fromkeys(inputs, -1)
        open_inputs = list(inputs)
        now = 0
        for number in range(self.random.randint(3, 18)):
            if not open_inputs:
                break
            name = self.random.choice(open_inputs)
            if self.chance(0.04):
                steps.append(["close", name])
                open_inputs.remove(name)
            else:
                if self.chance(0.5):
                    now += self.random.choice([1, 1, 1, 2, 4])
                at = max(now, last[name] + 1)
                # A packet that is late for other streams, or has the timestamp of another one's packet.
                if self.chance(0.5) and max(last.values()) > last[name]:
                    at = self.random.randint(last[name] + 1, max(last.values()))
                if self.idle_each and self.chance(0.01):
                    at = last[name]
                value = {"bool": self.chance(0.6)} if self.streams[name] == "bool" else {"int": 100 * number + at}
                if self.idle_each and self.chance(0.004):
                    value = {"string": "another type"}
                steps.append(["add", name, at, value])
                last[name] = max(at, last[name])
            if self.idle_each:
                steps.append(["idle"])
        return steps

    def case(self):
        inputs = self.inputs
        for i in range(self.random.randint(1, 3)):
            inputs.append(f"in{i}")
            self.streams[f"in{i}"] = "int"
        for i in range(self.random.randint(0, 2)):
            inputs.append(f"ctl{i}")
            self.streams[f"ctl{i}"] = "bool"
        makers = [
            self.pass_through,
            self.gate,
            self.gate,
            self.merge,
            self.presence,
            self.previous_loopback,
            self.flow_limiter,
            self.side_packet_to_stream,
        ]
        for _ in range(self.random.randint(1, 7)):
            self.random.choice(makers)()
        if self.later or not self.nodes:
            self.pass_through()
        self.resolve_loops()
        steps = self.steps(inputs)
        if self.chance(0.3):
            self.random.shuffle(self.nodes)
        made_by_nodes = {port.rsplit(":", 1)[-1] for node in self.nodes for port in node.get("output_side_packet", [])}
        return {
            "seed": self.seed,
            "inputs": inputs,
            "outputs": [name for name in self.streams if name not in inputs],
            "input_side_packets": [name for name in self.side if name not in made_by_nodes],
            "side_packets": {name: value for name, value in self.side_packets.items() if value is not None},
            "nodes": self.nodes,
            "steps": steps,
        }


def generate(seed):
    return Generator(seed).case()
