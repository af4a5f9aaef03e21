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
// The servable must be loaded when a run of the graph starts, and a stateful model must allow it. The session
// does not keep a version loaded: each inference goes to the version that is current then.
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

// The value of a SESSION side packet.
struct GraphSession {
  std::shared_ptr<const GraphServables> servables;  // shared with the runs of the graph
  const ServableReference* servable = nullptr;      // among them
};

struct SessionServableName {
  std::string name;
  int64_t version = -1;  // the default one
};
// Returns the servable in the options of such a node. Errors: INVALID_ARGUMENT when they name none.
Result<SessionServableName> SessionServable(const graph::Contract& contract);

class SessionCalculator final : public graph::Calculator {
 public:
  static Status FillContract(graph::Contract& contract);

  // Errors: FAILED_PRECONDITION when the servable does not exist, or is stateful and does not allow it.
  Status Open(graph::Context& context) override;
  Status Process(graph::Context& context) override;
};

}  // namespace braid
