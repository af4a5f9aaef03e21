// Fuzzes graph.pbtxt.
#include "mediapipe_graph/graph_definition.h"

#include "graph/registry.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace braid;
  static const auto calculators = [] {
    auto made = std::make_shared<graph::CalculatorRegistry>();
    graph::AddCoreCalculators(*made);
    return made;
  }();
  (void)DefineGraph("g", {reinterpret_cast<const char*>(data), size},
                    {.calculators = calculators, .provided_side_packets = {}});
  return 0;
}
