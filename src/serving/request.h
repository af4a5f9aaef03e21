// InferenceRequest: one inference request, and ResponseSink, which takes its responses.
//
// A request has one owner at a time, and only the owner answers it. The protocol owns it while it reads the
// request, the scheduler while it waits, an instance while it runs. It ends exactly once, with the response
// marked final, which may be an error. A client that disconnects marks the request's Cancellation, and the
// owner then ends the request. If an exception unwinds the owner's stack, the destructor ends the request
// with an error.
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
  // Set by the servable that answers; empty for errors before a servable accepted the request.
  std::string model_name;
  int64_t model_version = 0;
};

// Takes the responses of one request. Implemented by protocols and by internal callers of inference.
class ResponseSink {
 public:
  virtual ~ResponseSink() = default;

  // Takes one response. Called by the request's owner on any thread, never concurrently; must not block.
  // `response` is empty only with `final`: the request then ends without a further response. The owner does
  // not touch the sink after the final call, so the sink may delete itself in that call. The sink may keep
  // the response's buffers. Does not throw: a response that cannot be delivered, say for lack of memory,
  // becomes an error or closes the client's connection.
  virtual void Respond(std::optional<InferenceResponse> response, bool final) = 0;
};

// The id of a sequence, a number or a text; 0 and "" mean none.
using CorrelationId = std::variant<uint64_t, std::string>;

class ServableHandle;
struct InferenceRequest;

// A preparation that may block, such as copying inputs from a device, and runs before the servable gets the
// request.
class AsyncPreparation {
 public:
  virtual ~AsyncPreparation() = default;
  // Takes the request to another thread and does not block. That thread prepares the request, then begins it
  // (Servable::Begin()) or refuses it.
  virtual void Take(std::unique_ptr<InferenceRequest> request) = 0;
};

class PerKeyEntry;

// The request's key in the response cache.
struct CacheNotes {
  bool wanted = false;
  uint64_t key_low = 0;
  uint64_t key_high = 0;
  int64_t lookup_ns = 0;  // duration of the lookup that missed
};

// The scheduler's state for a waiting request, guarded by the scheduler's lock. It is part of the request, so
// that waiting, leaving the middle of a queue and timing out need no allocation.
struct SchedulerNotes {
  InferenceRequest* previous = nullptr;  // neighbours in the list in which it waits
  InferenceRequest* next = nullptr;
  int64_t deadline_ns = INT64_MAX;  // SteadyNowNs() when its time in the queue ends
  uint32_t deadline_index = 0;      // its index among the deadlines
  uint32_t level = 0;               // priority, 0 is the highest
  bool queued = false;
  PerKeyEntry* entry = nullptr;  // the entry of its sequence's queue in which it waits
  bool delayed = false;          // its time in the queue has passed; it waits behind the others of its level
  uint8_t returns = 0;           // instances that died before they began this request
  bool counted = false;          // already in the statistics
  bool failed = false;           // an error was sent, perhaps not yet the final response
  // Marks the request as waiting while it exists: see CallGraph. Null for most requests.
  std::shared_ptr<const void> waiting_call;
  // Of decoupled models: the number of responses sent so far, and the time of the last one.
  uint32_t responses = 0;
  int64_t last_response_ns = 0;
  // Of models with sequences: the sequence's number, this request's turn in it, and the number of inputs and
  // requested outputs that the client gave. The scheduler appends others after those.
  uint64_t sequence = 0;
  uint32_t turn = 0;
  uint32_t own_inputs = 0;
  uint32_t own_outputs = 0;
  // The outputs that the client requested, while the backend is asked for all.
  std::vector<std::string> wanted_outputs;
  CacheNotes cache;
};

struct InferenceRequest {
  InferenceRequest();
  // Ends the request with an error if it has not ended.
  ~InferenceRequest();
  InferenceRequest(const InferenceRequest&) = delete;
  InferenceRequest& operator=(const InferenceRequest&) = delete;

  std::string id;
  std::string model_name;
  // -1: the version that the model's policy selects.
  int64_t model_version = -1;

  CorrelationId correlation_id = uint64_t{0};
  bool sequence_start = false;
  bool sequence_end = false;
  // Number of the client's inputs that named its sequence and were removed from `inputs`; see
  // serving/sequence_inputs.h.
  uint8_t sequence_inputs = 0;
  // The API call to count at the servable when the request ends; protocols set it for servables of
  // Dialect::kOvms. Its protocol also decides the spelling of precisions in texts.
  std::optional<ApiCall> api;
  uint64_t priority = 0;    // 0: the model's default
  uint64_t timeout_us = 0;  // 0: none
  Parameters parameters;    // without the reserved ones above
  // kPromptInput has a chat as JSON, which the model's process renders (OpenAiConvention::renders_chats).
  bool renders_chat = false;

  std::vector<Tensor> inputs;
  // Empty: all outputs of the model.
  std::vector<std::string> requested_outputs;
  // Outputs that may be delivered in GPU memory (Buffer::on_device()), if the servable's ServableInfo
  // supports it.
  std::vector<std::string> device_outputs;

  // SteadyNowNs() when the request was read, and when it entered the queue of its scheduler.
  int64_t start_ns = 0;
  int64_t queue_start_ns = 0;
  // Rows: the size of the batch dimension; 1 for models without one. Set by CheckRequest().
  int64_t batch_size = 1;

  // Null for requests that cannot be cancelled.
  std::shared_ptr<Cancellation> cancellation;  // shared with the protocol's call
  // Null for requests from outside the server.
  std::shared_ptr<const CallChain> call_chain;
  // Null for requests that are not traced. Shared with the traces of its children.
  std::shared_ptr<RequestTrace> trace;
  // Not owned; see ResponseSink. Null after the final response.
  ResponseSink* sink = nullptr;
  // Whether the calling thread may run the request itself (see Execution::on_callers_thread). False when that
  // thread has other work.
  bool here = true;
  // Keeps the servable alive and undrained while the request runs.
  std::unique_ptr<ServableHandle> servable;
  // Null for most requests, and after the preparation was taken.
  std::unique_ptr<AsyncPreparation> preparation;
  // The request's share of the servable's input bytes.
  InputShare input_share;

  SchedulerNotes scheduling;

  ApiProtocol protocol() const { return api ? api->protocol : ApiProtocol::kKServe; }
  bool cancelled() const { return cancellation != nullptr && cancellation->cancelled(); }

  // Delivers one response; with `final` the request ends. REQUIRES: not ended.
  void Respond(std::optional<InferenceResponse> response, bool final);
  // Ends the request with an error of the servable that accepted it. REQUIRES: not ended.
  void Fail(Status status);
  // Ends the request with an error before a servable accepted it, so that the response names no model.
  // REQUIRES: not ended.
  void Refuse(Status status);
  bool ended() const { return sink == nullptr; }
};

}  // namespace braid
