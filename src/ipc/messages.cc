#include "ipc/messages.h"

#include "ipc/message_parts.h"

namespace braid {
namespace {

using namespace message_parts;

DataType GetDataType(WireReader& in) {
  const auto number = in.Get<uint8_t>();
  if (number > static_cast<uint8_t>(DataType::kCustom)) in.Fail();
  return static_cast<DataType>(number);
}

// User code knows those that TritonError has; what only the server's own parts say is internal to it.
void PutStatusCode(WireWriter& out, StatusCode code) {
  const bool unknown = code > StatusCode::kCancelled && code <= StatusCode::kPermissionDenied;
  out.Put(unknown ? StatusCode::kInternal : code);
}

StatusCode GetStatusCode(WireReader& in) {
  const auto number = in.Get<uint8_t>();
  if (number > static_cast<uint8_t>(StatusCode::kCancelled)) in.Fail();
  return static_cast<StatusCode>(number);
}

// More dimensions than any array library knows.
constexpr uint32_t kMaxDimensions = 64;

// The fewest bytes that each takes.
constexpr size_t kLeastTensor = 11;
constexpr size_t kLeastRequest = 53;
constexpr size_t kLeastResponse = 18;

void PutRequest(WireWriter& out, const RequestMessage& request) {
  out.Put(request.id);
  out.PutText(request.request_id);
  const auto* number = std::get_if<uint64_t>(&request.correlation_id);
  PutFlag(out, number == nullptr);
  if (number) {
    out.Put(*number);
  } else {
    out.PutText(std::get<std::string_view>(request.correlation_id));
  }
  out.Put(request.flags);
  out.Put(request.timeout_us);
  out.PutText(request.parameters_json);
  out.Put(request.cancel_slot);
  out.PutText(request.trace_context);
  out.Put(static_cast<uint32_t>(request.requested_outputs.size()));
  for (std::string_view output : request.requested_outputs) out.PutText(output);
  out.Put(static_cast<uint32_t>(request.device_outputs.size()));
  for (std::string_view output : request.device_outputs) out.PutText(output);
  out.Put(static_cast<uint32_t>(request.inputs.size()));
  for (const TensorMessage& input : request.inputs) EncodeTensor(out, input);
}

RequestMessage GetRequest(WireReader& in) {
  RequestMessage request;
  request.id = in.Get<uint64_t>();
  request.request_id = in.GetText();
  if (GetFlag(in)) {
    request.correlation_id = in.GetText();
  } else {
    request.correlation_id = in.Get<uint64_t>();
  }
  request.flags = in.Get<uint32_t>();
  request.timeout_us = in.Get<uint64_t>();
  request.parameters_json = in.GetText();
  request.cancel_slot = in.Get<uint32_t>();
  request.trace_context = in.GetText();
  const uint32_t outputs = in.GetCount(4);
  request.requested_outputs.reserve(outputs);
  for (uint32_t k = 0; k < outputs; ++k) request.requested_outputs.push_back(in.GetText());
  const uint32_t on_device = in.GetCount(4);
  request.device_outputs.reserve(on_device);
  for (uint32_t k = 0; k < on_device; ++k) request.device_outputs.push_back(in.GetText());
  const uint32_t inputs = in.GetCount(kLeastTensor);
  request.inputs.reserve(inputs);
  for (uint32_t k = 0; k < inputs && in.ok(); ++k) request.inputs.push_back(DecodeTensor(in));
  return request;
}

void PutResponse(WireWriter& out, const ResponseMessage& message) {
  out.Put(message.request_id);
  out.Put(static_cast<uint8_t>((message.final ? 1 : 0) | (message.has_response ? 2 : 0)));
  PutStatusCode(out, message.code);
  if (message.code != StatusCode::kOk) out.PutText(message.error);
  out.PutText(message.parameters_json);
  out.Put(static_cast<uint32_t>(message.outputs.size()));
  for (const auto& output : message.outputs) EncodeTensor(out, output);
}

ResponseMessage GetResponse(WireReader& in) {
  ResponseMessage message;
  message.request_id = in.Get<uint64_t>();
  const auto flags = in.Get<uint8_t>();
  message.final = (flags & 1) != 0;
  message.has_response = (flags & 2) != 0;
  if ((flags & ~3) != 0) in.Fail();
  message.code = GetStatusCode(in);
  if (message.code != StatusCode::kOk) message.error = in.GetText();
  message.parameters_json = in.GetText();
  const uint32_t outputs = in.GetCount(kLeastTensor);
  message.outputs.reserve(outputs);
  for (uint32_t i = 0; i < outputs && in.ok(); ++i) message.outputs.push_back(DecodeTensor(in));
  if (in.ok() && !message.final && !message.has_response) in.Fail();
  return message;
}

}  // namespace

MessageType TypeOf(std::span<const std::byte> message) {
  return message.empty() ? MessageType{} : static_cast<MessageType>(message[0]);
}

void EncodeTensor(WireWriter& out, const TensorMessage& tensor) {
  out.PutText(tensor.name);
  out.Put(tensor.type);
  out.Put(static_cast<uint8_t>(tensor.shape.size()));
  for (int64_t dim : tensor.shape) out.Put(dim);
  out.Put(tensor.place);
  if (tensor.type == DataType::kCustom) out.PutText(tensor.custom_type);
  if (tensor.place == Place::kInline) {
    out.PutBytes(tensor.bytes);
  } else {
    out.Put(tensor.handle.segment);
    out.Put(tensor.handle.offset);
    out.Put(tensor.handle.size);
  }
}

TensorMessage DecodeTensor(WireReader& in) {
  TensorMessage tensor;
  tensor.name = in.GetText();
  tensor.type = GetDataType(in);
  const auto dims = in.Get<uint8_t>();
  if (dims > kMaxDimensions) in.Fail();
  for (uint8_t i = 0; i < dims && in.ok(); ++i) tensor.shape.push_back(in.Get<int64_t>());
  const auto place = in.Get<uint8_t>();
  if (place > static_cast<uint8_t>(Place::kSharedDeviceMemory)) in.Fail();
  tensor.place = static_cast<Place>(place);
  if (tensor.type == DataType::kCustom) tensor.custom_type = in.GetText();
  if (tensor.place == Place::kInline) {
    tensor.bytes = in.GetBytes();
  } else {
    tensor.handle.segment = in.Get<uint32_t>();
    tensor.handle.offset = in.Get<uint64_t>();
    tensor.handle.size = in.Get<uint64_t>();
  }
  return tensor;
}

void Encode(std::vector<std::byte>& out, const LoadMessage& message) {
  WireWriter writer = Begin(out, MessageType::kLoad);
  writer.Put(message.mode);
  for (std::string_view text :
       {message.model_file, message.module_name, message.model_path, message.version_path,
        message.model_config, message.model_name, message.model_version, message.instance_name,
        message.instance_kind, message.instance_device_id}) {
    writer.PutText(text);
  }
  writer.Put(message.arena_keep_bytes);
  writer.Put(static_cast<uint32_t>(message.device_pools.size()));
  for (const LoadMessage::DevicePool& pool : message.device_pools) {
    writer.Put(pool.gpu);
    writer.Put(pool.keep_bytes);
  }
  writer.Put(message.pinned_pool_bytes);
  PutFlag(writer, message.verbose_errors);
  PutFlag(writer, message.keeps_sequences);
}

bool Decode(std::span<const std::byte> in, LoadMessage& message) {
  WireReader reader = Open(in, MessageType::kLoad);
  const auto mode = reader.Get<uint8_t>();
  if (mode > static_cast<uint8_t>(LoadMode::kNodes)) reader.Fail();
  message.mode = static_cast<LoadMode>(mode);
  for (std::string_view* text :
       {&message.model_file, &message.module_name, &message.model_path, &message.version_path,
        &message.model_config, &message.model_name, &message.model_version, &message.instance_name,
        &message.instance_kind, &message.instance_device_id}) {
    *text = reader.GetText();
  }
  message.arena_keep_bytes = reader.Get<uint64_t>();
  const uint32_t pools = reader.GetCount(12);
  message.device_pools.clear();
  for (uint32_t i = 0; i < pools; ++i) {
    LoadMessage::DevicePool& pool = message.device_pools.emplace_back();
    pool.gpu = reader.Get<int32_t>();
    pool.keep_bytes = reader.Get<uint64_t>();
  }
  message.pinned_pool_bytes = reader.Get<uint64_t>();
  message.verbose_errors = GetFlag(reader);
  message.keeps_sequences = GetFlag(reader);
  return Complete(reader);
}

void Encode(std::vector<std::byte>& out, const ExecuteMessage& message) {
  WireWriter writer = Begin(out, MessageType::kExecute);
  writer.Put(message.execution_id);
  writer.Put(static_cast<uint32_t>(message.requests.size()));
  for (const RequestMessage& request : message.requests) PutRequest(writer, request);
}

bool Decode(std::span<const std::byte> in, ExecuteMessage& message) {
  WireReader reader = Open(in, MessageType::kExecute);
  message.execution_id = reader.Get<uint64_t>();
  const uint32_t requests = reader.GetCount(kLeastRequest);
  message.requests.clear();
  message.requests.reserve(requests);
  for (uint32_t i = 0; i < requests && reader.ok(); ++i) message.requests.push_back(GetRequest(reader));
  return Complete(reader);
}

void Encode(std::vector<std::byte>& out, const CallMessage& message) {
  WireWriter writer = Begin(out, MessageType::kCall);
  writer.PutText(message.model_name);
  writer.Put(message.model_version);
  writer.Put(message.blocked_execution);
  writer.Put(message.traced_request);
  writer.Put(message.called_ns);
  PutFlag(writer, message.decoupled);
  PutFlag(writer, message.device_outputs);
  PutRequest(writer, message.request);
}

bool Decode(std::span<const std::byte> in, CallMessage& message) {
  WireReader reader = Open(in, MessageType::kCall);
  message.model_name = reader.GetText();
  message.model_version = reader.Get<int64_t>();
  message.blocked_execution = reader.Get<uint64_t>();
  message.traced_request = reader.Get<uint64_t>();
  message.called_ns = reader.Get<int64_t>();
  message.decoupled = GetFlag(reader);
  message.device_outputs = GetFlag(reader);
  message.request = GetRequest(reader);
  return Complete(reader) && message.request.id != 0;
}

void Encode(std::vector<std::byte>& out, const CancelCallMessage& message) {
  Begin(out, MessageType::kCancelCall).Put(message.call_id);
}

bool Decode(std::span<const std::byte> in, CancelCallMessage& message) {
  WireReader reader = Open(in, MessageType::kCancelCall);
  message.call_id = reader.Get<uint64_t>();
  return Complete(reader);
}

void EncodeCallResponse(std::vector<std::byte>& out, const ResponseMessage& message) {
  WireWriter writer = Begin(out, MessageType::kCallResponse);
  PutResponse(writer, message);
}

bool DecodeCallResponse(std::span<const std::byte> in, ResponseMessage& message) {
  WireReader reader = Open(in, MessageType::kCallResponse);
  message = GetResponse(reader);
  return Complete(reader);
}

bool PeekCallResponse(std::span<const std::byte> in, uint64_t& call_id, bool& final) {
  WireReader reader = Open(in, MessageType::kCallResponse);
  call_id = reader.Get<uint64_t>();
  final = (reader.Get<uint8_t>() & 1) != 0;
  return reader.ok();
}

void Encode(std::vector<std::byte>& out, const AskMessage& message) {
  WireWriter writer = Begin(out, MessageType::kAsk);
  writer.Put(message.ask_id);
  writer.Put(message.topic);
  writer.PutText(message.text);
  writer.Put(static_cast<uint32_t>(message.attachments.size()));
  for (const AskMessage::Attachment& attachment : message.attachments) {
    writer.PutText(attachment.name);
    writer.PutBytes(attachment.bytes);
  }
}

bool Decode(std::span<const std::byte> in, AskMessage& message) {
  WireReader reader = Open(in, MessageType::kAsk);
  message.ask_id = reader.Get<uint64_t>();
  const auto topic = reader.Get<uint8_t>();
  if (topic < static_cast<uint8_t>(AskTopic::kLoadModel) ||
      topic > static_cast<uint8_t>(AskTopic::kTakesDeviceInputs)) {
    reader.Fail();
  }
  message.topic = static_cast<AskTopic>(topic);
  message.text = reader.GetText();
  const uint32_t attachments = reader.GetCount(8);
  message.attachments.clear();
  message.attachments.reserve(attachments);
  for (uint32_t i = 0; i < attachments && reader.ok(); ++i) {
    AskMessage::Attachment& attachment = message.attachments.emplace_back();
    attachment.name = reader.GetText();
    attachment.bytes = reader.GetBytes();
  }
  return Complete(reader);
}

void Encode(std::vector<std::byte>& out, const AnswerMessage& message) {
  WireWriter writer = Begin(out, MessageType::kAnswer);
  writer.Put(message.ask_id);
  PutStatusCode(writer, message.code);
  writer.PutText(message.error);
  writer.PutText(message.text);
}

bool Decode(std::span<const std::byte> in, AnswerMessage& message) {
  WireReader reader = Open(in, MessageType::kAnswer);
  message.ask_id = reader.Get<uint64_t>();
  message.code = GetStatusCode(reader);
  message.error = reader.GetText();
  message.text = reader.GetText();
  return Complete(reader);
}

bool PeekAnswer(std::span<const std::byte> in, uint64_t& ask_id) {
  WireReader reader = Open(in, MessageType::kAnswer);
  ask_id = reader.Get<uint64_t>();
  return reader.ok();
}

void Encode(std::vector<std::byte>& out, const CheckReadyMessage& message) {
  Begin(out, MessageType::kCheckReady).Put(message.check_id);
}

bool Decode(std::span<const std::byte> in, CheckReadyMessage& message) {
  WireReader reader = Open(in, MessageType::kCheckReady);
  message.check_id = reader.Get<uint64_t>();
  return Complete(reader);
}

void Encode(std::vector<std::byte>& out, const ReadinessMessage& message) {
  WireWriter writer = Begin(out, MessageType::kReadiness);
  writer.Put(message.check_id);
  PutFlag(writer, message.ready);
  writer.PutText(message.reason);
}

bool Decode(std::span<const std::byte> in, ReadinessMessage& message) {
  WireReader reader = Open(in, MessageType::kReadiness);
  message.check_id = reader.Get<uint64_t>();
  message.ready = GetFlag(reader);
  message.reason = reader.GetText();
  return Complete(reader);
}

void Encode(std::vector<std::byte>& out, const HelloMessage& message) {
  WireWriter writer = Begin(out, MessageType::kHello);
  writer.PutText(message.python_version);
  writer.PutText(message.numpy_version);
}

bool Decode(std::span<const std::byte> in, HelloMessage& message) {
  WireReader reader = Open(in, MessageType::kHello);
  message.python_version = reader.GetText();
  message.numpy_version = reader.GetText();
  return Complete(reader);
}

void Encode(std::vector<std::byte>& out, const LoadedMessage& message) {
  WireWriter writer = Begin(out, MessageType::kLoaded);
  PutStatusCode(writer, message.code);
  writer.PutText(message.error);
  writer.PutText(message.auto_completed_config);
  PutFlag(writer, message.has_readiness_hook);
  PutFlag(writer, message.wants_sessions);
  PutFlag(writer, message.saves_sequences);
}

bool Decode(std::span<const std::byte> in, LoadedMessage& message) {
  WireReader reader = Open(in, MessageType::kLoaded);
  message.code = GetStatusCode(reader);
  message.error = reader.GetText();
  message.auto_completed_config = reader.GetText();
  message.has_readiness_hook = GetFlag(reader);
  message.wants_sessions = GetFlag(reader);
  message.saves_sequences = GetFlag(reader);
  return Complete(reader);
}

void Encode(std::vector<std::byte>& out, const ResponseMessage& message) {
  WireWriter writer = Begin(out, MessageType::kResponse);
  PutResponse(writer, message);
}

bool Decode(std::span<const std::byte> in, ResponseMessage& message) {
  WireReader reader = Open(in, MessageType::kResponse);
  message = GetResponse(reader);
  return Complete(reader);
}

void Encode(std::vector<std::byte>& out, const ExecutedMessage& message) {
  WireWriter writer = Begin(out, MessageType::kExecuted);
  writer.Put(message.execution_id);
  writer.Put(message.input_end_ns);
  writer.Put(message.infer_end_ns);
  writer.Put(message.output_end_ns);
  writer.Put(static_cast<uint32_t>(message.responses.size()));
  for (const ResponseMessage& response : message.responses) PutResponse(writer, response);
  writer.Put(static_cast<uint32_t>(message.rescheduled.size()));
  for (uint64_t id : message.rescheduled) writer.Put(id);
}

bool Decode(std::span<const std::byte> in, ExecutedMessage& message) {
  WireReader reader = Open(in, MessageType::kExecuted);
  message.execution_id = reader.Get<uint64_t>();
  message.input_end_ns = reader.Get<int64_t>();
  message.infer_end_ns = reader.Get<int64_t>();
  message.output_end_ns = reader.Get<int64_t>();
  const uint32_t responses = reader.GetCount(kLeastResponse);
  message.responses.clear();
  message.responses.reserve(responses);
  for (uint32_t i = 0; i < responses && reader.ok(); ++i) message.responses.push_back(GetResponse(reader));
  const uint32_t rescheduled = reader.GetCount(8);
  message.rescheduled.clear();
  message.rescheduled.reserve(rescheduled);
  for (uint32_t i = 0; i < rescheduled; ++i) message.rescheduled.push_back(reader.Get<uint64_t>());
  return Complete(reader);
}

void Encode(std::vector<std::byte>& out, const LogMessage& message) {
  WireWriter writer = Begin(out, MessageType::kLog);
  writer.Put(message.level);
  writer.PutText(message.file);
  writer.Put(message.line);
  writer.PutText(message.text);
}

bool Decode(std::span<const std::byte> in, LogMessage& message) {
  WireReader reader = Open(in, MessageType::kLog);
  message.level = reader.Get<uint8_t>();
  message.file = reader.GetText();
  message.line = reader.Get<uint32_t>();
  message.text = reader.GetText();
  return Complete(reader);
}

void Encode(std::vector<std::byte>& out, const ReleaseMessage& message) {
  WireWriter writer = Begin(out, MessageType::kRelease);
  writer.Put(static_cast<uint32_t>(message.handles.size()));
  for (const MemoryHandle& handle : message.handles) {
    writer.Put(handle.segment);
    writer.Put(handle.offset);
  }
}

bool Decode(std::span<const std::byte> in, ReleaseMessage& message) {
  WireReader reader = Open(in, MessageType::kRelease);
  const uint32_t count = reader.GetCount(12);
  message.handles.clear();
  message.handles.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    MemoryHandle& handle = message.handles.emplace_back();
    handle.segment = reader.Get<uint32_t>();
    handle.offset = reader.Get<uint64_t>();
  }
  return Complete(reader);
}

void EncodeRetireSegment(std::vector<std::byte>& out, uint32_t segment) {
  WireWriter writer = Begin(out, MessageType::kRetireSegment);
  writer.Put(segment);
}

bool DecodeRetireSegment(std::span<const std::byte> in, uint32_t& segment) {
  WireReader reader = Open(in, MessageType::kRetireSegment);
  segment = reader.Get<uint32_t>();
  return Complete(reader);
}

void EncodeBare(std::vector<std::byte>& out, MessageType type) { Begin(out, type); }

}  // namespace braid
