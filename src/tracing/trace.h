// Trace: the RequestTrace of a traced request or of one of its children. All traces of one request form a
// tree. When the last of them ends, the whole tree goes to the queue if it was sampled, and to the
// SlowTraceBook if its model is watched.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "serving/request_trace.h"
#include "tracing/finished_trace.h"
#include "tracing/slow_trace_book.h"
#include "tracing/trace_queue.h"

namespace braid {

// Unique ids: trace ids that count up, and random ids for OpenTelemetry. Thread-safe.
class TraceIds {
 public:
  TraceIds();
  uint64_t NextId() { return next_.fetch_add(1, std::memory_order_relaxed); }
  // Never 0.
  uint64_t Random();

 private:
  std::atomic<uint64_t> next_{1};
  std::atomic<uint64_t> state_;
};

class TraceTree {
 public:
  // Further children are not traced, for example of a model that calls others in a loop.
  static constexpr size_t kMostRecords = 4096;

  // The destinations; at least one is set.
  struct Goals {
    std::shared_ptr<TraceQueue> queue = {};    // shared: a trace may outlive the tracer
    std::shared_ptr<SlowTraceBook> slow = {};  // the same
  };
  // `facts` has all members but the records. `ids` is shared with the tracer.
  TraceTree(Goals goals, std::shared_ptr<TraceIds> ids, FinishedTrace facts, bool tensors, bool opentelemetry)
      : goals_(std::move(goals)),
        ids_(std::move(ids)),
        finished_(std::move(facts)),
        tensors_(tensors),
        opentelemetry_(opentelemetry) {}
  // REQUIRES: every Trace of the tree has ended.
  ~TraceTree();

  // Reserves a place for one more record; returns false if there is none.
  bool Reserve() { return reserved_.fetch_add(1, std::memory_order_relaxed) < kMostRecords; }
  void Add(TraceRecord record);

  const FinishedTrace& facts() const { return finished_; }  // without records
  TraceIds& ids() { return *ids_; }
  bool tensors() const { return tensors_; }
  bool opentelemetry() const { return opentelemetry_; }

 private:
  const Goals goals_;
  const std::shared_ptr<TraceIds> ids_;
  Mutex mutex_;
  FinishedTrace finished_;  // its records are guarded by mutex_
  const bool tensors_;
  const bool opentelemetry_;
  std::atomic<size_t> reserved_{0};
};

class Trace final : public RequestTrace {
 public:
  static constexpr size_t kMostTensors = 256;
  static constexpr size_t kMostTensorBytes = 1 << 20;

  // REQUIRES: tree->Reserve() returned true. `record` identifies the request; its span ids are not set.
  Trace(std::shared_ptr<TraceTree> tree, TraceRecord record);
  ~Trace() override;

  void Record(TraceActivity activity, int64_t ns) override;
  bool wants_tensors() const override { return tree_->tensors(); }
  void RecordTensor(TraceTensorKind kind, const Tensor& tensor, int64_t ns) override;
  std::shared_ptr<RequestTrace> StartChild(std::string_view model, int64_t version) override;
  std::string context() const override;

 private:
  const std::shared_ptr<TraceTree> tree_;  // shared by all traces of one request
  mutable Mutex mutex_;
  TraceRecord record_;  // guarded by mutex_; its ids and names are constant
};

}  // namespace braid
