#include "protocols/inference/client_shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <iterator>
#include <limits>
#include <mutex>

#include "base/guarded_copy.h"
#include "base/utf8.h"
#include "protocols/inference/cuda_region.h"

namespace braid {
namespace {

std::string Quoted(std::string_view name) {
  std::string text;
  text.reserve(name.size() + 2);
  text.append("'").append(Shortened(name)).append("'");
  return text;
}

Status InvalidArguments(std::string_view name) {
  return InvalidArgumentError("failed to register shared memory region " + Quoted(name) + ": invalid args");
}
Status InvalidOffset(std::string_view name) {
  return InvalidArgumentError("Invalid offset for shared memory region: " + Quoted(name));
}
Status InvalidEnd(std::string_view name) {
  return InvalidArgumentError("Invalid offset + byte size for shared memory region: " + Quoted(name));
}

// Returns the file name in /dev/shm for a key; nullopt for an invalid key.
std::optional<std::string> FileName(std::string_view key) {
  if (key.starts_with('/')) key.remove_prefix(1);
  if (key.empty() || key == "." || key == ".." || key.size() > NAME_MAX) return std::nullopt;
  if (key.find('/') != std::string_view::npos || key.find('\0') != std::string_view::npos)
    return std::nullopt;
  return std::string(key);
}

// Does not follow links, block, or create files.
UniqueFd OpenFile(std::string_view key) {
  const auto name = FileName(key);
  if (!name) return UniqueFd();
  const UniqueFd folder(open("/dev/shm", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return UniqueFd();
  UniqueFd file(openat(folder.get(), name->c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat info {};
  if (!file.valid() || fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return UniqueFd();
  return file;
}

}  // namespace

bool MappedBytes::Take(uint64_t bytes) {
  uint64_t taken = taken_.load(std::memory_order_relaxed);
  do {
    if (bytes > most_ - taken) return false;
  } while (!taken_.compare_exchange_weak(taken, taken + bytes, std::memory_order_relaxed));
  return true;
}

SystemRegion::SystemRegion(RegionInfo info, UniqueFd file, std::byte* mapping, size_t mapped, size_t skip,
                           std::shared_ptr<MappedBytes> budget)
    : ClientRegion(std::move(info)),
      file_(std::move(file)),
      mapping_(mapping),
      mapped_(mapped),
      base_(mapping + skip),
      budget_(std::move(budget)) {}

SystemRegion::~SystemRegion() {
  munmap(mapping_, mapped_);
  budget_->GiveBack(mapped_);
}

Result<std::shared_ptr<const ClientRegion>> SystemRegion::Open(RegionInfo info,
                                                               std::shared_ptr<MappedBytes> mapped_bytes) {
  if (info.name.empty() || info.byte_size == 0) return InvalidArguments(info.name);
  UniqueFd file = OpenFile(info.key);
  struct stat status {};
  if (!file.valid() || fstat(file.get(), &status) != 0) {
    return InternalError("Unable to open shared memory region: " + Quoted(info.key));
  }
  const auto file_size = static_cast<uint64_t>(status.st_size);
  if (info.offset > file_size) return InvalidOffset(info.name);
  if (info.byte_size > file_size - info.offset) return InvalidEnd(info.name);
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t skip = info.offset % page;
  const auto mapped = static_cast<size_t>(info.byte_size + skip);
  if (!mapped_bytes->Take(mapped)) {
    return UnavailableError("no more than " + std::to_string(mapped_bytes->most()) +
                            " bytes of shared memory can be registered (--client-shm-max-bytes); "
                            "unregister some");
  }
  void* mapping = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(),
                       static_cast<off_t>(info.offset - skip));
  if (mapping == MAP_FAILED) {
    mapped_bytes->GiveBack(mapped);
    return InternalError("unable to map shared memory region: " + Quoted(info.name));
  }
  return std::shared_ptr<const ClientRegion>(
      new SystemRegion(std::move(info), std::move(file), static_cast<std::byte*>(mapping), mapped,
                       static_cast<size_t>(skip), std::move(mapped_bytes)));
}

Status SystemRegion::Shortened() const {
  return InvalidArgumentError("shared memory region " + Quoted(info().name) +
                              " has shrunk since it was registered");
}

Status SystemRegion::CheckLength() const {
  struct stat status {};
  if (fstat(file_.get(), &status) != 0 ||
      static_cast<uint64_t>(status.st_size) < info().offset + info().byte_size)
    return Shortened();
  return OkStatus();
}

// The file's length is checked first, because a copy would read the rest of the last page as zeros. If the
// file shrinks during the copy, the guarded copy fails.
Status SystemRegion::Read(uint64_t offset, Buffer& to) const {
  BRAID_RETURN_IF_ERROR(CheckLength());
  return CopyFromShared(to.mutable_data(), base_ + offset, to.size()) ? OkStatus() : Shortened();
}

Status SystemRegion::Write(uint64_t offset, const Buffer& from) const {
  BRAID_RETURN_IF_ERROR(CheckLength());
  return CopyToShared(base_ + offset, from.data(), from.size()) ? OkStatus() : Shortened();
}

Status PutOutput(const RegionPart& part, Tensor& output) {
  const Buffer& data = output.data;
  if (data.size() > part.byte_size) {
    return InternalError("shared memory size specified with the request for output " + Quoted(output.name) +
                         " (" + std::to_string(part.byte_size) + " bytes) should be at least " +
                         std::to_string(data.size()) + " bytes to hold the results");
  }
  if (!data.empty()) BRAID_RETURN_IF_ERROR(part.region->Write(part.offset, data));
  output.data = {};
  return OkStatus();
}

Status ClientSharedMemory::CheckAllowed() const {
  return forbidden_.empty()
             ? OkStatus()
             : UnsupportedError("client shared memory is not allowed on this server (" + forbidden_ + ")");
}

template <class Open>
Status ClientSharedMemory::Add(const std::string& name, Open open) {
  BRAID_RETURN_IF_ERROR(CheckAllowed());
  const auto check = [&]() -> Status {
    if (regions_.contains(name)) {
      return AlreadyExistsError("shared memory region " + Quoted(name) + " already in manager");
    }
    if (regions_.size() >= kMaxRegions) {
      return UnavailableError("no more than " + std::to_string(kMaxRegions) +
                              " shared memory regions can be registered; unregister some");
    }
    return OkStatus();
  };
  {
    std::shared_lock lock(mutex_);
    BRAID_RETURN_IF_ERROR(check());
  }
  BRAID_ASSIGN_OR_RETURN(auto region, open());
  std::lock_guard lock(mutex_);
  BRAID_RETURN_IF_ERROR(check());
  regions_.emplace(name, std::move(region));
  used_.store(true, std::memory_order_release);
  return OkStatus();
}

Status ClientSharedMemory::Register(RegionInfo info) {
  return Add(info.name, [&] { return SystemRegion::Open(info, mapped_); });
}

Status ClientSharedMemory::CheckGpus(std::string_view name) const {
  return gpus_->empty()
             ? InvalidArgumentError("failed to register CUDA shared memory region: " + Quoted(name) +
                                    ", GPUs not supported")
             : OkStatus();
}

Status ClientSharedMemory::RegisterCuda(RegionInfo info, std::string_view raw_handle) {
  BRAID_RETURN_IF_ERROR(CheckGpus(info.name));
  if (!gpus_->Has(*info.gpu)) {
    return InvalidArgumentError("failed to register CUDA shared memory region: " + Quoted(info.name) +
                                ": GPU " + std::to_string(*info.gpu) + " not found");
  }
  Status added = Add(info.name, [&] { return CudaRegion::Open(info, raw_handle, *gpus_, copies_); });
  // Waits until the opened memory is closed, because the client may free it after the error.
  if (!added.ok()) gpus_->Settle(*info.gpu);
  return added;
}

Status ClientSharedMemory::Unregister(Kind kind, std::string_view name) {
  BRAID_RETURN_IF_ERROR(CheckAllowed());
  std::vector<std::shared_future<void>> closed;
  {
    decltype(regions_) gone;  // unmaps the regions after the lock is released
    std::lock_guard lock(mutex_);
    auto it = name.empty() ? regions_.begin() : regions_.find(name);
    while (it != regions_.end()) {
      const auto next = name.empty() ? std::next(it) : regions_.end();
      if (KindOf(*it->second) == kind) {
        if (kind == Kind::kCuda) closed.push_back(static_cast<const CudaRegion&>(*it->second).closed());
        gone.insert(regions_.extract(it));
      }
      it = next;
    }
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kMostCloseNs);
  for (const std::shared_future<void>& each : closed) each.wait_until(deadline);
  return OkStatus();
}

Result<std::vector<RegionInfo>> ClientSharedMemory::List(Kind kind, std::string_view name) const {
  BRAID_RETURN_IF_ERROR(CheckAllowed());
  std::vector<RegionInfo> list;
  std::shared_lock lock(mutex_);
  for (const auto& [known, region] : regions_) {
    if (KindOf(*region) == kind && (name.empty() || known == name)) list.push_back(region->info());
  }
  if (list.empty() && !name.empty()) {
    return NotFoundError("Unable to find " + std::string(kind == Kind::kCuda ? "cuda" : "system") +
                         " shared memory region: " + Quoted(name));
  }
  return list;
}

Result<RegionPart> ClientSharedMemory::Find(const RegionRequest& asked, std::string_view tensor) const {
  BRAID_RETURN_IF_ERROR(CheckAllowed());
  if (!asked.byte_size) {
    return InvalidArgumentError(
        "'shared_memory_byte_size' must be specified with 'shared_memory_region' for " + Quoted(tensor));
  }
  RegionPart part{nullptr, asked.offset, *asked.byte_size};
  {
    std::shared_lock lock(mutex_);
    if (auto it = regions_.find(*asked.region); it != regions_.end()) part.region = it->second;
  }
  if (!part.region) return NotFoundError("Unable to find shared memory region: " + Quoted(*asked.region));
  const uint64_t size = part.region->info().byte_size;
  if (part.offset > size) return InvalidOffset(*asked.region);
  if (part.byte_size > size - part.offset) return InvalidEnd(*asked.region);
  return part;
}

}  // namespace braid
