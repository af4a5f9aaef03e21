#include "sequences/per_key_queue.h"

#include <utility>

#include "base/check.h"

namespace braid {

PerKeyQueue::~PerKeyQueue() { BRAID_CHECK(queues_.empty()); }

PerKeyEntry* PerKeyQueue::Last(uint64_t id) const {
  const auto queue = queues_.find(id);
  return queue == queues_.end() ? nullptr : queue->second.back().get();
}

PerKeyEntry& PerKeyQueue::Enter(uint64_t id, std::unique_ptr<PerKeyEntry> entry) {
  Entries& entries = queues_[id];
  PerKeyEntry& entered = *entry;
  entered.id_ = id;
  entered.self_ = entries.insert(entries.end(), std::move(entry));
  ++size_;
  return entered;
}

PerKeyQueue::Runnable PerKeyQueue::Ready(PerKeyEntry& entry, std::unique_ptr<InferenceRequest> request) {
  BRAID_CHECK(!entry.ready_);
  entry.ready_ = true;
  if (IsFirst(entry)) return {&entry, std::move(request)};
  request->scheduling.queued = true;
  request->scheduling.entry = &entry;
  entry.request_ = std::move(request);
  ++waiting_;
  return {};
}

PerKeyQueue::Runnable PerKeyQueue::Abandon(PerKeyEntry& entry) {
  BRAID_CHECK(!entry.ready_);
  entry.ready_ = true;
  return IsFirst(entry) ? Runnable{&entry, nullptr} : Runnable{};
}

PerKeyQueue::Runnable PerKeyQueue::Leave(PerKeyEntry& entry) {
  BRAID_CHECK(entry.request_ == nullptr);
  const auto queue = queues_.find(entry.id_);
  Entries& entries = queue->second;
  const bool first = IsFirst(entry);
  entries.erase(entry.self_);
  --size_;
  if (entries.empty()) {
    queues_.erase(queue);
    return {};
  }
  return first ? Next(entries) : Runnable{};
}

std::unique_ptr<InferenceRequest> PerKeyQueue::Withdraw(PerKeyEntry& entry) {
  BRAID_CHECK(entry.request_ != nullptr);
  entry.ready_ = false;
  entry.request_->scheduling.queued = false;
  entry.request_->scheduling.entry = nullptr;
  entry.request_->scheduling.waiting_call.reset();
  --waiting_;
  return std::move(entry.request_);
}

std::vector<PerKeyEntry*> PerKeyQueue::Waiting() const {
  std::vector<PerKeyEntry*> waiting;
  waiting.reserve(waiting_);
  for (const auto& [id, entries] : queues_) {
    for (const auto& entry : entries) {
      if (entry->request_ != nullptr) waiting.push_back(entry.get());
    }
  }
  return waiting;
}

bool PerKeyQueue::IsFirst(const PerKeyEntry& entry) const {
  return queues_.at(entry.id_).front().get() == &entry;
}

PerKeyQueue::Runnable PerKeyQueue::Next(const Entries& entries) {
  PerKeyEntry& first = *entries.front();
  if (!first.ready_) return {};
  if (first.request_ == nullptr) return {&first, nullptr};
  auto request = Withdraw(first);
  first.ready_ = true;
  return {&first, std::move(request)};
}

}  // namespace braid
