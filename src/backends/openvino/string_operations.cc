#include "backends/openvino/string_operations.h"

#include <algorithm>
#include <memory>
#include <openvino/op/util/multi_subgraph_base.hpp>
#include <openvino/opsets/opset15.hpp>
#include <string_view>

namespace braid {
namespace {

namespace ops = ov::opset15;

// Tested with strings of changing numbers and lengths under the address sanitizer
// (string_operations_test.cc).
constexpr std::string_view kSafe[] = {"Concat",         "Constant",  "Gather",   "If",      "Loop",
                                      "Parameter",      "Reshape",   "Result",   "ShapeOf", "Squeeze",
                                      "TensorIterator", "Transpose", "Unsqueeze"};
// Operations that crash. Each takes strings only by its first input.
constexpr std::string_view kMovers[] = {"Identity", "Slice", "Split", "StridedSlice", "VariadicSplit"};
// Operations that return the strings of another request when they get none.
constexpr std::string_view kPackers[] = {"StringTensorPack", "StringTensorUnpack"};

template <size_t N>
bool IsAnyOf(std::string_view type, const std::string_view (&types)[N]) {
  return std::find(types, types + N, type) != types + N;
}

bool HasStrings(const ov::Node& node) {
  const auto is_string = [](const auto& port) { return port.get_element_type() == ov::element::string; };
  const auto inputs = node.inputs();
  const auto outputs = node.outputs();
  return std::any_of(inputs.begin(), inputs.end(), is_string) ||
         std::any_of(outputs.begin(), outputs.end(), is_string);
}

ov::Output<ov::Node> Integers(const ov::Shape& shape, const std::vector<int64_t>& values) {
  return ops::Constant::create(ov::element::i64, shape, values)->output(0);
}

// Returns a tensor of the same shape with the index of each element.
ov::Output<ov::Node> PositionsIn(const ov::Output<ov::Node>& tensor) {
  const auto shape = std::make_shared<ops::ShapeOf>(tensor);
  const auto count = std::make_shared<ops::ReduceProd>(shape, Integers({1}, {0}));
  const auto numbers =
      std::make_shared<ops::Range>(Integers({}, {0}), count, Integers({}, {1}), ov::element::i64);
  return std::make_shared<ops::Reshape>(numbers, shape, false);
}

ov::Output<ov::Node> Flat(const ov::Output<ov::Node>& tensor) {
  return std::make_shared<ops::Reshape>(tensor, Integers({1}, {-1}), false);
}

ov::Output<ov::Node> Pick(const ov::Output<ov::Node>& flat, const ov::Output<ov::Node>& positions) {
  return std::make_shared<ops::Gather>(flat, positions, Integers({}, {0}));
}

void MovePositions(ov::Node& node) {
  const ov::Output<ov::Node> flat = Flat(node.input_value(0));
  ov::OutputVector inputs = node.input_values();
  inputs[0] = PositionsIn(inputs[0]);
  const auto moved = node.clone_with_new_inputs(inputs);
  for (ov::Output<ov::Node> output : node.outputs())
    output.replace(Pick(flat, moved->output(output.get_index())));
}

// The device skips operations with an empty input, and returns the strings of an earlier request. So each
// input gets one more element, an empty string. It comes first, since positions must ascend; among the
// characters it comes last. `kPadded` marks padded operations for a second call.
constexpr char kPadded[] = "braid_padded";
constexpr size_t kCharacters = 2;  // the index of the characters, among inputs or outputs
void PadInputs(ov::Node& node) {
  ov::OutputVector inputs;
  for (const auto& input : node.inputs()) {
    const ov::element::Type type = input.get_element_type();
    const ov::Output<ov::Node> own = Flat(input.get_source_output());
    const ov::Output<ov::Node> one = type == ov::element::string
                                         ? ops::Constant::create(type, {1}, std::vector<std::string>{""})
                                         : ops::Constant::create(type, {1}, {0});
    const bool behind = input.get_index() == kCharacters;
    inputs.push_back(
        std::make_shared<ops::Concat>(behind ? ov::OutputVector{own, one} : ov::OutputVector{one, own}, 0));
  }
  const auto padded = node.clone_with_new_inputs(inputs);
  padded->get_rt_info()[kPadded] = true;
  const auto positions = std::make_shared<ops::Add>(PositionsIn(node.input_value(0)), Integers({}, {1}));
  for (ov::Output<ov::Node> output : node.outputs()) {
    const ov::Output<ov::Node> whole = padded->output(output.get_index());
    output.replace(output.get_index() == kCharacters ? whole : Pick(whole, positions));
  }
}

}  // namespace

std::string GuardStrings(ov::Model& model) {
  std::string unknown;
  bool changed = false;
  for (const auto& node : model.get_ordered_ops()) {
    if (const auto nested = std::dynamic_pointer_cast<ov::op::util::MultiSubGraphOp>(node)) {
      for (const auto& body : nested->get_functions()) {
        std::string found = GuardStrings(*body);
        if (unknown.empty()) unknown = std::move(found);
      }
    }
    if (!HasStrings(*node)) continue;
    const std::string type = node->get_type_name();
    if (IsAnyOf(type, kMovers)) {
      MovePositions(*node);
      changed = true;
    } else if (IsAnyOf(type, kPackers)) {
      if (!node->get_rt_info().contains(kPadded)) PadInputs(*node);
      changed = true;
    } else if (!IsAnyOf(type, kSafe) && unknown.empty()) {
      unknown = type + " '" + node->get_friendly_name() + "'";
    }
  }
  if (changed) model.validate_nodes_and_infer_types();
  return unknown;
}

}  // namespace braid
