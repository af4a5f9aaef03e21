#include "tracing/trace.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <random>

#include "base/clock.h"
#include "base/json.h"

namespace braid {

TraceIds::TraceIds() : state_((uint64_t{std::random_device{}()} << 32) ^ std::random_device{}()) {}

uint64_t TraceIds::Random() {
  // SplitMix64: its sequence has no repetitions from any start.
  while (true) {
    uint64_t z = state_.fetch_add(0x9e3779b97f4a7c15, std::memory_order_relaxed);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
    if (z != 0) return z;
  }
}

TraceTree::~TraceTree() {
  std::sort(finished_.records.begin(), finished_.records.end(),
            [](const TraceRecord& a, const TraceRecord& b) { return a.id < b.id; });
  if (goals_.slow) goals_.slow->Add(finished_);
  if (goals_.queue) goals_.queue->Push(std::move(finished_));
}

void TraceTree::Add(TraceRecord record) {
  MutexLock lock(mutex_);
  finished_.records.push_back(std::move(record));
}

Trace::Trace(std::shared_ptr<TraceTree> tree, TraceRecord record)
    : tree_(std::move(tree)), record_(std::move(record)) {
  if (!tree_->opentelemetry()) return;
  record_.span = tree_->ids().Random();
  record_.queue_span = tree_->ids().Random();
  record_.compute_span = tree_->ids().Random();
}

Trace::~Trace() {
  int64_t& end = record_.times[static_cast<size_t>(TraceActivity::kRequestEnd)];
  // Without an explicit end, the last release ends the request.
  if (end == 0) end = SteadyNowNs();
  tree_->Add(std::move(record_));
}

void Trace::Record(TraceActivity activity, int64_t ns) {
  MutexLock lock(mutex_);
  record_.times[static_cast<size_t>(activity)] = ns;
}

void Trace::RecordTensor(TraceTensorKind kind, const Tensor& tensor, int64_t ns) {
  TracedTensor traced;
  traced.kind = kind;
  traced.ns = ns;
  traced.name = tensor.name;
  traced.type = tensor.type;
  traced.shape = tensor.shape;
  const size_t size = tensor.data.on_device() ? 0 : std::min(tensor.data.size(), kMostTensorBytes);
  traced.bytes.assign(tensor.data.data(), tensor.data.data() + size);
  traced.truncated = size < tensor.data.size();
  MutexLock lock(mutex_);
  if (record_.tensors.size() < kMostTensors) record_.tensors.push_back(std::move(traced));
}

std::shared_ptr<RequestTrace> Trace::StartChild(std::string_view model, int64_t version) {
  if (!tree_->Reserve()) return nullptr;
  TraceRecord child;
  child.id = tree_->ids().NextId();
  child.model = model;
  child.version = version;
  child.times[static_cast<size_t>(TraceActivity::kRequestStart)] = SteadyNowNs();
  {
    MutexLock lock(mutex_);
    child.parent_id = record_.id;
    child.request_id = record_.request_id;
    // Calls by user code are placed under its execution. The steps of an ensemble, which has no execution,
    // are placed under its request.
    child.parent_span = record_.time(TraceActivity::kComputeStart) != 0 ? record_.compute_span : record_.span;
  }
  return std::make_shared<Trace>(tree_, std::move(child));
}

std::string Trace::context() const {
  if (!tree_->opentelemetry()) return "";
  const FinishedTrace& facts = tree_->facts();
  Json context;
  context["traceparent"] =
      fmt::format("00-{:016x}{:016x}-{:016x}-01", facts.trace_id[0], facts.trace_id[1], record_.compute_span);
  if (!facts.tracestate.empty()) context["tracestate"] = facts.tracestate;
  return DumpJson(context);
}

}  // namespace braid
