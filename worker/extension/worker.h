// Worker: talks to the server, and runs the main loop on Python's main thread. It handles the server's
// messages in order. Executions of a model whose execute() is a coroutine function overlap as far as its mode
// allows.
//
// The main thread sleeps on the channel's futex until the model has an event loop. From then on it sleeps in
// that loop, so that tasks of user code continue between executions.
//
// The GIL guards it. The host (braid_worker/host.py) is its Python part, which handles infrequent events.
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

// A response to be sent. `holds` owns the texts that its message refers to.
struct OutgoingResponse {
  ResponseMessage message;
  std::vector<Ref> holds;
};

// A model as the host has created it.
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

// An error of user code: the text for clients, and the text for the log, which includes local paths.
struct ErrorText {
  std::string told;
  std::string logged;
  uint32_t line = 0;  // in the model's file; 0: none
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
  // Whether the model runs: after its initialize() and before its finalize().
  bool serving() const { return serving_; }
  // Must be called in the child after a fork: releases the state of the parent's threads.
  void AfterForkInChild();
  // Whether this process is such a child; only its parent answers the requests.
  bool forked() const { return inherited_ != nullptr; }
  // In such a child, opens a separate connection to the server, unless there is one. It carries calls,
  // questions and log lines. Blocks for some seconds at most. Errors: UNAVAILABLE.
  Status EnsureConversation();
  // Makes a fork of a template an instance, with a separate connection. The template's connection stays
  // allocated, as in other forks. REQUIRES: forked(), and no thread uses this object.
  void Become(std::unique_ptr<Connection> connection);
  // The header of the worker's channel, also in forked children.
  const ChannelHeader& header() const { return *header_; }

  // The host calls it before it answers a load.
  void SetModel(ModelFacts facts) { model_ = std::move(facts); }
  // For a worker that runs the nodes of a graph. Created on first use.
  NodeRunner& nodes();
  // Sets the model's event loop once it exists.
  void SetLoop(PyObject* loop) { loop_ = Ref::Share(loop); }

  // Runs until the server ends the worker, or until the connection breaks (then false with an exception set).
  // `host` is a braid_worker.host.Host.
  bool Run(PyObject* host);
  // Ends the threads and frees the descriptors of a worker that has run. Objects of user code may still refer
  // to the rest. Blocks until other threads have left the channel. REQUIRES: the GIL.
  void Retire();
  // Callbacks of the event loop: the channel is readable; the timer of one second expired; new tasks have
  // made their first steps; the task of an execution is done.
  void OnWake();
  void OnTimer();
  void OnFirstSteps();
  void OnTurnDone(PyObject* task);

  // Fills a message from a response object, with only the requested outputs. Copies large outputs to memory
  // that the server can read. False with an exception set.
  bool Prepare(OpenRequest& request, PyObject* response, OutgoingResponse& out);
  // Sends a response by itself, not with the answer to an execution. False with an exception set.
  bool SendResponse(OpenRequest& request, OutgoingResponse& out);
  // Sends the end of a request without a further response.
  bool SendEnd(OpenRequest& request);
  // Fails a request that lost all its owners without a response.
  void FailAbandoned(OpenRequest& request);

  void SendLog(uint8_t level, std::string_view file, uint32_t line, std::string_view text);
  void SendReadiness(uint64_t check_id, bool ready, std::string_view reason);
  // Asks the server a question. With `wait` returns the answer as str; otherwise None. Null with an exception
  // set.
  PyObject* Ask(AskMessage& message, bool wait);

  // Returns an owner of the bytes of a tensor in a message. Null with an exception set.
  PyObject* TakeMemory(const TensorMessage& message, std::byte*& data, size_t& size,
                       std::vector<std::shared_ptr<Lending>>* lendings);
  // Converts a message to a tensor without a name. Adds memory lent by the server to `lendings`, if given.
  // Null with an exception set.
  PyObject* MakeTensor(const TensorMessage& message, std::vector<std::shared_ptr<Lending>>* lendings);
  // Puts bytes into memory that the server can read; see Connection::Place().
  Status Place(std::span<const std::byte> bytes, TensorMessage& tensor);
  // The same for a Tensor object on a GPU. Copies its bytes once, when the worker's stream there has reached
  // them, without the GIL. Adds objects that must live until the message is encoded to `holds`. With `stays`
  // the copy is on the GPU too, if there is room. Errors also: those of the driver.
  Status PlaceFromDevice(PyObject* tensor, TensorMessage& message, std::vector<Ref>& holds, bool stays);
  // Moves a tensor to a GPU of this process. Leaves GPU tensors, texts and empty tensors where they are. Also
  // leaves all tensors if the device, or memory on it, is missing. Pins `from`, the mapping that contains the
  // tensor, unless it is null. False with an exception set.
  bool BringToDevice(int gpu, SharedMapping* from, PyTensor& tensor);
  // Asks the server whether a servable takes inputs on a GPU.
  bool TakesDeviceInputs(const std::string& model_name, int64_t model_version);
  // Whether this instance may receive tensors on a GPU.
  bool uses_devices() const { return uses_devices_; }
  // Sends a message, together with pending releases of memory.
  Status Send(std::span<const std::byte> message);
  // Does the inbox's chores. REQUIRES: the GIL.
  void DoChores();

  // Returns the execution that the calling thread runs, and that waits for its calls; 0 for none.
  uint64_t BlockedExecution() const;
  // For Python nodes: the calling thread runs user code of that call; 0: it has left user code.
  static void SetNodeCall(uint64_t call);
  // Like BlockedExecution(), but for a call during which the calling thread blocks. In a task of the event
  // loop, this blocks all executions.
  uint64_t HeldUpExecution() const;
  // Whether `loop` is the model's, whose thread reads the channel itself.
  bool IsModelLoop(PyObject* loop) const { return !forked() && loop_.get() == loop; }
  // Whether this thread runs the model's loop.
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
  // Passes restored sequences to the model, and renders chats. If that fails for a request, the request fails,
  // and the others run without it. False if the connection is broken.
  bool PrepareRequests();
  // Replaces the chat in the request's kPromptInput by the prompt. False with the reason in `refusal`.
  bool RenderChat(RequestMessage& request, std::string& refusal);
  bool LoadSequence(const RequestMessage& request, const TensorMessage& state);
  // Adds the saved state of a sequence to its response, or turns the response into an error.
  bool SaveSequence(PyObject* correlation_id, OutgoingResponse& out);
  bool MakeTurn(Turn& turn);
  PyObject* MakeRequest(const RequestMessage& message, Turn& turn);
  // Keeps a block of a DevicePool for user code. It is reused once the device has finished the work of user
  // code on it.
  std::shared_ptr<void> KeepUntilDone(std::shared_ptr<CudaContext> device, Buffer block);
  // Makes `size` bytes at a device address the tensor's data. False with an exception set.
  static bool LieOnDevice(int gpu, CudaAddress address, size_t size, std::shared_ptr<void> keeper,
                          PyTensor& tensor);
  // Fills all fields but name, type and shape. False with an exception set.
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
  // Takes the current exception.
  ErrorText DescribeException();
  // Removes local paths from a text.
  ErrorText Told(std::string text);
  bool SendStarted();

  std::unique_ptr<Connection> connection_;
  std::unique_ptr<Inbox> inbox_;
  const ChannelHeader* header_;
  Channel* inherited_ = nullptr;  // the worker's channel, in a forked child; never closed
  size_t arena_keep_bytes_ = 0;   // 0: the arena's default
  Calls calls_;
  ModelFacts model_;
  std::unique_ptr<NodeRunner> nodes_;
  Ref host_;
  Ref loop_;
  std::thread::id main_thread_;
  bool serving_ = false;
  bool ended_ = false;
  bool uses_devices_ = false;
  std::shared_ptr<PinnedMemory> pinned_;  // shared with the memory that it has pinned

  // State of the event loop.
  bool in_loop_ = false;
  bool timer_set_ = false;
  Ref failure_;  // the exception for Run() to raise

  // The main thread's messages that wait for the end of turn_.
  std::deque<std::vector<std::byte>> held_;
  std::unique_ptr<Turn> turn_;  // a model that is not decoupled: the turn whose task runs
  struct Started;
  std::vector<Started> started_;  // decoupled models: turns whose tasks have not made their first step
  uint64_t current_execution_ = 0;

  // Reused for each message.
  std::vector<std::byte> received_;
  std::vector<std::byte> outgoing_;
  std::vector<std::byte> response_;
  ExecuteMessage execute_;
  std::vector<Ref> rendered_;  // prompts to which execute_ refers
  // Interned names of inputs by position; they rarely change between requests.
  struct CachedName {
    std::string text;
    Ref object;
  };
  std::vector<CachedName> names_;
};

// Returns the worker that the calling thread has selected, else the process's; null in a plain interpreter.
Worker* CurrentWorker();
// Selects a worker for the calling thread; null: none. Returns what was selected before.
Worker* SelectWorker(Worker* worker);

// Takes the current exception and returns "{type}: {message}", for the log.
std::string TakeExceptionText();
// Takes the current exception with its traceback.
Ref TakeException();
// Raises RuntimeError about a protocol violation of the server.
void RaiseBroken(std::string_view what);

}  // namespace braid
