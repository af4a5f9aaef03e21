// The part of Worker that executes the model.

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "tensor/bytes_elements.h"
#include "tensor/tensor.h"
#include "worker/extension/dlpack.h"
#include "worker/extension/python_state.h"
#include "worker/extension/turn.h"

namespace braid {
namespace {

constexpr uint32_t kSequenceEnd = 2;  // TRITONSERVER_REQUEST_FLAG_SEQUENCE_END

constexpr const char* kNotIterative =
    "Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, while the model is not configured to "
    "handle such a flag.";

// Returns a new int or str.
PyObject* NewCorrelationId(const RequestMessage& request) {
  const auto* number = std::get_if<uint64_t>(&request.correlation_id);
  return number != nullptr ? PyLong_FromUnsignedLongLong(*number)
                           : NewText(std::get<std::string_view>(request.correlation_id));
}

// The server fills empty slots of a batch with requests without a sequence.
bool IsOfSequence(const RequestMessage& request) {
  const auto* number = std::get_if<uint64_t>(&request.correlation_id);
  return number == nullptr || *number != 0;
}

}  // namespace

PyObject* Worker::MakeRequest(const RequestMessage& message, Turn& turn) {
  PyRequest request;
  request.open = std::make_shared<OpenRequest>(*this, message.id, message.cancel_slot);
  turn.requests.push_back(request.open);
  if (!message.device_outputs.empty())
    request.open->LeaveOnDevice({message.device_outputs.begin(), message.device_outputs.end()});
  if (!message.requested_outputs.empty()) {
    request.open->RequestOnly({message.requested_outputs.begin(), message.requested_outputs.end()});
  }
  request.request_id = message.request_id;
  if (const auto* number = std::get_if<uint64_t>(&message.correlation_id)) {
    request.correlation_id = *number;
  } else {
    request.correlation_id = std::string(std::get<std::string_view>(message.correlation_id));
  }
  if (model_.saves_sequences && (message.flags & kSequenceEnd) == 0 && IsOfSequence(message)) {
    Ref id = Ref::Steal(NewCorrelationId(message));
    if (!id) return nullptr;
    request.open->SaveSequence(std::move(id));
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
    PyObject* tensor = MakeTensor(message.inputs[i], &turn.lendings);
    if (tensor == nullptr && IsOnDevice(message.inputs[i].place)) {
      // A failing device fails the execution, but does not end the process.
      if (turn.violation.empty()) turn.violation = TakeExceptionText();
      PyErr_Clear();
      tensor = NewTensor(PyTensor());
    }
    if (tensor == nullptr) return nullptr;
    ValueOf<PyTensor>(tensor).name = name.object;
    if (PyList_SetItem(request.inputs.get(), static_cast<Py_ssize_t>(i), tensor) != 0) return nullptr;
  }
  return NewObject(State().request_type, std::move(request));
}

bool Worker::PrepareRequests() {
  std::vector<RequestMessage>& requests = execute_.requests;
  rendered_.clear();
  size_t kept = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    RequestMessage& request = requests[i];
    ResponseMessage refusal;  // kOk: none
    std::string why;
    if (request.renders_chat && !RenderChat(request, why)) {
      refusal.code = StatusCode::kInvalidArgument;
    } else if (model_.saves_sequences && !request.inputs.empty() &&
               request.inputs.back().name == kSequenceStateTensor) {
      const TensorMessage state = std::move(request.inputs.back());
      request.inputs.pop_back();
      if (!LoadSequence(request, state)) {
        const ErrorText fault = DescribeException();
        SendLog(2, model_.model_file, fault.line, fault.logged);
        why = fault.told;
        refusal.code = StatusCode::kInternal;
      }
    }
    if (refusal.code != StatusCode::kOk) {
      refusal.request_id = request.id;
      refusal.error = why;
      Encode(response_, refusal);
      if (const Status sent = Send(response_); !sent.ok()) {
        RaiseBroken(sent.message());
        return false;
      }
      continue;
    }
    if (kept != i) requests[kept] = std::move(request);
    ++kept;
  }
  requests.resize(kept);
  return true;
}

bool Worker::RenderChat(RequestMessage& request, std::string& refusal) {
  const auto prompt = std::find_if(request.inputs.begin(), request.inputs.end(),
                                   [](const TensorMessage& input) { return input.name == kPromptInput; });
  if (prompt == request.inputs.end()) return true;
  Ref tensor = Ref::Steal(MakeTensor(*prompt, nullptr));
  if (!tensor) {
    refusal = DescribeException().told;
    return false;
  }
  const PyTensor& chat = ValueOf<PyTensor>(tensor.get());
  BytesElements elements({reinterpret_cast<const char*>(chat.data), chat.size});
  if (!elements.Next()) return true;
  const std::string_view text = elements.value();
  Ref rendered = Ref::Steal(PyObject_CallMethod(host_.get(), "render_chat", "y#", text.data(),
                                                static_cast<Py_ssize_t>(text.size())));
  if (!rendered) {
    refusal = DescribeException().told;
    return false;
  }
  if (!PyBytes_Check(rendered.get())) {
    std::string_view why = "the chat has no prompt";
    if (!TextOf(rendered.get(), why)) PyErr_Clear();
    refusal = why;
    return false;
  }
  prompt->place = Place::kInline;
  prompt->bytes = {reinterpret_cast<const std::byte*>(PyBytes_AsString(rendered.get())),
                   static_cast<size_t>(PyBytes_Size(rendered.get()))};
  rendered_.push_back(std::move(rendered));
  return true;
}

bool Worker::LoadSequence(const RequestMessage& request, const TensorMessage& state) {
  Ref tensor = Ref::Steal(MakeTensor(state, nullptr));
  if (!tensor) return false;
  const PyTensor& bytes = ValueOf<PyTensor>(tensor.get());
  Ref id = Ref::Steal(NewCorrelationId(request));
  Ref given = Ref::Steal(PyBytes_FromStringAndSize(reinterpret_cast<const char*>(bytes.data),
                                                   static_cast<Py_ssize_t>(bytes.size)));
  if (!id || !given) return false;
  return static_cast<bool>(
      Ref::Steal(PyObject_CallMethod(host_.get(), "load_sequence", "OO", id.get(), given.get())));
}

bool Worker::MakeTurn(Turn& turn) {
  turn.executed.execution_id = execute_.execution_id;
  turn.requests.reserve(execute_.requests.size());
  turn.list = Ref::Steal(PyList_New(static_cast<Py_ssize_t>(execute_.requests.size())));
  if (!turn.list) return false;
  for (size_t i = 0; i < execute_.requests.size(); ++i) {
    PyObject* request = MakeRequest(execute_.requests[i], turn);
    // The cause is lack of memory, or a protocol violation of the server.
    if (request == nullptr || PyList_SetItem(turn.list.get(), static_cast<Py_ssize_t>(i), request) != 0) {
      return false;
    }
  }
  return true;
}

bool Worker::HandleExecute() {
  if (!Decode(received_, execute_)) {
    RaiseBroken("a bad message about an execution");
    return false;
  }
  connection_->header().begun_execution.store(execute_.execution_id, std::memory_order_release);
  current_execution_ = execute_.execution_id;
  if (!PrepareRequests()) return false;
  Turn turn;
  if (!MakeTurn(turn)) return false;
  turn.executed.input_end_ns = SteadyNowNs();
  const bool called = turn.violation.empty() && CallExecute(turn);
  if (turn.handed_over) return true;
  current_execution_ = 0;
  // The server expects responses in the order of the executions.
  return SendStarted() && FinishTurn(turn, called);
}

// Turns the result of execute() into the message kExecuted, and sends it.
bool Worker::FinishTurn(Turn& turn, bool called) {
  turn.executed.infer_end_ns = SteadyNowNs();
  // Memory that the turn releases is returned with the answer.
  connection_->set_waiting(false);
  if (!called || !CheckResult(turn) || !Collect(turn)) {
    FailAll(turn, turn.violation.empty() ? DescribeException() : Told(turn.violation));
  }
  // With lent memory, Python releases it before the answer names it, so that it can be handed back or reused
  // at once. Without, the answer is sent first.
  if (!turn.lendings.empty()) Settle(turn);
  const bool replied = Reply(turn);
  connection_->set_waiting(in_loop_);
  return replied;
}

bool Worker::Reply(Turn& turn) {
  turn.executed.responses.reserve(turn.responses.size());
  for (OutgoingResponse& response : turn.responses) {
    turn.executed.responses.push_back(std::move(response.message));
  }
  turn.executed.output_end_ns = SteadyNowNs();
  Encode(outgoing_, turn.executed);
  Status sent = connection_->Send(outgoing_);
  if (sent.code() == StatusCode::kInvalidArgument) {
    // The message is too long because of an error text or parameters.
    for (ResponseMessage& response : turn.executed.responses) {
      response.code = StatusCode::kInternal;
      response.error = sent.message();
      response.parameters_json = {};
      connection_->Withdraw(response.outputs);
    }
    Encode(outgoing_, turn.executed);
    sent = connection_->Send(outgoing_);
  }
  if (!sent.ok()) RaiseBroken(sent.message());
  return sent.ok();
}

bool Worker::CallExecute(Turn& turn) {
  if (turn.requests.empty()) {
    turn.result = Ref::Share(Py_None);
    return true;
  }
  const PythonState& state = State();
  PyObject* model = model_.model.get();
  turn.result = Ref::Steal(PyObject_CallMethodObjArgs(model, state.execute_name, turn.list.get(), nullptr));
  if (!turn.result) {
    if (PyErr_ExceptionMatches(PyExc_AttributeError) && !PyObject_HasAttr(model, state.execute_name)) {
      PyErr_Clear();
      turn.violation = "Python model " + model_.model_file + " does not implement `execute` method.";
    }
    return false;
  }
  if (reinterpret_cast<PyObject*>(Py_TYPE(turn.result.get())) != state.coroutine_type) return true;
  return StartTask(turn, std::move(turn.result));
}

// Moves the rest of an execution to a task of the model's event loop. If the model is not decoupled, the next
// execution begins when the task is done. If it is decoupled, the next execution begins after the task's
// first step.
bool Worker::StartTask(Turn& turn, Ref coroutine) {
  if (!loop_) {
    Ref made = Ref::Steal(PyObject_CallMethod(host_.get(), "make_loop", nullptr));
    if (!made) return false;
  }
  Ref task = Ref::Steal(PyObject_CallMethod(loop_.get(), "create_task", "O", coroutine.get()));
  if (!task) return false;
  PyObject* callback =
      model_.decoupled ? (started_.empty() ? State().on_first_steps : nullptr) : State().on_turn_done;
  if (callback != nullptr) {
    Ref set =
        Ref::Steal(model_.decoupled ? PyObject_CallMethod(loop_.get(), "call_soon", "O", callback)
                                    : PyObject_CallMethod(task.get(), "add_done_callback", "O", callback));
    if (!set) return false;
  }
  turn.handed_over = true;
  if (model_.decoupled) {
    current_execution_ = 0;
    turn.list = {};
    started_.push_back({std::move(turn), std::move(task)});
  } else {
    turn_ = std::make_unique<Turn>(std::move(turn));
  }
  return true;
}

void Worker::OnTurnDone(PyObject* task) {
  if (!turn_) return;
  std::unique_ptr<Turn> turn = std::move(turn_);
  turn->result = Ref::Steal(PyObject_CallMethod(task, "result", nullptr));
  current_execution_ = 0;
  const bool finished = FinishTurn(*turn, static_cast<bool>(turn->result));
  turn.reset();
  if (!finished || !Advance()) LeaveLoopWith(true);
}

void Worker::OnFirstSteps() {
  if (!SendStarted()) LeaveLoopWith(true);
}

// Answers the executions that have started: each now waits, or is done, so the server can send more.
bool Worker::SendStarted() {
  std::vector<Started> started;
  started.swap(started_);
  for (Started& one : started) {
    Ref done = Ref::Steal(PyObject_CallMethod(one.task.get(), "done", nullptr));
    if (!done) return false;
    if (done.get() == Py_True) {
      one.turn.result = Ref::Steal(PyObject_CallMethod(one.task.get(), "result", nullptr));
    } else {
      Ref kept = Ref::Steal(PyObject_CallMethod(host_.get(), "keep_task", "O", one.task.get()));
      if (!kept) return false;
      one.turn.result = Ref::Share(Py_None);
    }
    if (!FinishTurn(one.turn, static_cast<bool>(one.turn.result))) return false;
  }
  return true;
}

// Validates the whole result of execute() before using any part of it.
bool Worker::CheckResult(Turn& turn) {
  PyObject* result = turn.result.get();
  if (result == Py_None) return true;
  if (model_.decoupled) {
    return turn.Violates("Python model '" + model_.instance_name +
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
    if (item != Py_None && !CheckItem(turn, i, item)) return false;
  }
  return true;
}

bool Worker::CheckItem(Turn& turn, size_t i, PyObject* item) {
  if (turn.requests[i]->reschedules()) {
    return turn.Violates(
        "Expected a None object in the execute function return list for reschduled request, found type '" +
        TypeText(item) + "'.");
  }
  if (!IsInstance(item, State().response_type)) {
    return turn.Violates(
        "Expected an 'InferenceResponse' object in the execute function return list, found type '" +
        TypeText(item) + "'.");
  }
  if (turn.requests[i]->responses() != 0) {
    return turn.Violates("Unable to send response. Non-decoupled model cannot send more than one response.");
  }
  return true;
}

bool Worker::Collect(Turn& turn) {
  if (turn.result.get() != Py_None) {
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
  }
  for (const auto& request : turn.requests) {
    // User code can no longer set flags.
    const bool reschedules = request->TakeRelease();
    if (!reschedules || request->done()) continue;
    if (model_.iterative) {
      turn.executed.rescheduled.push_back(request->id());
      request->Close();
      request->Finish();
      continue;
    }
    SendLog(2, model_.model_file, 0, kNotIterative);
    request->set_abandoned_because(kNotIterative);
  }
  return true;
}

bool Worker::Prepare(OpenRequest& request, PyObject* response, OutgoingResponse& out) {
  if (PrepareResponse(request, response, out, nullptr)) return true;
  connection_->Withdraw(out.message.outputs);
  return false;
}

bool Worker::PrepareResponse(OpenRequest& request, PyObject* object, OutgoingResponse& out, Turn* turn) {
  const PyResponse& response = ValueOf<PyResponse>(object);
  // With lent memory, the objects are released before the message is encoded, so `out.holds` keeps the needed
  // ones.
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
    PyObject* const object = PyList_GetItem(response.tensors.get(), i);
    const PyTensor& tensor = ValueOf<PyTensor>(object);
    if (!tensor.name || !request.Wants(tensor.name.get())) continue;
    TensorMessage& output = message.outputs.emplace_back();
    if (!view_of(tensor.name, output.name)) return false;
    output.type = tensor.type;
    output.shape = tensor.shape;
    if (tensor.device_type == kDlCuda) {
      const Status placed = PlaceFromDevice(object, output, out.holds, request.StaysOnDevice(output.name));
      if (!placed.ok()) return FailResponse(out, placed);
      continue;
    }
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
    const Status placed = Place(bytes, output);
    if (!placed.ok()) return FailResponse(out, placed);
  }
  return request.saved_sequence() == nullptr || SaveSequence(request.saved_sequence(), out);
}

bool Worker::SaveSequence(PyObject* correlation_id, OutgoingResponse& out) {
  Ref state = Ref::Steal(PyObject_CallMethod(host_.get(), "save_sequence", "O", correlation_id));
  if (!state) {
    const ErrorText why = DescribeException();
    SendLog(2, model_.model_file, why.line, why.logged);
    return FailResponse(out, InternalError(why.told));
  }
  const std::span bytes(reinterpret_cast<const std::byte*>(PyBytes_AsString(state.get())),
                        static_cast<size_t>(PyBytes_Size(state.get())));
  out.holds.push_back(std::move(state));
  TensorMessage& output = out.message.outputs.emplace_back();
  output.name = kSequenceStateTensor;
  output.type = DataType::kUint8;
  output.shape = {1, static_cast<int64_t>(bytes.size())};
  const Status placed = Place(bytes, output);
  return placed.ok() || FailResponse(out, placed);
}

bool Worker::FailResponse(OutgoingResponse& out, const Status& status) {
  connection_->Withdraw(out.message.outputs);
  Ref text = Ref::Steal(NewText(status.message()));
  if (!text || !TextOf(text.get(), out.message.error)) return false;
  out.holds.push_back(std::move(text));
  out.message.code = status.code();
  return true;
}

// Drops Python's references of this turn. Then hands back outputs in the server's memory, or copies them if
// they have another owner.
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
    const Status placed = Place(deferred.bytes, output);
    if (!placed.ok() && !FailResponse(response, placed)) PyErr_Clear();
  }
  turn.lendings.clear();
  connection_->FlushReleases(true);
}

void Worker::FailAll(Turn& turn, const ErrorText& detail) {
  const std::string prefix =
      "Failed to process the request(s) for model '" + model_.instance_name + "', message: ";
  SendLog(2, model_.model_file, detail.line, prefix + detail.logged);
  for (OutgoingResponse& response : turn.responses) connection_->Withdraw(response.message.outputs);
  turn.responses.clear();
  turn.deferred.clear();
  Ref held = Ref::Steal(NewText(prefix + detail.told));
  std::string_view view;
  if (!held || !TextOf(held.get(), view)) {
    PyErr_Clear();
    view = "Failed to process the request(s)";
  }
  for (const auto& request : turn.requests) {
    request->TakeRelease();
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

ErrorText Worker::DescribeException() {
  Ref exception = TakeException();
  if (!exception) return {"unknown error", "unknown error"};
  Ref texts = Ref::Steal(PyObject_CallMethod(host_.get(), "describe", "O", exception.get()));
  const char* told = nullptr;
  const char* logged = nullptr;
  Py_ssize_t told_size = 0;
  Py_ssize_t logged_size = 0;
  unsigned int line = 0;
  if (!texts || !PyArg_ParseTuple(texts.get(), "s#s#I", &told, &told_size, &logged, &logged_size, &line)) {
    return {"an exception that cannot be shown", TakeExceptionText()};
  }
  return {{told, static_cast<size_t>(told_size)}, {logged, static_cast<size_t>(logged_size)}, line};
}

ErrorText Worker::Told(std::string text) {
  Ref told = Ref::Steal(PyObject_CallMethod(host_.get(), "for_clients", "s#", text.data(),
                                            static_cast<Py_ssize_t>(text.size())));
  std::string_view view;
  if (!told || !TextOf(told.get(), view)) return {"an error that cannot be shown", TakeExceptionText()};
  return {std::string(view), std::move(text)};
}

bool Worker::SendResponse(OpenRequest& request, OutgoingResponse& out) {
  if (out.message.final) request.Finish();
  Encode(response_, out.message);
  const Status sent = Send(response_);
  if (!sent.ok()) {
    connection_->Withdraw(out.message.outputs);
    RaiseModelException(sent.message());
  }
  return sent.ok();
}

bool Worker::SendEnd(OpenRequest& request) {
  OutgoingResponse end;
  end.message.request_id = request.id();
  end.message.has_response = false;
  return SendResponse(request, end);
}

void Worker::FailAbandoned(OpenRequest& request) {
  // In a forked child, the request still belongs to the parent.
  if (forked()) return;
  const std::string text = "Failed to process the request(s) for model '" + model_.instance_name +
                           "', message: " + request.abandoned_because();
  ResponseMessage message;
  message.request_id = request.id();
  message.code = StatusCode::kInternal;
  message.error = text;
  std::vector<std::byte> encoded;
  Encode(encoded, message);
  static_cast<void>(Send(encoded));
}

}  // namespace braid
