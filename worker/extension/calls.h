// Calls: requests of user code to models of the server (BLS), on the caller's side.
//
// A failed call results in a response with an error, never in an exception. The GIL guards all state.
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

  // Sends a request. Returns an InferenceResponse, or an iterator with `decoupled`. Null with an exception
  // set.
  PyObject* Exec(const PyRequest& request, bool decoupled);
  // The same with a future of `loop`, which runs on this thread. With `decoupled` the first response
  // completes the future.
  PyObject* AsyncExec(const PyRequest& request, bool decoupled, PyObject* loop);
  // Cancels a call of AsyncExec(), because its future was cancelled.
  void CancelAwaited(uint64_t call_id);

  // Handle chores of the inbox: Complete() an exchange of AsyncExec(), Drop() a message of an abandoned call.
  void Complete(const std::shared_ptr<Exchange>& exchange);
  void Drop(std::span<const std::byte> message);

  // Waits for the next response to a call. Null without an exception if there are no more. The bare end of a
  // call counts as a response without tensors.
  PyObject* NextResponse(Exchange& exchange);
  // Asks the server to end the call; responses sent before that still arrive.
  void Cancel(Exchange& exchange);
  // Ends a call and discards its responses.
  void Abandon(Exchange& exchange);
  // In a forked child: forgets the parent's calls.
  void ForgetAll() { awaited_.clear(); }

 private:
  struct Awaited {
    std::shared_ptr<Exchange> exchange;
    Ref future;
    Ref loop;
    bool decoupled = false;
  };

  // `waits`: the calling thread blocks until the only response arrives.
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
