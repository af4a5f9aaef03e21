// How often each API asked a servable for something, and how it ended: the numbers of the ovms_* metrics that
// are per API. Counted by protocols when they answer. Atomics alone; any thread.
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
  uint64_t success(ApiCall call) const { return success_[call.index()].load(std::memory_order_relaxed); }
  uint64_t fail(ApiCall call) const { return fail_[call.index()].load(std::memory_order_relaxed); }

 private:
  std::array<std::atomic<uint64_t>, ApiCall::kCount> success_{};
  std::array<std::atomic<uint64_t>, ApiCall::kCount> fail_{};
};

}  // namespace braid
