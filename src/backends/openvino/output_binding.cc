#include "backends/openvino/output_binding.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "backends/openvino/tensor_memory.h"

namespace braid {
namespace {

// The most memory that one output of an instance keeps for later inferences, beyond two pieces.
constexpr size_t kKeptBytes = size_t{4} << 20;
constexpr size_t kMostPieces = 16;

size_t MostPieces(size_t bytes) {
  return bytes == 0 ? kMostPieces : std::clamp<size_t>(kKeptBytes / bytes, 2, kMostPieces);
}

// Keeps an OpenVINO tensor until the last buffer over it is released.
class TensorOwner final : public BufferOwner {
 public:
  explicit TensorOwner(ov::Tensor tensor) : tensor_(std::move(tensor)) {}

 private:
  ~TensorOwner() override = default;
  const ov::Tensor tensor_;
};

// Encodes `count` strings in their wire format.
Result<Buffer> WriteStrings(const std::string* strings, size_t count) {
  size_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    if (strings[i].size() > std::numeric_limits<uint32_t>::max()) {
      return InternalError("an output string is longer than 4 GiB");
    }
    bytes += sizeof(uint32_t) + strings[i].size();
  }
  HeapAllocator heap;
  BRAID_ASSIGN_OR_RETURN(Buffer buffer, heap.Allocate(bytes));
  std::byte* target = buffer.mutable_data();
  for (size_t i = 0; i < count; ++i) {
    const auto length = static_cast<uint32_t>(strings[i].size());
    std::memcpy(target, &length, sizeof(length));
    std::memcpy(target + sizeof(length), strings[i].data(), length);
    target += sizeof(length) + length;
  }
  return buffer;
}

Shape ToShape(const ov::Shape& shape) {
  Shape result;
  for (size_t dimension : shape) result.push_back(static_cast<int64_t>(dimension));
  return result;
}

}  // namespace

OutputBinding::OutputBinding(const CompiledFacts& facts, const std::vector<std::shared_ptr<StatePool>>& pools,
                             ov::InferRequest& request)
    : facts_(facts), request_(request), ports_(facts.outputs.size()) {
  for (size_t i = facts.own_outputs(); i < ports_.size(); ++i) {
    ports_[i].pool = pools[i - facts.own_outputs()].get();
  }
  for (size_t i = 0; i < ports_.size(); ++i) {
    ports_[i].most_pieces = facts.outputs[i].is_static ? MostPieces(facts.outputs[i].bytes) : 2;
  }
}

Result<OutputBinding::Piece> OutputBinding::MakePiece(size_t index) const {
  const CompiledTensor& output = facts_.outputs[index];
  if (ports_[index].pool != nullptr && !facts_.CopiesOutput(index)) {
    StatePool::Piece* piece = ports_[index].pool->Take();
    return Piece{Buffer(nullptr, 0, piece), piece->tensor()};
  }
  if (!output.is_static) {
    // The tensor grows to the size of the outputs.
    ov::Tensor tensor = MakeTensorIn(facts_.output_memory, output.element, output.shape);
    return Piece{Buffer(nullptr, 0, new TensorOwner(tensor)), tensor};
  }
  HeapAllocator heap;
  BufferAllocator& allocator = facts_.output_memory != nullptr ? *facts_.output_memory : heap;
  BRAID_ASSIGN_OR_RETURN(Buffer memory, allocator.Allocate(std::max<size_t>(output.bytes, 1)));
  ov::Tensor tensor(output.element, output.shape, memory.mutable_data());
  return Piece{std::move(memory), std::move(tensor)};
}

Status OutputBinding::Prepare() {
  for (size_t i = 0; i < ports_.size(); ++i) {
    const CompiledTensor& output = facts_.outputs[i];
    if (output.type == DataType::kBytes) continue;
    Port& port = ports_[i];
    const auto is_free = [](const Piece& piece) { return piece.memory.owner()->unique(); };
    if (port.bound < port.pieces.size() && is_free(port.pieces[port.bound])) continue;
    auto piece = std::find_if(port.pieces.begin(), port.pieces.end(), is_free);
    if (piece == port.pieces.end()) {
      BRAID_ASSIGN_OR_RETURN(Piece fresh, MakePiece(i));
      // If a client keeps all its outputs, each inference gets new memory; the binding need not keep those
      // pieces.
      if (port.pieces.size() >= port.most_pieces) port.pieces.erase(port.pieces.begin());
      port.pieces.push_back(std::move(fresh));
      piece = port.pieces.end() - 1;
    }
    port.bound = SIZE_MAX;
    request_.set_output_tensor(i, piece->tensor);
    port.bound = static_cast<size_t>(piece - port.pieces.begin());
  }
  return OkStatus();
}

Result<Tensor> OutputBinding::Take(size_t index) {
  const CompiledTensor& output = facts_.outputs[index];
  Tensor result{output.name, output.type, {}, {}};
  if (output.type == DataType::kBytes) {
    const ov::Tensor tensor = request_.get_output_tensor(index);
    result.shape = ToShape(tensor.get_shape());
    BRAID_ASSIGN_OR_RETURN(result.data, WriteStrings(tensor.data<const std::string>(), tensor.get_size()));
    return result;
  }
  Port& port = ports_[index];
  const Piece& piece = port.pieces[port.bound];
  if (port.pool != nullptr) return TakeState(index);
  if (output.is_static) {
    result.shape = ToShape(output.shape);
    result.data = piece.memory.Slice(0, output.bytes);
    return result;
  }
  ov::Tensor tensor = request_.get_output_tensor(index);
  result.shape = ToShape(tensor.get_shape());
  const size_t bytes = tensor.get_byte_size();
  if (bytes == 0) return result;
  auto* data = static_cast<std::byte*>(tensor.data());
  BufferOwner* owner = piece.memory.owner();
  ov::Tensor own = piece.tensor;
  if (own.get_byte_size() == bytes && own.data() == data) {
    owner->AddReference();
  } else {
    // The device wrote elsewhere: the client gets that tensor, and the device another one next time.
    owner = new TensorOwner(tensor);
    port.bound = SIZE_MAX;
  }
  result.data = Buffer(data, bytes, owner);
  return result;
}

Tensor OutputBinding::CopyState(size_t index) {
  const CompiledTensor& output = facts_.outputs[index];
  Port& port = ports_[index];
  StatePool::Piece* copy = port.pool->Take();
  Tensor result{output.name, output.type, ToShape(output.shape), {}};
  auto* data = static_cast<std::byte*>(copy->tensor().data());
  result.data = Buffer(data, output.bytes, copy);
  std::memcpy(data, port.pieces[port.bound].memory.data(), output.bytes);
  return result;
}

Tensor OutputBinding::TakeState(size_t index) {
  if (facts_.CopiesOutput(index)) return CopyState(index);
  const CompiledTensor& output = facts_.outputs[index];
  Port& port = ports_[index];
  Piece& piece = port.pieces[port.bound];
  const ov::Tensor tensor = output.is_static ? piece.tensor : request_.get_output_tensor(index);
  Tensor result{output.name, output.type, ToShape(tensor.get_shape()), {}};
  const size_t bytes = tensor.get_byte_size();
  if (bytes == 0) return result;
  ov::Tensor own = piece.tensor;
  ov::Tensor written = tensor;
  auto* data = static_cast<std::byte*>(written.data());
  if (own.get_byte_size() != bytes || own.data() != data) {
    // See Take().
    port.bound = SIZE_MAX;
    result.data = Buffer(data, bytes, new TensorOwner(tensor));
    return result;
  }
  // The sequence now owns the piece, which then returns to the pool.
  BufferOwner* owner = piece.memory.owner();
  owner->AddReference();
  result.data = Buffer(data, bytes, owner);
  port.bound = SIZE_MAX;
  port.pieces.clear();
  return result;
}

Result<std::vector<std::vector<Tensor>>> OutputBinding::Collect(const Execution& execution) {
  std::vector<std::vector<Tensor>> results(execution.requests.size());
  for (auto& result : results) result.reserve(facts_.outputs.size());
  for (size_t i = 0; i < facts_.outputs.size(); ++i) {
    BRAID_ASSIGN_OR_RETURN(Tensor whole, Take(i));
    if (results.size() == 1) {
      results[0].push_back(std::move(whole));
      continue;
    }
    if (whole.shape.empty() || execution.rows <= 0 || whole.shape[0] != execution.rows) {
      return InternalError("output '" + whole.name + "' of model '" + facts_.model_name + "' has the shape " +
                           ShapeToString(whole.shape) + " for a batch of " + std::to_string(execution.rows) +
                           ": the first dimension of every output must be the batch");
    }
    const std::string* strings = nullptr;
    ov::Tensor string_tensor;
    size_t row_strings = 0;
    if (whole.type == DataType::kBytes) {
      string_tensor = request_.get_output_tensor(i);
      strings = std::as_const(string_tensor).data<const std::string>();
      row_strings = string_tensor.get_size() / static_cast<size_t>(execution.rows);
    }
    const size_t row_bytes = whole.data.size() / static_cast<size_t>(execution.rows);
    size_t row = 0;
    for (size_t k = 0; k < results.size(); ++k) {
      const auto rows = static_cast<size_t>(execution.requests[k]->batch_size);
      Tensor part{whole.name, whole.type, whole.shape, {}};
      part.shape[0] = static_cast<int64_t>(rows);
      if (strings != nullptr) {
        BRAID_ASSIGN_OR_RETURN(part.data, WriteStrings(strings + row * row_strings, rows * row_strings));
      } else if (!whole.data.empty()) {
        part.data = whole.data.Slice(row * row_bytes, rows * row_bytes);
      }
      row += rows;
      results[k].push_back(std::move(part));
    }
  }
  return results;
}

}  // namespace braid
