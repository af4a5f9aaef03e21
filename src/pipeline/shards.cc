#include "pipeline/shards.h"

#include <cstring>
#include <utility>

#include "serving/faults.h"

namespace braid {
namespace {

// "node 'a', output 'x' of shape [2,3]".
std::string Describe(const std::string& who, const Tensor& tensor) {
  return who + ", output '" + tensor.name + "' of shape " + ShapeToString(tensor.shape);
}

Status CheckSplit(const std::string& who, const Tensor& tensor) {
  if (tensor.type == DataType::kBytes) {
    return FaultError(Fault::kPipelineStringDemultiplicationUnsupported, Describe(who, tensor));
  }
  if (tensor.shape.size() < 2) {
    return FaultError(Fault::kPipelineWrongNumberOfDimensionsToDemultiply,
                      Describe(who, tensor) + " has fewer than 2 dimensions");
  }
  if (tensor.shape[0] > kMostShards) {
    return FaultError(
        Fault::kPipelineTooLargeDimensionSizeToDemultiply,
        Describe(who, tensor) + ", at most " + std::to_string(kMostShards) + " pieces are possible");
  }
  if (ByteSize(tensor.type, tensor.shape) != tensor.data.size()) {
    return FaultError(Fault::kInternalError,
                      Describe(who, tensor) + " has " + std::to_string(tensor.data.size()) + " bytes");
  }
  return OkStatus();
}

// Returns whether the tensors' bytes are adjacent in memory of one owner.
bool InOneRow(const std::vector<Tensor>& tensors) {
  const Buffer& first = tensors.front().data;
  if (first.owner() == nullptr) return false;
  const std::byte* next = first.data();
  for (const Tensor& tensor : tensors) {
    if (tensor.data.owner() != first.owner() || tensor.data.data() != next) return false;
    next += tensor.data.size();
  }
  return true;
}

}  // namespace

Result<uint32_t> CountShards(const std::string& who, const std::vector<const Tensor*>& tensors,
                             int32_t demultiply) {
  for (const Tensor* tensor : tensors) BRAID_RETURN_IF_ERROR(CheckSplit(who, *tensor));
  int64_t count = demultiply;
  if (demultiply < 0) count = tensors.empty() ? 0 : tensors.front()->shape[0];
  for (const Tensor* tensor : tensors) {
    if (tensor->shape[0] == count) continue;
    return FaultError(Fault::kPipelineWrongDimensionSizeToDemultiply,
                      Describe(who, *tensor) + ", expected " + std::to_string(count) + " pieces");
  }
  if (count == 0) return FaultError(Fault::kPipelineDemultiplexerNoResults, who);
  return static_cast<uint32_t>(count);
}

Tensor Shard(const Tensor& tensor, uint32_t index, uint32_t count) {
  const size_t size = tensor.data.size() / count;
  Tensor shard;
  shard.name = tensor.name;
  shard.type = tensor.type;
  shard.shape.assign(tensor.shape.begin() + 1, tensor.shape.end());
  shard.data = tensor.data.Slice(index * size, size);
  return shard;
}

Result<Shards> Join(const std::string& who, std::vector<Shards> parts) {
  BRAID_CHECK(!parts.empty());
  Shards joined;
  if (parts.size() == 1) {
    joined = std::move(parts.front());
  } else {
    joined.counts = parts.front().counts;
    joined.tensors.reserve(parts.size() * parts.front().tensors.size());
    for (Shards& part : parts) {
      if (part.counts != joined.counts) {
        return FaultError(
            Fault::kPipelineInconsistentShardDimensions,
            who + ": " + ShapeToString(joined.counts) + " and " + ShapeToString(part.counts) + " pieces");
      }
      for (Tensor& tensor : part.tensors) joined.tensors.push_back(std::move(tensor));
    }
  }
  joined.counts.insert(joined.counts.begin(), static_cast<int64_t>(parts.size()));
  return joined;
}

Result<Tensor> Stack(const std::string& who, Shards shards, BufferAllocator& allocator) {
  BRAID_CHECK(!shards.tensors.empty());
  const Tensor& first = shards.tensors.front();
  size_t size = 0;
  for (const Tensor& tensor : shards.tensors) {
    if (tensor.type != first.type || tensor.shape != first.shape) {
      return FaultError(Fault::kPipelineInconsistentShardDimensions,
                        who + ": " + std::string(WireName(first.type)) + " " + ShapeToString(first.shape) +
                            " and " + std::string(WireName(tensor.type)) + " " + ShapeToString(tensor.shape));
    }
    if (__builtin_add_overflow(size, tensor.data.size(), &size)) {
      return FaultError(Fault::kInternalError, who + ": the pieces are too large for one tensor");
    }
  }
  Tensor stacked;
  stacked.name = first.name;
  stacked.type = first.type;
  stacked.shape = shards.counts;
  stacked.shape.insert(stacked.shape.end(), first.shape.begin(), first.shape.end());
  if (size == 0) return stacked;
  if (InOneRow(shards.tensors)) {
    Buffer& begin = shards.tensors.front().data;
    begin.owner()->AddReference();
    stacked.data = Buffer(begin.mutable_data(), size, begin.owner());
    return stacked;
  }
  BRAID_ASSIGN_OR_RETURN(stacked.data, allocator.Allocate(size));
  std::byte* to = stacked.data.mutable_data();
  for (const Tensor& tensor : shards.tensors) {
    if (tensor.data.empty()) continue;
    std::memcpy(to, tensor.data.data(), tensor.data.size());
    to += tensor.data.size();
  }
  return stacked;
}

}  // namespace braid
