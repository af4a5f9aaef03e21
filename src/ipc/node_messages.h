// What the server and the worker of a graph's Python nodes say to each other, beside messages.h.
//
// Such a worker has one object for each node, imports each handler file as a module of its own, and runs any
// number of executions at once, as threads that take turns on the GIL. LoadMessage::model_config is
//
//   {"nodes": [{"name": "...", "handler_path": "/abs/model.py", "input_names": [...], "output_names": [...],
//               "loopback": true, "exported": ["stream", ...], "kept": ["stream", ...]}, ...]}
//
// where names are those of streams in the order of the configuration (the stream of LOOPBACK among them).
// `exported` are the outputs whose bytes the server needs; `kept` those that other nodes of the worker may
// get, which find the tensor object itself. Memory is lent as in messages.h.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ipc/messages.h"

namespace braid {

// One tensor on its way to or from a node.
struct NodeTensorMessage {
  // A tensor object that the worker keeps under this number; 0 for none. On the way to the worker it stands
  // for the tensor, whose bytes are then not sent.
  uint64_t object = 0;
  // False on the way to the server when only `object` is of use.
  bool has_bytes = true;
  TensorMessage tensor;  // `shape` and the type are the tensor's attributes; they need not fit the bytes
};

// Runs a node's execute(). The worker answers by kNodeStep under the same call_id until one ends the call.
struct NodeExecuteMessage {
  static constexpr MessageType kType = MessageType::kNodeExecute;
  uint64_t call_id = 0;  // never 0; unique in the worker's life
  uint32_t node = 0;     // its place in the "nodes" of the load
  uint64_t session = 0;  // the run of the graph that it belongs to; see NodeSessionMessage
  // How many items of a generator the worker may send, the first one too, before a kNodeResume.
  uint32_t credit = 1;
  std::vector<NodeTensorMessage> inputs;

  bool IsValid() const { return call_id != 0; }
};

// The generator of a call may send `credit` items more.
struct NodeResumeMessage {
  static constexpr MessageType kType = MessageType::kNodeResume;
  uint64_t call_id = 0;
  uint32_t credit = 1;
};

// Nobody wants more of a call: its generator is closed as soon as it is not running. The last kNodeStep still
// comes.
struct NodeCloseMessage {
  static constexpr MessageType kType = MessageType::kNodeClose;
  uint64_t call_id = 0;
};

// Begins or ends the state of one run of the graph, for nodes that keep any (LoadedMessage::wants_sessions).
struct NodeSessionMessage {
  static constexpr MessageType kType = MessageType::kNodeSession;
  uint64_t session = 0;  // never 0
  bool end = false;
  std::string_view parameters_json;  // of the request that began the run: an object, or ""

  bool IsValid() const { return session != 0; }
};

// The server needs tensor objects no more.
struct NodeDropMessage {
  static constexpr MessageType kType = MessageType::kNodeDrop;
  std::vector<uint64_t> objects;
};

// Worker to server: what an execution has come to.
struct NodeStepMessage {
  static constexpr MessageType kType = MessageType::kNodeStep;
  enum class Kind : uint8_t {
    kList = 0,   // execute() has returned a list: the call has ended
    kItem = 1,   // its generator has yielded one
    kEnd = 2,    // the generator is exhausted or closed: the call has ended
    kError = 3,  // the call has ended; what `outputs` has is to be sent before
  };
  uint64_t call_id = 0;
  Kind kind = Kind::kList;
  std::string_view error;  // kError: "{type}: {message}" of the exception, or what is wrong with the result
  std::vector<NodeTensorMessage> outputs;
};

}  // namespace braid
