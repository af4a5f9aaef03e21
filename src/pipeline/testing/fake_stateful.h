// A stateful model for tests of its users: OUT is the sum of all IN of the sequence so far. It answers at
// once, or when the test says so, and fails when the test says so.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/testing/fake_step.h"
#include "serving/compensation.h"
#include "serving/faults.h"
#include "serving/sequence_inputs.h"

namespace braid {

class FakeStateful final : public Servable, public SequenceKeeper {
 public:
  explicit FakeStateful(std::string name, bool allow_in_pipelines = true)
      : Servable(Describe(std::move(name), allow_in_pipelines)) {}

  // The next request fails with this status when it runs. A start then leaves no sequence; an end leaves the
  // sequence as it was.
  void FailNext(Status status) {
    std::lock_guard lock(mutex_);
    fault_ = std::move(status);
  }
  // Holds requests from now on, until the test releases them one by one.
  void Hold() {
    std::lock_guard lock(mutex_);
    holding_ = true;
  }
  // Runs the oldest held request; returns false if there is none. A cancelled request fails, but a cancelled
  // end still ends the sequence.
  bool LetGo() {
    std::unique_ptr<InferenceRequest> request;
    {
      std::lock_guard lock(mutex_);
      if (held_.empty()) return false;
      request = std::move(held_.front());
      held_.pop_front();
    }
    Finish(std::move(request));
    return true;
  }

  // Runs all held requests and stops holding.
  void LetAllGo() {
    {
      std::lock_guard lock(mutex_);
      holding_ = false;
    }
    while (LetGo()) {
    }
  }

  // Calls `f` when the oldest held request is cancelled. REQUIRES: a request is held.
  void WhenCancelled(std::function<void()> f) {
    std::lock_guard lock(mutex_);
    held_.front()->cancellation->SetListener(std::move(f));
  }

  // Returns the current sequences with their sums.
  std::map<uint64_t, int32_t> sums() const {
    std::lock_guard lock(mutex_);
    return sums_;
  }
  std::vector<uint64_t> dropped() const {
    std::lock_guard lock(mutex_);
    return dropped_;
  }

  BufferAllocator& input_allocator() override { return heap_; }
  void Infer(std::unique_ptr<InferenceRequest> request) override {
    Status status = TakeSequenceInputs(*request);
    if (status.ok()) status = CheckRequest(info_, *request);
    if (status.ok()) status = Admit(*request);
    if (!status.ok()) {
      request->Fail(std::move(status));
      return;
    }
    {
      std::lock_guard lock(mutex_);
      if (holding_) {
        held_.push_back(std::move(request));
        return;
      }
    }
    Finish(std::move(request));
  }
  Readiness readiness() const override { return {}; }
  SequenceKeeper* sequences() override { return this; }
  void Stop(int64_t) override {}

  SequenceCounts counts() const override { return {}; }
  void CleanUp() override {}
  void Drop(const CorrelationId& id) override {
    std::lock_guard lock(mutex_);
    dropped_.push_back(std::get<uint64_t>(id));
    sums_.erase(std::get<uint64_t>(id));
  }
  TakeBackSteps Mark(const CorrelationId& id) override {
    std::lock_guard lock(mutex_);
    const auto found = sums_.find(std::get<uint64_t>(id));
    if (found == sums_.end()) return nullptr;
    return [this, before = *found, done = steps_[found->first]](uint64_t steps) {
      std::lock_guard lock(mutex_);
      if (steps_[before.first] == done + steps) sums_[before.first] = before.second;
    };
  }
  bool savable() const override { return false; }
  const std::string& identity() const override { return info_.sequence_identity; }
  uint64_t changes() const override { return 0; }
  std::vector<SavedSequence> Save() const override { return {}; }
  void HoldUntilRestored(int64_t) override {}
  size_t Restore(std::vector<SavedSequence>) override { return 0; }
  void BeginDrain() override {}

 private:
  static ServableInfo Describe(std::string name, bool allow_in_pipelines) {
    ServableInfo info;
    info.name = std::move(name);
    info.dialect = Dialect::kOvms;
    info.inputs = {Spec("IN")};
    info.outputs = {Spec("OUT")};
    info.stateful = StatefulSpec{.states = {}, .allow_in_pipelines = allow_in_pipelines};
    return info;
  }

  Status Admit(InferenceRequest& request) {
    std::lock_guard lock(mutex_);
    auto& id = std::get<uint64_t>(request.correlation_id);
    if (!request.sequence_start) {
      return sums_.contains(id) ? OkStatus() : FaultError(Fault::kSequenceMissing);
    }
    if (id == 0) id = 1;
    return sums_.emplace(id, 0).second ? OkStatus() : FaultError(Fault::kSequenceAlreadyExists);
  }

  void Finish(std::unique_ptr<InferenceRequest> request) {
    Status status;
    std::vector<Tensor> outputs;
    {
      std::lock_guard lock(mutex_);
      const uint64_t id = std::get<uint64_t>(request->correlation_id);
      const bool cancelled = request->cancelled();
      status = cancelled ? CancelledError("cancelled") : std::exchange(fault_, OkStatus());
      if (status.ok()) {
        sums_[id] += Int32Values(request->inputs[0])[0];
        ++steps_[id];
        outputs = {Int32Tensor("OUT", {sums_[id]}), SequenceIdOutput(id)};
      }
      const bool gone =
          request->sequence_end ? status.ok() || cancelled : !status.ok() && request->sequence_start;
      if (gone) sums_.erase(id);
    }
    if (!status.ok()) {
      request->Fail(std::move(status));
      return;
    }
    request->Respond(FakeStep::Response(std::move(outputs)), true);
  }

  HeapAllocator heap_;
  mutable std::mutex mutex_;
  // All guarded by mutex_.
  std::map<uint64_t, int32_t> sums_;
  std::map<uint64_t, uint64_t> steps_;
  std::vector<uint64_t> dropped_;
  std::deque<std::unique_ptr<InferenceRequest>> held_;
  Status fault_;
  bool holding_ = false;
};

// The sequence parameters of a request.
struct Turn {
  uint64_t id = 0;
  bool start = false;
  bool end = false;
};
inline void Name(InferenceRequest& request, const Turn& turn) {
  request.correlation_id = turn.id;
  request.sequence_start = turn.start;
  request.sequence_end = turn.end;
}
inline Turn StartOf(uint64_t id) { return {id, true, false}; }
inline Turn EndOf(uint64_t id) { return {id, false, true}; }
inline Turn MiddleOf(uint64_t id) { return {id, false, false}; }

}  // namespace braid
