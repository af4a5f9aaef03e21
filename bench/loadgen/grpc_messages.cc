#include "grpc_messages.h"

#include <cstdlib>

#include "wire.h"

namespace braid::bench {
namespace {

std::string EncodeParameter(const std::string& name, const std::string& value) {
  WireWriter choice;
  switch (KindOfParameter(value)) {
    case ParameterKind::kBool:
      choice.Varint(1, value == "true" ? 1 : 0);
      break;
    case ParameterKind::kInteger:
      choice.Varint(2, static_cast<uint64_t>(std::strtoll(value.c_str(), nullptr, 10)));
      break;
    case ParameterKind::kText:
      choice.Bytes(3, value);
      break;
  }
  WireWriter entry;
  entry.Bytes(1, name);
  entry.Bytes(2, choice.Take());
  return entry.Take();
}

// Says where in shared memory a tensor lies; `field` is that of the tensor's parameters.
void PlaceTensor(const SharedPayload& shared, size_t offset, size_t size, uint32_t field,
                 WireWriter& tensor) {
  tensor.Bytes(field, EncodeParameter("shared_memory_region", shared.key()));
  tensor.Bytes(field, EncodeParameter("shared_memory_byte_size", std::to_string(size)));
  tensor.Bytes(field, EncodeParameter("shared_memory_offset", std::to_string(offset)));
}

std::string EncodeInput(const InputTensor& input, const SharedPayload* shared, size_t i) {
  WireWriter message;
  message.Bytes(1, input.name);
  message.Bytes(2, input.datatype);
  for (const int64_t dimension : input.shape) message.Varint(3, static_cast<uint64_t>(dimension));
  if (shared != nullptr) PlaceTensor(*shared, shared->input_offset(i), input.data.size(), 4, message);
  return message.Take();
}

std::string EncodeSharedOutput(const InputTensor& alike, const SharedPayload& shared, size_t i) {
  WireWriter message;
  message.Bytes(1, "OUTPUT" + std::to_string(i));
  PlaceTensor(shared, shared.output_offset(i), alike.data.size(), 2, message);
  return message.Take();
}

Result<std::vector<OutputView>> DecodeInfer(WireReader reader) {
  std::vector<OutputView> outputs;
  std::vector<Pieces> contents;
  while (reader.Next()) {
    if (reader.IsBytes(5)) {
      WireReader tensor = reader.TakeMessage();
      OutputView output;
      while (tensor.Next()) {
        if (tensor.IsBytes(1)) {
          output.name = JoinPieces(tensor.TakeBytes());
        } else {
          tensor.Skip();
        }
      }
      if (!tensor.ok()) return InternalError("malformed output in the response");
      outputs.push_back(std::move(output));
    } else if (reader.IsBytes(6)) {
      contents.push_back(reader.TakeBytes());
    } else {
      reader.Skip();
    }
  }
  if (!reader.ok() || contents.size() > outputs.size()) return InternalError("malformed response");
  for (size_t i = 0; i < contents.size(); ++i) outputs[i].data = std::move(contents[i]);
  return outputs;
}

}  // namespace

std::string EncodeInferRequest(const Options& options) {
  WireWriter message;
  message.Bytes(1, options.model());
  for (const auto& [name, value] : options.parameters) message.Bytes(4, EncodeParameter(name, value));
  const SharedPayload* shared = options.shared.get();
  for (size_t i = 0; i < options.inputs.size(); ++i) {
    message.Bytes(5, EncodeInput(options.inputs[i], shared, i));
    if (shared != nullptr) message.Bytes(6, EncodeSharedOutput(options.inputs[i], *shared, i));
  }
  if (shared != nullptr) return message.Take();
  for (const InputTensor& input : options.inputs) message.Bytes(7, input.data);
  return message.Take();
}

std::string EncodeRegisterRequest(const SharedPayload& shared) {
  WireWriter message;
  message.Bytes(1, shared.key());
  message.Bytes(2, shared.key());
  message.Varint(4, shared.byte_size());
  return message.Take();
}

std::string EncodeModelReadyRequest(const std::string& model) {
  WireWriter message;
  message.Bytes(1, model);
  return message.Take();
}

bool DecodeReady(const Pieces& message) {
  // A field that is false is not sent; { 1: true } is these two bytes.
  return JoinPieces(message) == "\x08\x01";
}

Result<std::vector<OutputView>> DecodeInferResponse(const Pieces& message) {
  return DecodeInfer(WireReader(message));
}

Result<std::vector<OutputView>> DecodeStreamResponse(const Pieces& message) {
  WireReader reader(message);
  Result<std::vector<OutputView>> outputs = InternalError("stream message without a response");
  while (reader.Next()) {
    if (reader.IsBytes(1)) {
      const std::string error = JoinPieces(reader.TakeBytes());
      if (!error.empty()) return InternalError(error);
    } else if (reader.IsBytes(2)) {
      outputs = DecodeInfer(reader.TakeMessage());
    } else {
      reader.Skip();
    }
  }
  if (!reader.ok()) return InternalError("malformed stream message");
  return outputs;
}

}  // namespace braid::bench
