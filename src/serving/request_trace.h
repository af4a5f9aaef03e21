// RequestTrace: the record of one request that is traced.
//
// Implemented by the tracer. A request carries at most one, and each stage records its times in it. The trace
// ends, and is written out, when its last owner releases it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tensor/tensor.h"

namespace braid {

enum class TraceActivity : unsigned char {
  kRequestStart,
  kQueueStart,
  kComputeStart,
  kComputeInputEnd,
  kComputeOutputStart,
  kComputeEnd,
  kRequestEnd,
  // Recorded by the protocol, before and after the stages above.
  kReceiveStart,
  kReceiveEnd,
  kSendStart,
  kSendEnd,
};
inline constexpr int kTraceActivityCount = 11;

enum class TraceTensorKind : unsigned char { kQueueInput, kBackendInput, kBackendOutput };

class RequestTrace {
 public:
  virtual ~RequestTrace() = default;

  // Records a time; `ns` is SteadyNowNs(). A second time for an activity replaces the first. Any thread.
  virtual void Record(TraceActivity activity, int64_t ns) = 0;
  // Whether to record the contents of tensors too.
  virtual bool wants_tensors() const = 0;
  virtual void RecordTensor(TraceTensorKind kind, const Tensor& tensor, int64_t ns) = 0;
  // Returns the trace of a request made on behalf of this one: a step of an ensemble, or a call of user code.
  virtual std::shared_ptr<RequestTrace> StartChild(std::string_view model, int64_t version) = 0;
  // Returns JSON text with the W3C trace context ("traceparent"), for user code; "" if there is none.
  virtual std::string context() const = 0;
};

}  // namespace braid
