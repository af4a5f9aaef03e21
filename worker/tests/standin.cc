// A stand-in for the server in tests: the server's end of a worker's channel, as a Python extension.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>

#include "base/clock.h"
#include "ipc/arena.h"
#include "ipc/channel.h"
#include "ipc/messages.h"
#include "ipc/node_messages.h"
#include "ipc/segment_map.h"
#include "worker/extension/py.h"

namespace braid {
namespace {

struct Standin {
  std::unique_ptr<Channel> channel;
  SegmentIds ids;
  Arena arena{ids, Arena::Options()};
  SegmentMap segments;
  std::map<uint32_t, int> announced;
  std::map<std::pair<uint32_t, uint64_t>, Buffer> lent;
  std::vector<MemoryHandle> kept;  // the worker's memory, not returned yet
  bool keep_outputs = false;
};

constexpr const char* kCapsule = "standin";

Standin* Get(PyObject* capsule) { return static_cast<Standin*>(PyCapsule_GetPointer(capsule, kCapsule)); }

PyObject* Raise(const std::string& text) {
  PyErr_SetString(PyExc_RuntimeError, text.c_str());
  return nullptr;
}

bool Check(const Status& status) {
  if (!status.ok()) Raise(status.ToString());
  return status.ok();
}

PyObject* Create(PyObject*, PyObject*) {
  auto standin = std::make_unique<Standin>();
  Channel::WorkerEnd end;
  auto channel = Channel::CreateServerEnd({}, end);
  if (!channel.ok()) return Raise(channel.status().ToString());
  standin->channel = std::move(channel).value();
  PyObject* capsule = PyCapsule_New(standin.release(), kCapsule, [](PyObject* self) { delete Get(self); });
  return Py_BuildValue("(Niii)", capsule, end.memory.Release(), end.socket.Release(), end.wake.Release());
}

std::string_view Text(PyObject* dict, const char* key) {
  PyObject* value = PyDict_GetItemString(dict, key);
  std::string_view text;
  if (value != nullptr && !TextOf(value, text)) PyErr_Clear();
  return text;
}

uint64_t Number(PyObject* dict, const char* key, uint64_t otherwise) {
  PyObject* value = PyDict_GetItemString(dict, key);
  return value != nullptr ? PyLong_AsUnsignedLongLong(value) : otherwise;
}

PyObject* Load(PyObject*, PyObject* args) {
  PyObject* capsule = nullptr;
  int mode = 0;
  PyObject* fields = nullptr;
  if (!PyArg_ParseTuple(args, "OiO", &capsule, &mode, &fields)) return nullptr;
  LoadMessage load;
  load.mode = static_cast<LoadMode>(mode);
  load.model_file = Text(fields, "model_file");
  load.module_name = Text(fields, "module_name");
  load.model_path = Text(fields, "model_path");
  load.version_path = Text(fields, "version_path");
  load.model_config = Text(fields, "model_config");
  load.model_name = Text(fields, "model_name");
  load.model_version = Text(fields, "model_version");
  load.instance_name = Text(fields, "instance_name");
  load.instance_kind = Text(fields, "instance_kind");
  load.instance_device_id = Text(fields, "instance_device_id");
  load.arena_keep_bytes = Number(fields, "arena_keep_bytes", 0);
  load.verbose_errors = Number(fields, "verbose_errors", 0) != 0;
  load.debugger = Text(fields, "debugger");
  load.keeps_sequences = Number(fields, "keeps_sequences", 0) != 0;
  std::vector<std::byte> message;
  Encode(message, load);
  if (!Check(Get(capsule)->channel->Send(message))) return nullptr;
  Py_RETURN_NONE;
}

// Fills a tensor from (name, type, shape, bytes, shared=False); the type may be a custom name.
bool FillTensor(Standin& standin, PyObject* tuple, TensorMessage& tensor) {
  const char* name = nullptr;
  PyObject* type = nullptr;
  PyObject* shape = nullptr;
  const char* bytes = nullptr;
  Py_ssize_t size = 0;
  int shared = 0;
  if (!PyArg_ParseTuple(tuple, "sOO!y#|p", &name, &type, &PyTuple_Type, &shape, &bytes, &size, &shared))
    return false;
  tensor.name = name;
  if (PyUnicode_Check(type)) {
    tensor.type = DataType::kCustom;
    if (!TextOf(type, tensor.custom_type)) return false;
  } else {
    tensor.type = static_cast<DataType>(PyLong_AsLong(type));
  }
  for (Py_ssize_t i = 0; i < PyTuple_Size(shape); ++i) {
    tensor.shape.push_back(PyLong_AsLongLong(PyTuple_GetItem(shape, i)));
  }
  if (static_cast<size_t>(size) <= kInlineTensorBytes) {
    tensor.bytes = {reinterpret_cast<const std::byte*>(bytes), static_cast<size_t>(size)};
    return true;
  }
  auto block = standin.arena.Allocate(static_cast<size_t>(size));
  if (!Check(block.status())) return false;
  std::memcpy(block.value().mutable_data(), bytes, static_cast<size_t>(size));
  const Segment& segment = *static_cast<SegmentBlock*>(block.value().owner())->segment();
  if (standin.announced[segment.id()]++ == 0 && !Check(standin.channel->SendSegment(segment, segment.id()))) {
    return false;
  }
  tensor.place = shared != 0 ? Place::kSharedMemory : Place::kSenderMemory;
  tensor.handle = {segment.id(), static_cast<uint64_t>(block.value().data() - segment.base()),
                   static_cast<uint64_t>(size)};
  standin.lent[{tensor.handle.segment, tensor.handle.offset}] = std::move(block).value();
  return true;
}

bool AddInput(Standin& standin, PyObject* tuple, RequestMessage& request) {
  return FillTensor(standin, tuple, request.inputs.emplace_back());
}

bool BuildExecute(Standin& standin, uint64_t id, PyObject* requests, ExecuteMessage& execute) {
  execute.execution_id = id;
  for (Py_ssize_t i = 0; i < PyList_Size(requests); ++i) {
    PyObject* fields = PyList_GetItem(requests, i);
    RequestMessage& request = execute.requests.emplace_back();
    request.id = Number(fields, "id", 0);
    request.request_id = Text(fields, "request_id");
    PyObject* correlation = PyDict_GetItemString(fields, "correlation_id");
    if (correlation != nullptr && PyUnicode_Check(correlation)) {
      request.correlation_id = Text(fields, "correlation_id");
    } else {
      request.correlation_id = Number(fields, "correlation_id", 0);
    }
    request.flags = static_cast<uint32_t>(Number(fields, "flags", 0));
    request.timeout_us = Number(fields, "timeout", 0);
    request.parameters_json = Text(fields, "parameters");
    request.trace_context = Text(fields, "trace");
    request.cancel_slot = static_cast<uint32_t>(Number(fields, "cancel_slot", kNoCancelSlot));
    if (PyObject* outputs = PyDict_GetItemString(fields, "outputs")) {
      for (Py_ssize_t k = 0; k < PyList_Size(outputs); ++k) {
        std::string_view name;
        if (!TextOf(PyList_GetItem(outputs, k), name)) return false;
        request.requested_outputs.push_back(name);
      }
    }
    if (PyObject* inputs = PyDict_GetItemString(fields, "inputs")) {
      for (Py_ssize_t k = 0; k < PyList_Size(inputs); ++k) {
        if (!AddInput(standin, PyList_GetItem(inputs, k), request)) return false;
      }
    }
  }
  return !PyErr_Occurred();
}

PyObject* Execute(PyObject*, PyObject* args) {
  PyObject* capsule = nullptr;
  unsigned long long id = 0;
  PyObject* requests = nullptr;
  if (!PyArg_ParseTuple(args, "OKO!", &capsule, &id, &PyList_Type, &requests)) return nullptr;
  ExecuteMessage execute;
  if (!BuildExecute(*Get(capsule), id, requests, execute)) return nullptr;
  std::vector<std::byte> message;
  Encode(message, execute);
  if (!Check(Get(capsule)->channel->Send(message))) return nullptr;
  Py_RETURN_NONE;
}

// respond(channel, call, {"final", "has_response", "code", "error", "parameters", "outputs": [tensor, ...]})
PyObject* Respond(PyObject*, PyObject* args) {
  PyObject* capsule = nullptr;
  unsigned long long id = 0;
  PyObject* fields = nullptr;
  if (!PyArg_ParseTuple(args, "OKO!", &capsule, &id, &PyDict_Type, &fields)) return nullptr;
  ResponseMessage response;
  response.request_id = id;
  response.final = Number(fields, "final", 1) != 0;
  response.has_response = Number(fields, "has_response", 1) != 0;
  response.code = static_cast<StatusCode>(Number(fields, "code", 0));
  response.error = Text(fields, "error");
  response.parameters_json = Text(fields, "parameters");
  RequestMessage tensors;
  if (PyObject* outputs = PyDict_GetItemString(fields, "outputs")) {
    for (Py_ssize_t k = 0; k < PyList_Size(outputs); ++k) {
      if (!AddInput(*Get(capsule), PyList_GetItem(outputs, k), tensors)) return nullptr;
    }
  }
  response.outputs = std::move(tensors.inputs);
  std::vector<std::byte> message;
  Encode(message, response, MessageType::kCallResponse);
  if (!Check(Get(capsule)->channel->Send(message))) return nullptr;
  Py_RETURN_NONE;
}

PyObject* Answer(PyObject*, PyObject* args) {
  PyObject* capsule = nullptr;
  unsigned long long id = 0;
  int code = 0;
  const char* text = nullptr;
  if (!PyArg_ParseTuple(args, "OKis", &capsule, &id, &code, &text)) return nullptr;
  AnswerMessage answer;
  answer.ask_id = id;
  answer.code = static_cast<StatusCode>(code);
  (code == 0 ? answer.text : answer.error) = text;
  std::vector<std::byte> message;
  Encode(message, answer);
  if (!Check(Get(capsule)->channel->Send(message))) return nullptr;
  Py_RETURN_NONE;
}

PyObject* CheckReady(PyObject*, PyObject* args) {
  PyObject* capsule = nullptr;
  unsigned long long id = 0;
  if (!PyArg_ParseTuple(args, "OK", &capsule, &id)) return nullptr;
  std::vector<std::byte> message;
  Encode(message, CheckReadyMessage{id});
  if (!Check(Get(capsule)->channel->Send(message))) return nullptr;
  Py_RETURN_NONE;
}

// node_execute(channel, call, node, session, credit, [tensor or number of an object, ...])
PyObject* NodeExecute(PyObject*, PyObject* args) {
  PyObject* capsule = nullptr;
  unsigned long long call = 0;
  unsigned long long session = 0;
  unsigned int node = 0;
  unsigned int credit = 0;
  PyObject* inputs = nullptr;
  if (!PyArg_ParseTuple(args, "OKIKIO!", &capsule, &call, &node, &session, &credit, &PyList_Type, &inputs)) {
    return nullptr;
  }
  NodeExecuteMessage execute{
      .call_id = call, .node = node, .session = session, .credit = credit, .inputs = {}};
  for (Py_ssize_t i = 0; i < PyList_Size(inputs); ++i) {
    PyObject* input = PyList_GetItem(inputs, i);
    NodeTensorMessage& message = execute.inputs.emplace_back();
    if (PyLong_Check(input)) {
      message.object = PyLong_AsUnsignedLongLong(input);
      message.has_bytes = false;
    } else if (!FillTensor(*Get(capsule), input, message.tensor)) {
      return nullptr;
    }
  }
  std::vector<std::byte> message;
  Encode(message, execute);
  if (!Check(Get(capsule)->channel->Send(message))) return nullptr;
  Py_RETURN_NONE;
}

PyObject* NodeResume(PyObject*, PyObject* args) {
  PyObject* capsule = nullptr;
  unsigned long long call = 0;
  unsigned int credit = 1;
  if (!PyArg_ParseTuple(args, "OK|I", &capsule, &call, &credit)) return nullptr;
  std::vector<std::byte> message;
  Encode(message, NodeResumeMessage{call, credit});
  if (!Check(Get(capsule)->channel->Send(message))) return nullptr;
  Py_RETURN_NONE;
}

PyObject* NodeClose(PyObject*, PyObject* args) {
  PyObject* capsule = nullptr;
  unsigned long long call = 0;
  if (!PyArg_ParseTuple(args, "OK", &capsule, &call)) return nullptr;
  std::vector<std::byte> message;
  Encode(message, NodeCloseMessage{call});
  if (!Check(Get(capsule)->channel->Send(message))) return nullptr;
  Py_RETURN_NONE;
}

PyObject* NodeSession(PyObject*, PyObject* args) {
  PyObject* capsule = nullptr;
  unsigned long long session = 0;
  int end = 0;
  const char* parameters = "";
  if (!PyArg_ParseTuple(args, "OKp|s", &capsule, &session, &end, &parameters)) return nullptr;
  std::vector<std::byte> message;
  Encode(message, NodeSessionMessage{session, end != 0, parameters});
  if (!Check(Get(capsule)->channel->Send(message))) return nullptr;
  Py_RETURN_NONE;
}

PyObject* NodeDrop(PyObject*, PyObject* args) {
  PyObject* capsule = nullptr;
  unsigned long long object = 0;
  if (!PyArg_ParseTuple(args, "OK", &capsule, &object)) return nullptr;
  std::vector<std::byte> message;
  Encode(message, NodeDropMessage{{object}});
  if (!Check(Get(capsule)->channel->Send(message))) return nullptr;
  Py_RETURN_NONE;
}

PyObject* Finalize(PyObject*, PyObject* capsule) {
  std::vector<std::byte> message;
  EncodeBare(message, MessageType::kFinalize);
  if (!Check(Get(capsule)->channel->Send(message))) return nullptr;
  Py_RETURN_NONE;
}

PyObject* Garbage(PyObject*, PyObject* capsule) {
  const std::byte message[] = {std::byte{2}, std::byte{9}};
  if (!Check(Get(capsule)->channel->Send(message))) return nullptr;
  Py_RETURN_NONE;
}

PyObject* Cancel(PyObject*, PyObject* args) {
  PyObject* capsule = nullptr;
  int slot = 0;
  int value = 1;
  if (!PyArg_ParseTuple(args, "Oi|i", &capsule, &slot, &value)) return nullptr;
  Get(capsule)->channel->header().cancelled[slot] = static_cast<uint8_t>(value);
  Py_RETURN_NONE;
}

// Returns the bytes of an output, and releases its memory.
bool TakeBytes(Standin& standin, const TensorMessage& tensor, std::string& out) {
  if (tensor.place == Place::kInline) {
    out.assign(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
    return true;
  }
  if (tensor.place == Place::kSenderMemory) {
    auto segment = standin.segments.FindOrReceive(tensor.handle.segment, *standin.channel);
    if (!Check(segment.status())) return false;
    out.assign(reinterpret_cast<const char*>(segment.value()->base() + tensor.handle.offset),
               tensor.handle.size);
    standin.kept.push_back(tensor.handle);
    if (standin.keep_outputs) return true;
    ReleaseMessage release{std::move(standin.kept)};
    standin.kept.clear();
    std::vector<std::byte> message;
    Encode(message, release);
    return Check(standin.channel->Send(message, true));
  }
  for (auto& [key, block] : standin.lent) {
    if (key.first != tensor.handle.segment || tensor.handle.offset < key.second ||
        tensor.handle.offset + tensor.handle.size > key.second + block.size()) {
      continue;
    }
    out.assign(reinterpret_cast<const char*>(block.data() + (tensor.handle.offset - key.second)),
               tensor.handle.size);
    standin.lent.erase(key);
    return true;
  }
  Raise("an output is in memory that was not lent");
  return false;
}

PyObject* ShapeOf(const TensorMessage& tensor) {
  PyObject* shape = PyTuple_New(static_cast<Py_ssize_t>(tensor.shape.size()));
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    PyTuple_SetItem(shape, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(tensor.shape[i]));
  }
  return shape;
}

// {name: (type, shape, bytes, place)}
PyObject* TensorsDict(Standin& standin, const std::vector<TensorMessage>& tensors) {
  Ref dict = Ref::Steal(PyDict_New());
  for (const TensorMessage& tensor : tensors) {
    std::string bytes;
    if (!TakeBytes(standin, tensor, bytes)) return nullptr;
    Ref shape = Ref::Steal(ShapeOf(tensor));
    Ref value =
        Ref::Steal(Py_BuildValue("(iOy#i)", static_cast<int>(tensor.type), shape.get(), bytes.data(),
                                 static_cast<Py_ssize_t>(bytes.size()), static_cast<int>(tensor.place)));
    Ref name = Ref::Steal(NewText(tensor.name));
    if (!value || !name || PyDict_SetItem(dict.get(), name.get(), value.get()) != 0) return nullptr;
  }
  return dict.Release();
}

PyObject* ResponseDict(Standin& standin, const ResponseMessage& response) {
  Ref outputs = Ref::Steal(TensorsDict(standin, response.outputs));
  if (!outputs) return nullptr;
  return Py_BuildValue(
      "{s:K,s:O,s:O,s:i,s:s#,s:s#,s:O}", "id", static_cast<unsigned long long>(response.request_id), "final",
      response.final ? Py_True : Py_False, "has_response", response.has_response ? Py_True : Py_False, "code",
      static_cast<int>(response.code), "error", response.error.data(),
      static_cast<Py_ssize_t>(response.error.size()), "parameters", response.parameters_json.data(),
      static_cast<Py_ssize_t>(response.parameters_json.size()), "outputs", outputs.get());
}

PyObject* CallDict(Standin& standin, const CallMessage& call) {
  const RequestMessage& request = call.request;
  Ref inputs = Ref::Steal(TensorsDict(standin, request.inputs));
  Ref outputs = Ref::Steal(PyList_New(0));
  if (!inputs) return nullptr;
  for (std::string_view output : request.requested_outputs) {
    Ref name = Ref::Steal(NewText(output));
    if (!name || PyList_Append(outputs.get(), name.get()) != 0) return nullptr;
  }
  const auto* number = std::get_if<uint64_t>(&request.correlation_id);
  Ref correlation =
      Ref::Steal(number != nullptr ? PyLong_FromUnsignedLongLong(*number)
                                   : NewText(std::get<std::string_view>(request.correlation_id)));
  const auto text = [](std::string_view view) { return Ref::Steal(NewText(view)); };
  return Py_BuildValue("{s:s,s:K,s:O,s:L,s:K,s:K,s:O,s:O,s:O,s:I,s:K,s:O,s:O,s:O}", "type", "call", "id",
                       static_cast<unsigned long long>(request.id), "model", text(call.model_name).get(),
                       "version", static_cast<long long>(call.model_version), "blocked",
                       static_cast<unsigned long long>(call.blocked_execution), "traced",
                       static_cast<unsigned long long>(call.traced_request), "decoupled",
                       call.decoupled ? Py_True : Py_False, "request_id", text(request.request_id).get(),
                       "correlation_id", correlation.get(), "flags", request.flags, "timeout",
                       static_cast<unsigned long long>(request.timeout_us), "parameters",
                       text(request.parameters_json).get(), "outputs", outputs.get(), "inputs", inputs.get());
}

// {"call", "kind", "error", "outputs": [(name, type, shape, bytes or None, object), ...]}
PyObject* StepDict(Standin& standin, std::span<const std::byte> message) {
  NodeStepMessage step;
  if (!Decode(message, step)) return Raise("bad step");
  Ref outputs = Ref::Steal(PyList_New(0));
  for (const NodeTensorMessage& output : step.outputs) {
    const TensorMessage& tensor = output.tensor;
    std::string bytes;
    if (output.has_bytes && !TakeBytes(standin, tensor, bytes)) return nullptr;
    Ref data = output.has_bytes ? Ref::Steal(PyBytes_FromStringAndSize(bytes.data(), std::ssize(bytes)))
                                : Ref::Share(Py_None);
    Ref shape = Ref::Steal(ShapeOf(tensor));
    const std::string_view type =
        tensor.type == DataType::kCustom ? tensor.custom_type : WireName(tensor.type);
    Ref item = Ref::Steal(Py_BuildValue("(s#s#OOK)", tensor.name.data(), std::ssize(tensor.name), type.data(),
                                        std::ssize(type), shape.get(), data.get(),
                                        static_cast<unsigned long long>(output.object)));
    if (!item || PyList_Append(outputs.get(), item.get()) != 0) return nullptr;
  }
  static constexpr const char* kKinds[] = {"list", "item", "end", "error"};
  return Py_BuildValue("{s:s,s:K,s:s,s:s#,s:O}", "type", "step", "call",
                       static_cast<unsigned long long>(step.call_id), "kind",
                       kKinds[static_cast<size_t>(step.kind)], "error", step.error.data(),
                       std::ssize(step.error), "outputs", outputs.get());
}

PyObject* Describe(Standin& standin, std::span<const std::byte> message) {
  switch (TypeOf(message)) {
    case MessageType::kHello: {
      HelloMessage hello;
      if (!Decode(message, hello)) return Raise("bad hello");
      return Py_BuildValue("{s:s,s:s#,s:s#}", "type", "hello", "python", hello.python_version.data(),
                           static_cast<Py_ssize_t>(hello.python_version.size()), "numpy",
                           hello.numpy_version.data(), static_cast<Py_ssize_t>(hello.numpy_version.size()));
    }
    case MessageType::kLoaded: {
      LoadedMessage loaded;
      if (!Decode(message, loaded)) return Raise("bad loaded");
      return Py_BuildValue(
          "{s:s,s:O,s:O,s:O,s:i,s:s#,s:s#}", "type", "loaded", "wants_sessions",
          loaded.wants_sessions ? Py_True : Py_False, "saves_sequences",
          loaded.saves_sequences ? Py_True : Py_False, "has_hook",
          loaded.has_readiness_hook ? Py_True : Py_False, "code", static_cast<int>(loaded.code), "error",
          loaded.error.data(), static_cast<Py_ssize_t>(loaded.error.size()), "config",
          loaded.auto_completed_config.data(), static_cast<Py_ssize_t>(loaded.auto_completed_config.size()));
    }
    case MessageType::kExecuted: {
      ExecutedMessage executed;
      if (!Decode(message, executed)) return Raise("bad executed");
      Ref responses = Ref::Steal(PyList_New(0));
      for (const ResponseMessage& response : executed.responses) {
        Ref dict = Ref::Steal(ResponseDict(standin, response));
        if (!dict || PyList_Append(responses.get(), dict.get()) != 0) return nullptr;
      }
      Ref rescheduled = Ref::Steal(PyList_New(0));
      for (uint64_t id : executed.rescheduled) {
        Ref number = Ref::Steal(PyLong_FromUnsignedLongLong(id));
        if (!number || PyList_Append(rescheduled.get(), number.get()) != 0) return nullptr;
      }
      return Py_BuildValue("{s:s,s:K,s:(LLL),s:O,s:O}", "type", "executed", "id",
                           static_cast<unsigned long long>(executed.execution_id), "times",
                           executed.input_end_ns, executed.infer_end_ns, executed.output_end_ns, "responses",
                           responses.get(), "rescheduled", rescheduled.get());
    }
    case MessageType::kResponse: {
      ResponseMessage response;
      if (!Decode(message, response)) return Raise("bad response");
      Ref dict = Ref::Steal(ResponseDict(standin, response));
      return dict ? Py_BuildValue("{s:s,s:O}", "type", "response", "response", dict.get()) : nullptr;
    }
    case MessageType::kLog: {
      LogMessage log;
      if (!Decode(message, log)) return Raise("bad log");
      return Py_BuildValue("{s:s,s:i,s:s#,s:I,s:s#}", "type", "log", "level", static_cast<int>(log.level),
                           "file", log.file.data(), static_cast<Py_ssize_t>(log.file.size()), "line",
                           log.line, "text", log.text.data(), static_cast<Py_ssize_t>(log.text.size()));
    }
    case MessageType::kCall: {
      CallMessage call;
      if (!Decode(message, call)) return Raise("bad call");
      return CallDict(standin, call);
    }
    case MessageType::kCancelCall: {
      CancelCallMessage cancel;
      if (!Decode(message, cancel)) return Raise("bad cancellation");
      return Py_BuildValue("{s:s,s:K}", "type", "cancel_call", "id",
                           static_cast<unsigned long long>(cancel.call_id));
    }
    case MessageType::kAsk: {
      AskMessage ask;
      if (!Decode(message, ask)) return Raise("bad question");
      Ref attachments = Ref::Steal(PyDict_New());
      for (const AskMessage::Attachment& attachment : ask.attachments) {
        Ref name = Ref::Steal(NewText(attachment.name));
        Ref bytes =
            Ref::Steal(PyBytes_FromStringAndSize(reinterpret_cast<const char*>(attachment.bytes.data()),
                                                 static_cast<Py_ssize_t>(attachment.bytes.size())));
        if (!name || !bytes || PyDict_SetItem(attachments.get(), name.get(), bytes.get()) != 0)
          return nullptr;
      }
      return Py_BuildValue("{s:s,s:K,s:i,s:s#,s:O}", "type", "ask", "id",
                           static_cast<unsigned long long>(ask.ask_id), "topic", static_cast<int>(ask.topic),
                           "text", ask.text.data(), static_cast<Py_ssize_t>(ask.text.size()), "attachments",
                           attachments.get());
    }
    case MessageType::kReadiness: {
      ReadinessMessage readiness;
      if (!Decode(message, readiness)) return Raise("bad readiness");
      return Py_BuildValue("{s:s,s:K,s:O,s:s#}", "type", "readiness", "id",
                           static_cast<unsigned long long>(readiness.check_id), "ready",
                           readiness.ready ? Py_True : Py_False, "reason", readiness.reason.data(),
                           static_cast<Py_ssize_t>(readiness.reason.size()));
    }
    case MessageType::kNodeStep:
      return StepDict(standin, message);
    case MessageType::kFinalized:
      return Py_BuildValue("{s:s}", "type", "finalized");
    case MessageType::kRelease: {
      ReleaseMessage release;
      if (!Decode(message, release)) return Raise("bad release");
      for (const MemoryHandle& handle : release.handles) {
        if (standin.lent.erase({handle.segment, handle.offset}) == 0) return Raise("released twice");
      }
      return Py_BuildValue("{s:s,s:n}", "type", "release", "count",
                           static_cast<Py_ssize_t>(release.handles.size()));
    }
    case MessageType::kRetireSegment: {
      RetireSegmentMessage retired;
      if (!Decode(message, retired)) return Raise("bad retire");
      standin.segments.Remove(retired.segment);
      return Py_BuildValue("{s:s,s:I}", "type", "retire", "segment", retired.segment);
    }
    default:
      return Raise("an unknown message");
  }
}

// Returns the next message as a dict; None on timeout.
PyObject* Receive(PyObject*, PyObject* args) {
  PyObject* capsule = nullptr;
  double seconds = 10;
  if (!PyArg_ParseTuple(args, "O|d", &capsule, &seconds)) return nullptr;
  Standin& standin = *Get(capsule);
  std::vector<std::byte> message;
  const int64_t deadline = SteadyNowNs() + static_cast<int64_t>(seconds * 1e9);
  while (true) {
    const int64_t left = std::max<int64_t>(deadline - SteadyNowNs(), 0);
    Channel::Outcome outcome = Channel::Outcome::kTimeout;
    Py_BEGIN_ALLOW_THREADS outcome = standin.channel->Receive(message, left);
    Py_END_ALLOW_THREADS if (outcome == Channel::Outcome::kCorrupted) return Raise("corrupted");
    if (outcome == Channel::Outcome::kMessage) return Describe(standin, message);
    if (SteadyNowNs() >= deadline) Py_RETURN_NONE;
  }
}

// Returns the bytes of all lent memory, in sequence.
PyObject* LentBytes(PyObject*, PyObject* capsule) {
  std::string all;
  for (const auto& [key, block] : Get(capsule)->lent) all += block.text();
  return PyBytes_FromStringAndSize(all.data(), static_cast<Py_ssize_t>(all.size()));
}

PyObject* LentBlocks(PyObject*, PyObject* capsule) { return PyLong_FromSize_t(Get(capsule)->lent.size()); }

PyObject* KeepOutputs(PyObject*, PyObject* args) {
  PyObject* capsule = nullptr;
  int keep = 0;
  if (!PyArg_ParseTuple(args, "Op", &capsule, &keep)) return nullptr;
  Get(capsule)->keep_outputs = keep != 0;
  Py_RETURN_NONE;
}

// Benchmark: repeats an execution with small inputs, `depth` at a time. Returns nanoseconds per execution.
PyObject* Bench(PyObject*, PyObject* args) {
  PyObject* capsule = nullptr;
  int count = 0;
  PyObject* requests = nullptr;
  int depth = 1;
  if (!PyArg_ParseTuple(args, "OiO!|i", &capsule, &count, &PyList_Type, &requests, &depth)) return nullptr;
  Standin& standin = *Get(capsule);
  ExecuteMessage execute;
  if (!BuildExecute(standin, 1, requests, execute)) return nullptr;
  std::vector<std::byte> message;
  Encode(message, execute);
  std::vector<std::byte> received;
  const int64_t start = SteadyNowNs();
  int sent = 0;
  for (int done = 0; done < count;) {
    for (; sent < count && sent - done < depth; ++sent) {
      if (!Check(standin.channel->Send(message))) return nullptr;
    }
    if (standin.channel->Receive(received, 1'000'000'000) != Channel::Outcome::kMessage) continue;
    if (TypeOf(received) == MessageType::kExecuted) ++done;
  }
  return PyFloat_FromDouble(static_cast<double>(SteadyNowNs() - start) / count);
}

// The same for executions of the first node.
PyObject* NodeBench(PyObject*, PyObject* args) {
  PyObject* capsule = nullptr;
  int count = 0;
  PyObject* inputs = nullptr;
  int depth = 1;
  if (!PyArg_ParseTuple(args, "OiO!|i", &capsule, &count, &PyList_Type, &inputs, &depth)) return nullptr;
  Standin& standin = *Get(capsule);
  NodeExecuteMessage execute;
  for (Py_ssize_t i = 0; i < PyList_Size(inputs); ++i) {
    if (!FillTensor(standin, PyList_GetItem(inputs, i), execute.inputs.emplace_back().tensor)) return nullptr;
  }
  std::vector<std::byte> message;
  const int64_t start = SteadyNowNs();
  int sent = 0;
  for (int done = 0; done < count;) {
    for (; sent < count && sent - done < depth; ++sent) {
      execute.call_id = static_cast<uint64_t>(sent) + 1;
      Encode(message, execute);
      if (!Check(standin.channel->Send(message))) return nullptr;
    }
    if (standin.channel->Receive(message, 1'000'000'000) != Channel::Outcome::kMessage) continue;
    if (TypeOf(message) == MessageType::kNodeStep) ++done;
  }
  return PyFloat_FromDouble(static_cast<double>(SteadyNowNs() - start) / count);
}

PyMethodDef functions[] = {
    {"create", Create, METH_NOARGS, nullptr},
    {"load", Load, METH_VARARGS, nullptr},
    {"execute", Execute, METH_VARARGS, nullptr},
    {"respond", Respond, METH_VARARGS, nullptr},
    {"answer", Answer, METH_VARARGS, nullptr},
    {"check_ready", CheckReady, METH_VARARGS, nullptr},
    {"node_execute", NodeExecute, METH_VARARGS, nullptr},
    {"node_resume", NodeResume, METH_VARARGS, nullptr},
    {"node_close", NodeClose, METH_VARARGS, nullptr},
    {"node_session", NodeSession, METH_VARARGS, nullptr},
    {"node_drop", NodeDrop, METH_VARARGS, nullptr},
    {"finalize", Finalize, METH_O, nullptr},
    {"garbage", Garbage, METH_O, nullptr},
    {"cancel", Cancel, METH_VARARGS, nullptr},
    {"receive", Receive, METH_VARARGS, nullptr},
    {"lent_blocks", LentBlocks, METH_O, nullptr},
    {"lent_bytes", LentBytes, METH_O, nullptr},
    {"bench", Bench, METH_VARARGS, nullptr},
    {"node_bench", NodeBench, METH_VARARGS, nullptr},
    {"keep_outputs", KeepOutputs, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_braid_standin", nullptr, 0, functions, nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace braid

PyMODINIT_FUNC PyInit__braid_standin() { return PyModuleDef_Init(&braid::definition); }
