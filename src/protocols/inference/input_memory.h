// The inputs of one request on their way from its message to where its servable reads them.
//
// Small inputs share one block of memory, large ones have their own, so that a tensor can be handed on
// without its neighbours. Those that lie in regions of clients' shared memory are copied from there.
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
  // Inputs that together take no more than this share one block.
  static constexpr size_t kSharedBytes = size_t{64} * 1024;

  // The next input of the request: of so many bytes, or what lies there.
  void Add(size_t bytes) { inputs_.push_back({{}, bytes}); }
  void AddRegion(RegionPart part) {
    const auto bytes = static_cast<size_t>(part.byte_size);
    inputs_.push_back({std::move(part), bytes});
  }
  size_t bytes(size_t input) const { return inputs_[input].bytes; }
  const RegionPart& region(size_t input) const { return inputs_[input].region; }
  void Erase(size_t input) { inputs_.erase(inputs_.begin() + static_cast<std::ptrdiff_t>(input)); }

  // Gives all inputs of `request` their memory, and calls Status write(input, to) for each that lies in no
  // region; `to` is null where it has no bytes. `info` and `allocator` are the servable's. REQUIRES: as many
  // inputs were added as the request has. What lies on a device comes when the request begins (InferenceRequest::preparation).
  // Errors: those of the allocator, of ClientRegion::Read() and of
  // write(); INVALID_ARGUMENT for a request to a graph with regions and with more inputs than the graph has
  // streams; UNSUPPORTED for one to a graph with a region on a device.
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
  // What is to be known before the first input gets memory.
  Status Prepare(const ServableInfo& info);
  Result<Buffer> Take(BufferAllocator& allocator, size_t size);
  Status FillLater(const ServableInfo& info, size_t input, InferenceRequest& request);

  boost::container::small_vector<Input, 8> inputs_;
  size_t shared_ = 0;  // of the block
  Buffer block_;
  size_t offset_ = 0;
};

}  // namespace braid
