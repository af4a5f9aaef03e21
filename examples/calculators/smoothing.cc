// SmoothingCalculator: an exponential average over the tensors of a stream, element by element. Each client's
// stream has a separate average, because each run of a graph has separate objects.
//
//   option "alpha": the weight of the newest tensor, above 0 and at most 1 (0.5 by default)
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "braid_calculator.h"

namespace {

namespace plugin = braid::plugin;

float AlphaOf(const std::string& text) {
  size_t used = 0;
  const float alpha = std::stof(text, &used);
  if (used != text.size() || !(alpha > 0 && alpha <= 1)) throw std::invalid_argument(text);
  return alpha;
}

class SmoothingCalculator final : public plugin::Calculator {
 public:
  static void Describe(plugin::Contract& contract) {
    contract.Input("", 0, BRAID_TENSOR);
    contract.Output("", 0, BRAID_TENSOR);
    contract.SetTimestampOffset(0);
    contract.SetQuick();
    const std::string alpha = contract.Option("alpha", "0.5");
    try {
      AlphaOf(alpha);
    } catch (const std::exception&) {
      contract.Fail("option alpha is '" + alpha + "' and has to be a number above 0 and at most 1");
    }
  }

  void Open(plugin::Context& context) override { alpha_ = AlphaOf(context.Option("alpha", "0.5")); }

  void Process(plugin::Context& context) override {
    BraidTensor tensor;
    if (!context.Input("").Get(tensor)) return;
    if (std::string(tensor.datatype) != "FP32") {
      return context.Fail("expected FP32, found " + std::string(tensor.datatype));
    }
    std::vector<float> newest(tensor.size / sizeof(float));
    std::memcpy(newest.data(), tensor.data, tensor.size);
    if (average_.empty()) average_ = newest;
    if (average_.size() != newest.size()) {
      return context.Fail("expected " + std::to_string(average_.size()) + " elements, found " +
                          std::to_string(newest.size()));
    }
    for (size_t i = 0; i < newest.size(); ++i) average_[i] += alpha_ * (newest[i] - average_[i]);
    const std::vector<int64_t> shape(tensor.shape, tensor.shape + tensor.rank);
    context.Output("", 0, context.MakeTensor(BRAID_TENSOR, tensor.name, "FP32", shape, average_),
                   context.input_timestamp());
  }

 private:
  float alpha_ = 0;
  std::vector<float> average_;
};

}  // namespace

BRAID_CALCULATORS(plugin::MakeCalculator<SmoothingCalculator>("SmoothingCalculator"))
