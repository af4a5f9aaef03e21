#include "protocols/inference/cuda_region.h"

#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/guard.h"
#include "base/utf8.h"
#include "serving/servable.h"

namespace braid {
namespace {

// Brings responses on the thread of copies. Deletes itself after the last one.
class AsideSink final : public ResponseSink {
 public:
  AsideSink(ResponseSink* sink, ElasticThreads& copies) : sink_(sink), copies_(copies) {}

  void Respond(std::optional<InferenceResponse> response, bool final) override {
    const RetryingAllocation retrying;
    // std::function must be copyable, so the response travels in a shared pointer.
    auto late = std::make_shared<std::optional<InferenceResponse>>(std::move(response));
    copies_.Run([this, late, final] {
      sink_->Respond(std::move(*late), final);
      if (final) delete this;
    });
  }

 private:
  ResponseSink* const sink_;
  ElasticThreads& copies_;
};

}  // namespace

Result<std::shared_ptr<const ClientRegion>> CudaRegion::Open(RegionInfo info, std::string_view raw_handle,
                                                             ClientGpus& gpus, ElasticThreads& copies) {
  const std::string who = "failed to register CUDA shared memory region: '" + Shortened(info.name) + "'";
  CudaIpcHandle handle{};
  if (raw_handle.size() != handle.bytes.size()) {
    return InvalidArgumentError(who + ": 'raw_handle' must have 64 bytes, got " +
                                std::to_string(raw_handle.size()));
  }
  if (info.name.empty() || info.byte_size == 0) return InvalidArgumentError(who + ": invalid args");
  std::memcpy(handle.bytes.data(), raw_handle.data(), raw_handle.size());
  auto memory = gpus.Open(*info.gpu, handle);
  if (memory.status().code() == StatusCode::kUnavailable) return memory.status().WithPrefix(who + ": ");
  if (!memory.ok())
    return InvalidArgumentError(who + ": failed to open CUDA IPC handle: " + memory.status().message());
  if (info.byte_size > (*memory)->size()) {
    return InvalidArgumentError(who + ": expected " + std::to_string(info.byte_size) + " bytes, got " +
                                std::to_string((*memory)->size()));
  }
  return std::shared_ptr<const ClientRegion>(new CudaRegion(std::move(info), *std::move(memory), copies));
}

Status CudaRegion::Named(const Status& status) const {
  return status.WithPrefix("CUDA shared memory region '" + info().name + "': ");
}

Status CudaRegion::Read(uint64_t offset, Buffer& to) const {
  const Status status = memory_->Read(offset, to);
  return status.ok() ? status : Named(status);
}

Status CudaRegion::Write(uint64_t offset, const Buffer& from) const {
  const Status status = memory_->Write(offset, from);
  return status.ok() ? status : Named(status);
}

DevicePreparation& DevicePreparation::Of(InferenceRequest& request, ElasticThreads& copies) {
  if (request.preparation == nullptr) request.preparation.reset(new DevicePreparation(copies));
  return static_cast<DevicePreparation&>(*request.preparation);
}

void DevicePreparation::Take(std::unique_ptr<InferenceRequest> request) {
  if (outputs_) request->sink = new AsideSink(request->sink, copies_);
  // The thread that brought the request is not the one that begins it.
  request->here = false;
  auto taken = std::make_shared<std::unique_ptr<InferenceRequest>>(std::move(request));
  copies_.Run([inputs = std::move(inputs_), taken] {
    std::unique_ptr<InferenceRequest> request = std::move(*taken);
    for (const Input& input : inputs) {
      const Status read = input.part.region->Read(input.part.offset, request->inputs[input.index].data);
      if (!read.ok()) return request->Refuse(read);
    }
    Servable& servable = request->servable->get();
    servable.Begin(std::move(request));
  });
}

}  // namespace braid
