#include <set>
#include <string>
#include <string_view>

#include "graph/topology_checks.h"

namespace braid::graph {
namespace {

constexpr std::string_view kOutputHandler = "InOrderOutputStreamHandler";

void CheckOutputHandler(const std::string& where, const ::mediapipe::OutputStreamHandlerConfig& handler,
                        Faults& faults) {
  const std::string& name = handler.output_stream_handler();
  if (!name.empty() && name != kOutputHandler) {
    faults.push_back(where + ": output_stream_handler '" + name + "' is not known; expected " +
                     std::string(kOutputHandler));
  }
}

}  // namespace

void CheckSettings(const Topology::Parts& parts, Faults& faults) {
  const ::mediapipe::CalculatorGraphConfig& config = parts.config;
  const auto refuse = [&faults](int count, std::string_view field, std::string_view instead) {
    if (count > 0) faults.push_back(std::string(field).append(" is not supported; ").append(instead));
  };
  refuse(config.packet_factory_size(), "packet_factory",
         "use a node with an output_side_packet, e.g. ConstantSidePacketCalculator");
  refuse(config.packet_generator_size(), "packet_generator",
         "use a node with an output_side_packet, e.g. ConstantSidePacketCalculator");
  refuse(config.status_handler_size(), "status_handler", "errors of a run are sent to the client");
  if (config.num_threads() < 0) {
    faults.push_back("num_threads is " + std::to_string(config.num_threads()) +
                     "; expected 0 (as many as cores) or more");
  }
  if (config.max_queue_size() < -1) {
    faults.push_back("max_queue_size is " + std::to_string(config.max_queue_size()) +
                     "; expected -1 (no limit), 0 (the default, 100) or more");
  }
  CheckOutputHandler("the graph", config.output_stream_handler(), faults);
  std::set<std::string> executors{""};
  for (const ::mediapipe::ExecutorConfig& executor : config.executor()) {
    if (!executor.type().empty() && executor.type() != "ThreadPoolExecutor" &&
        executor.type() != "ApplicationThreadExecutor") {
      faults.push_back("executor '" + executor.name() + "': type '" + executor.type() +
                       "' is not known; expected ThreadPoolExecutor or ApplicationThreadExecutor");
    }
    if (!executor.name().empty() && !executors.insert(executor.name()).second) {
      faults.push_back("duplicate executor '" + executor.name() + "'");
    }
  }
  for (const TopologyNode& node : parts.nodes) {
    const NodeConfig& settings = node.contract.config();
    CheckOutputHandler(NodeText(node), settings.output_stream_handler(), faults);
    if (!executors.contains(settings.executor())) {
      faults.push_back(NodeText(node) + ": executor '" + settings.executor() +
                       "' not found; expected the name of one of the graph's executor blocks");
    }
    if (settings.max_in_flight() < 0) {
      faults.push_back(NodeText(node) + ": max_in_flight is " + std::to_string(settings.max_in_flight()) +
                       "; expected 0 or more");
    }
    if (settings.option_value_size() > 0 || settings.external_input_size() > 0) {
      faults.push_back(NodeText(node) + ": option_value and external_input are not supported; write " +
                       "node_options and input_side_packet instead");
    }
  }
}

}  // namespace braid::graph
