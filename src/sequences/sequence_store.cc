#include "sequences/sequence_store.h"

#include <algorithm>

#include "base/clock.h"
#include "tensor/bytes_elements.h"

namespace braid {
namespace {

std::string Describe(DataType type, const Shape& shape) {
  return std::string(WireName(type)) + " " + ShapeToString(shape);
}

bool HasItsBytes(const Tensor& state) {
  const std::optional<int64_t> count = ElementCount(state.shape);
  if (!count) return false;
  if (state.type != DataType::kBytes) return ByteSize(state.type, state.shape) == state.data.size();
  BytesElements elements(state.data.text());
  int64_t found = 0;
  while (elements.Next()) ++found;
  return !elements.truncated() && found == *count;
}

}  // namespace

SequenceStore::SequenceStore(Options options) : options_(std::move(options)) {}

uint64_t SequenceStore::Begin(const CorrelationId& id) {
  MutexLock lock(mutex_);
  const uint64_t number = ++last_number_;
  Entry& entry = entries_[number];
  entry.id = id;
  entry.begun_ns = entry.used_ns = SteadyNowNs();
  entry.states = options_.initial;
  ++counts_.started;
  return number;
}

void SequenceStore::End(uint64_t number, Reason reason) {
  decltype(entries_)::node_type gone;  // destroyed after the lock is released
  MutexLock lock(mutex_);
  gone = entries_.extract(number);
  if (gone.empty()) return;
  if (reason == Reason::kEnded) ++counts_.ended;
  if (reason == Reason::kExpired) ++counts_.expired;
  if (reason == Reason::kLost) ++counts_.lost;
  if (gone.mapped().saved()) Changed();
}

void SequenceStore::SetEnding(uint64_t number, bool ending) {
  MutexLock lock(mutex_);
  const auto found = entries_.find(number);
  if (found == entries_.end() || found->second.ending == ending) return;
  found->second.ending = ending;
  if (found->second.has_run) Changed();
}

void SequenceStore::CountRejected() {
  MutexLock lock(mutex_);
  ++counts_.rejected;
}

SequenceStore::States SequenceStore::Get(uint64_t number) const {
  MutexLock lock(mutex_);
  const auto found = entries_.find(number);
  return found == entries_.end() ? nullptr : found->second.states;
}

void SequenceStore::Put(uint64_t number, std::vector<Tensor> states, bool settled) {
  States before;  // these two are destroyed after the lock is released
  States settled_before;
  auto now = std::make_shared<const std::vector<Tensor>>(std::move(states));
  MutexLock lock(mutex_);
  const auto found = entries_.find(number);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  before = std::exchange(entry.states, std::move(now));
  if (!settled) return;
  settled_before = std::exchange(entry.settled, entry.states);
  entry.has_run = true;
  entry.used_ns = SteadyNowNs();
  ++entry.steps;
  if (entry.saved()) Changed();
}

void SequenceStore::Settle(uint64_t number) {
  States before;  // destroyed after the lock is released
  MutexLock lock(mutex_);
  const auto found = entries_.find(number);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  if (entry.has_run && entry.settled == entry.states) return;
  before = std::exchange(entry.settled, entry.states);
  entry.has_run = true;
  if (entry.saved()) Changed();
}

std::optional<SequenceStore::Mark> SequenceStore::MarkOf(uint64_t number) const {
  MutexLock lock(mutex_);
  const auto found = entries_.find(number);
  if (found == entries_.end() || !found->second.has_run) return std::nullopt;
  return Mark{number, found->second.steps, found->second.settled};
}

void SequenceStore::TakeBack(const Mark& mark, uint64_t steps) {
  States before;  // these two are destroyed after the lock is released
  States settled_before;
  MutexLock lock(mutex_);
  const auto found = entries_.find(mark.number);
  if (found == entries_.end() || found->second.steps != mark.steps + steps) return;
  Entry& entry = found->second;
  before = std::exchange(entry.states, mark.states);
  settled_before = std::exchange(entry.settled, mark.states);
  entry.steps = mark.steps;
  if (entry.saved()) Changed();
}

std::optional<SequenceStore::Held> SequenceStore::Look(uint64_t number) const {
  MutexLock lock(mutex_);
  const auto found = entries_.find(number);
  if (found == entries_.end()) return std::nullopt;
  return Held{found->second.states, found->second.lease};
}

void SequenceStore::SetLease(uint64_t number, const OwnershipLease& lease) {
  MutexLock lock(mutex_);
  const auto found = entries_.find(number);
  if (found != entries_.end()) found->second.lease = lease;
}

void SequenceStore::PutBack(uint64_t number, const Held& held) {
  States before;  // these two are destroyed after the lock is released
  States settled_before;
  MutexLock lock(mutex_);
  const auto found = entries_.find(number);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  before = std::exchange(entry.states, held.states);
  settled_before = std::exchange(entry.settled, held.states);
  entry.lease = held.lease;
  if (entry.saved()) Changed();
}

bool SequenceStore::HasRun(uint64_t number) const {
  MutexLock lock(mutex_);
  const auto found = entries_.find(number);
  return found != entries_.end() && found->second.has_run;
}

Status SequenceStore::Check(std::span<const Tensor> states) const {
  if (states.size() != options_.states.size()) {
    return InternalError("there are " + std::to_string(states.size()) + " states, but the model has " +
                         std::to_string(options_.states.size()));
  }
  for (size_t i = 0; i < states.size(); ++i) {
    const StateSpec& spec = options_.states[i];
    const Tensor& state = states[i];
    const bool negative =
        std::any_of(state.shape.begin(), state.shape.end(), [](int64_t size) { return size < 0; });
    if (state.type != spec.type || negative || !ShapeMatches(spec.shape, state.shape)) {
      return InternalError("state '" + spec.name + "' is " + Describe(state.type, state.shape) +
                           ", but the model has " + Describe(spec.type, spec.shape));
    }
    if (!HasItsBytes(state)) {
      return InternalError("state '" + spec.name + "' has " + std::to_string(state.data.size()) +
                           " bytes, which does not match " + Describe(state.type, state.shape));
    }
  }
  return OkStatus();
}

uint64_t SequenceStore::Restore(SavedSequence saved) {
  if (!Check(saved.states).ok()) return 0;
  for (size_t i = 0; i < saved.states.size(); ++i) {
    if (saved.states[i].name != options_.states[i].name) return 0;
  }
  auto states = std::make_shared<const std::vector<Tensor>>(std::move(saved.states));
  MutexLock lock(mutex_);
  const uint64_t number = ++last_number_;
  Entry& entry = entries_[number];
  entry.id = std::move(saved.id);
  entry.lease = saved.lease;
  entry.begun_ns = SteadyNowNs();
  entry.used_ns = saved.used_ns == 0 ? entry.begun_ns : saved.used_ns;
  entry.states = states;
  entry.settled = std::move(states);
  entry.has_run = true;
  ++counts_.restored;
  Changed();
  return number;
}

SequenceCounts SequenceStore::counts() const {
  MutexLock lock(mutex_);
  SequenceCounts counts = counts_;
  counts.active = entries_.size();
  return counts;
}

std::vector<SequenceReport> SequenceStore::List(size_t most) const {
  const int64_t now_ns = SteadyNowNs();
  MutexLock lock(mutex_);
  std::vector<std::pair<uint64_t, const Entry*>> oldest;
  oldest.reserve(entries_.size());
  for (const auto& [number, entry] : entries_) oldest.emplace_back(number, &entry);
  most = std::min(most, oldest.size());
  std::partial_sort(oldest.begin(), oldest.begin() + static_cast<std::ptrdiff_t>(most), oldest.end());
  std::vector<SequenceReport> reports;
  reports.reserve(most);
  for (size_t i = 0; i < most; ++i) {
    const Entry& entry = *oldest[i].second;
    reports.push_back({entry.id, now_ns - entry.begun_ns, now_ns - entry.used_ns, entry.steps});
  }
  return reports;
}

std::vector<SavedSequence> SequenceStore::Save() const {
  // Only references are collected under the lock, so that requests continue soon; the states are copied
  // afterwards.
  struct OfEntry {
    uint64_t number;
    CorrelationId id;
    States states;
    OwnershipLease lease;
    int64_t used_ns;
  };
  std::vector<OfEntry> held;
  {
    MutexLock lock(mutex_);
    held.reserve(entries_.size());
    for (const auto& [number, entry] : entries_) {
      if (entry.saved()) held.push_back({number, entry.id, entry.settled, entry.lease, entry.used_ns});
    }
  }
  std::sort(held.begin(), held.end(), [](const OfEntry& a, const OfEntry& b) { return a.number < b.number; });
  std::vector<SavedSequence> saved;
  saved.reserve(held.size());
  for (OfEntry& one : held) {
    saved.push_back({std::move(one.id), one.states == nullptr ? std::vector<Tensor>() : *one.states,
                     one.lease, one.used_ns});
  }
  return saved;
}

}  // namespace braid
