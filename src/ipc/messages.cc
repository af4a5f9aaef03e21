#include "ipc/messages.h"

#include "ipc/message_codec.h"

namespace braid {
namespace {

// More dimensions than any array library supports.
constexpr uint32_t kMaxDimensions = 64;

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
    message_codec::Put(out, tensor.handle);
  }
}

TensorMessage DecodeTensor(WireReader& in) {
  TensorMessage tensor;
  tensor.name = in.GetText();
  message_codec::Get(in, tensor.type);
  const auto dims = in.Get<uint8_t>();
  if (dims > kMaxDimensions) in.Fail();
  for (uint8_t i = 0; i < dims && in.ok(); ++i) tensor.shape.push_back(in.Get<int64_t>());
  message_codec::Get(in, tensor.place);
  if (tensor.type == DataType::kCustom) tensor.custom_type = in.GetText();
  if (tensor.place == Place::kInline) {
    tensor.bytes = in.GetBytes();
  } else {
    message_codec::Get(in, tensor.handle);
  }
  return tensor;
}

bool PeekCallResponse(std::span<const std::byte> in, uint64_t& call_id, bool& final) {
  WireReader reader(in);
  if (reader.Get<MessageType>() != MessageType::kCallResponse) return false;
  message_codec::Get(reader, call_id);
  message_codec::Get(reader, final);
  return reader.ok();
}

bool PeekAnswer(std::span<const std::byte> in, uint64_t& ask_id) {
  WireReader reader(in);
  if (reader.Get<MessageType>() != MessageType::kAnswer) return false;
  message_codec::Get(reader, ask_id);
  return reader.ok();
}

void EncodeBare(std::vector<std::byte>& out, MessageType type) {
  out.assign(1, static_cast<std::byte>(type));
}

BRAID_MESSAGE(LoadMessage);
BRAID_MESSAGE(ExecuteMessage);
BRAID_MESSAGE(HelloMessage);
BRAID_MESSAGE(LoadedMessage);
BRAID_MESSAGE(ResponseMessage);
BRAID_MESSAGE(ExecutedMessage);
BRAID_MESSAGE(CallMessage);
BRAID_MESSAGE(CancelCallMessage);
BRAID_MESSAGE(AskMessage);
BRAID_MESSAGE(AnswerMessage);
BRAID_MESSAGE(CheckReadyMessage);
BRAID_MESSAGE(ReadinessMessage);
BRAID_MESSAGE(LogMessage);
BRAID_MESSAGE(ReleaseMessage);
BRAID_MESSAGE(RetireSegmentMessage);

}  // namespace braid
