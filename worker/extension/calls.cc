#include "worker/extension/calls.h"

#include <optional>

#include "base/clock.h"
#include "worker/extension/dlpack.h"
#include "worker/extension/python_state.h"
#include "worker/extension/response_iterator.h"
#include "worker/extension/response_object.h"
#include "worker/extension/tensor_object.h"
#include "worker/extension/worker.h"

namespace braid {
namespace {

PyObject* ErrorResponse(StatusCode code, std::string_view text) {
  PyError error;
  error.message = Ref::Steal(NewText(text));
  if (!error.message) return nullptr;
  error.code = Ref::Share(ErrorCodeOf(code));
  PyResponse response;
  response.error = Ref::Steal(NewObject(State().error_type, std::move(error)));
  return response.error ? NewObject(State().response_type, std::move(response)) : nullptr;
}

PyObject* ErrorResponse(const Status& status) { return ErrorResponse(status.code(), status.message()); }

// Returns the request whose trace includes the call; 0 for none.
uint64_t TracedRequest(const Ref& trace) {
  if (!trace) return 0;
  Ref id = Ref::Steal(PyObject_GetAttrString(trace.get(), "request_id"));
  const uint64_t number = id ? PyLong_AsUnsignedLongLong(id.get()) : 0;
  if (!PyErr_Occurred()) return number;
  PyErr_Clear();
  return 0;
}

}  // namespace

// --- Beginning

// Fills and encodes the message. Its views refer to the request. Large inputs are then in shared memory.
Status Calls::Encode(const PyRequest& request, CallMessage& message) {
  RequestMessage& inner = message.request;
  message.model_name = request.model_name;
  message.model_version = request.model_version;
  message.traced_request = TracedRequest(request.trace);
  inner.request_id = request.request_id;
  if (const auto* number = std::get_if<uint64_t>(&request.correlation_id)) {
    inner.correlation_id = *number;
  } else {
    inner.correlation_id = std::string_view(std::get<std::string>(request.correlation_id));
  }
  inner.flags = request.flags;
  inner.timeout_us = request.timeout_us;
  inner.parameters_json = request.parameters_json;
  inner.requested_outputs.assign(request.requested_outputs.begin(), request.requested_outputs.end());
  const Py_ssize_t count = request.inputs ? PyList_Size(request.inputs.get()) : 0;
  inner.inputs.reserve(static_cast<size_t>(count));
  std::vector<Ref> copies;    // live until the message is encoded
  std::optional<bool> stays;  // GPU tensors may stay on the GPU
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* const object = PyList_GetItem(request.inputs.get(), i);
    const PyTensor& tensor = ValueOf<PyTensor>(object);
    TensorMessage& input = inner.inputs.emplace_back();
    if (!tensor.name || !TextOf(tensor.name.get(), input.name)) {
      PyErr_Clear();
      return InvalidArgumentError("the name of an input is not valid UTF-8");
    }
    input.type = tensor.type;
    input.shape = tensor.shape;
    if (tensor.device_type == kDlCuda) {
      if (!stays) stays = worker_.TakesDeviceInputs(request.model_name, request.model_version);
      BRAID_RETURN_IF_ERROR(worker_.PlaceFromDevice(object, input, copies, *stays));
    } else {
      BRAID_RETURN_IF_ERROR(worker_.Place({tensor.data, tensor.size}, input));
    }
  }
  braid::Encode(encoded_, message);
  return OkStatus();
}

Result<std::shared_ptr<Exchange>> Calls::Start(const PyRequest& request, bool decoupled,
                                               Exchange::Notice notice, bool background, bool waits) {
  CallMessage message;
  message.called_ns = SteadyNowNs();
  BRAID_RETURN_IF_ERROR(worker_.EnsureConversation());
  std::shared_ptr<Exchange> exchange = worker_.inbox().Begin(notice, background);
  message.decoupled = decoupled;
  if (worker_.uses_devices()) exchange->preferred_gpu = request.preferred_gpu;
  message.device_outputs = worker_.uses_devices() && request.device_outputs;
  message.blocked_execution = waits ? worker_.HeldUpExecution() : worker_.BlockedExecution();
  message.request.id = exchange->id();
  Status status = Encode(request, message);
  if (status.ok()) status = worker_.Send(encoded_);
  if (status.ok()) return exchange;
  worker_.inbox().Forget(*exchange);
  for (const TensorMessage& input : message.request.inputs) worker_.connection().Unplace(input);
  return status;
}

PyObject* Calls::Exec(const PyRequest& request, bool decoupled) {
  auto started = Start(request, decoupled, Exchange::Notice::kNone, false, !decoupled);
  if (decoupled) {
    if (started.ok()) return NewResponseIterator(worker_, std::move(started).value(), Ref());
    Ref error = Ref::Steal(ErrorResponse(started.status()));
    return error ? NewResponseIterator(worker_, nullptr, std::move(error)) : nullptr;
  }
  return started.ok() ? OnlyResponse(*started.value()) : ErrorResponse(started.status());
}

// --- Responses

// Returns null without an exception for the bare end of a call if that does not count.
PyObject* Calls::MakeResponse(const Exchange& exchange, std::span<const std::byte> message,
                              bool bare_end_counts) {
  ResponseMessage response;
  if (!Decode(message, response, MessageType::kCallResponse)) {
    worker_.inbox().Break("a bad response to a call");
    return RaiseModelException(worker_.inbox().why());
  }
  if (response.code != StatusCode::kOk) return ErrorResponse(response.code, response.error);
  if (!response.has_response && !bare_end_counts) return nullptr;
  PyResponse made;
  made.tensors = Ref::Steal(PyList_New(static_cast<Py_ssize_t>(response.outputs.size())));
  if (!made.tensors) return nullptr;
  for (size_t i = 0; i < response.outputs.size(); ++i) {
    const TensorMessage& output = response.outputs[i];
    std::vector<std::shared_ptr<Lending>> lent;
    PyObject* tensor = worker_.MakeTensor(output, &lent);
    if (tensor == nullptr || PyList_SetItem(made.tensors.get(), static_cast<Py_ssize_t>(i), tensor) != 0) {
      return nullptr;
    }
    ValueOf<PyTensor>(tensor).name = Ref::Steal(NewText(output.name));
    if (!ValueOf<PyTensor>(tensor).name) return nullptr;
    SharedMapping* const from = lent.empty() ? nullptr : lent.back()->mapping();
    if (exchange.preferred_gpu &&
        !worker_.BringToDevice(*exchange.preferred_gpu, from, ValueOf<PyTensor>(tensor)))
      return nullptr;
  }
  if (!response.parameters_json.empty()) {
    made.parameters_json = Ref::Steal(NewText(response.parameters_json));
    if (!made.parameters_json) return nullptr;
  }
  return NewObject(State().response_type, std::move(made));
}

// Waits for the next message; false if there are no more. Errors: the connection is closed.
Result<bool> Calls::NextMessage(Exchange& exchange, std::vector<std::byte>& message) {
  Inbox& inbox = worker_.inbox();
  while (true) {
    if (inbox.Take(exchange, message)) return true;
    if (inbox.Exhausted(exchange)) return false;
    Inbox::Outcome outcome = Inbox::Outcome::kReady;
    Py_BEGIN_ALLOW_THREADS outcome = inbox.Wait(exchange);
    Py_END_ALLOW_THREADS worker_.DoChores();
    if (outcome == Inbox::Outcome::kEnded) {
      const std::string why = inbox.why();
      inbox.Forget(exchange);
      return UnavailableError(why.empty() ? "The call was made by another process." : why);
    }
  }
}

PyObject* Calls::NextResponse(Exchange& exchange) {
  std::vector<std::byte> message;
  const Result<bool> got = NextMessage(exchange, message);
  if (!got.ok()) return ErrorResponse(got.status());
  return got.value() ? MakeResponse(exchange, message, true) : nullptr;
}

// Returns the response of a call that has at most one.
PyObject* Calls::OnlyResponse(Exchange& exchange) {
  Ref response;
  std::vector<std::byte> message;
  while (true) {
    const Result<bool> got = NextMessage(exchange, message);
    if (!got.ok()) return ErrorResponse(got.status());
    if (!got.value()) break;
    if (!response) response = Ref::Steal(MakeResponse(exchange, message, false));
    if (PyErr_Occurred()) return nullptr;
  }
  return response ? response.Release() : ErrorResponse(StatusCode::kInternal, "Unexpected empty response.");
}

void Calls::Drop(std::span<const std::byte> message) {
  ResponseMessage response;
  // An answer to a question has no memory.
  if (!Decode(message, response, MessageType::kCallResponse)) return;
  for (const TensorMessage& output : response.outputs) worker_.connection().Refuse(output);
}

void Calls::Cancel(Exchange& exchange) {
  if (!worker_.inbox().Open(exchange)) return;
  std::vector<std::byte> message;
  braid::Encode(message, CancelCallMessage{exchange.id()});
  static_cast<void>(worker_.Send(message));
}

void Calls::Abandon(Exchange& exchange) {
  Cancel(exchange);
  worker_.inbox().Discard(exchange);
  worker_.DoChores();
}

// --- Futures

PyObject* Calls::AsyncExec(const PyRequest& request, bool decoupled, PyObject* loop) {
  Awaited awaited;
  awaited.decoupled = decoupled;
  awaited.loop = Ref::Share(loop);
  awaited.future = Ref::Steal(PyObject_CallFunctionObjArgs(State().call_future, loop, nullptr));
  if (!awaited.future) return nullptr;
  Ref future = awaited.future;
  const auto notice = decoupled ? Exchange::Notice::kFirst : Exchange::Notice::kLast;
  auto started = Start(request, decoupled, notice, !worker_.IsModelLoop(loop), false);
  if (!started.ok()) {
    Ref error = Ref::Steal(ErrorResponse(started.status()));
    if (error && decoupled) error = Ref::Steal(NewResponseIterator(worker_, nullptr, std::move(error)));
    if (!error) return nullptr;
    Ref set = Ref::Steal(PyObject_CallMethod(future.get(), "set_result", "O", error.get()));
    return set ? future.Release() : nullptr;
  }
  awaited.exchange = std::move(started).value();
  const uint64_t id = awaited.exchange->id();
  Ref number = Ref::Steal(PyLong_FromUnsignedLongLong(id));
  if (!number || PyObject_SetAttrString(future.get(), "call_id", number.get()) != 0) return nullptr;
  awaited_.emplace(id, std::move(awaited));
  return future.Release();
}

void Calls::Complete(const std::shared_ptr<Exchange>& exchange) {
  auto found = awaited_.extract(exchange->id());
  if (!found) return;
  const Awaited& awaited = found.mapped();
  Ref value =
      Ref::Steal(awaited.decoupled ? NewResponseIterator(worker_, exchange, Ref()) : OnlyResponse(*exchange));
  if (!value) {
    const std::string text = TakeExceptionText();
    value = Ref::Steal(ErrorResponse(StatusCode::kInternal, text));
  }
  if (value) Settle(awaited, value.get());
  if (PyErr_Occurred()) PyErr_WriteUnraisable(awaited.future.get());
}

void Calls::Settle(const Awaited& awaited, PyObject* value) {
  Ref done;
  if (worker_.InModelLoop() && worker_.IsModelLoop(awaited.loop.get())) {
    done =
        Ref::Steal(PyObject_CallFunctionObjArgs(State().settle_future, awaited.future.get(), value, nullptr));
    return;
  }
  done = Ref::Steal(PyObject_CallMethod(awaited.loop.get(), "call_soon_threadsafe", "OOO",
                                        State().settle_future, awaited.future.get(), value));
  // A closed loop has no waiting tasks.
  if (!done && PyErr_ExceptionMatches(PyExc_RuntimeError)) PyErr_Clear();
}

void Calls::CancelAwaited(uint64_t call_id) {
  auto found = awaited_.extract(call_id);
  if (found) Abandon(*found.mapped().exchange);
}

}  // namespace braid
