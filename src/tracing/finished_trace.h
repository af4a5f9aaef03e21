// What is left of a traced request and of all that was done on its behalf, ready to be written out.
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

// A tensor's contents at a moment. They are copies: user code may write to its inputs.
struct TracedTensor {
  TraceTensorKind kind = TraceTensorKind::kQueueInput;
  int64_t ns = 0;
  std::string name;
  DataType type = DataType::kInvalid;
  Shape shape;
  std::vector<std::byte> bytes;
  bool truncated = false;  // only the first bytes are here
};

// One request: the one that was sampled, or one that an ensemble or a model made for it.
struct TraceRecord {
  uint64_t id = 0;
  uint64_t parent_id = 0;  // 0: none
  std::string model;
  int64_t version = 0;
  std::string request_id;
  std::array<int64_t, kTraceActivityCount> times{};  // by TraceActivity; 0: did not happen
  std::vector<TracedTensor> tensors;
  // OpenTelemetry's names of its spans, and the span that they belong under.
  uint64_t span = 0;
  uint64_t queue_span = 0;
  uint64_t compute_span = 0;
  uint64_t parent_span = 0;

  int64_t time(TraceActivity activity) const { return times[static_cast<size_t>(activity)]; }
};

struct FinishedTrace {
  TraceProtocol protocol = TraceProtocol::kHttp;
  uint64_t scope = 0;  // of the settings that it was sampled by
  uint32_t log_frequency = 0;
  bool timestamps = true;  // whether they are wanted in a file, or tensors alone
  bool last = false;       // no more traces are taken by these settings
  // OpenTelemetry: 128 bits of trace, the span around all records, and the span of the client's, if any.
  uint64_t trace_id[2] = {};
  uint64_t root_span = 0;
  uint64_t remote_span = 0;
  std::string tracestate;
  int64_t wall_offset_ns = 0;        // what makes steady times nanoseconds since 1970
  std::vector<TraceRecord> records;  // by id: the sampled request is the first
};

// "HTTP_RECV_START", "GRPC_WAITREAD_START", "REQUEST_START", ...
std::string_view TraceActivityName(TraceActivity activity, TraceProtocol protocol);
// "TENSOR_QUEUE_INPUT" and the like.
std::string_view TraceTensorKindName(TraceTensorKind kind);
// The elements as a list parted by commas; texts in quotation marks. Whole elements alone.
std::string TensorText(const TracedTensor& tensor);
// "1,16".
std::string ShapeText(const Shape& shape);

}  // namespace braid
