// OpenVINOModelServerSessionCalculator: names a servable (a model, an ensemble, a pipeline, another graph)
// for the OpenVINOInferenceCalculators of the same graph.
//
//   node {
//     calculator: "OpenVINOModelServerSessionCalculator"
//     output_side_packet: "SESSION:session"
//     node_options { [type.googleapis.com/mediapipe.OpenVINOModelServerSessionCalculatorOptions] {
//       servable_name: "resnet"
//       servable_version: "1" } }
//   }
//
// The servable has to be there when a run of the graph starts; a stateful model has to allow it. After that
// the session keeps nothing loaded: each inference goes to the version that is the right one then.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "graph/calculator.h"
#include "mediapipe_graph/graph_servables.h"

namespace braid {

inline constexpr std::string_view kSessionCalculator = "OpenVINOModelServerSessionCalculator";
inline constexpr std::string_view kSessionTag = "SESSION";

// What a SESSION side packet carries.
struct GraphSession {
  std::shared_ptr<const GraphServables> servables;  // shared with the runs of the graph
  const ServableReference* servable = nullptr;      // among them
};

struct SessionServableName {
  std::string name;
  int64_t version = -1;  // the default one
};
// The servable that the options of such a node name. Errors: INVALID_ARGUMENT when they name none.
Result<SessionServableName> SessionServable(const graph::Contract& contract);

class SessionCalculator final : public graph::Calculator {
 public:
  static Status FillContract(graph::Contract& contract);

  // Errors: FAILED_PRECONDITION when there is no such servable, and for a stateful one that does not allow
  // it.
  Status Open(graph::Context& context) override;
  Status Process(graph::Context& context) override;
};

}  // namespace braid
