// The life of a request that is answered once, the same for all protocols and transports: it is traced and
// counted, begun, may be cancelled, and gets one answer.
//
// A transport's own class makes answers of responses and sends them (GrpcInference, HttpInference); a
// protocol's class below that reads and writes its messages.
#pragma once

#include <memory>
#include <optional>

#include "serving/request.h"
#include "serving/servable.h"
#include "serving/tracer.h"

namespace braid {

// Gives the request its trace, if it is one that is traced. REQUIRES: the request has its id, its servable
// and its start_ns. `tracer` may be null.
void StartTrace(Tracer* tracer, InferenceRequest& request, const TraceOrigin& origin);

// The time at which something was received, if anything is traced; else 0. `tracer` may be null.
int64_t ReceivedNs(const Tracer* tracer);

// A request was refused before its servable saw it; counted where `request.api` says that it is to be.
void CountRefusal(InferenceRequest& request);

class UnaryInference : public ResponseSink {
 public:
  // The first response is the answer; a model that answers once has no more to say, and what it sends all the
  // same is dropped.
  void Respond(std::optional<InferenceResponse> response, bool final) override;

 protected:
  // What a request has to get before it begins.
  void Prepare(InferenceRequest& request, Tracer* tracer, const TraceOrigin& origin);
  // From here on the request answers. REQUIRES: request->servable
  void Begin(std::unique_ptr<InferenceRequest> request);

  // Sends the answer, which is a good response or an error; called once. With `last` the request has ended,
  // and Ended() is not called.
  virtual void Answer(InferenceResponse response, bool last) = 0;
  // The request has ended after its answer: nothing touches this object on its behalf any more.
  virtual void Ended() = 0;

  // The request's trace, for the record of the answer; null when it is not traced, and from then on.
  std::shared_ptr<RequestTrace> TakeTrace() { return std::move(trace_); }
  const std::shared_ptr<Cancellation>& cancellation() const { return cancellation_; }
  // For another request.
  void Reset();

 private:
  std::shared_ptr<Cancellation> cancellation_;  // shared with the request and the connection
  // Owned by the request's owner while the request runs.
  std::shared_ptr<RequestTrace> trace_;  // shared with the request
  bool answered_ = false;
};

}  // namespace braid
