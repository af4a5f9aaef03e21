// Worker: the run loop. It answers the server's messages one after the other, on the main thread of Python.
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

#include "ipc/messages.h"
#include "worker/extension/connection.h"
#include "worker/extension/py.h"
#include "worker/extension/request_object.h"
#include "worker/extension/response_object.h"
#include "worker/extension/tensor_object.h"

namespace braid {

// A response on its way to the server. The texts in its message are views of what it holds.
struct OutgoingResponse {
  ResponseMessage message;
  std::vector<Ref> holds;
};

class Worker {
 public:
  explicit Worker(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}

  Connection& connection() { return *connection_; }
  const std::string& instance_name() const { return instance_name_; }
  bool decoupled() const { return decoupled_; }
  // Between a model's initialize() and its finalize().
  bool serving() const { return serving_; }
  const Ref& outputs() const { return outputs_; }

  // Says what is loaded; called by the host before it answers a load.
  void SetModel(PyObject* model, std::string model_file, std::string instance_name, PyObject* outputs,
                bool decoupled);

  // Runs until the server says to end, or the conversation is broken (then with an exception set). `host` has
  // the methods of braid_worker.host.Host.
  bool Run(PyObject* host);

  // Fills a message from a response object, pruned to what the request wants. Large outputs are copied to
  // where the server finds them. False with an exception set.
  bool Prepare(OpenRequest& request, PyObject* response, OutgoingResponse& out);
  // Sends a response apart from a returning execution. False with an exception set.
  bool SendResponse(OpenRequest& request, OutgoingResponse& out);
  // Sends the end of a request without a further response.
  bool SendEnd(OpenRequest& request);
  // Fails a request that nobody can answer any more.
  void FailAbandoned(OpenRequest& request);

  // Asks the server something: its answer, or None without `wait`. Null with an exception set. Waiting is for
  // the thread that runs the loop.
  PyObject* Ask(AskTopic topic, std::string_view text, bool wait);

  void SendLog(uint8_t level, std::string_view file, uint32_t line, std::string_view text);

 private:
  struct Turn;

  bool HandleMessage(PyObject* host, bool& ended);
  bool HandleLoad(PyObject* host, bool& ended);
  bool HandleExecute(PyObject* host);
  bool HandleFinalize(PyObject* host);

  PyObject* MakeTensor(const TensorMessage& message, Turn& turn);
  PyObject* MakeRequest(const RequestMessage& message, Turn& turn);
  bool CallExecute(PyObject* host, Turn& turn);
  bool CheckResult(Turn& turn);
  bool Collect(Turn& turn);
  bool PrepareResponse(OpenRequest& request, PyObject* response, OutgoingResponse& out, Turn* turn);
  bool FailResponse(OutgoingResponse& out, const Status& status);
  void Settle(Turn& turn);
  void FailAll(Turn& turn, const std::string& detail);
  std::string DescribeException(PyObject* host);

  const std::unique_ptr<Connection> connection_;
  Ref model_;
  Ref outputs_;  // frozenset of the configured outputs' names
  std::string model_file_;
  std::string instance_name_;
  bool decoupled_ = false;
  bool serving_ = false;

  // Reused from message to message.
  std::vector<std::byte> received_;
  std::deque<std::vector<std::byte>> kept_;  // came while an answer was waited for
  uint64_t last_ask_ = 0;
  const std::thread::id loop_thread_ = std::this_thread::get_id();
  std::vector<std::byte> outgoing_;
  ExecuteMessage execute_;
  // The names of inputs, which are the same each time, by their place in the request.
  struct CachedName {
    std::string text;
    Ref object;
  };
  std::vector<CachedName> names_;
};

// Reads the exception that is set, and clears it: "{type}: {message}".
std::string TakeExceptionText();

}  // namespace braid
