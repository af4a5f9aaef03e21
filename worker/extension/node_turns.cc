// The part of NodeRunner that runs user code and sends its results.

#include "base/clock.h"
#include "worker/extension/node_call.h"
#include "worker/extension/ovms_tensor.h"
#include "worker/extension/python_state.h"
#include "worker/extension/worker.h"

namespace braid {
namespace {

std::string TypeNameOf(PyObject* object) {
  Ref name = Ref::Steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(object)), "__name__"));
  std::string_view view;
  if (name && PyUnicode_Check(name.get()) && TextOf(name.get(), view)) return std::string(view);
  PyErr_Clear();
  return "?";
}

std::string Unexpected(const char* expected, PyObject* received) {
  return std::string("Unexpected Python object type. Expected: ")
      .append(expected)
      .append(". Received: ")
      .append(TypeNameOf(received));
}

}  // namespace

void NodeRunner::Run(const Work& work) {
  if (work.session != 0) return EndSession(work.session);
  auto found = calls_.find(work.call);
  // An earlier entry in the queue has closed or run it.
  if (found == calls_.end() || found->second->state != Call::State::kQueued) return;
  const CallPtr call = found->second;
  Worker::SetNodeCall(work.call);
  RunCall(*call);
  Worker::SetNodeCall(0);
}

void NodeRunner::RunCall(Call& call) {
  call.state = Call::State::kRunning;
  const int64_t turn_end_ns = SteadyNowNs() + kTurnNs;
  if (!call.begun && call.closed) {
    RefuseInputs(call);
    return Finish(call, NodeStepMessage::Kind::kEnd);
  }
  if (!call.begun) Begin(call);
  if (call.iterator) Advance(call, turn_end_ns);
}

// --- Inputs

PyObject* NodeRunner::MakeInput(const NodeTensorMessage& message) {
  TensorMessage tensor = message.tensor;
  // The buffer is read-only, so it may share the bytes with other readers.
  if (tensor.place == Place::kSharedMemory) tensor.place = Place::kSenderMemory;
  OvmsTensorParts parts;
  parts.name = Ref::Steal(NewText(tensor.name));
  parts.memory = Ref::Steal(worker_.TakeMemory(tensor, parts.data, parts.size, nullptr));
  if (!parts.name || !parts.memory) return nullptr;
  parts.type = tensor.type;
  parts.custom_type = tensor.custom_type;
  parts.shape = tensor.shape;
  return NewOvmsTensor(std::move(parts));
}

PyObject* NodeRunner::MakeInputs(Call& call) {
  const auto& messages = call.execute.inputs;
  Ref list = Ref::Steal(PyList_New(static_cast<Py_ssize_t>(messages.size())));
  if (!list) return nullptr;
  for (size_t i = 0; i < messages.size(); ++i) {
    PyObject* input = call.objects[i] ? call.objects[i].Release() : MakeInput(messages[i]);
    if (input == nullptr || PyList_SetItem(list.get(), static_cast<Py_ssize_t>(i), input) != 0)
      return nullptr;
  }
  return list.Release();
}

// For a call that never begins.
void NodeRunner::RefuseInputs(Call& call) {
  for (const NodeTensorMessage& input : call.execute.inputs) {
    if (input.object == 0) worker_.connection().Refuse(input.tensor);
  }
  call.objects.clear();
}

// --- User code

void NodeRunner::Begin(Call& call) {
  const NodeFacts& node = nodes_[call.execute.node];
  call.begun = true;
  Ref inputs = Ref::Steal(MakeInputs(call));
  // The inputs now own everything that is needed of the message.
  call.message = {};
  call.execute.inputs.clear();
  Ref session;
  if (inputs && (node.takes_session || node.has_end_session)) session = Ref::Steal(SessionOf(call));
  Ref result;
  if (inputs && PyErr_Occurred() == nullptr) {
    result = Ref::Steal(PyObject_CallMethodObjArgs(node.object.get(), State().execute_name, inputs.get(),
                                                   node.takes_session ? session.get() : nullptr, nullptr));
  }
  if (!result) return FailWithException(call);
  // Inputs that user code has not kept go back with the answer.
  inputs = {};
  Step step;
  if (PyList_Check(result.get())) {
    const std::string error = AddOutputs(node, result.get(), step);
    if (!error.empty()) return Fail(call, step, error);
    result = {};
    SendStep(call, step);
    return LeaveSession(call.execute.session);
  }
  if (!PyIter_Check(result.get())) return Fail(call, step, Unexpected("list or generator", result.get()));
  if (!node.loops) {
    return Fail(call, step,
                "Bad python node configuration. Execute yielded, but LOOPBACK is not defined in the node");
  }
  call.iterator = std::move(result);
}

void NodeRunner::Advance(Call& call, int64_t turn_end_ns) {
  const NodeFacts& node = nodes_[call.execute.node];
  for (bool first = true;; first = false) {
    if (call.closed) {
      CloseIterator(call);
      return Finish(call, NodeStepMessage::Kind::kEnd);
    }
    if (call.credit == 0) {
      call.state = Call::State::kSuspended;
      return;
    }
    if (!first && SteadyNowNs() >= turn_end_ns) {
      call.state = Call::State::kQueued;
      ready_.push_back({.call = call.execute.call_id});
      return;
    }
    Ref item = Ref::Steal(PyIter_Next(call.iterator.get()));
    if (!item) {
      if (PyErr_Occurred() != nullptr) return FailWithException(call);
      return Finish(call, NodeStepMessage::Kind::kEnd);
    }
    if (call.closed) continue;
    Step step;
    std::string error =
        PyList_Check(item.get()) ? AddOutputs(node, item.get(), step) : Unexpected("list", item.get());
    if (!error.empty()) {
      CloseIterator(call);
      return Fail(call, step, error);
    }
    item = {};
    --call.credit;
    step.message.kind = NodeStepMessage::Kind::kItem;
    SendStep(call, step);
  }
}

// Closes a generator: user code gets GeneratorExit. Exceptions of user code are logged.
void NodeRunner::CloseIterator(Call& call) {
  Ref iterator = std::move(call.iterator);
  if (!iterator || PyObject_HasAttrString(iterator.get(), "close") == 0) return;
  Ref closed = Ref::Steal(PyObject_CallMethod(iterator.get(), "close", nullptr));
  if (!closed) LogException(nodes_[call.execute.node]);
}

// --- Sessions

PyObject* NodeRunner::SessionOf(const Call& call) {
  const uint64_t id = call.execute.session;
  auto found = sessions_.find(id);
  const std::string parameters = found != sessions_.end() ? found->second->parameters_json : "";
  if (found != sessions_.end()) {
    auto state = found->second->states.find(call.execute.node);
    if (state != found->second->states.end()) return state->second.NewOrNone();
  }
  Ref made = Ref::Steal(PyObject_CallMethod(worker_.host(), "make_session", "Ks#",
                                            static_cast<unsigned long long>(id), parameters.data(),
                                            static_cast<Py_ssize_t>(parameters.size())));
  // Another execution may have created it meanwhile.
  found = made ? sessions_.find(id) : sessions_.end();
  if (found == sessions_.end()) return made.Release();
  return found->second->states.emplace(call.execute.node, std::move(made)).first->second.NewOrNone();
}

// Accounts for the end of a call in the session.
void NodeRunner::LeaveSession(uint64_t id) {
  auto found = sessions_.find(id);
  if (found == sessions_.end() || --found->second->calls != 0) return;
  if (found->second->ending) ready_.push_back({.session = id});
}

void NodeRunner::EndSession(uint64_t id) {
  auto found = sessions_.extract(id);
  if (!found) return;
  for (const auto& [place, state] : found.mapped()->states) {
    const NodeFacts& node = nodes_[place];
    if (!node.has_end_session) continue;
    Ref done = Ref::Steal(PyObject_CallMethod(node.object.get(), "end_session", "O", state.get()));
    if (!done) LogException(node);
  }
}

// --- Answers

// Fills a step from the results of user code. Returns the error, if any; the outputs before it are valid.
std::string NodeRunner::AddOutputs(const NodeFacts& node, PyObject* list, Step& step) {
  step.filled.assign(node.outputs.size(), false);
  // User code may change the list meanwhile, and so release an output. `step.holds` keeps each item.
  for (Py_ssize_t i = 0; i < PyList_Size(list); ++i) {
    Ref item = Ref::Share(PyList_GetItem(list, i));
    if (std::string error = AddOutput(node, item.get(), step); !error.empty()) return error;
    step.holds.push_back(std::move(item));
  }
  return {};
}

std::string NodeRunner::AddOutput(const NodeFacts& node, PyObject* item, Step& step) {
  if (!IsInstance(item, State().ovms_tensor_type)) return Unexpected("Tensor", item);
  const OvmsTensor& tensor = ValueOf<OvmsTensor>(item);
  if (!tensor.constructed()) return "A Tensor was not constructed: pyovms.Tensor.__init__() was not called";
  std::string_view name;
  if (!TextOf(tensor.name.get(), name)) return TakeExceptionText();
  auto found = node.outputs.find(name);
  const std::string named = std::string("Unexpected Tensor found in the outputs. Tensor name: ").append(name);
  if (found == node.outputs.end()) return named + " is not a valid node output";
  const NodeFacts::Output& output = found->second;
  if (output.loopback) return named + " is the stream of LOOPBACK, which the node cannot write to";
  if (step.filled[output.place]) return named + " is a duplicate; a stream takes one at a time";

  NodeTensorMessage message;
  message.tensor.name = name;
  if (!TypeAndShapeOf(tensor, message.tensor.type, message.tensor.custom_type, message.tensor.shape)) {
    return TakeExceptionText();
  }
  message.has_bytes = output.exported;
  if (output.exported) {
    const Status placed = worker_.Place({tensor.data, tensor.size}, message.tensor);
    if (!placed.ok()) return placed.message();
  }
  if (output.kept) {
    message.object = ++last_object_;
    objects_.emplace(message.object, Ref::Share(item));
  }
  step.filled[output.place] = true;
  step.message.outputs.push_back(std::move(message));
  return {};
}

// Sends a step. Every kind but an item ends the call.
void NodeRunner::SendStep(Call& call, Step& step) {
  step.message.call_id = call.execute.call_id;
  if (step.message.kind != NodeStepMessage::Kind::kItem) calls_.erase(call.execute.call_id);
  std::vector<std::byte> encoded;
  Encode(encoded, step.message);
  const Status sent = worker_.Send(encoded);
  if (sent.code() != StatusCode::kInvalidArgument) return;
  // The message is too long. Releases the outputs, and sends an error instead.
  for (const NodeTensorMessage& output : step.message.outputs) {
    worker_.connection().Unplace(output.tensor);
    auto object = objects_.extract(output.object);
    if (object) step.holds.push_back(std::move(object.mapped()));
  }
  step.message.outputs.clear();
  step.message.kind = NodeStepMessage::Kind::kError;
  step.message.error = sent.message();
  Encode(encoded, step.message);
  static_cast<void>(worker_.Send(encoded));
}

void NodeRunner::Finish(Call& call, NodeStepMessage::Kind kind) {
  // Destroying the generator may run user code.
  call.iterator = {};
  Step step;
  step.message.kind = kind;
  SendStep(call, step);
  LeaveSession(call.execute.session);
}

void NodeRunner::Fail(Call& call, Step& step, std::string_view error) {
  LogError(nodes_[call.execute.node], error);
  step.message.kind = NodeStepMessage::Kind::kError;
  step.message.error = error;
  SendStep(call, step);
  LeaveSession(call.execute.session);
}

void NodeRunner::FailWithException(Call& call) {
  const std::string error = LogException(nodes_[call.execute.node]);
  call.iterator = {};
  Step step;
  step.message.kind = NodeStepMessage::Kind::kError;
  step.message.error = error;
  SendStep(call, step);
  LeaveSession(call.execute.session);
}

// Takes the current exception, and logs its origin. Returns "{type}: {message}" for clients.
std::string NodeRunner::LogException(const NodeFacts& node) {
  Ref exception = TakeException();
  if (!exception) return "unknown error";
  Ref texts = Ref::Steal(PyObject_CallMethod(worker_.host(), "describe_short", "Os#", exception.get(),
                                             node.file.data(), static_cast<Py_ssize_t>(node.file.size())));
  const char* told = nullptr;
  const char* logged = nullptr;
  Py_ssize_t told_size = 0;
  Py_ssize_t logged_size = 0;
  unsigned int line = 0;
  if (!texts || !PyArg_ParseTuple(texts.get(), "s#s#I", &told, &told_size, &logged, &logged_size, &line)) {
    LogError(node, TakeExceptionText());
    return "an exception that cannot be shown";
  }
  LogError(node, {logged, static_cast<size_t>(logged_size)}, line);
  return {told, static_cast<size_t>(told_size)};
}

}  // namespace braid
