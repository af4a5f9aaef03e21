// The kinds of input handlers. Each has its own file; docs/graphs.md describes them.
#pragma once

#include <memory>

#include "base/status.h"
#include "graph/input_handler.h"

namespace braid::graph {

using HandlerPlan = Result<std::shared_ptr<const InputHandlerPlan>>;

HandlerPlan PlanDefaultHandler(const ::mediapipe::MediaPipeOptions& options, const Contract& contract);
HandlerPlan PlanSyncSetHandler(const ::mediapipe::MediaPipeOptions& options, const Contract& contract);
HandlerPlan PlanImmediateHandler(const ::mediapipe::MediaPipeOptions& options, const Contract& contract);
HandlerPlan PlanBarrierHandler(const ::mediapipe::MediaPipeOptions& options, const Contract& contract);
HandlerPlan PlanEarlyCloseHandler(const ::mediapipe::MediaPipeOptions& options, const Contract& contract);
HandlerPlan PlanFixedSizeHandler(const ::mediapipe::MediaPipeOptions& options, const Contract& contract);
HandlerPlan PlanMuxHandler(const ::mediapipe::MediaPipeOptions& options, const Contract& contract);
HandlerPlan PlanTimestampAlignHandler(const ::mediapipe::MediaPipeOptions& options, const Contract& contract);

}  // namespace braid::graph
