// An OpenVINO extension (--cpu_extension) with the operator "Fragile" of "braid_test", which returns its
// input. An element of the input is a command. 666 crashes and 667 throws. 668 takes a second, and creates
// the file named by BRAID_TEST_FRAGILE_BEGUN. If BRAID_TEST_FRAGILE is "load", the library crashes during
// loading.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

#include <openvino/core/extension.hpp>
#include <openvino/core/op_extension.hpp>
#include <openvino/op/op.hpp>

namespace {

void BeSlow() {
  if (const char* path = std::getenv("BRAID_TEST_FRAGILE_BEGUN"); path != nullptr)
    std::ofstream(path) << "begun";
  std::this_thread::sleep_for(std::chrono::seconds(1));
}

class Fragile : public ov::op::Op {
 public:
  OPENVINO_OP("Fragile", "braid_test");

  Fragile() = default;
  explicit Fragile(const ov::Output<ov::Node>& in) : Op({in}) { constructor_validate_and_infer_types(); }

  void validate_and_infer_types() override {
    set_output_type(0, get_input_element_type(0), get_input_partial_shape(0));
  }
  std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
    return std::make_shared<Fragile>(inputs.at(0));
  }
  bool visit_attributes(ov::AttributeVisitor&) override { return true; }
  bool has_evaluate() const override { return true; }
  bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override {
    const auto* values = inputs[0].data<const float>();
    outputs[0].set_shape(inputs[0].get_shape());
    for (size_t i = 0; i < inputs[0].get_size(); ++i) {
      if (values[i] == 666) std::raise(SIGSEGV);
      if (values[i] == 667) throw std::runtime_error("it was told to fail");
      if (values[i] == 668) BeSlow();
    }
    std::memcpy(outputs[0].data(), inputs[0].data(), inputs[0].get_byte_size());
    return true;
  }
};

[[maybe_unused]] const bool loaded = [] {
  const char* order = std::getenv("BRAID_TEST_FRAGILE");
  if (order != nullptr && std::string_view(order) == "load") std::raise(SIGSEGV);
  return true;
}();

}  // namespace

OPENVINO_CREATE_EXTENSIONS(std::vector<ov::Extension::Ptr>({std::make_shared<ov::OpExtension<Fragile>>()}));
