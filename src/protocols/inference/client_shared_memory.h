// ClientSharedMemory: shared memory of clients. A client makes a region with shm_open(), registers it by
// name, and names it in requests instead of sending bytes (KServe's extension for system shared memory).
// Regions can also lie on a GPU (the extension for CUDA shared memory, see cuda_region.h). Names are unique
// over both kinds.
//
// A region belongs to the client, which may change it at any time. No such change harms the server. Its key
// is a single name in /dev/shm and leads nowhere else. Sizes are checked at each use. Bytes are copied: from
// the region into the servable's memory, and from there into the region. The thread that reads the request
// and the thread that brings the response make these copies, as they do for bytes in messages. Copies from
// and to a GPU have their own thread.
//
// A region stays usable for requests that named it, even if it is unregistered or its file is removed.
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
  std::optional<int> gpu = {};  // the region's GPU; then there is no key
};

// The limit on bytes of clients' files that are mapped at the same time. Any thread.
class MappedBytes {
 public:
  explicit MappedBytes(uint64_t most) : most_(most) {}
  // Returns false, and takes nothing, beyond the limit.
  bool Take(uint64_t bytes);
  void GiveBack(uint64_t bytes) { taken_.fetch_sub(bytes, std::memory_order_relaxed); }
  uint64_t most() const { return most_; }

 private:
  const uint64_t most_;
  std::atomic<uint64_t> taken_{0};
};

// A usable region. Any thread.
class ClientRegion {
 public:
  virtual ~ClientRegion() = default;
  ClientRegion(const ClientRegion&) = delete;
  ClientRegion& operator=(const ClientRegion&) = delete;

  const RegionInfo& info() const { return info_; }
  // The threads that must read and write the region, because that blocks; null: any thread.
  virtual ElasticThreads* copies() const { return nullptr; }
  // Fill `to` from the region, and copy `from` into it, at `offset`. After a read has failed because a GPU
  // hangs, the GPU may still write to `to` while it has owners. Errors: INVALID_ARGUMENT if the client's file
  // is shorter than when it was registered; those of a GPU's driver.
  // REQUIRES: the bytes lie within byte_size.
  virtual Status Read(uint64_t offset, Buffer& to) const = 0;
  virtual Status Write(uint64_t offset, const Buffer& from) const = 0;

 protected:
  explicit ClientRegion(RegionInfo info) : info_(std::move(info)) {}

 private:
  const RegionInfo info_;
};

// A region in /dev/shm, mapped into memory.
class SystemRegion final : public ClientRegion {
 public:
  // Takes its bytes from `mapped` while it lives. Errors: INTERNAL if the key names no file that can be
  // mapped, INVALID_ARGUMENT if the region does not lie within its file, UNAVAILABLE if the limit of mapped
  // bytes is reached.
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
  std::byte* const mapping_;  // begins with the region's first page
  const size_t mapped_;
  std::byte* const base_;
  const std::shared_ptr<MappedBytes> budget_;  // shared by all regions, which may outlive their registry
};

// A tensor's parameters for shared memory; the same on both protocols.
struct RegionRequest {
  std::optional<std::string> region;
  uint64_t offset = 0;
  std::optional<uint64_t> byte_size;
};

// The part of a region that holds a tensor, or receives it.
struct RegionPart {
  std::shared_ptr<const ClientRegion> region;  // shared with the registry and other requests; null: none
  uint64_t offset = 0;
  uint64_t byte_size = 0;
};

// Copies an output to the client's region, and removes the data from the tensor. Errors: INTERNAL for too
// little room, and those of ClientRegion::Write().
Status PutOutput(const RegionPart& part, Tensor& output);

// The registered regions by name. Any thread.
class ClientSharedMemory {
 public:
  // Refuses everything with UNSUPPORTED and `why`. Call it before the first request.
  void Forbid(std::string why) {
    forbidden_ = std::move(why);
    used_ = true;  // requests that name a region get this error instead of NOT_FOUND
  }
  // --client-shm-max-bytes: the limit of all regions together, including those that only requests still use.
  // Call it before the first request.
  void set_max_bytes(uint64_t bytes) { mapped_ = std::make_shared<MappedBytes>(bytes); }

  // Sets the GPUs whose memory can be registered; none by default. Call it before the first request.
  void set_gpus(std::unique_ptr<ClientGpus> gpus) { gpus_ = std::move(gpus); }
  const ClientGpus& gpus() const { return *gpus_; }

  // False until a region is registered, so no request can name one.
  bool used() const { return used_.load(std::memory_order_acquire); }

  // Registers a region. Errors: ALREADY_EXISTS, UNAVAILABLE for too many regions, and those of
  // SystemRegion::Open().
  Status Register(RegionInfo info);
  // Checks whether there are GPUs. Errors: INVALID_ARGUMENT, which names the region that cannot be
  // registered.
  Status CheckGpus(std::string_view name) const;
  // Like Register() for memory of GPU info.gpu with the handle `raw_handle`. Blocks, for long if it is the
  // first region there. Errors also: INVALID_ARGUMENT for an unknown GPU, and those of CudaRegion::Open().
  Status RegisterCuda(RegionInfo info, std::string_view raw_handle);
  // Unregisters a region; an empty name: all of this kind. An unknown name is not an error. For kCuda it
  // blocks until the memory is closed, because clients may free it then. If requests still use the memory, or
  // the device hangs, it blocks for at most kMostCloseNs.
  enum class Kind : unsigned char { kSystem, kCuda };
  Status Unregister(Kind kind, std::string_view name);
  // Returns one region, or for an empty name all, ordered by name. Errors: NOT_FOUND.
  Result<std::vector<RegionInfo>> List(Kind kind, std::string_view name) const;
  // The thread of copies from and to devices.
  ElasticThreads& copies() { return copies_; }

  // Returns the place of a request's tensor. REQUIRES: asked.region is set. Errors: NOT_FOUND for an unknown
  // region, INVALID_ARGUMENT if the part does not lie in it. `tensor` is named in the text.
  Result<RegionPart> Find(const RegionRequest& asked, std::string_view tensor) const;

 private:
  // Each region is a mapping and a descriptor. A process can have some ten thousand of them.
  static constexpr size_t kMaxRegions = 4096;
  // A request that was just answered releases its regions in much less time.
  static constexpr int64_t kMostCloseNs = 1'000'000'000;

  static Kind KindOf(const ClientRegion& region) { return region.info().gpu ? Kind::kCuda : Kind::kSystem; }
  Status CheckAllowed() const;
  // Registers the region that `open` returns. Calls `open` without the lock.
  template <class Open>
  Status Add(const std::string& name, Open open);

  std::string forbidden_;  // empty: allowed
  std::shared_ptr<MappedBytes> mapped_ = std::make_shared<MappedBytes>(UINT64_MAX);
  // Never null; without devices by default. Outlives the regions.
  std::unique_ptr<ClientGpus> gpus_ =
      std::make_unique<ClientGpus>(nullptr, std::vector<int>(), ClientGpus::Options());
  // Makes the copies from and to devices in order.
  ElasticThreads copies_{{.name = "brd-cuda", .most = 1}};
  std::atomic<bool> used_{false};
  mutable std::shared_mutex mutex_;
  // Guarded by mutex_. The regions are shared with requests that use them.
  std::map<std::string, std::shared_ptr<const ClientRegion>, std::less<>> regions_;
};

}  // namespace braid
