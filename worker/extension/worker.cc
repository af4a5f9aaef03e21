#include "worker/extension/worker.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "worker/extension/memory.h"
#include "worker/extension/python_state.h"

namespace braid {
namespace {

void RaiseBroken(std::string_view what) {
  PyErr_Format(PyExc_RuntimeError, "the conversation with the server is broken: %s",
               std::string(what).c_str());
}

// Takes the exception that is set, with its traceback.
Ref TakeException() {
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (value != nullptr && traceback != nullptr) PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return Ref::Steal(value);
}

}  // namespace

std::string TakeExceptionText() {
  Ref exception = TakeException();
  if (!exception) return "unknown error";
  Ref name =
      Ref::Steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), "__name__"));
  Ref text = Ref::Steal(PyObject_Str(exception.get()));
  std::string_view name_view;
  std::string_view text_view;
  if (!name || !text || !TextOf(name.get(), name_view) || !TextOf(text.get(), text_view)) {
    PyErr_Clear();
    return "an exception that cannot be shown";
  }
  return std::string(name_view) + ": " + std::string(text_view);
}

// One execution.
struct Worker::Turn {
  std::vector<std::shared_ptr<OpenRequest>> requests;  // shared with the Python objects
  Ref list;                                            // of InferenceRequest
  Ref result;                                          // of execute()
  std::vector<std::shared_ptr<Lending>> lendings;      // shared with the Python objects
  std::vector<OutgoingResponse> responses;
  // Outputs that lie in memory of the server, which go back as they are if nobody else looks at them.
  struct Deferred {
    size_t response;
    size_t output;
    Lending* lending;
    std::span<const std::byte> bytes;
  };
  std::vector<Deferred> deferred;
  ExecutedMessage executed;
  // What execute() did against the rules; otherwise, a failure is a Python exception.
  std::string violation;

  bool Violates(std::string text) {
    violation = std::move(text);
    return false;
  }
  Lending* LendingOf(const PyTensor& tensor) const {
    for (const auto& lending : lendings) {
      if (lending->Contains(tensor.data, tensor.size)) return lending.get();
    }
    return nullptr;
  }
};

void Worker::SetModel(PyObject* model, std::string model_file, std::string instance_name, PyObject* outputs,
                      bool decoupled) {
  model_ = Ref::Share(model);
  model_file_ = std::move(model_file);
  instance_name_ = std::move(instance_name);
  outputs_ = Ref::Share(outputs);
  decoupled_ = decoupled;
}

bool Worker::Run(PyObject* host) {
  while (true) {
    Channel::Outcome outcome = Channel::Outcome::kMessage;
    if (kept_.empty()) {
      outcome = connection_->Poll(received_);
    } else {
      received_ = std::move(kept_.front());
      kept_.pop_front();
    }
    if (outcome == Channel::Outcome::kTimeout) {
      connection_->FlushReleases(true);
      const int64_t wait_ns = connection_->wait_ns();
      connection_->set_waiting(true);
      Py_BEGIN_ALLOW_THREADS outcome = connection_->Wait(received_, wait_ns);
      Py_END_ALLOW_THREADS connection_->set_waiting(false);
      // Handlers that user code has installed for signals run here; what they raise is nobody's.
      if (PyErr_CheckSignals() != 0) PyErr_WriteUnraisable(nullptr);
      connection_->Trim();
    }
    if (outcome == Channel::Outcome::kTimeout) continue;
    if (outcome == Channel::Outcome::kCorrupted) {
      RaiseBroken("the ring of messages makes no sense");
      return false;
    }
    bool ended = false;
    if (!HandleMessage(host, ended)) return false;
    if (ended) return true;
  }
}

bool Worker::HandleMessage(PyObject* host, bool& ended) {
  switch (TypeOf(received_)) {
    case MessageType::kExecute:
      return HandleExecute(host);
    case MessageType::kRelease:
      if (connection_->HandleRelease(received_)) return true;
      RaiseBroken("memory is given back that was not lent");
      return false;
    case MessageType::kRetireSegment:
      if (connection_->HandleRetireSegment(received_)) return true;
      RaiseBroken("a bad message about a segment");
      return false;
    case MessageType::kLoad:
      return HandleLoad(host, ended);
    case MessageType::kFinalize:
      ended = true;
      return HandleFinalize(host);
    default:
      RaiseBroken("a message of an unknown type");
      return false;
  }
}

bool Worker::HandleLoad(PyObject* host, bool& ended) {
  LoadMessage load;
  if (!Decode(received_, load)) {
    RaiseBroken("a bad message about a load");
    return false;
  }
  if (load.arena_keep_bytes != 0) connection_->ConfigureArena(load.arena_keep_bytes);
  Ref fields = Ref::Steal(PyDict_New());
  if (!fields) return false;
  const std::pair<const char*, std::string_view> texts[] = {
      {"model_file", load.model_file},       {"module_name", load.module_name},
      {"model_path", load.model_path},       {"version_path", load.version_path},
      {"model_config", load.model_config},   {"model_name", load.model_name},
      {"model_version", load.model_version}, {"instance_name", load.instance_name},
      {"instance_kind", load.instance_kind}, {"instance_device_id", load.instance_device_id},
  };
  for (const auto& [key, text] : texts) {
    Ref value = Ref::Steal(NewText(text));
    if (!value || PyDict_SetItemString(fields.get(), key, value.get()) != 0) return false;
  }
  const bool auto_complete = load.mode == LoadMode::kAutoComplete;
  Ref answer =
      Ref::Steal(PyObject_CallMethod(host, auto_complete ? "auto_complete" : "load", "O", fields.get()));
  if (!answer) return false;
  int code = 0;
  const char* error = nullptr;
  const char* config = nullptr;
  Py_ssize_t error_size = 0;
  Py_ssize_t config_size = 0;
  if (!PyArg_ParseTuple(answer.get(), "is#s#", &code, &error, &error_size, &config, &config_size))
    return false;
  LoadedMessage loaded;
  loaded.code = static_cast<StatusCode>(code);
  loaded.error = {error, static_cast<size_t>(error_size)};
  loaded.auto_completed_config = {config, static_cast<size_t>(config_size)};
  Encode(outgoing_, loaded);
  const Status sent = connection_->Send(outgoing_);
  if (!sent.ok()) {
    RaiseBroken(sent.message());
    return false;
  }
  serving_ = loaded.code == StatusCode::kOk && !auto_complete;
  ended = !serving_;
  return true;
}

bool Worker::HandleFinalize(PyObject* host) {
  serving_ = false;
  Ref done = Ref::Steal(PyObject_CallMethod(host, "finalize", nullptr));
  if (!done) return false;
  connection_->FlushReleases(true);
  EncodeBare(outgoing_, MessageType::kFinalized);
  const Status sent = connection_->Send(outgoing_);
  connection_->Drain(1'000'000'000);
  connection_->Close();
  model_ = {};
  if (!sent.ok()) RaiseBroken(sent.message());
  return sent.ok();
}

PyObject* Worker::MakeTensor(const TensorMessage& message, Turn& turn) {
  PyTensor tensor;
  if (message.place == Place::kInline) {
    tensor.size = message.bytes.size();
    tensor.memory = Ref::Steal(NewOwnMemory(tensor.size, &tensor.data));
    if (!tensor.memory) return nullptr;
    if (tensor.size != 0) std::memcpy(tensor.data, message.bytes.data(), tensor.size);
  } else if (Connection::IsBorrowed(message)) {
    Result<std::shared_ptr<Lending>> lending = connection_->Borrow(message);
    if (!lending.ok()) {
      RaiseBroken(lending.status().message());
      return nullptr;
    }
    tensor.data = lending.value()->data();
    tensor.size = message.handle.size;
    tensor.memory = Ref::Steal(NewForeignMemory(tensor.data, tensor.size, lending.value()));
    turn.lendings.push_back(std::move(lending).value());
    if (!tensor.memory) return nullptr;
  } else {
    Result<Buffer> buffer = connection_->TakeOwn(message);
    if (!buffer.ok()) {
      RaiseBroken(buffer.status().message());
      return nullptr;
    }
    auto keeper = std::make_shared<Buffer>(std::move(buffer).value());
    tensor.data = keeper->mutable_data();
    tensor.size = keeper->size();
    tensor.memory = Ref::Steal(NewForeignMemory(tensor.data, tensor.size, std::move(keeper)));
    if (!tensor.memory) return nullptr;
  }
  tensor.type = message.type;
  tensor.shape = message.shape;
  if (message.type != DataType::kBytes) {
    const auto size = ByteSize(message.type, message.shape);
    if (!size || *size != tensor.size) {
      RaiseBroken("the bytes of an input do not fit its shape");
      return nullptr;
    }
  }
  return NewTensor(std::move(tensor));
}

PyObject* Worker::MakeRequest(const RequestMessage& message, Turn& turn) {
  PyRequest request;
  request.open = std::make_shared<OpenRequest>(*this, message.id, message.cancel_slot);
  turn.requests.push_back(request.open);
  if (!message.requested_outputs.empty()) {
    request.open->RequestOnly({message.requested_outputs.begin(), message.requested_outputs.end()});
  }
  request.request_id = message.request_id;
  if (const auto* number = std::get_if<uint64_t>(&message.correlation_id)) {
    request.correlation_id = *number;
  } else {
    request.correlation_id = std::string(std::get<std::string_view>(message.correlation_id));
  }
  request.flags = message.flags;
  request.timeout_us = message.timeout_us;
  request.parameters_json = message.parameters_json;
  request.trace_context = message.trace_context;
  request.inputs = Ref::Steal(PyList_New(static_cast<Py_ssize_t>(message.inputs.size())));
  if (!request.inputs) return nullptr;
  if (names_.size() < message.inputs.size()) names_.resize(message.inputs.size());
  for (size_t i = 0; i < message.inputs.size(); ++i) {
    CachedName& name = names_[i];
    if (!name.object || name.text != message.inputs[i].name) {
      name.text = message.inputs[i].name;
      name.object = Ref::Steal(NewText(name.text));
      if (!name.object) return nullptr;
    }
    PyObject* tensor = MakeTensor(message.inputs[i], turn);
    if (tensor == nullptr) return nullptr;
    ValueOf<PyTensor>(tensor).name = name.object;
    if (PyList_SetItem(request.inputs.get(), static_cast<Py_ssize_t>(i), tensor) != 0) return nullptr;
  }
  return NewObject(State().request_type, std::move(request));
}

bool Worker::HandleExecute(PyObject* host) {
  if (!Decode(received_, execute_)) {
    RaiseBroken("a bad message about an execution");
    return false;
  }
  connection_->header().begun_execution.store(execute_.execution_id, std::memory_order_release);
  Turn turn;
  turn.requests.reserve(execute_.requests.size());
  turn.list = Ref::Steal(PyList_New(static_cast<Py_ssize_t>(execute_.requests.size())));
  if (!turn.list) return false;
  for (size_t i = 0; i < execute_.requests.size(); ++i) {
    PyObject* request = MakeRequest(execute_.requests[i], turn);
    // What cannot be made is for want of memory, or for a server that does not keep the rules.
    if (request == nullptr || PyList_SetItem(turn.list.get(), static_cast<Py_ssize_t>(i), request) != 0) {
      return false;
    }
  }
  turn.executed.execution_id = execute_.execution_id;
  turn.executed.input_end_ns = SteadyNowNs();
  const bool called = CallExecute(host, turn);
  turn.executed.infer_end_ns = SteadyNowNs();
  if (!called || !CheckResult(turn) || !Collect(turn)) {
    FailAll(turn, turn.violation.empty() ? DescribeException(host) : turn.violation);
  }

  // Python lets go of the server's memory before it is named, so that it can be handed back or used again at
  // once. Without such memory, the answer goes first.
  if (!turn.lendings.empty()) Settle(turn);
  turn.executed.responses.reserve(turn.responses.size());
  for (OutgoingResponse& response : turn.responses) {
    turn.executed.responses.push_back(std::move(response.message));
  }
  turn.executed.output_end_ns = SteadyNowNs();
  Encode(outgoing_, turn.executed);
  Status sent = connection_->Send(outgoing_);
  if (sent.code() == StatusCode::kInvalidArgument) {
    // Too long: an error text or parameters beyond all bounds.
    for (ResponseMessage& response : turn.executed.responses) {
      response.code = StatusCode::kInternal;
      response.error = sent.message();
      response.parameters_json = {};
      response.outputs.clear();
    }
    Encode(outgoing_, turn.executed);
    sent = connection_->Send(outgoing_);
  }
  if (!sent.ok()) RaiseBroken(sent.message());
  return sent.ok();
}

bool Worker::CallExecute(PyObject* host, Turn& turn) {
  const PythonState& state = State();
  turn.result =
      Ref::Steal(PyObject_CallMethodObjArgs(model_.get(), state.execute_name, turn.list.get(), nullptr));
  if (!turn.result) {
    if (PyErr_ExceptionMatches(PyExc_AttributeError) && !PyObject_HasAttr(model_.get(), state.execute_name)) {
      PyErr_Clear();
      turn.violation = "Python model " + model_file_ + " does not implement `execute` method.";
    }
    return false;
  }
  if (reinterpret_cast<PyObject*>(Py_TYPE(turn.result.get())) == state.coroutine_type) {
    Ref coroutine = std::move(turn.result);
    turn.result = Ref::Steal(PyObject_CallMethod(host, "run_coroutine", "O", coroutine.get()));
  }
  return static_cast<bool>(turn.result);
}

// Everything that is wrong with what execute() returned is found before any of it is used.
bool Worker::CheckResult(Turn& turn) {
  PyObject* result = turn.result.get();
  if (result == Py_None) return true;
  if (decoupled_) {
    return turn.Violates("Python model '" + instance_name_ +
                         "' is using the decoupled mode and the execute function must return None.");
  }
  if (!PyList_Check(result)) {
    return turn.Violates("Expected a list in the execute return, found type '" + TypeText(result) + "'.");
  }
  const auto count = static_cast<size_t>(PyList_Size(result));
  if (count != turn.requests.size()) {
    return turn.Violates(
        "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
        "InferenceRequest(s) size is:" +
        std::to_string(turn.requests.size()) + ", and InferenceResponse(s) size is:" + std::to_string(count) +
        "\n");
  }
  for (size_t i = 0; i < count; ++i) {
    PyObject* item = PyList_GetItem(result, static_cast<Py_ssize_t>(i));
    if (item == Py_None) continue;
    if (!IsInstance(item, State().response_type)) {
      return turn.Violates(
          "Expected an 'InferenceResponse' object in the execute function return list, found type '" +
          TypeText(item) + "'.");
    }
    if (turn.requests[i]->responses() != 0) {
      return turn.Violates(
          "Unable to send response. Non-decoupled model cannot send more than one response.");
    }
  }
  return true;
}

bool Worker::Collect(Turn& turn) {
  if (turn.result.get() == Py_None) return true;
  turn.responses.reserve(turn.requests.size());
  for (size_t i = 0; i < turn.requests.size(); ++i) {
    PyObject* item = PyList_GetItem(turn.result.get(), static_cast<Py_ssize_t>(i));
    if (item == nullptr) return false;
    if (item == Py_None) continue;
    if (!PrepareResponse(*turn.requests[i], item, turn.responses.emplace_back(), &turn)) return false;
  }
  for (size_t i = 0; i < turn.requests.size(); ++i) {
    if (PyList_GetItem(turn.result.get(), static_cast<Py_ssize_t>(i)) == Py_None) continue;
    turn.requests[i]->CountResponse();
    turn.requests[i]->Close();
    turn.requests[i]->Finish();
  }
  return true;
}

bool Worker::Prepare(OpenRequest& request, PyObject* response, OutgoingResponse& out) {
  return PrepareResponse(request, response, out, nullptr);
}

bool Worker::PrepareResponse(OpenRequest& request, PyObject* object, OutgoingResponse& out, Turn* turn) {
  const PyResponse& response = ValueOf<PyResponse>(object);
  // With memory to give back, the objects are gone before the message is encoded; what it needs of them is
  // kept.
  const bool outlives = turn != nullptr && !turn->lendings.empty();
  ResponseMessage& message = out.message;
  message.request_id = request.id();
  auto view_of = [&out, outlives](const Ref& text, std::string_view& view) {
    if (outlives) out.holds.push_back(text);
    return TextOf(text.get(), view);
  };
  if (response.parameters_json && !view_of(response.parameters_json, message.parameters_json)) return false;
  if (response.error) {
    const PyError& error = ValueOf<PyError>(response.error.get());
    message.code = StatusCodeOf(error);
    return !error.message || view_of(error.message, message.error);
  }
  if (!response.tensors) return true;
  const Py_ssize_t count = PyList_Size(response.tensors.get());
  message.outputs.reserve(static_cast<size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    const PyTensor& tensor = ValueOf<PyTensor>(PyList_GetItem(response.tensors.get(), i));
    if (!tensor.name || !request.Wants(tensor.name.get())) continue;
    TensorMessage& output = message.outputs.emplace_back();
    if (!view_of(tensor.name, output.name)) return false;
    output.type = tensor.type;
    output.shape = tensor.shape;
    std::span<const std::byte> bytes(tensor.data, tensor.size);
    if (outlives && bytes.size() > kInlineTensorBytes) {
      if (Lending* lending = turn->LendingOf(tensor)) {
        turn->deferred.push_back({turn->responses.size() - 1, message.outputs.size() - 1, lending, bytes});
        continue;
      }
    } else if (outlives) {
      PyObject* copy = PyBytes_FromStringAndSize(reinterpret_cast<const char*>(bytes.data()),
                                                 static_cast<Py_ssize_t>(bytes.size()));
      if (copy == nullptr) return false;
      out.holds.push_back(Ref::Steal(copy));
      bytes = {reinterpret_cast<const std::byte*>(PyBytes_AsString(copy)), bytes.size()};
    }
    const Status placed = connection_->Place(bytes, output);
    if (!placed.ok()) return FailResponse(out, placed);
  }
  return true;
}

bool Worker::FailResponse(OutgoingResponse& out, const Status& status) {
  out.message.outputs.clear();
  Ref text = Ref::Steal(NewText(status.message()));
  if (!text || !TextOf(text.get(), out.message.error)) return false;
  out.holds.push_back(std::move(text));
  out.message.code = status.code();
  return true;
}

// Drops what Python has of this turn, then decides where the outputs go that lie in the server's memory.
void Worker::Settle(Turn& turn) {
  turn.result = {};
  turn.list = {};
  for (const Turn::Deferred& deferred : turn.deferred) {
    OutgoingResponse& response = turn.responses[deferred.response];
    if (response.message.code != StatusCode::kOk) continue;
    TensorMessage& output = response.message.outputs[deferred.output];
    auto holder = std::ranges::find_if(
        turn.lendings, [&](const auto& lending) { return lending.get() == deferred.lending; });
    if (holder->use_count() == 1 && deferred.lending->CanHandBack(deferred.bytes)) {
      deferred.lending->HandBack();
      output.place = Place::kReceiverMemory;
      output.handle = deferred.lending->HandleOf(deferred.bytes.data(), deferred.bytes.size());
      continue;
    }
    const Status placed = connection_->Place(deferred.bytes, output);
    if (!placed.ok() && !FailResponse(response, placed)) PyErr_Clear();
  }
  turn.lendings.clear();
  connection_->FlushReleases(true);
}

void Worker::FailAll(Turn& turn, const std::string& detail) {
  const std::string text =
      "Failed to process the request(s) for model '" + instance_name_ + "', message: " + detail;
  SendLog(2, model_file_, 0, text);
  turn.responses.clear();
  turn.deferred.clear();
  Ref held = Ref::Steal(NewText(text));
  std::string_view view;
  if (!held || !TextOf(held.get(), view)) {
    PyErr_Clear();
    view = "Failed to process the request(s)";
  }
  for (const auto& request : turn.requests) {
    request->Close();
    if (request->done()) continue;
    request->Finish();
    OutgoingResponse& response = turn.responses.emplace_back();
    response.message.request_id = request->id();
    response.message.code = StatusCode::kInternal;
    response.message.error = view;
    response.holds.push_back(held);
  }
}

std::string Worker::DescribeException(PyObject* host) {
  Ref exception = TakeException();
  if (!exception) return "unknown error";
  Ref text = Ref::Steal(PyObject_CallMethod(host, "describe", "O", exception.get()));
  std::string_view view;
  if (!text || !TextOf(text.get(), view)) return TakeExceptionText();
  return std::string(view);
}

bool Worker::SendResponse(OpenRequest& request, OutgoingResponse& out) {
  if (out.message.final) request.Finish();
  std::vector<std::byte> message;
  Encode(message, out.message);
  const Status sent = connection_->Send(message);
  if (!sent.ok()) RaiseModelException(sent.message());
  return sent.ok();
}

bool Worker::SendEnd(OpenRequest& request) {
  OutgoingResponse end;
  end.message.request_id = request.id();
  end.message.has_response = false;
  return SendResponse(request, end);
}

void Worker::FailAbandoned(OpenRequest& request) {
  const std::string text = "Failed to process the request(s) for model '" + instance_name_ +
                           "', message: the model let go of the request without a response: execute returned "
                           "None for it, and its response sender is gone.";
  ResponseMessage message;
  message.request_id = request.id();
  message.code = StatusCode::kInternal;
  message.error = text;
  std::vector<std::byte> encoded;
  Encode(encoded, message);
  // In a forked child this is refused, as it should be: the parent still has the request.
  static_cast<void>(connection_->Send(encoded));
}

PyObject* Worker::Ask(AskTopic topic, std::string_view text, bool wait) {
  if (wait && std::this_thread::get_id() != loop_thread_) {
    return RaiseModelException("the server can be asked only on the thread that runs execute");
  }
  AskMessage ask;
  ask.ask_id = wait ? ++last_ask_ : 0;
  ask.topic = topic;
  ask.text = text;
  std::vector<std::byte> message;
  Encode(message, ask);
  if (Status sent = connection_->Send(message); !sent.ok()) return RaiseModelException(sent.message());
  if (!wait) Py_RETURN_NONE;
  while (true) {
    Channel::Outcome outcome;
    Py_BEGIN_ALLOW_THREADS outcome = connection_->Wait(message, 1'000'000'000);
    Py_END_ALLOW_THREADS if (outcome == Channel::Outcome::kCorrupted) {
      RaiseBroken("the ring of messages makes no sense");
      return nullptr;
    }
    if (outcome == Channel::Outcome::kTimeout) continue;
    AnswerMessage answer;
    if (TypeOf(message) != MessageType::kAnswer || !Decode(message, answer)) {
      kept_.push_back(message);
      continue;
    }
    if (answer.code != StatusCode::kOk) return RaiseModelException(answer.error);
    return NewText(answer.text);
  }
}

void Worker::SendLog(uint8_t level, std::string_view file, uint32_t line, std::string_view text) {
  LogMessage message{level, file, line, text};
  std::vector<std::byte> encoded;
  Encode(encoded, message);
  static_cast<void>(connection_->Send(encoded));
}

}  // namespace braid
