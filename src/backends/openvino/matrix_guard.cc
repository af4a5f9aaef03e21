#include "backends/openvino/matrix_guard.h"

#include <memory>
#include <openvino/opsets/opset13.hpp>
#include <vector>

namespace braid {
namespace {

using ov::opset13::MatMul;

// Returns the index of the dimension of an operand that is summed over. REQUIRES: a known rank above 0.
size_t SummedIndex(const ov::PartialShape& shape, bool first, bool transposed) {
  if (shape.size() == 1) return 0;
  return first != transposed ? shape.size() - 1 : shape.size() - 2;
}

bool Guard(MatMul& product) {
  const ov::PartialShape& left = product.get_input_partial_shape(0);
  const ov::PartialShape& right = product.get_input_partial_shape(1);
  if (left.rank().is_dynamic() || right.rank().is_dynamic() || left.size() == 0 || right.size() == 0)
    return false;
  const size_t index = SummedIndex(left, true, product.get_transpose_a());
  const ov::Dimension& rows = right[SummedIndex(right, false, product.get_transpose_b())];
  if (left[index].is_static() || rows.is_dynamic()) return false;
  // 0 leaves a dimension as it is.
  std::vector<int64_t> pattern(left.size(), 0);
  pattern[index] = rows.get_length();
  auto reshape = std::make_shared<ov::opset13::Reshape>(
      product.input_value(0), ov::opset13::Constant::create(ov::element::i64, {pattern.size()}, pattern),
      true);
  product.input(0).replace_source_output(reshape->output(0));
  return true;
}

}  // namespace

void GuardMatrixProducts(ov::Model& model) {
  bool changed = false;
  for (const auto& node : model.get_ordered_ops()) {
    if (auto product = std::dynamic_pointer_cast<MatMul>(node)) changed = Guard(*product) || changed;
  }
  if (changed) model.validate_nodes_and_infer_types();
}

}  // namespace braid
