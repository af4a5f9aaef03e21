// ServableStream: a client's stream that is one conversation with a servable. All messages go into one run of
// a graph, which returns packets as it makes them.
//
// Push() returns errors of single messages, and the conversation goes on. The end of the conversation is
// reported to the sink at once, through End().
#pragma once

#include <memory>
#include <string>

#include "base/status.h"

namespace braid {

struct InferenceRequest;
struct InferenceResponse;

// Takes the responses of a stream. Implemented by protocols. Called on any thread, never concurrently,
// perhaps from within a call to the stream; must not block.
class StreamSink {
 public:
  virtual ~StreamSink() = default;
  // Takes one response, with one output of a graph. `request_id` is the id of the message that it answers; ""
  // if unknown.
  virtual void Respond(InferenceResponse response, const std::string& request_id) = 0;
  // Called when ServableStream::wants_input() becomes true again.
  virtual void OnWantsInput() = 0;
  // Ends the conversation: OK after CloseInputs() when all responses were delivered, otherwise the reason.
  // The stream does not touch the sink again.
  virtual void End(Status status) = 0;
};

// Thread-safe; no method blocks.
class ServableStream {
 public:
  virtual ~ServableStream() = default;
  // Takes the inputs of one message, and those of its parameters that belong to one message (a timestamp).
  // Errors: those of this message, some of whose inputs may have been taken already. Does nothing after
  // End().
  virtual Status Push(InferenceRequest& message) = 0;
  // Called when the client sends no more messages; pending work is still answered.
  virtual void CloseInputs() = 0;
  // Called when the client is gone: pending work ends soon, and only End() reports it.
  virtual void Cancel() = 0;
  // Backpressure from a client that reads slowly. While paused, no new work begins, so that few responses
  // arrive and generators stand still.
  virtual void SetPaused(bool paused) = 0;
  // False while pushed messages wait for the servable; the caller then delays reading the next message.
  virtual bool wants_input() const = 0;
};

}  // namespace braid
