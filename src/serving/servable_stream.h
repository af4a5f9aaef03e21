// A client's stream that is one conversation with a servable: all its messages go into one run of a graph,
// whose packets come back as they are made.
//
// Errors of one message are the message's: Push() says what is wrong, and the conversation goes on. What ends
// it reaches the sink at once, as End().
#pragma once

#include <memory>
#include <string>

#include "base/status.h"

namespace braid {

struct InferenceRequest;
struct InferenceResponse;

// Takes what comes of a stream. Implemented by protocols. Called on any thread, never twice at the same time;
// must not block, and may be called from within a call to the stream.
class StreamSink {
 public:
  virtual ~StreamSink() = default;
  // One response, with one output of a graph. `request_id` is the id of the message that it answers, where
  // that is known, else "".
  virtual void Respond(InferenceResponse response, const std::string& request_id) = 0;
  // ServableStream::wants_input() has become true again.
  virtual void OnWantsInput() = 0;
  // The conversation is over: OK after CloseInputs(), when all has come; else why. Nothing follows, and the
  // stream does not touch the sink again.
  virtual void End(Status status) = 0;
};

// Any thread may call any of these; none blocks.
class ServableStream {
 public:
  virtual ~ServableStream() = default;
  // Takes the inputs of one message, and its parameters where they are those of one message (a timestamp).
  // Errors: of this message; some of its inputs may be in already. After End() it does nothing.
  virtual Status Push(InferenceRequest& message) = 0;
  // The client sends no more; what is under way is still answered.
  virtual void CloseInputs() = 0;
  // The client is gone: what is under way ends soon, with nobody to hear of it but End().
  virtual void Cancel() = 0;
  // A client that does not read as fast as it is answered: while paused nothing new is begun, so that few
  // responses come and generators stand still.
  virtual void SetPaused(bool paused) = 0;
  // False while what was pushed waits for the servable: the next message is better read later.
  virtual bool wants_input() const = 0;
};

}  // namespace braid
