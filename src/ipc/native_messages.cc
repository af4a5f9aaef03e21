#include "ipc/native_messages.h"

#include "ipc/message_parts.h"

namespace braid {
namespace {

using namespace message_parts;

// The fewest bytes that each takes.
constexpr size_t kLeastNativeTensor = 11;
constexpr size_t kLeastNativeRequest = 12;
constexpr size_t kLeastNativeResponse = 6;
constexpr size_t kHandleBytes = 20;

void PutNativeTensors(WireWriter& out, const std::vector<TensorMessage>& tensors) {
  out.Put(static_cast<uint32_t>(tensors.size()));
  for (const TensorMessage& tensor : tensors) EncodeTensor(out, tensor);
}

void GetNativeTensors(WireReader& in, std::vector<TensorMessage>& tensors) {
  const uint32_t count = in.GetCount(kLeastNativeTensor);
  tensors.clear();
  tensors.reserve(count);
  for (uint32_t i = 0; i < count && in.ok(); ++i) tensors.push_back(DecodeTensor(in));
}

}  // namespace

void Encode(std::vector<std::byte>& out, const NativeExecuteMessage& message) {
  WireWriter writer = Begin(out, MessageType::kNativeExecute);
  writer.Put(message.execution_id);
  writer.Put(message.instance);
  writer.Put(message.rows);
  writer.Put(static_cast<uint32_t>(message.requests.size()));
  for (const NativeExecuteMessage::Request& request : message.requests) {
    writer.Put(request.rows);
    PutNativeTensors(writer, request.inputs);
  }
}

bool Decode(std::span<const std::byte> in, NativeExecuteMessage& message) {
  WireReader reader = Open(in, MessageType::kNativeExecute);
  message.execution_id = reader.Get<uint64_t>();
  message.instance = reader.Get<uint32_t>();
  message.rows = reader.Get<int64_t>();
  message.requests.resize(reader.GetCount(kLeastNativeRequest));
  for (NativeExecuteMessage::Request& request : message.requests) {
    request.rows = reader.Get<int64_t>();
    GetNativeTensors(reader, request.inputs);
  }
  return Complete(reader);
}

void Encode(std::vector<std::byte>& out, const NativeExecutedMessage& message) {
  WireWriter writer = Begin(out, MessageType::kNativeExecuted);
  writer.Put(message.execution_id);
  writer.Put(message.input_end_ns);
  writer.Put(message.infer_end_ns);
  writer.Put(message.output_end_ns);
  writer.Put(static_cast<uint32_t>(message.responses.size()));
  for (const NativeExecutedMessage::Response& response : message.responses) {
    writer.Put(response.code);
    writer.Put(response.fault);
    if (response.code != StatusCode::kOk) writer.PutText(response.error);
    PutNativeTensors(writer, response.outputs);
  }
  writer.Put(static_cast<uint32_t>(message.released.size()));
  for (const MemoryHandle& handle : message.released) {
    writer.Put(handle.segment);
    writer.Put(handle.offset);
    writer.Put(handle.size);
  }
}

bool Decode(std::span<const std::byte> in, NativeExecutedMessage& message) {
  WireReader reader = Open(in, MessageType::kNativeExecuted);
  message.execution_id = reader.Get<uint64_t>();
  message.input_end_ns = reader.Get<int64_t>();
  message.infer_end_ns = reader.Get<int64_t>();
  message.output_end_ns = reader.Get<int64_t>();
  message.responses.resize(reader.GetCount(kLeastNativeResponse));
  for (NativeExecutedMessage::Response& response : message.responses) {
    const auto code = reader.Get<uint8_t>();
    if (code > static_cast<uint8_t>(StatusCode::kPermissionDenied)) reader.Fail();
    response.code = static_cast<StatusCode>(code);
    response.fault = reader.Get<uint8_t>();
    if (response.code != StatusCode::kOk) response.error = reader.GetText();
    GetNativeTensors(reader, response.outputs);
  }
  message.released.resize(reader.GetCount(kHandleBytes));
  for (MemoryHandle& handle : message.released) {
    handle.segment = reader.Get<uint32_t>();
    handle.offset = reader.Get<uint64_t>();
    handle.size = reader.Get<uint64_t>();
  }
  return Complete(reader);
}

}  // namespace braid
