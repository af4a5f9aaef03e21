#include "mediapipe_graph/plugin_packets.h"

#include <memory>
#include <new>
#include <utility>

#include "mediapipe_graph/graph_packets.h"
#include "tensor/bytes_elements.h"
#include "tensor/shared_bytes.h"

namespace braid {
namespace {

using graph::Packet;
using graph::PortType;

// Memory of a library; done() is called when the last reference is released.
class LibraryMemory final : public BufferOwner {
 public:
  LibraryMemory(void (*done)(void*), void* owner) : done_(done), owner_(owner) {}

 private:
  ~LibraryMemory() override {
    if (done_ != nullptr) done_(owner_);
  }

  void (*const done_)(void*);
  void* const owner_;
};

const Tensor* TensorOf(const Packet& packet) {
  if (const auto* tensor = packet.GetIf<OvTensor>()) return &tensor->tensor;
  const auto* python = packet.GetIf<PythonTensor>();
  return python != nullptr && python->value.has_bytes ? &python->value.tensor : nullptr;
}

void Keep(BraidPacket* packet) { packet->shares.fetch_add(1, std::memory_order_relaxed); }

void Release(BraidPacket* packet) {
  if (packet->shares.fetch_sub(1, std::memory_order_acq_rel) == 1) delete packet;
}

// Return the tensors and the parameters of a message; null for other packets.
const std::vector<Tensor>* TensorsOf(const Packet& packet) {
  if (const auto* request = packet.GetIf<GraphRequest>()) return &request->inputs;
  const auto* response = packet.GetIf<GraphResponse>();
  return response != nullptr ? &response->outputs : nullptr;
}

const Parameters* ParametersOf(const Packet& packet) {
  if (const auto* request = packet.GetIf<GraphRequest>()) return &request->parameters;
  const auto* response = packet.GetIf<GraphResponse>();
  return response != nullptr ? &response->parameters : nullptr;
}

std::string TextOf(const ParameterValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
  if (const auto* number = std::get_if<uint64_t>(&value)) return std::to_string(*number);
  return std::to_string(std::get<double>(value));
}

Buffer ShownBytes(const Tensor& tensor) {
  if (tensor.type != DataType::kBytes) return tensor.data;
  auto bytes = OutOfReach(tensor.data);
  if (!bytes.ok()) throw std::bad_alloc();
  return std::move(bytes).value();
}

BraidTensor ViewOf(const Tensor& tensor, const std::string& datatype, const Buffer& bytes) {
  return {tensor.name.c_str(), datatype.c_str(), tensor.shape.data(),
          tensor.shape.size(), bytes.data(),     bytes.size()};
}

BraidKind Kind(const BraidPacket* packet) { return PluginKindOf(packet->packet); }

int64_t TimestampOf(const BraidPacket* packet) { return packet->packet.timestamp().value(); }

int GetTensor(const BraidPacket* packet, BraidTensor* out) {
  const Tensor* tensor = TensorOf(packet->packet);
  if (tensor == nullptr) return 0;
  *out = ViewOf(*tensor, packet->datatype, packet->bytes[0]);
  return 1;
}

int GetBool(const BraidPacket* packet, int* value) {
  const auto* held = packet->packet.GetIf<bool>();
  if (held != nullptr) *value = *held ? 1 : 0;
  return held != nullptr ? 1 : 0;
}

int GetInt64(const BraidPacket* packet, int64_t* value) {
  const auto* held = packet->packet.GetIf<int64_t>();
  if (held != nullptr) *value = *held;
  return held != nullptr ? 1 : 0;
}

int GetString(const BraidPacket* packet, const char** text, size_t* size) {
  const auto* held = packet->packet.GetIf<std::string>();
  if (held == nullptr) return 0;
  *text = held->data();
  *size = held->size();
  return 1;
}

void* GetObject(const BraidPacket* packet, const char* type) {
  const auto* held = packet->packet.GetIf<PluginObject>();
  const bool is_here = held != nullptr && held->library == nullptr;
  return is_here && type != nullptr && held->type == type ? held->object.get() : nullptr;
}

BraidPacket* MakeTensor(BraidKind kind, const BraidTensor* from, void (*done)(void*), void* owner) {
  // Owns the memory of `owner` from here on, also if the packet cannot be made.
  auto* memory = new LibraryMemory(done, owner);
  auto* bytes = static_cast<std::byte*>(const_cast<void*>(from->data));
  Buffer buffer(bytes, from->size, memory);
  const bool known_kind = kind == BRAID_TENSOR || kind == BRAID_PYTHON_TENSOR;
  if (!known_kind || from->name == nullptr || from->datatype == nullptr || *from->datatype == '\0' ||
      (from->shape == nullptr && from->rank != 0) || (from->data == nullptr && from->size != 0)) {
    return nullptr;
  }
  Tensor tensor;
  tensor.name = from->name;
  tensor.shape.assign(from->shape, from->shape + from->rank);
  for (const int64_t dimension : tensor.shape) {
    if (dimension < 0) return nullptr;
  }
  tensor.data = std::move(buffer);
  if (const auto type = DataTypeFromWireName(from->datatype)) {
    tensor.type = *type;
    if (kind == BRAID_TENSOR && !SizeIsRight(tensor)) return nullptr;
  } else if (kind == BRAID_TENSOR) {
    return nullptr;
  } else {
    tensor.type = DataType::kCustom;
    tensor.custom_type = from->datatype;
  }
  if (kind == BRAID_TENSOR) return NewPluginPacket(Packet::Of(OvTensor{std::move(tensor)}));
  return NewPluginPacket(Packet::Of(PythonTensor{NodeTensor{std::move(tensor), true, nullptr}}));
}

BraidPacket* MakeBool(int value) { return NewPluginPacket(Packet::Of(value != 0)); }
BraidPacket* MakeInt64(int64_t value) { return NewPluginPacket(Packet::Of(value)); }
BraidPacket* MakeString(const char* text, size_t size) {
  return NewPluginPacket(Packet::Of(std::string(text == nullptr ? "" : text, text == nullptr ? 0 : size)));
}

BraidPacket* MakeObject(const char* type, void* object, void (*done)(void*)) {
  std::shared_ptr<void> owned(object, [done](void* held) {
    if (done != nullptr) done(held);
  });
  if (type == nullptr || *type == '\0') return nullptr;
  return NewPluginPacket(Packet::Of(PluginObject{type, std::move(owned), nullptr}));
}

int MessageTensorCount(const BraidPacket* packet) {
  const std::vector<Tensor>* tensors = TensorsOf(packet->packet);
  return tensors != nullptr ? static_cast<int>(tensors->size()) : -1;
}

int GetMessageTensor(const BraidPacket* packet, int index, BraidTensor* out) {
  const std::vector<Tensor>* tensors = TensorsOf(packet->packet);
  if (tensors == nullptr || index < 0 || static_cast<size_t>(index) >= tensors->size()) return 0;
  const auto place = static_cast<size_t>(index);
  *out = ViewOf((*tensors)[place], packet->datatypes[place], packet->bytes[place]);
  return 1;
}

const char* MessageParameter(const BraidPacket* packet, const char* name) {
  if (name == nullptr) return nullptr;
  const auto found = packet->parameters.find(std::string_view(name));
  return found != packet->parameters.end() ? found->second.c_str() : nullptr;
}

const char* RequestId(const BraidPacket* packet) {
  const auto* request = packet->packet.GetIf<GraphRequest>();
  return request != nullptr ? request->id.c_str() : nullptr;
}

BraidPacket* MakeResponse(BraidPacket* const* tensors, size_t count) {
  GraphResponse response;
  for (size_t i = 0; i < count; ++i) {
    const Tensor* tensor = tensors[i] != nullptr ? TensorOf(tensors[i]->packet) : nullptr;
    if (tensor == nullptr) return nullptr;
    response.outputs.push_back(*tensor);
  }
  return NewPluginPacket(Packet::Of(std::move(response)));
}

}  // namespace

PortType PluginPortType(BraidKind kind) {
  switch (kind) {
    case BRAID_TENSOR:
      return PortType::Of<OvTensor>();
    case BRAID_PYTHON_TENSOR:
      return PortType::Of<PythonTensor>();
    case BRAID_BOOL:
      return PortType::Of<bool>();
    case BRAID_INT64:
      return PortType::Of<int64_t>();
    case BRAID_STRING:
      return PortType::Of<std::string>();
    case BRAID_REQUEST:
      return PortType::Of<GraphRequest>();
    case BRAID_RESPONSE:
      return PortType::Of<GraphResponse>();
    default:
      return PortType::Of<PluginObject>();
  }
}

bool SizeIsRight(const Tensor& tensor) {
  if (tensor.type != DataType::kBytes) return ByteSize(tensor.type, tensor.shape) == tensor.data.size();
  BytesElements elements(tensor.data.text());
  int64_t count = 0;
  while (elements.Next()) ++count;
  return !elements.truncated() && ElementCount(tensor.shape) == count;
}

BraidPacket* NewPluginPacket(Packet packet) {
  auto made = std::make_unique<BraidPacket>(std::move(packet));
  if (const Tensor* tensor = TensorOf(made->packet)) {
    made->datatype = TypeName(*tensor);
    made->bytes.push_back(ShownBytes(*tensor));
  }
  if (const std::vector<Tensor>* tensors = TensorsOf(made->packet)) {
    for (const Tensor& tensor : *tensors) {
      made->datatypes.emplace_back(TypeName(tensor));
      made->bytes.push_back(ShownBytes(tensor));
    }
    for (const auto& [name, value] : *ParametersOf(made->packet))
      made->parameters.emplace(name, TextOf(value));
  }
  return made.release();
}

BraidKind PluginKindOf(const Packet& packet) {
  if (packet.empty()) return BRAID_EMPTY;
  if (packet.GetIf<OvTensor>() != nullptr) return BRAID_TENSOR;
  if (packet.GetIf<PythonTensor>() != nullptr) return BRAID_PYTHON_TENSOR;
  if (packet.GetIf<bool>() != nullptr) return BRAID_BOOL;
  if (packet.GetIf<int64_t>() != nullptr) return BRAID_INT64;
  if (packet.GetIf<std::string>() != nullptr) return BRAID_STRING;
  if (packet.GetIf<GraphRequest>() != nullptr) return BRAID_REQUEST;
  if (packet.GetIf<GraphResponse>() != nullptr) return BRAID_RESPONSE;
  return packet.GetIf<PluginObject>() != nullptr ? BRAID_OBJECT : BRAID_OTHER;
}

void FillPacketFunctions(BraidHost& host) {
  host.keep = Keep;
  host.release = Release;
  host.kind = Kind;
  host.timestamp = TimestampOf;
  host.getTensor = GetTensor;
  host.getBool = GetBool;
  host.getInt64 = GetInt64;
  host.getString = GetString;
  host.getObject = GetObject;
  host.makeTensor = MakeTensor;
  host.makeBool = MakeBool;
  host.makeInt64 = MakeInt64;
  host.makeString = MakeString;
  host.makeObject = MakeObject;
  host.messageTensorCount = MessageTensorCount;
  host.getMessageTensor = GetMessageTensor;
  host.messageParameter = MessageParameter;
  host.requestId = RequestId;
  host.makeResponse = MakeResponse;
}

}  // namespace braid
