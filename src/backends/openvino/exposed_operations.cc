#include "backends/openvino/exposed_operations.h"

#include <algorithm>
#include <iterator>
#include <openvino/op/util/multi_subgraph_base.hpp>
#include <set>
#include <string_view>
#include <vector>

namespace braid {
namespace {

struct Taking {
  std::string_view type;
  std::vector<size_t> inputs;  // the inputs with positions or counts
};

// Found by an experiment: each operation with positions or counts got values that no tensor has.
const Taking kTaking[] = {
    {"CTCGreedyDecoderSeqLen", {1}}, {"CTCLoss", {1, 2, 3}}, {"GatherND", {1}}, {"Roll", {2}},
    {"ScatterElementsUpdate", {1}},  {"SegmentMax", {1}},    {"Tile", {1}},
};
// Their outputs are always valid positions in the tensor that they read.
constexpr std::string_view kMaking[] = {"Constant", "NonMaxSuppression", "NonZero", "ShapeOf", "TopK"};

// Iterative, since a model file decides how long its chains of operations are.
bool ComesFromRequest(const ov::Output<ov::Node>& output) {
  std::set<const ov::Node*> seen;
  ov::OutputVector ahead = {output};
  while (!ahead.empty()) {
    const ov::Node* const node = ahead.back().get_node();
    ahead.pop_back();
    if (!seen.insert(node).second) continue;
    const std::string_view type = node->get_type_name();
    if (type == "Parameter") return true;
    if (std::ranges::find(kMaking, type) != std::end(kMaking)) continue;
    std::ranges::copy(node->input_values(), std::back_inserter(ahead));
  }
  return false;
}

}  // namespace

std::string FindExposed(const ov::Model& model) {
  for (const auto& node : model.get_ordered_ops()) {
    if (const auto nested = std::dynamic_pointer_cast<ov::op::util::MultiSubGraphOp>(node)) {
      for (const auto& body : nested->get_functions()) {
        if (std::string found = FindExposed(*body); !found.empty()) return found;
      }
    }
    const std::string_view type = node->get_type_name();
    const auto* const row = std::ranges::find(kTaking, type, &Taking::type);
    if (row == std::end(kTaking)) continue;
    for (const size_t input : row->inputs) {
      if (input < node->get_input_size() && ComesFromRequest(node->input_value(input)))
        return std::string(type) + " '" + node->get_friendly_name() + "'";
    }
  }
  return {};
}

}  // namespace braid
