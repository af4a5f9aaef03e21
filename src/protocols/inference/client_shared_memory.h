// Shared memory of clients: regions that they make with shm_open(), register by name, and name in requests in
// the place of bytes (the KServe extension for system shared memory), or that they have made on a GPU (that for CUDA shared
// memory, see cuda_region.h). No two of both kinds have the same name.
//
// A region is the client's, who may do to it what it likes at any time; nothing that it does harms the
// server. Its key is one name in /dev/shm and leads nowhere else. Sizes are checked at each use, and bytes
// are copied: from the region into the servable's memory, and from there into the region. The copies are made
// where those from and into messages are made, on the thread that reads the request and the one that brings
// the response; those from and to a GPU on a thread of their own.
//
// What is registered stays usable for the requests that named it when it is unregistered, or its file
// removed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/elastic_threads.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "gpu/client_gpus.h"
#include "tensor/tensor.h"

namespace braid {

struct RegionInfo {
  std::string name;
  std::string key;  // as for shm_open(): "/name"
  uint64_t offset = 0;
  uint64_t byte_size = 0;
  std::optional<int> gpu = {};  // where it lies; then there is no key
};

// How many bytes of clients' files may be mapped at once. Any thread.
class MappedBytes {
 public:
  explicit MappedBytes(uint64_t most) : most_(most) {}
  // False, and nothing taken, when that would be more than there may be.
  bool Take(uint64_t bytes);
  void GiveBack(uint64_t bytes) { taken_.fetch_sub(bytes, std::memory_order_relaxed); }
  uint64_t most() const { return most_; }

 private:
  const uint64_t most_;
  std::atomic<uint64_t> taken_{0};
};

// A region that can be used. Any thread.
class ClientRegion {
 public:
  virtual ~ClientRegion() = default;
  ClientRegion(const ClientRegion&) = delete;
  ClientRegion& operator=(const ClientRegion&) = delete;

  const RegionInfo& info() const { return info_; }
  // Where it has to be read and written, since that blocks; null: on any thread.
  virtual ElasticThreads* copies() const { return nullptr; }
  // Fill `to` from the region, and copy `from` there, from `offset` in it on. What was not read, since a GPU hangs, may be
  // written later as long as anybody has it. REQUIRES: within byte_size. Errors: INVALID_ARGUMENT
  // when the client has made its file shorter than what it registered; those of a GPU's driver.
  virtual Status Read(uint64_t offset, Buffer& to) const = 0;
  virtual Status Write(uint64_t offset, const Buffer& from) const = 0;

 protected:
  explicit ClientRegion(RegionInfo info) : info_(std::move(info)) {}

 private:
  const RegionInfo info_;
};

// One in /dev/shm, which is mapped.
class SystemRegion final : public ClientRegion {
 public:
  // Takes its bytes from `mapped` until it is gone. Errors: INTERNAL when the key opens nothing that can be
  // mapped, INVALID_ARGUMENT when the region does not lie within its file, UNAVAILABLE when no more may be
  // mapped.
  static Result<std::shared_ptr<const ClientRegion>> Open(RegionInfo info,
                                                          std::shared_ptr<MappedBytes> mapped);
  ~SystemRegion() override;

  Status Read(uint64_t offset, Buffer& to) const override;
  Status Write(uint64_t offset, const Buffer& from) const override;

 private:
  SystemRegion(RegionInfo info, UniqueFd file, std::byte* mapping, size_t mapped, size_t skip,
               std::shared_ptr<MappedBytes> budget);
  Status CheckLength() const;
  Status Shortened() const;

  const UniqueFd file_;
  std::byte* const mapping_;  // from the page in which the region begins
  const size_t mapped_;
  std::byte* const base_;
  const std::shared_ptr<MappedBytes> budget_;  // shared by all regions, which may outlive their registry
};

// What a tensor's parameters say; the same on both protocols.
struct RegionRequest {
  std::optional<std::string> region;
  uint64_t offset = 0;
  std::optional<uint64_t> byte_size;
};

// The part of a region where a tensor lies, or is to be put.
struct RegionPart {
  std::shared_ptr<const ClientRegion> region;  // shared with the registry and other requests; null: none
  uint64_t offset = 0;
  uint64_t byte_size = 0;
};

// Puts the bytes of an output where the client wants them; the tensor has no data then. Errors: INTERNAL when
// there is not enough room, and those of ClientRegion::Write().
Status PutOutput(const RegionPart& part, Tensor& output);

// The regions by their names. Any thread.
class ClientSharedMemory {
 public:
  // Everything is refused with UNSUPPORTED, and `why`. Before the first request.
  void Forbid(std::string why) {
    forbidden_ = std::move(why);
    used_ = true;  // requests that name a region are refused with more than that it is not there
  }
  // --client-shm-max-bytes: of all regions together, those that only requests still use too. Before the first
  // request.
  void set_max_bytes(uint64_t bytes) { mapped_ = std::make_shared<MappedBytes>(bytes); }

  // The GPUs whose memory can be registered; none by default. Before the first request.
  void set_gpus(std::unique_ptr<ClientGpus> gpus) { gpus_ = std::move(gpus); }
  const ClientGpus& gpus() const { return *gpus_; }

  // False until a region is registered: no request can name one.
  bool used() const { return used_.load(std::memory_order_acquire); }

  // Errors: ALREADY_EXISTS, UNAVAILABLE for too many regions, and those of SystemRegion::Open().
  Status Register(RegionInfo info);
  // Whether there are GPUs at all. Errors: INVALID_ARGUMENT, with the name of the region that cannot be registered.
  Status CheckGpus(std::string_view name) const;
  // The same for memory of info.gpu, which `raw_handle` names. Blocks, for long when it is the first there. Errors also:
  // INVALID_ARGUMENT where there is no such GPU, and those of CudaRegion::Open().
  Status RegisterCuda(RegionInfo info, std::string_view raw_handle);
  // No error when there is no such region. An empty name: all. Of kCuda: blocks until their memory is closed, since clients may
  // free it then; of those that requests use, or on a device that hangs, no longer than kMostCloseNs.
  enum class Kind : unsigned char { kSystem, kCuda };
  Status Unregister(Kind kind, std::string_view name);
  // One region, or with an empty name all in the order of their names. Errors: NOT_FOUND.
  Result<std::vector<RegionInfo>> List(Kind kind, std::string_view name) const;
  // The thread of copies from and to devices.
  ElasticThreads& copies() { return copies_; }

  // Where a tensor of a request lies. REQUIRES: asked.region. Errors: NOT_FOUND for an unknown region,
  // INVALID_ARGUMENT when the part does not lie in it; `tensor` is named in the text.
  Result<RegionPart> Find(const RegionRequest& asked, std::string_view tensor) const;

 private:
  // Each is a mapping and a descriptor, of which a process has some ten thousands.
  static constexpr size_t kMaxRegions = 4096;
  // A request that has just been answered lets go of its regions well within it.
  static constexpr int64_t kMostCloseNs = 1'000'000'000;

  static Kind KindOf(const ClientRegion& region) { return region.info().gpu ? Kind::kCuda : Kind::kSystem; }
  Status CheckAllowed() const;
  // Adds what `open` gives, which is called without the lock.
  template <class Open>
  Status Add(const std::string& name, Open open);

  std::string forbidden_;  // empty: it is allowed
  std::shared_ptr<MappedBytes> mapped_ = std::make_shared<MappedBytes>(UINT64_MAX);
  // Never null; without devices by default. Outlives the regions.
  std::unique_ptr<ClientGpus> gpus_ =
      std::make_unique<ClientGpus>(nullptr, std::vector<int>(), ClientGpus::Options());
  // Copies from and to devices, in order.
  ElasticThreads copies_{{.name = "brd-cuda", .most = 1}};
  std::atomic<bool> used_{false};
  mutable std::shared_mutex mutex_;
  // Guarded by mutex_; the regions are shared with requests that use them.
  std::map<std::string, std::shared_ptr<const ClientRegion>, std::less<>> regions_;
};

}  // namespace braid
