#include "tracing/slow_trace_book.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace braid {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;

int64_t BeginOf(const TraceRecord& record) {
  const int64_t received = record.time(TraceActivity::kReceiveStart);
  return received != 0 ? received : record.time(TraceActivity::kRequestStart);
}

int64_t EndOf(const TraceRecord& record) {
  return std::max(record.time(TraceActivity::kRequestEnd), record.time(TraceActivity::kSendEnd));
}

int64_t DurationUs(const TraceRecord& record) {
  return std::max<int64_t>(0, EndOf(record) - BeginOf(record)) / 1000;
}

// Builds the spans of one trace, record by record. A caller's record comes before those of its calls.
class SpanBuilder {
 public:
  explicit SpanBuilder(const FinishedTrace& trace) : begin_ns_(BeginOf(trace.records.front())) {
    for (const TraceRecord& record : trace.records) Add(record);
  }

  std::vector<TraceSpan> Take() { return std::move(spans_); }

 private:
  // The spans of a record under which its calls are placed.
  struct Place {
    int32_t request = -1;
    int32_t infer = -1;
    int64_t infer_begin_ns = 0;
    int64_t infer_end_ns = 0;
  };

  void Add(const TraceRecord& record) {
    const auto room = SlowTraceBook::kMostSpans - spans_.size();
    if (room < kMostOfARecord) return;
    const int64_t begin = BeginOf(record);
    const int64_t end = EndOf(record);
    Place place;
    place.request = AddSpan(record.model, ParentOf(record, begin), begin, end);
    AddPart("receive", record, TraceActivity::kReceiveStart, TraceActivity::kReceiveEnd, place);
    const int64_t queued = record.time(TraceActivity::kQueueStart);
    const int64_t compute = record.time(TraceActivity::kComputeStart);
    if (queued != 0) AddSpan("queue", place.request, queued, compute != 0 ? compute : end);
    AddPart("compute_input", record, TraceActivity::kComputeStart, TraceActivity::kComputeInputEnd, place);
    const int64_t infer = record.time(TraceActivity::kComputeInputEnd);
    if (infer != 0) {
      const int64_t infer_end = record.time(TraceActivity::kComputeOutputStart);
      place.infer_begin_ns = infer;
      place.infer_end_ns = infer_end != 0 ? infer_end : end;
      place.infer = AddSpan("compute_infer", place.request, infer, place.infer_end_ns);
    }
    AddPart("compute_output", record, TraceActivity::kComputeOutputStart, TraceActivity::kComputeEnd, place);
    AddPart("send", record, TraceActivity::kSendStart, TraceActivity::kSendEnd, place);
    places_.emplace(record.id, place);
  }

  int32_t ParentOf(const TraceRecord& record, int64_t begin_ns) const {
    const auto caller = places_.find(record.parent_id);
    if (caller == places_.end()) return spans_.empty() ? -1 : 0;
    const Place& place = caller->second;
    const bool within =
        place.infer >= 0 && begin_ns >= place.infer_begin_ns && begin_ns <= place.infer_end_ns;
    return within ? place.infer : place.request;
  }

  void AddPart(const char* name, const TraceRecord& record, TraceActivity begin, TraceActivity end,
               const Place& place) {
    if (record.time(begin) == 0) return;
    AddSpan(name, place.request, record.time(begin), record.time(end));
  }

  int32_t AddSpan(std::string name, int32_t parent, int64_t begin_ns, int64_t end_ns) {
    TraceSpan& span = spans_.emplace_back();
    span.name = std::move(name);
    span.parent = parent;
    span.start_us = (begin_ns - begin_ns_) / 1000;
    span.duration_us = std::max<int64_t>(0, end_ns - begin_ns) / 1000;
    return static_cast<int32_t>(spans_.size() - 1);
  }

  static constexpr size_t kMostOfARecord = 7;

  const int64_t begin_ns_;
  std::vector<TraceSpan> spans_;
  std::unordered_map<uint64_t, Place> places_;  // by record id
};

}  // namespace

SlowTrace MakeSlowTrace(const FinishedTrace& trace) {
  const TraceRecord& first = trace.records.front();
  SlowTrace slow;
  slow.id = std::to_string(first.id);
  slow.model = first.model;
  slow.version = first.version;
  slow.request_id = first.request_id;
  slow.start_ms = (BeginOf(first) + trace.wall_offset_ns) / 1'000'000;
  slow.duration_us = DurationUs(first);
  slow.spans = SpanBuilder(trace).Take();
  return slow;
}

Status SlowTraceBook::Watch(const std::string& model, int64_t seconds) {
  if (seconds < 0 || seconds > kMostSeconds) {
    return InvalidArgumentError("expected 0 to " + std::to_string(kMostSeconds) +
                                " seconds to watch a model, got " + std::to_string(seconds));
  }
  const int64_t now = now_ns_();
  MutexLock lock(mutex_);
  auto found = models_.find(model);
  if (found == models_.end()) {
    if (seconds == 0) return OkStatus();
    if (!MakeRoom(now)) {
      return ResourceExhaustedError(std::to_string(kMostModels) +
                                    " models are already watched; stop watching one of them");
    }
    found = models_.try_emplace(model).first;
  }
  Model& watched = found->second;
  if (seconds > 0 && watched.until_ns <= now) watched.slowest.clear();
  watched.until_ns = now + seconds * kNsPerSecond;
  int64_t last = 0;
  for (const auto& [name, other] : models_) last = std::max(last, other.until_ns);
  last_until_ns_.store(last, std::memory_order_relaxed);
  return OkStatus();
}

bool SlowTraceBook::MakeRoom(int64_t now_ns) {
  if (models_.size() < kMostModels) return true;
  const auto first = std::min_element(models_.begin(), models_.end(), [](const auto& a, const auto& b) {
    return a.second.until_ns < b.second.until_ns;
  });
  if (first->second.until_ns > now_ns) return false;
  models_.erase(first);
  return true;
}

int64_t SlowTraceBook::WatchedFor(const std::string& model) const {
  const int64_t now = now_ns_();
  MutexLock lock(mutex_);
  const auto found = models_.find(model);
  if (found == models_.end() || found->second.until_ns <= now) return 0;
  return (found->second.until_ns - now + kNsPerSecond - 1) / kNsPerSecond;
}

std::vector<SlowTrace> SlowTraceBook::Slowest(const std::string& model) const {
  MutexLock lock(mutex_);
  const auto found = models_.find(model);
  return found == models_.end() ? std::vector<SlowTrace>() : found->second.slowest;
}

bool SlowTraceBook::active() const {
  const int64_t last = last_until_ns_.load(std::memory_order_relaxed);
  return last != 0 && now_ns_() < last;
}

bool SlowTraceBook::Watches(std::string_view model) const {
  if (!active()) return false;
  const int64_t now = now_ns_();
  MutexLock lock(mutex_);
  const auto found = models_.find(model);
  return found != models_.end() && now < found->second.until_ns;
}

bool SlowTraceBook::Wants(const Model& model, int64_t duration_us) const {
  return model.slowest.size() < kKept || model.slowest.back().duration_us < duration_us;
}

void SlowTraceBook::Add(const FinishedTrace& trace) {
  if (trace.records.empty()) return;
  const TraceRecord& first = trace.records.front();
  {
    MutexLock lock(mutex_);
    const auto found = models_.find(first.model);
    if (found == models_.end() || !Wants(found->second, DurationUs(first))) return;
  }
  SlowTrace slow = MakeSlowTrace(trace);
  SlowTrace dropped;  // destroyed without the lock
  MutexLock lock(mutex_);
  const auto found = models_.find(first.model);
  if (found == models_.end() || !Wants(found->second, slow.duration_us)) return;
  std::vector<SlowTrace>& slowest = found->second.slowest;
  if (slowest.size() == kKept) {
    dropped = std::move(slowest.back());
    slowest.pop_back();
  }
  const auto behind =
      std::upper_bound(slowest.begin(), slowest.end(), slow,
                       [](const SlowTrace& a, const SlowTrace& b) { return a.duration_us > b.duration_us; });
  slowest.insert(behind, std::move(slow));
  lock.Unlock();
}

}  // namespace braid
