#include "gpu/client_gpus.h"

#include <functional>
#include <utility>

#include "base/guard.h"

namespace braid {

struct ClientGpus::Device {
  explicit Device(const DeviceCalls::Options& options) : calls(options) {}

  // Used only by the thread of the calls, which may outlive this object.
  const std::shared_ptr<std::weak_ptr<CudaContext>> context = std::make_shared<std::weak_ptr<CudaContext>>();
  DeviceCalls calls;
};

ClientGpus::ClientGpus(std::shared_ptr<const CudaDriver> driver, const std::vector<int>& ids,
                       const Options& options)
    : driver_(std::move(driver)), pinned_(std::make_shared<PinnedMemory>(options.max_pinned_bytes)) {
  for (const int id : ids)
    devices_.emplace(id, std::make_shared<Device>(DeviceCalls::Options{id, options.limit_ns, options.log}));
}

ClientGpus::~ClientGpus() = default;

Result<std::unique_ptr<ClientGpus::Memory>> ClientGpus::Open(int gpu, const CudaIpcHandle& handle) {
  const std::shared_ptr<Device>& device = devices_.at(gpu);
  auto opened = std::make_shared<std::shared_ptr<CudaMemory>>();
  BRAID_RETURN_IF_ERROR(
      device->calls.Run([opened, gpu, handle, driver = driver_, known = device->context]() -> Status {
        std::shared_ptr<CudaContext> context = known->lock();
        if (context == nullptr) {
          BRAID_ASSIGN_OR_RETURN(context, CudaContext::Create(driver, gpu));
          *known = context;
        }
        BRAID_ASSIGN_OR_RETURN(*opened, CudaMemory::Open(std::move(context), handle));
        return OkStatus();
      }));
  return std::make_unique<Memory>(device, pinned_, std::move(*opened));
}

void ClientGpus::Settle(int gpu) {
  static_cast<void>(devices_.at(gpu)->calls.Run([] { return OkStatus(); }));
}

std::map<int, uint64_t> ClientGpus::Stalls() const {
  std::map<int, uint64_t> stalls;
  for (const auto& [id, device] : devices_) stalls.emplace(id, device->calls.stalls());
  return stalls;
}

ClientGpus::Memory::Memory(std::shared_ptr<Device> device, std::shared_ptr<PinnedMemory> pinned,
                           std::shared_ptr<CudaMemory> memory)
    : device_(std::move(device)), pinned_(std::move(pinned)), memory_(std::move(memory)) {}

ClientGpus::Memory::~Memory() {
  const RetryingAllocation retrying;
  // std::function must be copyable, so a shared pointer holds the moved promise.
  auto close = std::make_shared<std::promise<void>>(std::move(close_));
  device_->calls.Post([memory = std::move(memory_), close]() mutable {
    memory.reset();
    close->set_value();
  });
}

template <class Copy>
Status ClientGpus::Memory::Run(Buffer bytes, Copy copy) const {
  return device_->calls.Run([memory = memory_, bytes = std::move(bytes), copy, pinned = pinned_,
                             device = std::weak_ptr<Device>(device_)]() mutable {
    pinned->Pin(bytes, memory->context(), [device](std::function<void()> call) {
      if (const auto alive = device.lock()) return alive->calls.Post(std::move(call));
      call();  // the context is gone too
    });
    return copy(*memory, bytes);
  });
}

Status ClientGpus::Memory::Read(uint64_t offset, const Buffer& to) const {
  return Run(to, [offset](CudaMemory& memory, Buffer& bytes) {
    return memory.Read(offset, {bytes.mutable_data(), bytes.size()});
  });
}

Status ClientGpus::Memory::Write(uint64_t offset, const Buffer& from) const {
  return Run(from, [offset](CudaMemory& memory, const Buffer& bytes) {
    return memory.Write(offset, {bytes.data(), bytes.size()});
  });
}

}  // namespace braid
