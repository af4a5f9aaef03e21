// UnaryInference: the life of a request with one response, for all protocols and transports. It is traced and
// counted, begun, may be cancelled, and gets one response.
//
// The class of a transport converts responses and sends them (GrpcInference, HttpInference). A protocol's
// subclass reads and writes its messages.
#pragma once

#include <memory>
#include <optional>

#include "serving/request.h"
#include "serving/servable.h"
#include "serving/tracer.h"

namespace braid {

// Starts the request's trace if it is selected for tracing. `tracer` may be null. REQUIRES: the request has
// its id, its servable and its start_ns.
void StartTrace(Tracer* tracer, InferenceRequest& request, const TraceOrigin& origin);

// Returns the current time for a trace; 0 if nothing is traced. `tracer` may be null.
int64_t ReceivedNs(const Tracer* tracer);

// Counts a request that was refused before its servable received it, if `request.api` is set.
void CountRefusal(InferenceRequest& request);

// Begins a request, which responds to `sink` from here on. REQUIRES: request->servable is set.
void BeginRequest(std::unique_ptr<InferenceRequest> request, ResponseSink& sink);

class UnaryInference : public ResponseSink {
 public:
  // Sends the first response and drops later ones, which a model with one response should not send.
  void Respond(std::optional<InferenceResponse> response, bool final) override;

 protected:
  // Sets the cancellation and the trace of a request before it begins.
  void Prepare(InferenceRequest& request, Tracer* tracer, const TraceOrigin& origin);
  // See BeginRequest().
  void Begin(std::unique_ptr<InferenceRequest> request) { BeginRequest(std::move(request), *this); }

  // Sends the response, which is an error or a success. Called once. `last`: the request has ended, and
  // Ended() is not called.
  virtual void Answer(InferenceResponse response, bool last) = 0;
  // The request has ended after its response and no longer uses this object.
  virtual void Ended() = 0;

  // Returns the request's trace, to record the response, and forgets it. Null if the request is not traced.
  std::shared_ptr<RequestTrace> TakeTrace() { return std::move(trace_); }
  const std::shared_ptr<Cancellation>& cancellation() const { return cancellation_; }
  // Prepares for another request.
  void Reset();

 private:
  std::shared_ptr<Cancellation> cancellation_;  // shared with the request and the connection
  // Owned by the request's owner while the request runs.
  std::shared_ptr<RequestTrace> trace_;  // shared with the request
  bool answered_ = false;
};

}  // namespace braid
