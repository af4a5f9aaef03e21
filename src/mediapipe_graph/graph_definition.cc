#include "mediapipe_graph/graph_definition.h"

#include <algorithm>
#include <set>
#include <utility>

#include "mediapipe_graph/python_node_resources.h"
#include "mediapipe_graph/queue_directive.h"
#include "serving/faults.h"

namespace braid {
namespace {

using Config = ::mediapipe::CalculatorGraphConfig;

// The faults of one stage; the first decides the code.
class Faults {
 public:
  explicit Faults(const std::string& graph) : graph_(graph) {}

  void Add(Fault code, const std::string& text) {
    if (text_.empty()) {
      code_ = code;
      text_.append("graph '").append(graph_).append("': ").append(text);
    } else {
      text_.append("\n").append(text);
    }
  }
  Status ToStatus() const { return text_.empty() ? OkStatus() : FaultError(code_, text_); }

 private:
  const std::string& graph_;
  Fault code_{};
  std::string text_;
};

std::string Quoted(std::string_view what, std::string_view name) {
  return std::string(what).append(" '").append(name).append("'");
}

void CheckNames(const std::vector<BoundaryStream>& streams, std::string_view what, Fault code,
                Faults& faults) {
  std::set<std::string_view> names;
  std::set<std::string_view> twice;
  for (const BoundaryStream& stream : streams) {
    if (names.insert(stream.name).second || !twice.insert(stream.name).second) continue;
    faults.Add(code, Quoted(what, stream.name).append(" is listed more than once"));
  }
}

Status CheckStreams(const GraphDefinition& graph, const Config& config) {
  Faults empty(graph.name);
  if (graph.inputs.empty()) empty.Add(Fault::kInternalError, "it has no input_stream");
  if (graph.outputs.empty()) empty.Add(Fault::kInternalError, "it has no output_stream");
  BRAID_RETURN_IF_ERROR(empty.ToStatus());

  Faults names(graph.name);
  CheckNames(graph.inputs, "input_stream", Fault::kGraphWrongInputStreamPacketName, names);
  CheckNames(graph.outputs, "output_stream", Fault::kGraphWrongOutputStreamPacketName, names);
  std::vector<BoundaryStream> side_packets;
  for (const std::string& text : config.input_side_packet()) side_packets.push_back(InputStream(text));
  CheckNames(side_packets, "input_side_packet", Fault::kGraphInitializationError, names);
  return names.ToStatus();
}

bool IsMessage(const BoundaryStream& stream) { return stream.kind == BoundaryKind::kMessage; }
bool IsPayload(const BoundaryStream& stream) { return stream.kind == BoundaryKind::kPayload; }

// A graph for OpenAI's API has one payload on each side and nothing else.
void CheckPayloads(const GraphDefinition& graph, Faults& faults) {
  const bool some = std::any_of(graph.inputs.begin(), graph.inputs.end(), IsPayload) ||
                    std::any_of(graph.outputs.begin(), graph.outputs.end(), IsPayload);
  if (!some || graph.takes_payloads()) return;
  faults.Add(
      Fault::kGraphInitializationError,
      "HTTP_REQUEST_PAYLOAD must be the tag of the only input_stream, and HTTP_RESPONSE_PAYLOAD that of "
      "the only output_stream");
}

Status CheckKinds(const GraphDefinition& graph) {
  Faults faults(graph.name);
  const auto refuse_lite = [&faults](const BoundaryStream& stream, std::string_view what) {
    if (stream.kind != BoundaryKind::kTfLiteTensor) return;
    faults.Add(Fault::kNotImplemented,
               Quoted(what, stream.name).append(": streams tagged TFLITE_TENSOR are not supported"));
  };
  for (const BoundaryStream& stream : graph.inputs) refuse_lite(stream, "input_stream");
  for (const BoundaryStream& stream : graph.outputs) refuse_lite(stream, "output_stream");

  CheckPayloads(graph, faults);
  const bool in = std::any_of(graph.inputs.begin(), graph.inputs.end(), IsMessage);
  const bool out = std::any_of(graph.outputs.begin(), graph.outputs.end(), IsMessage);
  if (in && graph.inputs.size() != 1) {
    faults.Add(
        Fault::kGraphKfsWrongInputStreamCount,
        "a REQUEST must be the only input_stream, but there are " + std::to_string(graph.inputs.size()));
  }
  if (out && graph.outputs.size() != 1) {
    faults.Add(
        Fault::kGraphKfsWrongOutputStreamCount,
        "a RESPONSE must be the only output_stream, but there are " + std::to_string(graph.outputs.size()));
  }
  if (in && !out) {
    faults.Add(Fault::kGraphKfsMissingResponseTag, Quoted("input_stream", graph.inputs[0].name)
                                                       .append(" is a REQUEST, but no output_stream is a "
                                                               "RESPONSE"));
  }
  if (out && !in) {
    faults.Add(Fault::kGraphKfsMissingRequestTag,
               Quoted("output_stream", graph.outputs[0].name)
                   .append(" is a RESPONSE, but no input_stream is a REQUEST"));
  }
  return faults.ToStatus();
}

// The packet types at the boundary must equal those of the nodes behind it.
Status CheckPacketTypes(const GraphDefinition& graph) {
  Faults faults(graph.name);
  const auto check = [&faults](std::string_view what, const BoundaryStream& stream, graph::ValueType here,
                               const std::optional<graph::ValueType>& there) {
    if (!there || *there == here) return;
    faults.Add(Fault::kGraphInitializationError, Quoted(what, stream.name)
                                                     .append(" with the tag '")
                                                     .append(stream.tag)
                                                     .append("' carries ")
                                                     .append(here.name())
                                                     .append(", and its nodes ")
                                                     .append(there->name()));
  };
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    check("input_stream", graph.inputs[i], InputPacketType(graph.inputs[i].kind),
          graph.topology->input_type(static_cast<int>(i)));
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    check("output_stream", graph.outputs[i], OutputPacketType(graph.outputs[i].kind),
          graph.topology->output_type(static_cast<int>(i)));
  }
  return faults.ToStatus();
}

// A generator may keep its run for any time, so a limit on runs and LOOPBACK do not go together.
Status CheckQueue(const GraphDefinition& graph) {
  if (graph.queue_size == 0) return OkStatus();
  Faults faults(graph.name);
  for (int node = 0; node < graph.topology->node_count(); ++node) {
    if (graph.topology->calculator(node) != kPythonExecutorCalculator) continue;
    const graph::Contract& contract = graph.topology->contract(node);
    if (!contract.inputs().Has("LOOPBACK")) continue;
    faults.Add(Fault::kGraphInitializationError,
               Quoted("node", contract.node_name())
                   .append(" has LOOPBACK, which OVMS_GRAPH_QUEUE_MAX_SIZE does not allow"));
  }
  return faults.ToStatus();
}

}  // namespace

int GraphDefinition::FindInput(std::string_view stream) const {
  const auto at = std::find_if(inputs.begin(), inputs.end(),
                               [stream](const BoundaryStream& one) { return one.name == stream; });
  return at == inputs.end() ? -1 : static_cast<int>(at - inputs.begin());
}

Result<GraphDefinition> DefineGraph(std::string name, std::string_view pbtxt,
                                    const GraphDefinitionOptions& options) {
  GraphDefinition graph;
  graph.name = std::move(name);
  Faults faults(graph.name);
  auto config = graph::ParseGraphConfig(pbtxt);
  if (!config.ok()) {
    faults.Add(Fault::kGraphConfigFileInvalid, config.status().message());
    return faults.ToStatus();
  }
  if (!options.no_queue) {
    BRAID_ASSIGN_OR_RETURN(graph.queue_size, ParseQueueDirective(pbtxt, options.cores));
  }
  for (const std::string& text : config->input_stream()) graph.inputs.push_back(InputStream(text));
  for (const std::string& text : config->output_stream()) graph.outputs.push_back(OutputStream(text));
  BRAID_RETURN_IF_ERROR(CheckStreams(graph, *config));
  BRAID_RETURN_IF_ERROR(CheckKinds(graph));

  auto topology =
      graph::Topology::Create(std::move(*config), options.calculators, options.provided_side_packets);
  if (!topology.ok()) {
    faults.Add(Fault::kGraphInitializationError, topology.status().message());
    return faults.ToStatus();
  }
  graph.topology = std::move(*topology);
  BRAID_RETURN_IF_ERROR(CheckPacketTypes(graph));
  BRAID_RETURN_IF_ERROR(CheckQueue(graph));
  return graph;
}

}  // namespace braid
