// Calls: requests of user code to the server's models (BLS), on the caller's side.
//
// What goes wrong with a call is a response with an error, never an exception. The GIL guards all of it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "ipc/messages.h"
#include "worker/extension/inbox.h"
#include "worker/extension/py.h"
#include "worker/extension/request_object.h"

namespace braid {

class Worker;

class Calls {
 public:
  explicit Calls(Worker& worker) : worker_(worker) {}

  // Runs a request: an InferenceResponse, or an iterator of them. Null with an exception set.
  PyObject* Exec(const PyRequest& request, bool decoupled);
  // The same in a future of `loop`, which runs on this thread. With `decoupled` it is done with the first
  // response.
  PyObject* AsyncExec(const PyRequest& request, bool decoupled, PyObject* loop);
  // The future of that call was cancelled.
  void CancelAwaited(uint64_t call_id);

  // What the inbox has noticed for AsyncExec(), and what it has for calls that nobody waits for.
  void Complete(const std::shared_ptr<Exchange>& exchange);
  void Drop(std::span<const std::byte> message);

  // The next response to a call: waits for it. Null without an exception when there is none left. The bare
  // end of a call is a response without tensors.
  PyObject* NextResponse(Exchange& exchange);
  // Asks the server to end the call; what it has answered until then still comes.
  void Cancel(Exchange& exchange);
  // Ends a call that nobody waits for any more.
  void Abandon(Exchange& exchange);
  // In the child after a fork: the calls are the parent's.
  void ForgetAll() { awaited_.clear(); }

 private:
  struct Awaited {
    std::shared_ptr<Exchange> exchange;
    Ref future;
    Ref loop;
    bool decoupled = false;
  };

  // `waits`: the calling thread does nothing else until the only response is there.
  Result<std::shared_ptr<Exchange>> Start(const PyRequest& request, bool decoupled, Exchange::Notice notice,
                                          bool background, bool waits);
  Status Encode(const PyRequest& request, CallMessage& message);
  PyObject* OnlyResponse(Exchange& exchange);
  Result<bool> NextMessage(Exchange& exchange, std::vector<std::byte>& message);
  PyObject* MakeResponse(const Exchange& exchange, std::span<const std::byte> message, bool bare_end_counts);
  void Settle(const Awaited& awaited, PyObject* value);

  Worker& worker_;
  std::unordered_map<uint64_t, Awaited> awaited_;
  std::vector<std::byte> encoded_;
};

}  // namespace braid
