// The messages between the server and the worker of a graph's Python nodes, in addition to messages.h.
//
// Such a worker has one object per node and imports each handler file as a separate module. It runs any
// number of executions at once, on threads that share the GIL. LoadMessage::model_config is
//
//   {"nodes": [{"name": "...", "handler_path": "/abs/model.py", "input_names": [...], "output_names": [...],
//               "loopback": true, "exported": ["stream", ...], "kept": ["stream", ...]}, ...]}
//
// where names are those of streams in the order of the configuration (the stream of LOOPBACK among them). The
// server needs the bytes of the outputs in `exported`. Other nodes of the worker may receive the outputs in
// `kept`; they get the tensor object itself. Memory is lent as in messages.h.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ipc/messages.h"

namespace braid {

// One tensor that is sent to or from a node.
struct NodeTensorMessage {
  // The number of a tensor object that the worker keeps; 0 for none. Sent to the worker, it replaces the
  // tensor's bytes.
  uint64_t object = 0;
  // False if the server uses only `object`, in messages to the server.
  bool has_bytes = true;
  TensorMessage tensor;  // `shape` and the type are the tensor's attributes; they need not match the bytes
};

// Runs a node's execute(). The worker answers with kNodeStep under the same call_id until one ends the call.
struct NodeExecuteMessage {
  static constexpr MessageType kType = MessageType::kNodeExecute;
  uint64_t call_id = 0;  // never 0; unique in the worker's lifetime
  uint32_t node = 0;     // its index in the "nodes" of kLoad
  uint64_t session = 0;  // the run of the graph that the call belongs to; see NodeSessionMessage
  // How many items of a generator the worker may send, including the first, before a kNodeResume.
  uint32_t credit = 1;
  std::vector<NodeTensorMessage> inputs;

  bool IsValid() const { return call_id != 0; }
};

// Lets the generator of a call send `credit` more items.
struct NodeResumeMessage {
  static constexpr MessageType kType = MessageType::kNodeResume;
  uint64_t call_id = 0;
  uint32_t credit = 1;
};

// Closes a call that needs no more items: its generator is closed as soon as it is not running. The last
// kNodeStep still comes.
struct NodeCloseMessage {
  static constexpr MessageType kType = MessageType::kNodeClose;
  uint64_t call_id = 0;
};

// Begins or ends the state of one run of the graph, for nodes that keep state
// (LoadedMessage::wants_sessions).
struct NodeSessionMessage {
  static constexpr MessageType kType = MessageType::kNodeSession;
  uint64_t session = 0;  // never 0
  bool end = false;
  std::string_view parameters_json;  // of the request that began the run: an object, or ""

  bool IsValid() const { return session != 0; }
};

// Releases tensor objects that the server no longer needs.
struct NodeDropMessage {
  static constexpr MessageType kType = MessageType::kNodeDrop;
  std::vector<uint64_t> objects;
};

// The result of an execution, from the worker to the server.
struct NodeStepMessage {
  static constexpr MessageType kType = MessageType::kNodeStep;
  enum class Kind : uint8_t {
    kList = 0,   // execute() has returned a list: the call has ended
    kItem = 1,   // the call's generator has yielded an item
    kEnd = 2,    // the generator is exhausted or closed: the call has ended
    kError = 3,  // the call has ended; items in `outputs` are sent before the error
  };
  uint64_t call_id = 0;
  Kind kind = Kind::kList;
  std::string_view error;  // kError: "{type}: {message}" of the exception, or the fault of the result
  std::vector<NodeTensorMessage> outputs;
};

}  // namespace braid
