// Counters of calls and their outcomes, one set for each servable. They feed the ovms_* metrics that are
// split by API. Protocols count a call when they answer it. All members are atomic: any thread may use them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace braid {

enum class ApiProtocol : unsigned char { kKServe, kTensorFlowServing };
enum class ApiInterface : unsigned char { kGrpc, kRest };
enum class ApiMethod : unsigned char {
  kModelInfer,
  kModelInferStream,
  kModelMetadata,
  kModelReady,
  kPredict,
  kGetModelStatus,
  kGetModelMetadata,
};
inline constexpr size_t kApiProtocolCount = 2;
inline constexpr size_t kApiInterfaceCount = 2;
inline constexpr size_t kApiMethodCount = 7;

struct ApiCall {
  ApiProtocol protocol = ApiProtocol::kKServe;
  ApiInterface interface = ApiInterface::kGrpc;
  ApiMethod method = ApiMethod::kModelInfer;

  static constexpr size_t kCount = kApiProtocolCount * kApiInterfaceCount * kApiMethodCount;
  size_t index() const {
    return (static_cast<size_t>(protocol) * kApiInterfaceCount + static_cast<size_t>(interface)) *
               kApiMethodCount +
           static_cast<size_t>(method);
  }
};

class ApiCounters {
 public:
  void Count(ApiCall call, bool good) {
    (good ? success_ : fail_)[call.index()].fetch_add(1, std::memory_order_relaxed);
  }
  // Counts a call that a protocol refused before the servable saw it.
  void CountRefused(ApiCall call) {
    Count(call, false);
    CountRequest(call, false);
  }
  uint64_t success(ApiCall call) const { return success_[call.index()].load(std::memory_order_relaxed); }
  uint64_t fail(ApiCall call) const { return fail_[call.index()].load(std::memory_order_relaxed); }

  // For graphs, where one call can have many requests and responses. Counts whether a run accepted a request.
  // Counted when requests are answered, not by servables.
  void CountRequest(ApiCall call, bool accepted) {
    (accepted ? accepted_ : rejected_)[call.index()].fetch_add(1, std::memory_order_relaxed);
  }
  void CountResponse(ApiCall call) { responses_[call.index()].fetch_add(1, std::memory_order_relaxed); }
  uint64_t accepted(ApiCall call) const { return accepted_[call.index()].load(std::memory_order_relaxed); }
  uint64_t rejected(ApiCall call) const { return rejected_[call.index()].load(std::memory_order_relaxed); }
  uint64_t responses(ApiCall call) const { return responses_[call.index()].load(std::memory_order_relaxed); }

  // Called by the servable when a run of a graph begins and ends. `good` is false after a fault of the graph.
  // See also ModelStatistics::RecordGraphRun().
  void GraphBegan() { current_graphs_.fetch_add(1, std::memory_order_relaxed); }
  void GraphEnded(bool good) {
    current_graphs_.fetch_sub(1, std::memory_order_relaxed);
    if (!good) graph_errors_.fetch_add(1, std::memory_order_relaxed);
  }
  int64_t current_graphs() const { return current_graphs_.load(std::memory_order_relaxed); }
  uint64_t graph_errors() const { return graph_errors_.load(std::memory_order_relaxed); }

 private:
  using Counters = std::array<std::atomic<uint64_t>, ApiCall::kCount>;
  Counters success_{};
  Counters fail_{};
  Counters accepted_{};
  Counters rejected_{};
  Counters responses_{};
  std::atomic<int64_t> current_graphs_{0};
  std::atomic<uint64_t> graph_errors_{0};
};

}  // namespace braid
