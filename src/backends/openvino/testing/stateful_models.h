// Test models with states, in OpenVINO variables.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <openvino/op/util/variable.hpp>
#include <openvino/openvino.hpp>
#include <openvino/opsets/opset13.hpp>
#include <openvino/opsets/opset3.hpp>

#include "backends/openvino/testing/harness.h"

namespace braid::models {

inline std::shared_ptr<ov::op::util::Variable> MakeVariable(
    const std::string& name, const ov::PartialShape& shape,
    const ov::element::Type& type = ov::element::f32) {
  return std::make_shared<ov::op::util::Variable>(ov::op::util::VariableInfo{shape, type, name});
}
inline ov::Output<ov::Node> FloatConstant(const ov::Shape& shape, const std::vector<float>& values) {
  return ov::opset13::Constant::create(ov::element::f32, shape, values)->output(0);
}
// Returns pseudo-random values, equal in each call.
inline ov::Output<ov::Node> Weights(const ov::Shape& shape, uint32_t seed) {
  std::vector<float> values(ov::shape_size(shape));
  for (float& value : values) {
    seed = seed * 1664525 + 1013904223;
    value = static_cast<float>(seed >> 8) / static_cast<float>(1 << 24) - 0.5f;
  }
  return FloatConstant(shape, values);
}

// sum = state + in; the state begins with `init`, or with zeros if `init` has no node.
inline std::shared_ptr<ov::Model> RunningSum(const ov::PartialShape& shape, const ov::Output<ov::Node>& init,
                                             const ov::PartialShape& state_shape) {
  auto in = Input("in", ov::element::f32, shape);
  auto variable = MakeVariable("total", state_shape);
  std::shared_ptr<ov::Node> read;
  if (init.get_node() == nullptr) {
    read = std::make_shared<ov::opset13::ReadValue>(variable);
  } else {
    read = std::make_shared<ov::opset13::ReadValue>(init, variable);
  }
  auto add = std::make_shared<ov::opset13::Add>(read, in);
  auto assign = std::make_shared<ov::opset13::Assign>(add, variable);
  return std::make_shared<ov::Model>(ov::OutputVector{Named("sum", add->output(0))}, ov::SinkVector{assign},
                                     ov::ParameterVector{in}, "running_sum");
}
inline std::shared_ptr<ov::Model> RunningSum(const ov::Shape& shape) {
  return RunningSum(shape, FloatConstant(shape, std::vector<float>(ov::shape_size(shape), 0)), shape);
}

// An LSTM loop over [1, steps, 4]. Its hidden states begin with constants, or the second one with an input
// "c0".
inline std::shared_ptr<ov::Model> LstmLoop(int64_t steps, bool initial_is_input) {
  using namespace ov::opset13;  // NOLINT: a graph is hard to read otherwise
  constexpr size_t kHidden = 3;
  auto x = Input("x", ov::element::f32, ov::PartialShape{1, steps, 4});
  auto h0 = FloatConstant({1, kHidden}, {0.5f, -0.25f, 1});
  auto given_c0 = Input("c0", ov::element::f32, ov::PartialShape{1, kHidden});
  auto c0 = initial_is_input ? given_c0->output(0) : FloatConstant({1, kHidden}, {0.125f, 0, -1});

  auto xi = std::make_shared<Parameter>(ov::element::f32, ov::PartialShape{1, 1, 4});
  auto hi = std::make_shared<Parameter>(ov::element::f32, ov::PartialShape{1, kHidden});
  auto ci = std::make_shared<Parameter>(ov::element::f32, ov::PartialShape{1, kHidden});
  xi->set_friendly_name("xi");
  hi->set_friendly_name("hi");
  ci->set_friendly_name("ci");
  auto axis = Constant::create(ov::element::i64, {1}, {1});
  auto cell =
      std::make_shared<LSTMCell>(std::make_shared<Squeeze>(xi, axis), hi, ci, Weights({4 * kHidden, 4}, 1),
                                 Weights({4 * kHidden, kHidden}, 2), Weights({4 * kHidden}, 3), kHidden);
  auto ho = std::make_shared<ov::opset13::Result>(cell->output(0));
  auto co = std::make_shared<ov::opset13::Result>(cell->output(1));
  auto yo = std::make_shared<ov::opset13::Result>(std::make_shared<Unsqueeze>(cell->output(0), axis));
  auto body = std::make_shared<ov::Model>(ov::ResultVector{yo, ho, co}, ov::ParameterVector{xi, hi, ci});
  auto loop = std::make_shared<TensorIterator>();
  loop->set_friendly_name("loop");
  loop->set_body(body);
  loop->set_sliced_input(xi, x, 0, 1, 1, -1, 1);
  loop->set_merged_input(hi, h0, ho);
  loop->set_merged_input(ci, c0, co);
  auto y = loop->get_concatenated_slices(yo, 0, 1, 1, -1, 1);
  ov::ParameterVector inputs{x};
  if (initial_is_input) inputs.push_back(given_c0);
  return std::make_shared<ov::Model>(ov::OutputVector{Named("y", y)}, inputs, "lstm");
}

// A GRU cell over [1, 4] whose hidden state is a variable of the older kind.
inline std::shared_ptr<ov::Model> GruStep() {
  using namespace ov::opset13;  // NOLINT: as above
  constexpr size_t kHidden = 5;
  auto x = Input("x", ov::element::f32, ov::PartialShape{1, 4});
  auto read = std::make_shared<ov::opset3::ReadValue>(FloatConstant({1, kHidden}, {1, 2, 3, -4, 0.5f}), "h");
  auto cell = std::make_shared<GRUCell>(x, read, Weights({3 * kHidden, 4}, 4),
                                        Weights({3 * kHidden, kHidden}, 5), kHidden);
  auto assign = std::make_shared<ov::opset3::Assign>(cell->output(0), "h");
  auto y = std::make_shared<Multiply>(cell->output(0), Number(ov::element::f32, 3));
  return std::make_shared<ov::Model>(ov::OutputVector{Named("y", y->output(0))}, ov::SinkVector{assign},
                                     ov::ParameterVector{x}, "gru");
}

// Two states, of different types, which feed each other: a' = a + in, n' = n + 1, out = a' * n', before = a.
inline std::shared_ptr<ov::Model> TwoStates(const ov::element::Type& counter = ov::element::i32) {
  using namespace ov::opset13;  // NOLINT: as above
  auto in = Input("in", ov::element::f32, ov::PartialShape{2});
  auto a = MakeVariable("z_sum", ov::PartialShape{2});
  auto n = MakeVariable("count", ov::PartialShape{}, counter);
  auto read_a = std::make_shared<ReadValue>(FloatConstant({2}, {100, -100}), a);
  auto read_n = std::make_shared<ReadValue>(Constant::create(counter, {}, {7}), n);
  auto new_a = std::make_shared<Add>(read_a, in);
  auto new_n = std::make_shared<Add>(read_n, Constant::create(counter, {}, {1}));
  auto out = std::make_shared<Multiply>(new_a, std::make_shared<Convert>(new_n, ov::element::f32));
  return std::make_shared<ov::Model>(
      ov::OutputVector{Named("out", out->output(0)), Named("before", read_a->output(0))},
      ov::SinkVector{std::make_shared<Assign>(new_a, a), std::make_shared<Assign>(new_n, n)},
      ov::ParameterVector{in}, "two");
}

// The state begins with twice the first input.
inline std::shared_ptr<ov::Model> BeginsWithInput(const ov::PartialShape& shape = {1, 2}) {
  auto in = Input("in", ov::element::f32, shape);
  auto variable = MakeVariable("s", shape);
  auto init = std::make_shared<ov::opset13::Multiply>(in, Number(ov::element::f32, 2));
  auto read = std::make_shared<ov::opset13::ReadValue>(init, variable);
  auto add = std::make_shared<ov::opset13::Add>(read, in);
  auto assign = std::make_shared<ov::opset13::Assign>(add, variable);
  return std::make_shared<ov::Model>(ov::OutputVector{Named("sum", add->output(0))}, ov::SinkVector{assign},
                                     ov::ParameterVector{in}, "begins_with_input");
}

// The state is the last input; it begins with 1 and 2, or with the first input: out = in - s, before = s, s'
// = in.
inline std::shared_ptr<ov::Model> Difference(bool begins_with_input) {
  auto in = Input("in", ov::element::f32, ov::PartialShape{1, 2});
  auto variable = MakeVariable("s", ov::PartialShape{1, 2});
  const ov::Output<ov::Node> init = begins_with_input ? in->output(0) : FloatConstant({1, 2}, {1, 2});
  auto read = std::make_shared<ov::opset13::ReadValue>(init, variable);
  auto out = std::make_shared<ov::opset13::Subtract>(in, read);
  return std::make_shared<ov::Model>(
      ov::OutputVector{Named("out", out->output(0)), Named("before", read->output(0))},
      ov::SinkVector{std::make_shared<ov::opset13::Assign>(in, variable)}, ov::ParameterVector{in},
      "difference");
}

// One variable that is read in two places, which OpenVINO's CPU device does not support.
// out = 10 s + s + in, s' = s + in.
inline std::shared_ptr<ov::Model> ReadTwice() {
  auto in = Input("in", ov::element::f32, ov::PartialShape{1, 2});
  auto variable = MakeVariable("s", ov::PartialShape{1, 2});
  auto init = FloatConstant({1, 2}, {1, 2});
  auto first = std::make_shared<ov::opset13::ReadValue>(init, variable);
  auto second = std::make_shared<ov::opset13::ReadValue>(init, variable);
  auto product = std::make_shared<ov::opset13::Multiply>(second, Number(ov::element::f32, 10));
  auto add = std::make_shared<ov::opset13::Add>(first, in);
  auto assign = std::make_shared<ov::opset13::Assign>(add, variable);
  auto out = std::make_shared<ov::opset13::Add>(product, add);
  return std::make_shared<ov::Model>(ov::OutputVector{Named("out", out->output(0))}, ov::SinkVector{assign},
                                     ov::ParameterVector{in}, "read_twice");
}

}  // namespace braid::models
