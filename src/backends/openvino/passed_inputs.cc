#include "backends/openvino/passed_inputs.h"

#include <memory>
#include <openvino/opsets/opset13.hpp>

namespace braid {

void GuardPassedInputs(ov::Model& model) {
  bool changed = false;
  for (const auto& result : model.get_results()) {
    const ov::Output<ov::Node> source = result->input_value(0);
    if (!ov::is_type<ov::opset13::Parameter>(source.get_node())) continue;
    const auto first = ov::opset13::Constant::create(ov::element::i64, {1}, {0});
    auto wrapped = std::make_shared<ov::opset13::Unsqueeze>(source, first);
    auto same = std::make_shared<ov::opset13::Squeeze>(wrapped, first);
    result->input(0).replace_source_output(same->output(0));
    changed = true;
  }
  if (changed) model.validate_nodes_and_infer_types();
}

}  // namespace braid
