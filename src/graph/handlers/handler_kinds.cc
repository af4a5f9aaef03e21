#include "graph/handlers/handler_kinds.h"

#include <array>
#include <string>
#include <string_view>

#include "base/nearest_name.h"

namespace braid::graph {
namespace {

struct Kind {
  std::string_view name;
  HandlerPlan (*plan)(const ::mediapipe::MediaPipeOptions& options, const Contract& contract);
};

constexpr std::array kKinds = {
    Kind{"DefaultInputStreamHandler", PlanDefaultHandler},
    Kind{"SyncSetInputStreamHandler", PlanSyncSetHandler},
    Kind{"ImmediateInputStreamHandler", PlanImmediateHandler},
    Kind{"BarrierInputStreamHandler", PlanBarrierHandler},
    Kind{"EarlyCloseInputStreamHandler", PlanEarlyCloseHandler},
    Kind{"FixedSizeInputStreamHandler", PlanFixedSizeHandler},
    Kind{"MuxInputStreamHandler", PlanMuxHandler},
    Kind{"TimestampAlignInputStreamHandler", PlanTimestampAlignHandler},
};

}  // namespace

HandlerPlan PlanInputHandler(const std::string& name, const ::mediapipe::MediaPipeOptions& options,
                             const Contract& contract) {
  NearestName nearest(name);
  for (const Kind& kind : kKinds) {
    if (name == kind.name || (name.empty() && kind.name == kKinds[0].name)) {
      return kind.plan(options, contract);
    }
    nearest.Offer(kind.name);
  }
  std::string message = "input_stream_handler '" + name + "' is not known";
  if (!nearest.name().empty()) message += "; did you mean '" + nearest.name() + "'?";
  return InvalidArgumentError(message);
}

}  // namespace braid::graph
