// A region of a client's in the memory of a GPU, which it has named by an IPC handle (the KServe extension for CUDA shared
// memory); and the way of a request that has inputs or outputs there.
//
// Copies from and to a device wait for the device, so no network thread makes them: a request that needs one is taken
// aside by Servable::Begin() to a thread that copies its inputs and begins it then, and its responses go through that
// thread as well. There is one such thread, so that requests that come one after the other stay in that order.
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
  // Blocks. `gpus` has info.gpu; `copies` outlives the region. Errors: INVALID_ARGUMENT for a handle that is none, or of
  // less memory; those of the driver; UNAVAILABLE for a device that hangs.
  static Result<std::shared_ptr<const ClientRegion>> Open(RegionInfo info, std::string_view raw_handle,
                                                          ClientGpus& gpus, ElasticThreads& copies);

  ElasticThreads* copies() const override { return &copies_; }
  Status Read(uint64_t offset, Buffer& to) const override;
  Status Write(uint64_t offset, const Buffer& from) const override;
  // Ready when it is gone and its memory closed, so that the client may free it.
  std::shared_future<void> closed() const { return memory_->closed(); }

 private:
  CudaRegion(RegionInfo info, std::unique_ptr<ClientGpus::Memory> memory, ElasticThreads& copies)
      : ClientRegion(std::move(info)), memory_(std::move(memory)), copies_(copies) {}
  Status Named(const Status& status) const;

  const std::unique_ptr<ClientGpus::Memory> memory_;
  ElasticThreads& copies_;
};

// What is done aside for one request.
class DevicePreparation final : public AsyncPreparation {
 public:
  // That of `request`, which gets one if it has none. `copies` outlives the request.
  static DevicePreparation& Of(InferenceRequest& request, ElasticThreads& copies);

  // Input `index`, whose memory is there, is to be filled from the region.
  void AddInput(size_t index, RegionPart part) { inputs_.push_back({index, std::move(part)}); }
  // Responses are written into regions on devices.
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
