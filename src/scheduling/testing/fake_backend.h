// A backend whose instances act when a test tells them to. Single-threaded.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "scheduling/backend.h"

namespace braid {

class FakeInstance final : public Instance {
 public:
  explicit FakeInstance(std::string name, bool passive = false) : name_(std::move(name)), passive_(passive) {}

  const std::string& name() const override { return name_; }
  bool passive() const override { return passive_; }
  bool makes_calls() const override { return makes_calls_; }
  void Execute(std::unique_ptr<Execution> execution) override {
    ++executed_;
    const bool here = runs_here_ && execution->on_callers_thread;
    inside_.push_back(std::move(execution));
    if (here) Finish(inside_.back()->compute_start_ns, 0);
  }

  // The number of executions inside, and the first of them, which is running.
  size_t inside() const { return inside_.size(); }
  Execution& running() { return *inside_.front(); }
  const std::deque<std::unique_ptr<Execution>>& executions() const { return inside_; }
  // The number of executions ever handed over.
  size_t executed() const { return executed_; }

  std::unique_ptr<Execution> Take() {
    auto execution = std::move(inside_.front());
    inside_.pop_front();
    return execution;
  }

  // Ends the running execution at `now_ns`, after `execute_ns` in user code. Every request gets `response`.
  void Finish(int64_t now_ns, int64_t execute_ns = 1'000'000, const InferenceResponse& response = {}) {
    auto execution = Take();
    const ExecutionTimes times{execution->compute_start_ns, now_ns - execute_ns, now_ns, now_ns};
    listener_->OnExecuted(*this, execution->rows, execution->requests.size(), times);
    for (auto& request : execution->requests) {
      listener_->OnResponse(*this, *request, answer_ ? answer_(*request) : response, true, times);
    }
    listener_->OnDelivered(*this);
  }

  // Dies as the interface describes: the running execution fails, the rest is returned.
  void Die() {
    auto inside = std::exchange(inside_, {});
    listener_->OnAvailability(*this, false);
    Bury(std::move(inside));
  }
  // The same without OnAvailability(false).
  void DieUnannounced() { Bury(std::exchange(inside_, {})); }
  void Revive() { listener_->OnAvailability(*this, true); }

  ExecutionListener* listener_ = nullptr;
  bool makes_calls_ = false;
  // The answer to a request, if it depends on the request.
  std::function<InferenceResponse(const InferenceRequest&)> answer_;
  // Whether executions end within Execute() if they may.
  bool runs_here_ = false;

 private:
  void Bury(std::deque<std::unique_ptr<Execution>> inside) {
    if (inside.empty()) return;
    InferenceResponse died;
    died.status = InternalError("the instance died");
    for (auto& request : inside.front()->requests) listener_->OnResponse(*this, *request, died, true, {});
    inside.pop_front();
    std::vector<std::unique_ptr<Execution>> rest(std::make_move_iterator(inside.begin()),
                                                 std::make_move_iterator(inside.end()));
    if (!rest.empty()) listener_->OnUnstarted(*this, std::move(rest));
  }

  const std::string name_;
  const bool passive_;
  size_t executed_ = 0;
  std::deque<std::unique_ptr<Execution>> inside_;
};

class FakeBackendModel final : public BackendModel {
 public:
  explicit FakeBackendModel(size_t instances) {
    for (size_t i = 0; i < instances; ++i)
      fakes_.push_back(std::make_unique<FakeInstance>("m_0_" + std::to_string(i)));
  }

  BufferAllocator& input_allocator() override {
    return input_memory_ != nullptr ? *input_memory_ : allocator_;
  }
  std::vector<Instance*> instances() override {
    std::vector<Instance*> all;
    for (auto& fake : fakes_) all.push_back(fake.get());
    return all;
  }
  Status Start(ExecutionListener& listener, const std::function<void(const std::string&)>&) override {
    for (auto& fake : fakes_) fake->listener_ = &listener;
    return start_status_;
  }
  void Stop(int64_t deadline_ns) override {
    stop_deadline_ns_ = deadline_ns;
    InferenceResponse stopped;
    stopped.status = UnavailableError("stopped by force");
    for (auto& fake : fakes_) {
      while (fake->inside() > 0) {
        auto execution = fake->Take();
        for (auto& request : execution->requests)
          fake->listener_->OnResponse(*fake, *request, stopped, true, {});
      }
    }
  }
  Readiness readiness() const override { return readiness_; }
  bool saves_sequences() const override { return saves_sequences_; }

  std::vector<std::unique_ptr<FakeInstance>> fakes_;
  BufferAllocator* input_memory_ = nullptr;  // in place of the heap
  Status start_status_;
  Readiness readiness_;
  bool saves_sequences_ = false;
  int64_t stop_deadline_ns_ = 0;

 private:
  HeapAllocator allocator_;
};

}  // namespace braid
