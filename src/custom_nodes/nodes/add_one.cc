// Adds one number to each of ten, and subtracts another: (x + add_number) - sub_number.
//
// Inputs: input_numbers, FP32 [1, 10].
// Outputs: output_numbers, FP32 [1, 10].
#include "custom_nodes/nodes/interface.h"

namespace braid::custom_nodes {
namespace {

constexpr uint64_t kNumbers = 10;

class AddOne final : public Node {
 public:
  explicit AddOne(Params& params)
      : Node({{"input_numbers", FP32, {1, kNumbers}}}, {{"output_numbers", FP32, {1, kNumbers}}}, false,
             {.outputs = static_cast<size_t>(params.Int("output_queue_size", 1, 10)),
              .infos = static_cast<size_t>(params.Int("info_queue_size", 1, 10))}),
        add_(static_cast<float>(params.Int("add_number", 0, 1))),
        sub_(static_cast<float>(params.Int("sub_number", 0, 0))) {}

  void Execute(const std::vector<const CustomNodeTensor*>& inputs, Outputs& outputs) const override {
    const auto* from = reinterpret_cast<const float*>(inputs[0]->data);
    float* to = outputs.AddFloats(0, {1, kNumbers});
    for (uint64_t i = 0; i < kNumbers; ++i) to[i] = from[i] + add_ - sub_;
  }

 private:
  const float add_;
  const float sub_;
};

}  // namespace

const char* const kNodeName = "add_one";
std::unique_ptr<Node> MakeNode(Params& params) { return std::make_unique<AddOne>(params); }

}  // namespace braid::custom_nodes
