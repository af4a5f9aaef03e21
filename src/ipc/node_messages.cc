#include "ipc/node_messages.h"

#include "ipc/message_parts.h"

namespace braid {
namespace {

// The fewest bytes that a tensor takes.
constexpr size_t kLeastNodeTensor = 9;

using namespace message_parts;

void PutTensors(WireWriter& out, const std::vector<NodeTensorMessage>& tensors) {
  out.Put(static_cast<uint32_t>(tensors.size()));
  for (const NodeTensorMessage& tensor : tensors) {
    out.Put(tensor.object);
    PutFlag(out, tensor.has_bytes);
    EncodeTensor(out, tensor.tensor);
  }
}

std::vector<NodeTensorMessage> GetTensors(WireReader& in) {
  std::vector<NodeTensorMessage> tensors;
  const uint32_t count = in.GetCount(kLeastNodeTensor);
  tensors.reserve(count);
  for (uint32_t i = 0; i < count && in.ok(); ++i) {
    NodeTensorMessage& tensor = tensors.emplace_back();
    tensor.object = in.Get<uint64_t>();
    tensor.has_bytes = GetFlag(in);
    tensor.tensor = DecodeTensor(in);
  }
  return tensors;
}

}  // namespace

void Encode(std::vector<std::byte>& out, const NodeExecuteMessage& message) {
  WireWriter writer = Begin(out, MessageType::kNodeExecute);
  writer.Put(message.call_id);
  writer.Put(message.node);
  writer.Put(message.session);
  writer.Put(message.credit);
  PutTensors(writer, message.inputs);
}

bool Decode(std::span<const std::byte> in, NodeExecuteMessage& message) {
  WireReader reader = Open(in, MessageType::kNodeExecute);
  message.call_id = reader.Get<uint64_t>();
  message.node = reader.Get<uint32_t>();
  message.session = reader.Get<uint64_t>();
  message.credit = reader.Get<uint32_t>();
  message.inputs = GetTensors(reader);
  return Complete(reader) && message.call_id != 0;
}

void Encode(std::vector<std::byte>& out, const NodeResumeMessage& message) {
  WireWriter writer = Begin(out, MessageType::kNodeResume);
  writer.Put(message.call_id);
  writer.Put(message.credit);
}

bool Decode(std::span<const std::byte> in, NodeResumeMessage& message) {
  WireReader reader = Open(in, MessageType::kNodeResume);
  message.call_id = reader.Get<uint64_t>();
  message.credit = reader.Get<uint32_t>();
  return Complete(reader);
}

void Encode(std::vector<std::byte>& out, const NodeCloseMessage& message) {
  Begin(out, MessageType::kNodeClose).Put(message.call_id);
}

bool Decode(std::span<const std::byte> in, NodeCloseMessage& message) {
  WireReader reader = Open(in, MessageType::kNodeClose);
  message.call_id = reader.Get<uint64_t>();
  return Complete(reader);
}

void Encode(std::vector<std::byte>& out, const NodeSessionMessage& message) {
  WireWriter writer = Begin(out, MessageType::kNodeSession);
  writer.Put(message.session);
  PutFlag(writer, message.end);
  writer.PutText(message.parameters_json);
}

bool Decode(std::span<const std::byte> in, NodeSessionMessage& message) {
  WireReader reader = Open(in, MessageType::kNodeSession);
  message.session = reader.Get<uint64_t>();
  message.end = GetFlag(reader);
  message.parameters_json = reader.GetText();
  return Complete(reader) && message.session != 0;
}

void Encode(std::vector<std::byte>& out, const NodeDropMessage& message) {
  WireWriter writer = Begin(out, MessageType::kNodeDrop);
  writer.Put(static_cast<uint32_t>(message.objects.size()));
  for (uint64_t object : message.objects) writer.Put(object);
}

bool Decode(std::span<const std::byte> in, NodeDropMessage& message) {
  WireReader reader = Open(in, MessageType::kNodeDrop);
  const uint32_t count = reader.GetCount(sizeof(uint64_t));
  message.objects.clear();
  message.objects.reserve(count);
  for (uint32_t i = 0; i < count; ++i) message.objects.push_back(reader.Get<uint64_t>());
  return Complete(reader);
}

void Encode(std::vector<std::byte>& out, const NodeStepMessage& message) {
  WireWriter writer = Begin(out, MessageType::kNodeStep);
  writer.Put(message.call_id);
  writer.Put(message.kind);
  writer.PutText(message.error);
  PutTensors(writer, message.outputs);
}

bool Decode(std::span<const std::byte> in, NodeStepMessage& message) {
  WireReader reader = Open(in, MessageType::kNodeStep);
  message.call_id = reader.Get<uint64_t>();
  const auto kind = reader.Get<uint8_t>();
  if (kind > static_cast<uint8_t>(NodeStepMessage::Kind::kError)) reader.Fail();
  message.kind = static_cast<NodeStepMessage::Kind>(kind);
  message.error = reader.GetText();
  message.outputs = GetTensors(reader);
  return Complete(reader);
}

}  // namespace braid
