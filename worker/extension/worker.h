// Worker: the conversation with the server, and the run loop of Python's main thread. It answers the server's
// messages one after the other; executions of a model whose execute() is a coroutine function overlap as far
// as the model's mode allows.
//
// The main thread sleeps on the channel's futex as long as the model has no event loop, and in its event loop
// from then on, so that tasks of user code go on between executions.
//
// The GIL guards it. The host is the Python side of it (braid_worker/host.py): what happens seldom is done
// there.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "gpu/pinned_memory.h"
#include "ipc/messages.h"
#include "worker/extension/calls.h"
#include "worker/extension/connection.h"
#include "worker/extension/inbox.h"
#include "worker/extension/py.h"
#include "worker/extension/request_object.h"
#include "worker/extension/response_object.h"
#include "worker/extension/tensor_object.h"

namespace braid {

class NodeRunner;

// A response on its way to the server. The texts in its message are views of what it holds.
struct OutgoingResponse {
  ResponseMessage message;
  std::vector<Ref> holds;
};

// What the host says of the model it has made.
struct ModelFacts {
  Ref model;
  Ref outputs;  // frozenset of the configured outputs' names
  std::string model_file;
  std::string instance_name;
  bool decoupled = false;
  bool iterative = false;  // requests may be rescheduled
  bool coroutine = false;  // execute() is a coroutine function
  bool saves_sequences = false;
};

// An error of user code, for clients and for the log, which has the paths of this machine too.
struct ErrorText {
  std::string told;
  std::string logged;
  uint32_t line = 0;  // of the model's file; 0: none
};

class Worker {
 public:
  explicit Worker(std::unique_ptr<Connection> connection);
  ~Worker();

  Connection& connection() { return *connection_; }
  Inbox& inbox() { return *inbox_; }
  Calls& calls() { return calls_; }
  PyObject* host() const { return host_.get(); }
  const ModelFacts& model() const { return model_; }
  // Between a model's initialize() and its finalize().
  bool serving() const { return serving_; }
  // To be called in the child after a fork: what the parent's threads have left is let go of.
  void AfterForkInChild();
  // Whether this is such a child: the requests are its parent's to answer.
  bool forked() const { return inherited_ != nullptr; }
  // In such a child, starts a conversation of its own with the server, unless there is one. For calls,
  // questions and log lines. Waits, for some seconds at most. Errors: UNAVAILABLE.
  Status EnsureConversation();
  // Of the worker's channel, in its children too.
  const ChannelHeader& header() const { return *header_; }

  // Called by the host before it answers a load.
  void SetModel(ModelFacts facts) { model_ = std::move(facts); }
  // Of a worker that runs the nodes of a graph. Made when first asked for.
  NodeRunner& nodes();
  // The model's event loop, as soon as there is one.
  void SetLoop(PyObject* loop) { loop_ = Ref::Share(loop); }

  // Runs until the server says to end, or the conversation is broken (then with an exception set). `host` has
  // the methods of braid_worker.host.Host.
  bool Run(PyObject* host);
  // Called back by the event loop: the channel has something; a second is over; the first steps of new tasks
  // are done; the task of an execution is done.
  void OnWake();
  void OnTimer();
  void OnFirstSteps();
  void OnTurnDone(PyObject* task);

  // Fills a message from a response object, pruned to what the request wants. Large outputs are copied to
  // where the server finds them. False with an exception set.
  bool Prepare(OpenRequest& request, PyObject* response, OutgoingResponse& out);
  // Sends a response apart from a returning execution. False with an exception set.
  bool SendResponse(OpenRequest& request, OutgoingResponse& out);
  // Sends the end of a request without a further response.
  bool SendEnd(OpenRequest& request);
  // Fails a request that nobody can answer any more.
  void FailAbandoned(OpenRequest& request);

  void SendLog(uint8_t level, std::string_view file, uint32_t line, std::string_view text);
  void SendReadiness(uint64_t check_id, bool ready, std::string_view reason);
  // Asks the server something and waits for the answer, if there is to be one: a str; None without one. Null
  // with an exception set.
  PyObject* Ask(AskMessage& message, bool wait);

  // Memory with the bytes of a tensor in a message, and what keeps it. Null with an exception set.
  PyObject* TakeMemory(const TensorMessage& message, std::byte*& data, size_t& size,
                       std::vector<std::shared_ptr<Lending>>* lendings);
  // A tensor without a name, from a message. Memory that the server lends is added to `lendings`, if given.
  // Null with an exception set.
  PyObject* MakeTensor(const TensorMessage& message, std::vector<std::shared_ptr<Lending>>* lendings);
  // Puts bytes where the server finds them, see Connection::Place().
  Status Place(std::span<const std::byte> bytes, TensorMessage& tensor);
  // The same for a Tensor object on a GPU: its bytes are copied once, when the worker's stream there has come to them, without
  // the GIL. What has to live until the message is encoded is added to `holds`. With `stays` the copy is on the GPU too, where
  // there is room for it. Errors also: those of the driver.
  Status PlaceFromDevice(PyObject* tensor, TensorMessage& message, std::vector<Ref>& holds, bool stays);
  // Copies a tensor to that GPU of this process, which then has it. What lies on one, texts and what is empty stay where they
  // are, and so does all where there is no such device, or no room on it. False with an exception set.
  // `from` is what it lies in, null where that is not to be pinned.
  bool BringToDevice(int gpu, SharedMapping* from, PyTensor& tensor);
  // Whether a servable takes inputs that lie on a GPU, as the server says.
  bool TakesDeviceInputs(const std::string& model_name, int64_t model_version);
  // Whether this instance may have tensors of others on a GPU.
  bool uses_devices() const { return uses_devices_; }
  // Sends what user code has encoded; what it has let go of goes along.
  Status Send(std::span<const std::byte> message);
  // Does what others have left to do for holders of the GIL.
  void DoChores();

  // The execution that waits for what the calling thread does; 0 for none.
  uint64_t BlockedExecution() const;
  // Of Python nodes: the calling thread runs user code for that call; 0 when it has left it.
  static void SetNodeCall(uint64_t call);
  // The same of a call that the calling thread waits for without letting others run: the event loop's too.
  uint64_t HeldUpExecution() const;
  // Whether `loop` is the model's, whose thread reads the channel itself.
  bool IsModelLoop(PyObject* loop) const { return !forked() && loop_.get() == loop; }
  // Whether the model's loop runs on this thread.
  bool InModelLoop() const { return in_loop_ && std::this_thread::get_id() == main_thread_; }

 private:
  struct Turn;

  std::unique_ptr<Inbox> MakeInbox();

  // --- The run loop
  bool Advance();
  bool Idle();
  bool IdleInLoop();
  void SetTimer();
  void LeaveLoopWith(bool failed);
  bool HandleMessage();
  bool HandleLoad();
  bool HandleFinalize();
  bool ServeNodes();

  // --- Executions
  bool HandleExecute();
  // Gives the model the sequences that it takes over. A request of one that it does not take fails, and the others run
  // without it. False when the conversation is broken.
  bool LoadSequences();
  bool LoadSequence(const RequestMessage& request, const TensorMessage& state);
  // Adds what the model has of a sequence to its answer, or makes that an error.
  bool SaveSequence(PyObject* correlation_id, OutgoingResponse& out);
  bool MakeTurn(Turn& turn);
  PyObject* MakeRequest(const RequestMessage& message, Turn& turn);
  // A block of a DevicePool for user code: it is used again when the device is done with what user code has begun there.
  std::shared_ptr<void> KeepUntilDone(std::shared_ptr<CudaContext> device, Buffer block);
  // `size` bytes at an address of the device are the tensor's. False with an exception set.
  static bool LieOnDevice(int gpu, CudaAddress address, size_t size, std::shared_ptr<void> keeper,
                          PyTensor& tensor);
  // Fills all but name, type and shape. False with an exception set.
  bool TakeFromDevice(const TensorMessage& message, PyTensor& tensor);
  bool CallExecute(Turn& turn);
  bool StartTask(Turn& turn, Ref coroutine);
  bool FinishTurn(Turn& turn, bool called);
  bool Reply(Turn& turn);
  bool CheckResult(Turn& turn);
  bool CheckItem(Turn& turn, size_t i, PyObject* item);
  bool Collect(Turn& turn);
  bool PrepareResponse(OpenRequest& request, PyObject* response, OutgoingResponse& out, Turn* turn);
  bool FailResponse(OutgoingResponse& out, const Status& status);
  void Settle(Turn& turn);
  void FailAll(Turn& turn, const ErrorText& detail);
  // Takes the exception that is set.
  ErrorText DescribeException();
  // The text without the paths of this machine.
  ErrorText Told(std::string text);
  bool SendStarted();

  std::unique_ptr<Connection> connection_;
  std::unique_ptr<Inbox> inbox_;
  const ChannelHeader* const header_;
  Channel* inherited_ = nullptr;  // the worker's, in a forked child; never closed
  size_t arena_keep_bytes_ = 0;   // 0: the arena's own default
  Calls calls_;
  ModelFacts model_;
  std::unique_ptr<NodeRunner> nodes_;
  Ref host_;
  Ref loop_;
  std::thread::id main_thread_;
  bool serving_ = false;
  bool ended_ = false;
  bool uses_devices_ = false;
  std::shared_ptr<PinnedMemory> pinned_;  // shared with what it has pinned

  // In the event loop.
  bool in_loop_ = false;
  bool timer_set_ = false;
  Ref failure_;  // the exception that Run() is to raise

  // The main thread's messages that have to wait for the end of turn_.
  std::deque<std::vector<std::byte>> held_;
  std::unique_ptr<Turn> turn_;  // of a model that is not decoupled, whose task is not done
  struct Started;
  std::vector<Started> started_;  // of decoupled models: their tasks have yet to make their first steps
  uint64_t current_execution_ = 0;

  // Reused from message to message.
  std::vector<std::byte> received_;
  std::vector<std::byte> outgoing_;
  std::vector<std::byte> response_;
  ExecuteMessage execute_;
  // The names of inputs, which are the same each time, by their place in the request.
  struct CachedName {
    std::string text;
    Ref object;
  };
  std::vector<CachedName> names_;
};

// Reads the exception that is set, and clears it: "{type}: {message}". For the log.
std::string TakeExceptionText();
// Takes the exception that is set, with its traceback.
Ref TakeException();
// Raises RuntimeError about a server that does not keep the rules.
void RaiseBroken(std::string_view what);

}  // namespace braid
