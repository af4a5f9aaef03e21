// SyncSetInputStreamHandler: each set of inputs is processed separately, so one call has packets of one set.
// The inputs without a set form another one.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "graph/handlers/handler_kinds.h"
#include "graph/handlers/sync_set.h"
#include "graph/port_names.h"
#include "mediapipe/stream_handlers.pb.h"

namespace braid::graph {
namespace {

class SyncSetHandler final : public InputHandler {
 public:
  explicit SyncSetHandler(std::vector<SyncSet> sets) : sets_(std::move(sets)) {}

  HandlerStep Next(NodeInputs& inputs) override {
    bool all_done = true;
    HandlerStep first{HandlerStep::Kind::kWait, Timestamp::Done()};
    SyncSet* ready = nullptr;
    for (SyncSet& set : sets_) {
      const HandlerStep step = set.Look(inputs);
      all_done = all_done && step.kind == HandlerStep::Kind::kClose;
      first.timestamp = std::min(first.timestamp, step.timestamp);
      if (step.kind != HandlerStep::Kind::kProcess) continue;
      if (ready == nullptr || step.timestamp < ready_at_) {
        ready = &set;
        ready_at_ = step.timestamp;
      }
    }
    if (ready != nullptr) {
      ready->Take(inputs, ready_at_);
      return {HandlerStep::Kind::kProcess, ready_at_};
    }
    if (all_done) first.kind = HandlerStep::Kind::kClose;
    return first;
  }

 private:
  std::vector<SyncSet> sets_;
  Timestamp ready_at_;
};

class SyncSetPlan final : public InputHandlerPlan {
 public:
  explicit SyncSetPlan(std::vector<SyncSet> sets) : sets_(std::move(sets)) {}
  std::unique_ptr<InputHandler> Make() const override { return std::make_unique<SyncSetHandler>(sets_); }

 private:
  std::vector<SyncSet> sets_;
};

}  // namespace

HandlerPlan PlanSyncSetHandler(const ::mediapipe::MediaPipeOptions& options, const Contract& contract) {
  const auto& settings = options.GetExtension(::mediapipe::SyncSetInputStreamHandlerOptions::ext);
  const bool bounds = contract.process_timestamp_bounds();
  std::vector<bool> used(static_cast<size_t>(contract.inputs().size()));
  std::vector<SyncSet> sets;
  for (const auto& sync_set : settings.sync_set()) {
    std::vector<int> members;
    for (const std::string& text : sync_set.tag_index()) {
      const std::optional<TagIndex> tag_index = ParseTagIndex(text);
      const int input = tag_index ? contract.inputs().Find(tag_index->tag, tag_index->index) : -1;
      const std::string where = "sync_set of SyncSetInputStreamHandler: tag_index '" + text + "'";
      if (input < 0) return InvalidArgumentError(where + " is not an input of the node");
      if (used[static_cast<size_t>(input)]) return InvalidArgumentError(where + " is listed twice");
      used[static_cast<size_t>(input)] = true;
      members.push_back(input);
    }
    if (members.empty()) return InvalidArgumentError("a sync_set of SyncSetInputStreamHandler is empty");
    sets.emplace_back(std::move(members), bounds);
  }
  std::vector<int> others;
  for (int input = 0; input < contract.inputs().size(); ++input) {
    if (!used[static_cast<size_t>(input)]) others.push_back(input);
  }
  if (!others.empty()) sets.emplace_back(std::move(others), bounds);
  return HandlerPlan(std::make_shared<const SyncSetPlan>(std::move(sets)));
}

}  // namespace braid::graph
