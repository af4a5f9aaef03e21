#include "scheduling/sequence_line.h"

#include <utility>

#include "base/check.h"

namespace braid {

SequenceLine::~SequenceLine() { BRAID_CHECK(lines_.empty()); }

SequencePlace* SequenceLine::Last(uint64_t id) const {
  const auto line = lines_.find(id);
  return line == lines_.end() ? nullptr : line->second.back().get();
}

SequencePlace& SequenceLine::Enter(uint64_t id, std::unique_ptr<SequencePlace> place) {
  Places& places = lines_[id];
  SequencePlace& entered = *place;
  entered.id_ = id;
  entered.self_ = places.insert(places.end(), std::move(place));
  ++places_;
  return entered;
}

SequenceLine::Turn SequenceLine::Ready(SequencePlace& place, std::unique_ptr<InferenceRequest> request) {
  BRAID_CHECK(!place.ready_);
  place.ready_ = true;
  if (IsFirst(place)) return {&place, std::move(request)};
  request->scheduling.queued = true;
  request->scheduling.place = &place;
  place.request_ = std::move(request);
  ++waiting_;
  return {};
}

SequenceLine::Turn SequenceLine::Abandon(SequencePlace& place) {
  BRAID_CHECK(!place.ready_);
  place.ready_ = true;
  return IsFirst(place) ? Turn{&place, nullptr} : Turn{};
}

SequenceLine::Turn SequenceLine::Leave(SequencePlace& place) {
  BRAID_CHECK(place.request_ == nullptr);
  const auto line = lines_.find(place.id_);
  Places& places = line->second;
  const bool first = IsFirst(place);
  places.erase(place.self_);
  --places_;
  if (places.empty()) {
    lines_.erase(line);
    return {};
  }
  return first ? Next(places) : Turn{};
}

std::unique_ptr<InferenceRequest> SequenceLine::Withdraw(SequencePlace& place) {
  BRAID_CHECK(place.request_ != nullptr);
  place.ready_ = false;
  place.request_->scheduling.queued = false;
  place.request_->scheduling.place = nullptr;
  place.request_->scheduling.waiting_call.reset();
  --waiting_;
  return std::move(place.request_);
}

std::vector<SequencePlace*> SequenceLine::Waiting() const {
  std::vector<SequencePlace*> waiting;
  waiting.reserve(waiting_);
  for (const auto& [id, places] : lines_) {
    for (const auto& place : places) {
      if (place->request_ != nullptr) waiting.push_back(place.get());
    }
  }
  return waiting;
}

bool SequenceLine::IsFirst(const SequencePlace& place) const {
  return lines_.at(place.id_).front().get() == &place;
}

SequenceLine::Turn SequenceLine::Next(const Places& places) {
  SequencePlace& first = *places.front();
  if (!first.ready_) return {};
  if (first.request_ == nullptr) return {&first, nullptr};
  auto request = Withdraw(first);
  first.ready_ = true;
  return {&first, std::move(request)};
}

}  // namespace braid
