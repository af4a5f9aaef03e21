// InputMemory: allocates the memory of one request's inputs, and fills it.
//
// Small inputs share one block of memory. Large inputs have their own, so that one tensor can be handed on
// without the others. Inputs in regions of clients' shared memory are copied from there.
//
//   InputMemory memory;
//   for (...) memory.Add(bytes);   // or AddRegion(part)
//   BRAID_RETURN_IF_ERROR(memory.Fill(info, allocator, request, [&](size_t i, std::byte* to) { ... }));
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>

#include "base/status.h"
#include "protocols/inference/client_shared_memory.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

class InputMemory {
 public:
  // Inputs of at most this total size share one block.
  static constexpr size_t kSharedBytes = size_t{64} * 1024;

  // Add the next input of the request, by its size or by its place in a region.
  void Add(size_t bytes) { inputs_.push_back({{}, bytes}); }
  void AddRegion(RegionPart part) {
    const auto bytes = static_cast<size_t>(part.byte_size);
    inputs_.push_back({std::move(part), bytes});
  }
  size_t bytes(size_t input) const { return inputs_[input].bytes; }
  const RegionPart& region(size_t input) const { return inputs_[input].region; }
  void Erase(size_t input) { inputs_.erase(inputs_.begin() + static_cast<std::ptrdiff_t>(input)); }

  // Allocates memory for all inputs of `request`. Copies those in regions, and calls Status write(input, to)
  // for each other one; `to` is null for an input without bytes. Inputs on a device are copied when the
  // request begins (InferenceRequest::preparation). `info` and `allocator` are the servable's.
  // Errors: those of the allocator, of ClientRegion::Read() and of write(). For graphs also INVALID_ARGUMENT
  // for regions in a request with more inputs than the graph has streams, and UNSUPPORTED for a region on a
  // device.
  // REQUIRES: as many inputs were added as the request has.
  template <class Write>
  Status Fill(const ServableInfo& info, BufferAllocator& allocator, InferenceRequest& request,
              Write&& write) {
    BRAID_RETURN_IF_ERROR(Prepare(info));
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Input& input = inputs_[i];
      Buffer& data = request.inputs[i].data;
      if (input.bytes > 0) {
        BRAID_ASSIGN_OR_RETURN(data, Take(allocator, input.bytes));
      }
      std::byte* const to = input.bytes > 0 ? data.mutable_data() : nullptr;
      if (!input.region.region) {
        BRAID_RETURN_IF_ERROR(write(i, to));
      } else if (input.bytes > 0 && input.region.region->copies() != nullptr) {
        BRAID_RETURN_IF_ERROR(FillLater(info, i, request));
      } else if (input.bytes > 0) {
        BRAID_RETURN_IF_ERROR(input.region.region->Read(input.region.offset, data));
      }
    }
    return OkStatus();
  }

 private:
  struct Input {
    RegionPart region;  // no region: in the message
    size_t bytes = 0;
  };

  static size_t Aligned(size_t size) { return (size + 63) / 64 * 64; }
  // Checks and counts the inputs before the first one gets memory.
  Status Prepare(const ServableInfo& info);
  Result<Buffer> Take(BufferAllocator& allocator, size_t size);
  Status FillLater(const ServableInfo& info, size_t input, InferenceRequest& request);

  boost::container::small_vector<Input, 8> inputs_;
  size_t shared_ = 0;  // size of the block
  Buffer block_;
  size_t offset_ = 0;
};

}  // namespace braid
