#include "gpu/client_gpus.h"

#include <utility>

#include "base/guard.h"

namespace braid {

struct ClientGpus::Device {
  explicit Device(const DeviceCalls::Options& options) : calls(options) {}

  // Used by the thread of the calls alone, which may outlive this.
  const std::shared_ptr<std::weak_ptr<CudaContext>> context = std::make_shared<std::weak_ptr<CudaContext>>();
  DeviceCalls calls;
};

ClientGpus::ClientGpus(std::shared_ptr<const CudaDriver> driver, const std::vector<int>& ids,
                       const Options& options)
    : driver_(std::move(driver)) {
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
  return std::make_unique<Memory>(device, std::move(*opened));
}

std::map<int, uint64_t> ClientGpus::Stalls() const {
  std::map<int, uint64_t> stalls;
  for (const auto& [id, device] : devices_) stalls.emplace(id, device->calls.stalls());
  return stalls;
}

ClientGpus::Memory::Memory(std::shared_ptr<Device> device, std::shared_ptr<CudaMemory> memory)
    : device_(std::move(device)), memory_(std::move(memory)) {}

ClientGpus::Memory::~Memory() {
  const PatientAllocation patience;
  device_->calls.Post([memory = std::move(memory_)]() mutable { memory.reset(); });
}

Status ClientGpus::Memory::Read(uint64_t offset, std::span<std::byte> to,
                                std::shared_ptr<const void> owner) const {
  return device_->calls.Run(
      [memory = memory_, offset, to, owner = std::move(owner)] { return memory->Read(offset, to); });
}

Status ClientGpus::Memory::Write(uint64_t offset, std::span<const std::byte> from,
                                 std::shared_ptr<const void> owner) const {
  return device_->calls.Run(
      [memory = memory_, offset, from, owner = std::move(owner)] { return memory->Write(offset, from); });
}

}  // namespace braid
