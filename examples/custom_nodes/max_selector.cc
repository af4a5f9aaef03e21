// Max selector: chooses the best of several candidates, usually the results of parallel branches.
//
// Inputs   candidates  FP32 [K, 1, C]  K candidates of C values each, gathered by `gather_from_node`
// Outputs  selected    FP32 [1, C]     the values of the chosen candidate
//          index       I64  [1, 1]     its index
// Params   choose_by   the compared value of a candidate: "maximum" (the default), "minimum" or
//                      "average"; the largest one wins, and the first of equal ones
#include <algorithm>
#include <numeric>

#include "node.h"

namespace {

enum class Criterion { kMaximum, kMinimum, kAverage };

Criterion ReadCriterion(const node::Params& params) {
  const std::string name = params.Text("choose_by", "maximum");
  if (name == "maximum") return Criterion::kMaximum;
  if (name == "minimum") return Criterion::kMinimum;
  if (name == "average") return Criterion::kAverage;
  throw std::invalid_argument("param 'choose_by' is '" + name + "', not maximum, minimum or average");
}

float Rate(Criterion criterion, const float* begin, const float* end) {
  switch (criterion) {
    case Criterion::kMaximum:
      return *std::max_element(begin, end);
    case Criterion::kMinimum:
      return *std::min_element(begin, end);
    case Criterion::kAverage:
      break;
  }
  return std::accumulate(begin, end, 0.0F) / static_cast<float>(end - begin);
}

}  // namespace

// The node's manager is its criterion, so that bad params are refused when the pipeline is loaded.
int initialize(void** manager, const CustomNodeParam* params, int params_count) {
  return node::Guarded("max_selector",
                       [&] { *manager = new Criterion(ReadCriterion(node::Params(params, params_count))); });
}

int deinitialize(void* manager) {
  delete static_cast<Criterion*>(manager);
  return 0;
}

int execute(const CustomNodeTensor* inputs, int inputs_count, CustomNodeTensor** outputs, int* outputs_count,
            const CustomNodeParam*, int, void* manager) {
  return node::Guarded("max_selector", [&] {
    const Criterion criterion = *static_cast<Criterion*>(manager);
    const CustomNodeTensor& candidates = node::Input(inputs, inputs_count, "candidates", FP32, {0, 1, 0});
    const uint64_t count = candidates.dims[0];
    const uint64_t size = candidates.dims[2];
    if (count == 0 || size == 0)
      throw std::invalid_argument("there are no candidates, or they have no values");

    const auto* values = reinterpret_cast<const float*>(candidates.data);
    uint64_t best = 0;
    for (uint64_t i = 1; i < count; ++i) {
      const float* candidate = values + i * size;
      const float* leader = values + best * size;
      if (Rate(criterion, candidate, candidate + size) > Rate(criterion, leader, leader + size)) best = i;
    }
    node::Outputs made(2);
    std::copy_n(values + best * size, size, made.Add<float>(0, "selected", FP32, {1, size}));
    *made.Add<int64_t>(1, "index", I64, {1, 1}) = static_cast<int64_t>(best);
    made.Give(outputs, outputs_count);
  });
}

int getInputsInfo(CustomNodeTensorInfo** info, int* info_count, const CustomNodeParam*, int, void*) {
  return node::Guarded("max_selector", [&] {
    node::Infos made(1);
    made.Set(0, "candidates", FP32, {0, 1, 0});
    made.Give(info, info_count);
  });
}

int getOutputsInfo(CustomNodeTensorInfo** info, int* info_count, const CustomNodeParam*, int, void*) {
  return node::Guarded("max_selector", [&] {
    node::Infos made(2);
    made.Set(0, "selected", FP32, {1, 0});
    made.Set(1, "index", I64, {1, 1});
    made.Give(info, info_count);
  });
}

int release(void* memory, void*) {
  std::free(memory);
  return 0;
}
