#include "gpu/client_gpus.h"

#include <cstring>
#include <utility>

#include "base/guard.h"

namespace braid {
namespace {

// The bytes of a copy that may go on when nobody waits for it any more.
struct Bytes {
  explicit Bytes(size_t count) : data(std::make_unique_for_overwrite<std::byte[]>(count)), size(count) {}
  std::span<std::byte> span() const { return {data.get(), size}; }
  const std::unique_ptr<std::byte[]> data;
  const size_t size;
};

}  // namespace

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

Status ClientGpus::Memory::Read(uint64_t offset, std::span<std::byte> to) const {
  const auto bytes = std::make_shared<Bytes>(to.size());
  BRAID_RETURN_IF_ERROR(
      device_->calls.Run([memory = memory_, offset, bytes] { return memory->Read(offset, bytes->span()); }));
  std::memcpy(to.data(), bytes->data.get(), to.size());
  return OkStatus();
}

Status ClientGpus::Memory::Write(uint64_t offset, std::span<const std::byte> from) const {
  const auto bytes = std::make_shared<Bytes>(from.size());
  std::memcpy(bytes->data.get(), from.data(), from.size());
  return device_->calls.Run(
      [memory = memory_, offset, bytes] { return memory->Write(offset, bytes->span()); });
}

}  // namespace braid
