// One inference request and the sink that takes its responses.
//
// A request has one owner at a time (the protocol while it reads it, the scheduler while it waits, an
// instance while it runs) and only its owner answers it. It ends exactly once: with the response that is
// marked final, which may be an error. A client that goes away does not answer; it marks the request's
// Cancellation, and the owner ends the request. An exception on the way unwinds the owner's stack and with it
// the request, whose destructor then ends it with an error.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "serving/api_counters.h"
#include "serving/call_chain.h"
#include "serving/cancellation.h"
#include "serving/input_limit.h"
#include "serving/parameters.h"
#include "serving/request_trace.h"
#include "tensor/tensor.h"

namespace braid {

struct InferenceResponse {
  // An error response carries no outputs.
  Status status;
  std::vector<Tensor> outputs;
  Parameters parameters;
  // Set by the servable that answers; empty for errors before one accepted the request.
  std::string model_name;
  int64_t model_version = 0;
};

// Takes the responses of one request. Implemented by protocols, and by whatever else asks for inference.
class ResponseSink {
 public:
  virtual ~ResponseSink() = default;

  // Called by the request's owner, never twice at the same time, on any thread; must not block. `response` is
  // empty only together with `final`: the request ends without one more response. After the call with `final`
  // the sink is not touched again, so it may delete itself in it. Buffers of the response may be kept as long
  // as they are needed. Does not throw: a response that cannot be passed on, for want of memory say, becomes
  // an error, or the end of the client's connection.
  virtual void Respond(std::optional<InferenceResponse> response, bool final) = 0;
};

// A sequence is named by a number or by a text; 0 and "" are none.
using CorrelationId = std::variant<uint64_t, std::string>;

class ServableHandle;
struct InferenceRequest;

// What has to be done with a request before its servable sees it, and may block, as copying its inputs from a device.
class AsyncPreparation {
 public:
  virtual ~AsyncPreparation() = default;
  // Does not block: it takes the request to another thread, where that is done, and begins it there (Servable::Begin()),
  // or refuses it.
  virtual void Take(std::unique_ptr<InferenceRequest> request) = 0;
};

class PerKeyEntry;

// Where the response of a request goes in the response cache.
struct CacheNotes {
  bool wanted = false;
  uint64_t key_low = 0;
  uint64_t key_high = 0;
  int64_t lookup_ns = 0;  // what it took to see that it is not there yet
};

// What the scheduler notes about a request that it has; guarded by the scheduler's lock, and of no interest
// to anybody else. Standing inside the request, it lets a request wait, leave from the middle of a queue and
// time out without an allocation.
struct SchedulerNotes {
  InferenceRequest* previous = nullptr;  // neighbours in the list in which it waits
  InferenceRequest* next = nullptr;
  int64_t deadline_ns = INT64_MAX;  // SteadyNowNs() when its time in the queue is over
  uint32_t deadline_index = 0;      // its place among the deadlines
  uint32_t level = 0;               // priority, 0 is the highest
  bool queued = false;
  PerKeyEntry* entry = nullptr;  // with which it waits in the queue of its sequence
  bool delayed = false;          // its time is over, and it waits behind the others of its level
  uint8_t returns = 0;           // how often an instance died before it began with the request
  bool counted = false;          // stands in the statistics already
  bool failed = false;           // an error was sent, and perhaps not the end
  // Says, while it exists, that the request waits: see CallGraph. Null for most.
  std::shared_ptr<const void> waiting_call;
  // How many responses were sent so far and when the last was, for decoupled models.
  uint32_t responses = 0;
  int64_t last_response_ns = 0;
  // Of models with sequences: the sequence by its number, which of its turns this request has, and how many
  // inputs and requested outputs are the client's own; the scheduler adds others behind them.
  uint64_t sequence = 0;
  uint32_t turn = 0;
  uint32_t own_inputs = 0;
  uint32_t own_outputs = 0;
  // What the client has asked for, while the backend is asked for everything.
  std::vector<std::string> wanted_outputs;
  CacheNotes cache;
};

struct InferenceRequest {
  InferenceRequest();
  // Ends the request if that has not been done.
  ~InferenceRequest();
  InferenceRequest(const InferenceRequest&) = delete;
  InferenceRequest& operator=(const InferenceRequest&) = delete;

  std::string id;
  std::string model_name;
  // -1: the version which the model's policy prefers.
  int64_t model_version = -1;

  CorrelationId correlation_id = uint64_t{0};
  bool sequence_start = false;
  bool sequence_end = false;
  // How many of the client's inputs have named its sequence and are not in `inputs` any more; see
  // serving/sequence_inputs.h.
  uint8_t sequence_inputs = 0;
  // What asked, when that is to be counted at the servable as the request ends; set by protocols for
  // servables of Dialect::kOvms. Its protocol also decides how texts spell precisions.
  std::optional<ApiCall> api;
  uint64_t priority = 0;    // 0: the model's default
  uint64_t timeout_us = 0;  // 0: none
  Parameters parameters;    // without the reserved ones above

  std::vector<Tensor> inputs;
  // Empty: all outputs of the model.
  std::vector<std::string> requested_outputs;
  // Those that may come as memory of a GPU (Buffer::on_device()), from servables whose ServableInfo says so.
  std::vector<std::string> device_outputs;

  // SteadyNowNs() when the request was read, and when it entered the queue of its scheduler.
  int64_t start_ns = 0;
  int64_t queue_start_ns = 0;
  // Rows: the size of the batch dimension; 1 for models without one. Set by CheckRequest().
  int64_t batch_size = 1;

  // Null when nobody can cancel.
  std::shared_ptr<Cancellation> cancellation;  // shared by the protocol's call and this
  // Null for requests that came from outside.
  std::shared_ptr<const CallChain> call_chain;
  // Null for requests that are not traced. Shared with the traces of its children.
  std::shared_ptr<RequestTrace> trace;
  // Not owned; see ResponseSink. Null once the final response was delivered.
  ResponseSink* sink = nullptr;
  // Whether the thread that brings the request may run it itself, see Execution::on_callers_thread: not when
  // it has other things to do.
  bool here = true;
  // Keeps the servable alive and not yet drained while the request runs.
  std::unique_ptr<ServableHandle> servable;
  // Null for most; gone once it was taken.
  std::unique_ptr<AsyncPreparation> preparation;
  // In what that servable has of inputs of clients' requests.
  InputShare input_share;

  SchedulerNotes scheduling;

  ApiProtocol protocol() const { return api ? api->protocol : ApiProtocol::kKServe; }
  bool cancelled() const { return cancellation != nullptr && cancellation->cancelled(); }

  // Delivers one response; with `final` the request has ended. REQUIRES: not ended.
  void Respond(std::optional<InferenceResponse> response, bool final);
  // Ends the request with an error of the servable that took it. REQUIRES: not ended.
  void Fail(Status status);
  // Ends the request with an error before a servable took it: the response names no model. REQUIRES: not
  // ended.
  void Refuse(Status status);
  bool ended() const { return sink == nullptr; }
};

}  // namespace braid
