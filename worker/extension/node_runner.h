// NodeRunner: runs the Python nodes of one graph, for the server's kNode... messages. Any number of
// executions are in progress at once; generators take turns.
//
// Up to kMaxThreads Python threads run user code; they are started on demand. Idle threads wait for the
// server, and one of them reads. That thread itself runs the execution that it has read, while another thread
// continues to read. So a single execution is never handed from thread to thread. The main thread only loads
// the nodes and ends them.
//
// A generator runs ahead as far as the server allows, but only for about kTurnNs. Then it goes to the back of
// the queue, so that thousands of generators share the threads. Each item is sent before the generator
// continues.
//
// The GIL guards all state. A thread takes messages and enters them in their order, and runs no Python code
// in between.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ipc/node_messages.h"
#include "worker/extension/py.h"

namespace braid {

class Worker;

// A node as the host has created it.
struct NodeFacts {
  struct Output {
    size_t place = 0;
    bool loopback = false;
    bool exported = false;  // the server needs the bytes
    bool kept = false;      // other nodes may receive the object
  };
  Ref object;
  std::string name;
  std::string file;
  std::map<std::string, Output, std::less<>> outputs;
  bool takes_session = false;
  bool has_end_session = false;
  bool loops = false;  // has LOOPBACK, so execute() may be a generator
};

class NodeRunner {
 public:
  static constexpr int kMaxThreads = 64;
  static constexpr int64_t kTurnNs = 1'000'000;

  explicit NodeRunner(Worker& worker);
  ~NodeRunner();

  // Adds a node. The host calls it before it answers a load.
  void Add(NodeFacts node) { nodes_.push_back(std::move(node)); }

  // On the main thread: waits while the other threads run executions, until the server ends the nodes. Then
  // closes all calls and sessions. False with an exception set if the connection is broken.
  bool Serve();
  // On the main thread, after the connection is closed: waits briefly for the other threads. Releases all
  // objects, unless some threads are still busy.
  void Leave();
  // The body of the other threads.
  void RunThread();

 private:
  struct Call;
  struct Session;
  using CallPtr = std::shared_ptr<Call>;  // shared by the table and the thread that runs it
  // The next work of a thread: a call's turn, or the end of a session.
  struct Work {
    uint64_t call = 0;
    uint64_t session = 0;
  };

  // --- Threads
  void ProvideThreads();
  bool StartThread();
  void LetGo();
  void Idle();
  void WakeMain();
  bool WaitForMain(int64_t timeout_ns);

  // --- Messages
  void TakeMessages();
  bool Enter(std::vector<std::byte>& message);
  bool EnterExecute(std::vector<std::byte>& message);
  bool EnterResume(const std::vector<std::byte>& message);
  bool EnterClose(const std::vector<std::byte>& message);
  bool EnterSession(const std::vector<std::byte>& message);
  bool EnterDrop(const std::vector<std::byte>& message);
  void CloseAll();

  // --- Turns
  void Run(const Work& work);
  void RunCall(Call& call);
  void Begin(Call& call);
  void Advance(Call& call, int64_t turn_end_ns);
  void CloseIterator(Call& call);
  PyObject* MakeInputs(Call& call);
  PyObject* MakeInput(const NodeTensorMessage& message);
  void RefuseInputs(Call& call);
  PyObject* SessionOf(const Call& call);
  void EndSession(uint64_t id);
  void LeaveSession(uint64_t id);

  // --- Answers
  struct Step;
  std::string AddOutputs(const NodeFacts& node, PyObject* list, Step& step);
  std::string AddOutput(const NodeFacts& node, PyObject* item, Step& step);
  void SendStep(Call& call, Step& step);
  void Finish(Call& call, NodeStepMessage::Kind kind);
  void Fail(Call& call, Step& step, std::string_view error);
  // The same with the current exception.
  void FailWithException(Call& call);
  std::string LogException(const NodeFacts& node);
  // `line` is in the node's file; 0: none.
  void LogError(const NodeFacts& node, std::string_view error, uint32_t line = 0);

  Worker& worker_;
  std::vector<NodeFacts> nodes_;

  std::unordered_map<uint64_t, CallPtr> calls_;
  std::deque<Work> ready_;
  std::unordered_map<uint64_t, std::unique_ptr<Session>> sessions_;
  std::unordered_map<uint64_t, Ref> objects_;
  uint64_t last_object_ = 0;
  std::vector<Ref> dropped_;  // objects to release; user code may run when they are destroyed

  int threads_ = 0;
  int busy_ = 0;  // threads that run user code
  int started_ = 0;
  bool ended_ = false;  // the connection is closed or broken

  std::mutex main_mutex_;
  std::condition_variable main_wake_;
  bool main_woken_ = false;  // guarded by main_mutex_
  bool stopping_ = false;    // the server has ended the nodes
};

}  // namespace braid
