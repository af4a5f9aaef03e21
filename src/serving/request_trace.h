// RequestTrace: what is recorded of one request that was chosen to be traced.
//
// Implemented by the tracer. A request carries one or none; whoever passes it through a stage records the
// time. The trace ends, and is written out, when its last holder lets go.
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
  // The protocol's part, before and after.
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

  // Any thread. `ns` is SteadyNowNs(). What is recorded again replaces what was there.
  virtual void Record(TraceActivity activity, int64_t ns) = 0;
  // Whether the contents of tensors are to be recorded as well.
  virtual bool wants_tensors() const = 0;
  virtual void RecordTensor(TraceTensorKind kind, const Tensor& tensor, int64_t ns) = 0;
  // The trace of a request that is made on behalf of this one: an ensemble's step, a call of user code.
  virtual std::shared_ptr<RequestTrace> StartChild(std::string_view model, int64_t version) = 0;
  // JSON text with the W3C trace context ("traceparent"), for user code; "" when there is none.
  virtual std::string context() const = 0;
};

}  // namespace braid
