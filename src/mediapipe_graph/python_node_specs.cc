#include "mediapipe_graph/python_node_specs.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

#include "mediapipe/ovms_calculators.pb.h"
#include "mediapipe_graph/python_executor_contract.h"
#include "mediapipe_graph/python_node_resources.h"
#include "serving/faults.h"

namespace braid {
namespace {

// Parses "TAG:INDEX:name", "TAG:name" or "name".
std::string_view StreamName(std::string_view spec) {
  const size_t colon = spec.rfind(':');
  return colon == std::string_view::npos ? spec : spec.substr(colon + 1);
}

bool IsLoopback(std::string_view spec) {
  return spec.substr(0, std::min(spec.size(), spec.find(':'))) == kLoopbackTag && spec != kLoopbackTag;
}

// Decides whether the bytes, the object or both of an output are needed.
void SortOutput(const graph::Topology& topology, const std::string& stream, PythonNodeSpec& spec) {
  const graph::Topology::Readers readers = topology.readers(stream);
  const auto is_python = [&](int node) { return topology.calculator(node) == kPythonExecutorCalculator; };
  const bool others =
      readers.graph_output || !std::all_of(readers.nodes.begin(), readers.nodes.end(), is_python);
  const bool python = std::any_of(readers.nodes.begin(), readers.nodes.end(), is_python);
  if (others) spec.exported.push_back(stream);
  // An output without readers costs least as an object.
  if (python || !others) spec.kept.push_back(stream);
}

}  // namespace

Result<std::vector<PythonNodeSpec>> ListPythonNodes(const graph::Topology& topology,
                                                    const std::string& base_path) {
  using Options = ::mediapipe::PythonExecutorCalculatorOptions;
  std::vector<PythonNodeSpec> specs;
  std::vector<Status> faults;
  std::set<std::string> names;
  for (int i = 0; i < topology.node_count(); ++i) {
    if (topology.calculator(i) != kPythonExecutorCalculator) continue;
    const graph::Contract& contract = topology.contract(i);
    const graph::NodeConfig& config = contract.config();
    PythonNodeSpec& spec = specs.emplace_back();
    spec.name = config.name();
    if (spec.name.empty()) {
      faults.push_back(FaultError(Fault::kPythonNodeMissingName,
                                  "node " + std::to_string(i + 1) + " of the graph, with output_stream '" +
                                      config.output_stream(0) + "', needs a name"));
    } else if (!names.insert(spec.name).second) {
      faults.push_back(FaultError(Fault::kPythonNodeNameExists, "duplicate node name '" + spec.name + "'"));
    }
    const auto options = contract.FindOptions<Options>();
    if (!options || options->handler_path().empty()) {
      faults.push_back(
          FaultError(Fault::kPythonNodeMissingOptions,
                     "node '" + contract.node_name() +
                         "' needs node_options { "
                         "[type.googleapis.com/mediapipe.PythonExecutorCalculatorOptions] { handler_path: "
                         "\"...\" } }"));
    } else {
      const std::filesystem::path path(options->handler_path());
      spec.handler_path = (std::filesystem::path(base_path) / path).lexically_normal().string();
      std::error_code ignored;
      if (!std::filesystem::is_regular_file(spec.handler_path, ignored)) {
        faults.push_back(FaultError(Fault::kPythonNodeFileDoesNotExist,
                                    "node '" + contract.node_name() + "': handler_path '" +
                                        options->handler_path() + "' is not a file: '" + spec.handler_path +
                                        "'"));
      }
    }
    for (const std::string& stream : config.input_stream()) spec.input_names.emplace_back(StreamName(stream));
    for (const std::string& stream : config.output_stream()) {
      const std::string& name = spec.output_names.emplace_back(StreamName(stream));
      if (IsLoopback(stream)) {
        spec.loopback = true;
      } else {
        SortOutput(topology, name, spec);
      }
    }
  }
  if (faults.empty()) return specs;
  std::string text = faults.front().message();
  for (size_t i = 1; i < faults.size(); ++i) text.append("\n").append(faults[i].message());
  return Status(faults.front().code(), std::move(text));
}

std::map<std::string, size_t, std::less<>> NodeNumbers(const std::vector<PythonNodeSpec>& nodes) {
  std::map<std::string, size_t, std::less<>> numbers;
  for (size_t i = 0; i < nodes.size(); ++i) numbers.emplace(nodes[i].name, i);
  return numbers;
}

}  // namespace braid
