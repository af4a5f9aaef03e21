// CudaRegion: a client's region in the memory of a GPU, named by an IPC handle (KServe's extension for CUDA
// shared memory). DevicePreparation: the path of requests with inputs or outputs there.
//
// Copies from and to a device wait for the device, so they do not run on network threads. Servable::Begin()
// hands such a request to a thread that copies its inputs and then begins it. The request's responses go
// through that thread too. There is one such thread, so that consecutive requests stay in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <string_view>
#include <vector>

#include "base/elastic_threads.h"
#include "base/status.h"
#include "gpu/client_gpus.h"
#include "protocols/inference/client_shared_memory.h"
#include "serving/request.h"

namespace braid {

class CudaRegion final : public ClientRegion {
 public:
  // Opens the memory. Blocks. `gpus` has info.gpu; `copies` outlives the region. Errors: INVALID_ARGUMENT for
  // an invalid handle, or for one of less memory; those of the driver; UNAVAILABLE for a device that hangs.
  static Result<std::shared_ptr<const ClientRegion>> Open(RegionInfo info, std::string_view raw_handle,
                                                          ClientGpus& gpus, ElasticThreads& copies);

  ElasticThreads* copies() const override { return &copies_; }
  Status Read(uint64_t offset, Buffer& to) const override;
  Status Write(uint64_t offset, const Buffer& from) const override;
  // Becomes ready when the region is destroyed and its memory closed, so that the client may free the memory.
  std::shared_future<void> closed() const { return memory_->closed(); }

 private:
  CudaRegion(RegionInfo info, std::unique_ptr<ClientGpus::Memory> memory, ElasticThreads& copies)
      : ClientRegion(std::move(info)), memory_(std::move(memory)), copies_(copies) {}
  Status Named(const Status& status) const;

  const std::unique_ptr<ClientGpus::Memory> memory_;
  ElasticThreads& copies_;
};

// The copies for one request, on the thread of copies.
class DevicePreparation final : public AsyncPreparation {
 public:
  // Returns the preparation of `request`, which gets one if it has none. `copies` outlives the request.
  static DevicePreparation& Of(InferenceRequest& request, ElasticThreads& copies);

  // Adds a copy from the region to input `index`, whose memory is allocated.
  void AddInput(size_t index, RegionPart part) { inputs_.push_back({index, std::move(part)}); }
  // Brings responses on the thread of copies, because they are written into regions on devices.
  void AddOutputs() { outputs_ = true; }

  void Take(std::unique_ptr<InferenceRequest> request) override;

 private:
  struct Input {
    size_t index;
    RegionPart part;
  };
  explicit DevicePreparation(ElasticThreads& copies) : copies_(copies) {}

  std::vector<Input> inputs_;
  bool outputs_ = false;
  ElasticThreads& copies_;
};

}  // namespace braid
