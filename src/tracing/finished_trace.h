// FinishedTrace: the records of a traced request and of all requests made for it, ready to be written.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "serving/request_trace.h"
#include "serving/tracer.h"
#include "tensor/tensor.h"

namespace braid {

// A tensor's contents at one time, copied because user code may write to its inputs.
struct TracedTensor {
  TraceTensorKind kind = TraceTensorKind::kQueueInput;
  int64_t ns = 0;
  std::string name;
  DataType type = DataType::kInvalid;
  Shape shape;
  std::vector<std::byte> bytes;
  bool truncated = false;  // only the first bytes are kept
};

// One request: the sampled one, or one that an ensemble or a model made for it.
struct TraceRecord {
  uint64_t id = 0;
  uint64_t parent_id = 0;  // 0: none
  std::string model;
  int64_t version = 0;
  std::string request_id;
  std::array<int64_t, kTraceActivityCount> times{};  // by TraceActivity; 0: did not happen
  std::vector<TracedTensor> tensors;
  // OpenTelemetry's ids of its spans and of their parent span.
  uint64_t span = 0;
  uint64_t queue_span = 0;
  uint64_t compute_span = 0;
  uint64_t parent_span = 0;

  int64_t time(TraceActivity activity) const { return times[static_cast<size_t>(activity)]; }
};

struct FinishedTrace {
  TraceProtocol protocol = TraceProtocol::kHttp;
  uint64_t scope = 0;  // the settings that sampled it
  uint32_t log_frequency = 0;
  bool timestamps = true;  // whether the file gets timestamps, or only tensors
  bool last = false;       // these settings sample no further traces
  // OpenTelemetry: the 128-bit trace id, the span around all records, and the client's span, if any.
  uint64_t trace_id[2] = {};
  uint64_t root_span = 0;
  uint64_t remote_span = 0;
  std::string tracestate;
  int64_t wall_offset_ns = 0;        // added to steady times, it gives nanoseconds since 1970
  std::vector<TraceRecord> records;  // by id: the sampled request is the first
};

// Returns "HTTP_RECV_START", "GRPC_WAITREAD_START", "REQUEST_START", ...
std::string_view TraceActivityName(TraceActivity activity, TraceProtocol protocol);
// Returns "TENSOR_QUEUE_INPUT" and the like.
std::string_view TraceTensorKindName(TraceTensorKind kind);
// Returns the elements separated by commas, with texts in quotation marks. A truncated last element is left
// out.
std::string TensorText(const TracedTensor& tensor);
// Returns "1,16".
std::string ShapeText(const Shape& shape);

}  // namespace braid
