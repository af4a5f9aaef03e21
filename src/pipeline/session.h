// Session: one request on its way through a DAG.
//
// A node runs as soon as its inputs are there, branches beside each other. Tensors go on by their handles; a
// tensor's last taker gets the session's own share in it. Where a node answers many times, each answer is a
// flow of its own through what lies behind the node (see dag.h), and the responses leave in the order of
// those answers. A demultiplexer's answer is split into shards, each of which is a flow too, and what their
// flows make is stacked where the DAG gathers it.
//
// A session has no thread: it goes on wherever an answer arrives. Whatever it does (runs, responses, the end)
// is done by one thread at a time, in the order in which it was decided, without its lock; others leave their
// decisions to that thread. So nodes may answer inside Run(), and a chain of a thousand of them needs no more
// stack than one.
//
// It ends once: with the last response, with the first error, or with a cancellation. What still runs then is
// cancelled, and its answers are dropped; the session's memory goes with the last of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "pipeline/dag.h"
#include "pipeline/node.h"
#include "serving/request.h"
#include "tensor/tensor.h"

namespace braid {

// For whom a session runs. Called on the thread that goes on with the session, one call at a time.
class SessionClient {
 public:
  virtual ~SessionClient() = default;

  // For NodeSession::Run(); lives until the end.
  virtual const InferenceRequest& request() const = 0;
  // One response; nothing when the session only ends. With `final` it has ended and the client is not touched
  // again.
  virtual void Respond(std::optional<std::vector<Tensor>> outputs, bool final) = 0;
  // The session has ended with an error: of the node at this index, or its own (Dag::kNone).
  virtual void Fail(Status status, uint32_t node) = 0;
  // What to end with when a node has answered without one of the outputs that the DAG knows; OK goes on,
  // and nodes that need it do not run. Called on any thread with a lock of the session held: it only makes up
  // the text.
  virtual Status MissingOutput(uint32_t node, const std::string& output) const {
    static_cast<void>(node), static_cast<void>(output);
    return OkStatus();
  }
};

struct SessionOptions {
  // Runs of one node at the same time, 0 for any number. Further ones wait in order.
  uint32_t max_runs_per_node = 0;
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  // Answers of nodes that answer many times, and shards, whose flows have not ended; the session ends with
  // UNAVAILABLE when there are more.
  static constexpr size_t kMostFlows = 65536;

  // `nodes` are those of the DAG. `wanted` are indexes among dag->outputs().
  static std::shared_ptr<Session> Create(std::shared_ptr<const Dag> dag,
                                         std::vector<std::unique_ptr<NodeSession>> nodes,
                                         std::vector<uint32_t> wanted, const SessionOptions& options);
  virtual ~Session() = default;

  // Begins; the session may have ended when this returns. Inputs that the DAG does not know are dropped.
  // Called once. Errors that the session itself finds: UNAVAILABLE for too many flows, CANCELLED, INTERNAL
  // for a node that answers twice without being made for it, INTERNAL with kDeadlockText when an output
  // cannot be made, and those of shards.h.
  virtual void Start(std::vector<Tensor> inputs, std::unique_ptr<SessionClient> client) = 0;

  // Cancels what runs. The session ends as soon as one of its nodes says something; a client that is gone
  // waits for nothing. Any thread; may be called while the lock of a Cancellation is held.
  virtual void Cancel() = 0;
  // Ends the session now, unless it has ended. Any thread, without locks.
  virtual void Abort(Status status) = 0;
};

inline constexpr std::string_view kDeadlockText =
    "unexpected deadlock, at least one output is not set while no more ensemble steps can be made";

}  // namespace braid
