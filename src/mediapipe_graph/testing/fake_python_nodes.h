// Python nodes that the test plays: it sees the calls and makes their steps.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "backends/python/python_nodes.h"

namespace braid {

class FakePythonNodes final : public PythonNodes {
 public:
  struct Call {
    size_t node = 0;
    uint64_t session = 0;
    std::vector<NodeTensor> inputs;
    std::shared_ptr<NodeCallListener> listener;
    std::deque<NodeStep> ahead;
    bool awaited = true;
    bool closed = false;
  };

  uint64_t Execute(size_t node, uint64_t session, std::vector<NodeTensor> inputs,
                   std::shared_ptr<NodeCallListener> listener) override {
    if (throws_) throw std::bad_alloc();
    const uint64_t id = ++last_;
    calls_[id] = {node, session, std::move(inputs), std::move(listener), std::exchange(at_once_, {})};
    executed_.push_back(id);
    Deliver(id);
    return id;
  }
  bool Resume(uint64_t call) override {
    auto it = calls_.find(call);
    if (it == calls_.end()) return false;
    it->second.awaited = true;
    Deliver(call);
    return true;
  }
  void Close(uint64_t call) override {
    auto it = calls_.find(call);
    if (it == calls_.end()) return;
    it->second.closed = true;
    if (!it->second.awaited) it->second.listener.reset();  // the listener holds this object
    closed_.push_back(call);
  }
  uint64_t BeginSession(const Parameters&, std::shared_ptr<const CallChain>) override { return 1; }
  void EndSession(uint64_t) override {}
  Readiness readiness() const override { return {}; }
  BufferAllocator& allocator() override { return allocator_; }
  void Stop(int64_t) override {}

  // Adds a step of the code; it waits until it is requested.
  void Step(uint64_t call, NodeStep step) {
    calls_.at(call).ahead.push_back(std::move(step));
    Deliver(call);
  }
  // From now on, Execute() throws std::bad_alloc.
  void Throw() { throws_ = true; }
  // The next call has these steps at once.
  void StepAtOnce(std::deque<NodeStep> steps) { at_once_ = std::move(steps); }

  Call& call(uint64_t id) { return calls_.at(id); }
  bool running(uint64_t id) const { return calls_.contains(id); }
  // The numbers of all calls, in order.
  const std::vector<uint64_t>& executed() const { return executed_; }
  const std::vector<uint64_t>& closed() const { return closed_; }

 private:
  void Deliver(uint64_t id) {
    auto it = calls_.find(id);
    if (it == calls_.end() || !it->second.awaited || it->second.ahead.empty()) return;
    Call& call = it->second;
    NodeStep step = std::move(call.ahead.front());
    call.ahead.pop_front();
    call.awaited = false;
    const std::shared_ptr<NodeCallListener> listener = call.listener;
    if (step.kind != NodeStep::Kind::kItem) calls_.erase(it);
    listener->OnStep(id, std::move(step));
  }

  HeapAllocator allocator_;
  bool throws_ = false;
  uint64_t last_ = 0;
  std::map<uint64_t, Call> calls_;
  std::vector<uint64_t> executed_;
  std::vector<uint64_t> closed_;
  std::deque<NodeStep> at_once_;
};

}  // namespace braid
