#include "mediapipe_graph/python_executor_contract.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "mediapipe/stream_handlers.pb.h"
#include "mediapipe_graph/graph_packets.h"
#include "mediapipe_graph/python_node_resources.h"

namespace braid {
namespace {

constexpr std::string_view kSyncSet = "SyncSetInputStreamHandler";
constexpr std::string_view kImmediate = "ImmediateInputStreamHandler";

constexpr std::string_view kSyncSetBlock = R"(
  input_stream_handler {
    input_stream_handler: "SyncSetInputStreamHandler"
    options {
      [mediapipe.SyncSetInputStreamHandlerOptions.ext] {
        sync_set { tag_index: "LOOPBACK:0" }
      }
    }
  })";
constexpr std::string_view kBackEdgeBlock = R"(
  input_stream_info { tag_index: "LOOPBACK:0" back_edge: true })";

bool NamesLoopback(std::string_view tag_index) {
  return tag_index == "LOOPBACK" || tag_index == "LOOPBACK:0";
}

// Returns whether LOOPBACK is a separate sync set.
bool SyncSetSeparatesLoopback(const graph::NodeConfig& config, int inputs) {
  using Options = ::mediapipe::SyncSetInputStreamHandlerOptions;
  const auto& options = config.input_stream_handler().options();
  if (!options.HasExtension(Options::ext)) return false;
  int listed = 0;
  for (const auto& set : options.GetExtension(Options::ext).sync_set()) {
    const auto& names = set.tag_index();
    listed += names.size();
    if (std::any_of(names.begin(), names.end(), NamesLoopback)) return names.size() == 1;
  }
  // The unlisted inputs form a set.
  return listed == inputs - 1;
}

void CheckLoopback(const graph::Contract& contract, std::vector<std::string>& faults) {
  const bool input = contract.inputs().Has(kLoopbackTag);
  const bool output = contract.outputs().Has(kLoopbackTag);
  if (input != output) {
    faults.emplace_back("If LOOPBACK is used, it must be defined on both input and output of the node");
  }
  if (!input || !output) return;
  const graph::NodeConfig& config = contract.config();
  const auto& infos = config.input_stream_info();
  if (std::none_of(infos.begin(), infos.end(),
                   [](const auto& info) { return NamesLoopback(info.tag_index()) && info.back_edge(); })) {
    faults.push_back(
        std::string("LOOPBACK must be marked as a back edge; add to the node:").append(kBackEdgeBlock));
  }
  const std::string& handler = config.input_stream_handler().input_stream_handler();
  if (handler == kImmediate) return;
  if (handler == kSyncSet && SyncSetSeparatesLoopback(config, contract.inputs().size())) return;
  faults.push_back(
      std::string("LOOPBACK needs an input stream handler that separates it from the other inputs, or the "
                  "node waits for them forever; ")
          .append(handler.empty() ? "it has the default one" : std::string("it has ").append(handler))
          .append(handler == kSyncSet ? ", whose options do not separate it" : "")
          .append(". Add to the node:")
          .append(kSyncSetBlock));
}

}  // namespace

Status FillPythonExecutorContract(graph::Contract& contract) {
  std::vector<std::string> faults;
  const graph::Ports& inputs = contract.inputs();
  const graph::Ports& outputs = contract.outputs();
  if (inputs.size() == 0) faults.emplace_back("it has no input_stream and needs at least one");
  if (outputs.size() == 0) faults.emplace_back("it has no output_stream and needs at least one");
  const int resources = contract.input_side_packets().Find(kPythonResourcesTag);
  if (resources < 0) {
    faults.emplace_back(R"(it lacks input_side_packet: "PYTHON_NODE_RESOURCES:py")");
  } else {
    contract.SetInputSidePacket(resources, graph::PortType::Of<PythonNodeResources>());
  }
  CheckLoopback(contract, faults);
  const auto type_of = [](const graph::Port& port) {
    return port.tag == kLoopbackTag ? graph::PortType::Of<bool>() : graph::PortType::Of<PythonTensor>();
  };
  for (int i = 0; i < inputs.size(); ++i) contract.SetInput(i, type_of(inputs[i]));
  for (int i = 0; i < outputs.size(); ++i) contract.SetOutput(i, type_of(outputs[i]));
  contract.SetQuick();
  if (faults.empty()) return OkStatus();
  std::string text = std::move(faults.front());
  for (size_t i = 1; i < faults.size(); ++i) text.append("\n").append(faults[i]);
  return InvalidArgumentError(std::move(text));
}

}  // namespace braid
