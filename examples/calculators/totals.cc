// TotalsCalculator: handles a whole message. For each FP32 tensor, it returns the sum of its elements under
// the tensor's name. The parameter "times" multiplies the sums.
#include <cstring>
#include <string>
#include <vector>

#include "braid_calculator.h"

namespace {

namespace plugin = braid::plugin;

class TotalsCalculator final : public plugin::Calculator {
 public:
  static void Describe(plugin::Contract& contract) {
    contract.Input("REQUEST", 0, BRAID_REQUEST);
    contract.Output("RESPONSE", 0, BRAID_RESPONSE);
    contract.SetTimestampOffset(0);
  }

  void Process(plugin::Context& context) override {
    const plugin::Packet request = context.Input("REQUEST");
    const float times = std::stof(request.Parameter("times", "1"));
    std::vector<plugin::Packet> totals;
    for (int i = 0; i < request.tensor_count(); ++i) {
      BraidTensor tensor;
      request.Get(i, tensor);
      if (std::string(tensor.datatype) != "FP32") {
        return context.Fail(std::string(tensor.name) + ": expected FP32, found " + tensor.datatype);
      }
      float total = 0;
      for (size_t at = 0; at < tensor.size; at += sizeof(float)) {
        float element = 0;
        std::memcpy(&element, static_cast<const char*>(tensor.data) + at, sizeof(float));
        total += element;
      }
      totals.push_back(
          context.MakeTensor(BRAID_TENSOR, tensor.name, "FP32", {1}, std::vector<float>{total * times}));
    }
    context.Output("RESPONSE", 0, context.MakeResponse(totals), context.input_timestamp());
  }
};

}  // namespace

BRAID_CALCULATORS(plugin::MakeCalculator<TotalsCalculator>("TotalsCalculator"))
