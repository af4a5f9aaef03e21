#include "workers/executions_in_flight.h"

#include <poll.h>

#include <algorithm>

#include "base/clock.h"
#include "base/guard.h"

namespace braid {
namespace {

// Whether the worker has ended, even if its death was not reported yet.
bool IsGone(const Channel& channel) {
  pollfd socket{channel.socket(), 0, 0};
  return poll(&socket, 1, 0) > 0 && (socket.revents & (POLLHUP | POLLERR)) != 0;
}

// Cancellations must not write to the channel's flags after the channel is gone.
void Forget(const std::unique_ptr<InferenceRequest>& request) {
  if (request != nullptr && request->cancellation) request->cancellation->ClearListener();
}

}  // namespace

std::optional<std::string> ExecutionsInFlight::NotReadyReason() const {
  MutexLock lock(mutex_);
  if (accepting_) return std::nullopt;
  return reason_;
}

uint32_t ExecutionsInFlight::TakeSlot() {
  if (free_slots_.empty()) {
    slots_.emplace_back();
    return static_cast<uint32_t>(slots_.size() - 1);
  }
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void ExecutionsInFlight::FreeSlot(uint32_t slot) {
  Slot& freed = slots_[slot];
  freed.request = nullptr;
  freed.given_up = false;
  freed.progress_ns = 0;
  ++freed.generation;
  free_slots_.push_back(slot);
}

ExecutionsInFlight::Slot* ExecutionsInFlight::Find(uint64_t name) {
  const auto index = static_cast<uint32_t>(name);
  if (index >= slots_.size()) return nullptr;
  Slot& slot = slots_[index];
  const bool taken = slot.request != nullptr || slot.given_up;
  return taken && slot.generation == static_cast<uint32_t>(name >> 32) ? &slot : nullptr;
}

bool ExecutionsInFlight::Hand(Instance& instance, std::unique_ptr<Execution> execution, Status refused) {
  RetryingLock lock(mutex_);
  if (refused.ok() && accepting_) {
    Running running;
    running.id = next_id_;
    running.instance = &instance;
    running.rows = execution->rows;
    running.compute_start_ns = execution->compute_start_ns;
    running.slots.reserve(execution->requests.size());
    for (size_t i = 0; i < execution->requests.size(); ++i) running.slots.push_back(TakeSlot());
    refused = Send(running, *execution);
    if (refused.ok()) {
      ++next_id_;
      for (size_t i = 0; i < execution->requests.size(); ++i) {
        Slot& slot = slots_[running.slots[i]];
        slot.request = std::move(execution->requests[i]);
        slot.instance = &instance;
        slot.execution_id = running.id;
        slot.times = ExecutionTimes{};
      }
      if (running_.empty()) front_since_ns_ = running.compute_start_ns;
      running_.push_back(std::move(running));
      return true;
    }
    for (uint32_t slot : running.slots) FreeSlot(slot);
    for (const auto& request : execution->requests) Forget(request);
    if (IsGone(*link_.channel)) refused = OkStatus();
  }
  refused_.push_back({&instance, std::move(execution), std::move(refused)});
  any_refused_.store(true, std::memory_order_release);
  return false;
}

void ExecutionsInFlight::TellRefused() {
  if (!any_refused_.load(std::memory_order_acquire)) return;
  std::vector<Refused> refused;
  {
    MutexLock lock(mutex_);
    any_refused_.store(false, std::memory_order_relaxed);
    delivering_.store(true, std::memory_order_release);
    refused.swap(refused_);
  }
  for (Refused& one : refused) {
    if (one.status.ok()) {
      std::vector<std::unique_ptr<Execution>> unstarted;
      unstarted.push_back(std::move(one.execution));
      listener().OnUnstarted(*one.instance, std::move(unstarted));
      continue;
    }
    const Execution& execution = *one.execution;
    const int64_t now = SteadyNowNs();
    const ExecutionTimes times{execution.compute_start_ns, now, now, now};
    listener().OnExecuted(*one.instance, execution.rows, execution.requests.size(), times);
    for (const auto& request : execution.requests) {
      InferenceResponse response;
      response.status = one.status;
      listener().OnResponse(*one.instance, *request, std::move(response), true, times);
    }
    listener().OnDelivered(*one.instance);
  }
  delivering_.store(false, std::memory_order_release);
}

Result<ExecutionsInFlight::Running> ExecutionsInFlight::TakeReturned(uint64_t id, int64_t input_end_ns,
                                                                     int64_t infer_end_ns,
                                                                     ExecutionTimes& times) {
  const auto found =
      std::find_if(running_.begin(), running_.end(), [id](const Running& each) { return each.id == id; });
  if (found == running_.end()) return InvalidArgumentError("the worker returned from an unknown execution");
  delivering_.store(true, std::memory_order_release);
  Running running = std::move(*found);
  running_.erase(found);
  const int64_t now = SteadyNowNs();
  times.compute_start_ns = running.compute_start_ns;
  times.input_end_ns = std::clamp(input_end_ns, times.compute_start_ns, now);
  times.infer_end_ns = std::clamp(infer_end_ns, times.input_end_ns, now);
  times.output_end_ns = now;
  for (uint32_t index : running.slots) {
    Slot& slot = slots_[index];
    if (!slot.request || slot.execution_id != running.id) continue;
    slot.times = times;
    if (slot.progress_ns == 0) slot.progress_ns = front_since_ns_;
  }
  front_since_ns_ = now;
  return running;
}

// --- The worker's life

void ExecutionsInFlight::SetAvailable(bool available) {
  if (std::exchange(available_, available) != available && listener_ != nullptr) TellAvailable(available);
}

Status ExecutionsInFlight::OnUp(const WorkerLink& link, const WorkerProcess::Answer&) {
  {
    MutexLock lock(mutex_);
    link_ = link;
    next_id_ = 1;
    accepting_ = true;
    reason_.clear();
  }
  delivering_ = false;
  SetAvailable(true);
  return OkStatus();
}

void ExecutionsInFlight::OnDown(const std::string& reason) {
  MutexLock lock(mutex_);
  accepting_ = false;
  reason_ = reason;
}

void ExecutionsInFlight::OnDead() {
  SetAvailable(false);
  if (link_.channel == nullptr) return;
  const uint64_t begun = link_.channel->header().begun_execution.load(std::memory_order_acquire);
  WorkerLink gone;
  {
    MutexLock lock(mutex_);
    for (Running& running : running_) {
      if (running.id <= begun) continue;
      auto execution = std::make_unique<Execution>();
      execution->rows = running.rows;
      execution->compute_start_ns = running.compute_start_ns;
      for (uint32_t slot : running.slots) {
        execution->requests.push_back(std::move(slots_[slot].request));
        FreeSlot(slot);
      }
      auto of_instance = std::find_if(unstarted_.begin(), unstarted_.end(), [&](const Unstarted& each) {
        return each.instance == running.instance;
      });
      if (of_instance == unstarted_.end())
        of_instance = unstarted_.insert(unstarted_.end(), {running.instance, {}});
      of_instance->executions.push_back(std::move(execution));
    }
    running_.clear();
    for (uint32_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].given_up) FreeSlot(i);
      if (slots_[i].request == nullptr) continue;
      const uint32_t generation = slots_[i].generation;
      failed_.push_back(std::move(slots_[i]));
      slots_[i].generation = generation;
      FreeSlot(i);
    }
    std::swap(gone, link_);
  }
  for (const Slot& slot : failed_) Forget(slot.request);
  for (const Unstarted& each : unstarted_) {
    for (const auto& execution : each.executions) {
      for (const auto& request : execution->requests) Forget(request);
    }
  }
}

void ExecutionsInFlight::OnGone(const std::string& reason) {
  const int64_t now = SteadyNowNs();
  for (const Slot& slot : std::exchange(failed_, {})) {
    InferenceResponse response;
    response.status = InternalError(reason);
    const ExecutionTimes times{slot.request->queue_start_ns, now, now, now};
    listener().OnResponse(*slot.instance, *slot.request, std::move(response), true, times);
  }
  for (Unstarted& each : std::exchange(unstarted_, {}))
    listener().OnUnstarted(*each.instance, std::move(each.executions));
}

std::string ExecutionsInFlight::RequestsNow() {
  std::string ids;
  if (link_.channel == nullptr) return ids;
  MutexLock lock(mutex_);
  // With several begun executions, a message could be about each of them.
  const uint64_t begun = link_.channel->header().begun_execution.load(std::memory_order_acquire);
  if (std::ranges::count_if(running_, [begun](const Running& each) { return each.id <= begun; }) != 1)
    return ids;
  for (const uint32_t slot : running_.front().slots) {
    const auto& request = slots_[slot].request;
    if (request != nullptr && !request->id.empty()) ids += (ids.empty() ? "" : ", ") + request->id;
  }
  return ids;
}

}  // namespace braid
