// NodeRunner: the Python nodes of one graph, for the server's kNode... messages. Any number of executions are
// under way at once; generators take turns.
//
// Up to kMaxThreads threads of Python run user code, made when there is work and nobody free for it. Whoever
// is free waits for the server, one of them reading: it runs itself what it has read, while another one goes
// on reading, so an execution that comes alone is not handed from thread to thread. The main thread only
// loads the nodes and ends them.
//
// A generator runs ahead as far as the server allows, but only for about kTurnNs; then it goes to the back of
// the queue, so that thousands of them share the threads. Each item is sent before the generator goes on.
//
// The GIL guards all of it. Messages are taken and entered without any Python code in between, in their
// order.
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

// What the host says of a node that it has made.
struct NodeFacts {
  struct Output {
    size_t place = 0;
    bool loopback = false;
    bool exported = false;  // the server needs the bytes
    bool kept = false;      // other nodes may get the object
  };
  Ref object;
  std::string name;
  std::string file;
  std::map<std::string, Output, std::less<>> outputs;
  bool takes_session = false;
  bool has_end_session = false;
  bool loops = false;  // has LOOPBACK, so that execute() may be a generator
};

class NodeRunner {
 public:
  static constexpr int kMaxThreads = 64;
  static constexpr int64_t kTurnNs = 1'000'000;

  explicit NodeRunner(Worker& worker);
  ~NodeRunner();

  // Called by the host before it answers a load.
  void Add(NodeFacts node) { nodes_.push_back(std::move(node)); }

  // The main thread: runs executions until the server says to end, then closes what is under way. False with
  // an exception set when the conversation is broken.
  bool Serve();
  // The main thread, when the conversation has ended: waits for the other threads, for a short while, and
  // lets go of all objects, unless some are in use.
  void Leave();
  // What each of the other threads does.
  void RunThread();

 private:
  struct Call;
  struct Session;
  using CallPtr = std::shared_ptr<Call>;  // shared by the table and the thread that runs it
  // What a thread has to do next: a call's turn, or the end of a session.
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
  // The same for the exception that is set.
  void FailWithException(Call& call);
  std::string LogException(const NodeFacts& node);
  // `line`: of the node's file; 0: none.
  void LogError(const NodeFacts& node, std::string_view error, uint32_t line = 0);

  Worker& worker_;
  std::vector<NodeFacts> nodes_;

  std::unordered_map<uint64_t, CallPtr> calls_;
  std::deque<Work> ready_;
  std::unordered_map<uint64_t, std::unique_ptr<Session>> sessions_;
  std::unordered_map<uint64_t, Ref> objects_;
  uint64_t last_object_ = 0;
  std::vector<Ref> dropped_;  // objects that nobody needs; user code may run when they go

  int threads_ = 0;
  int busy_ = 0;  // of them run user code
  int started_ = 0;
  bool ended_ = false;  // the conversation is over

  std::mutex main_mutex_;
  std::condition_variable main_wake_;
  bool main_woken_ = false;  // guarded by main_mutex_
  bool stopping_ = false;    // the server has said to end
};

}  // namespace braid
