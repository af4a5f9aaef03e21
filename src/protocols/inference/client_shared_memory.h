// Shared memory of clients: regions that they make with shm_open(), register by name, and name in requests in
// the place of bytes (the KServe extension for system shared memory).
//
// A region is the client's, who may do to it what it likes at any time; nothing that it does harms the
// server. Its key is one name in /dev/shm and leads nowhere else. Sizes are checked at each use, and bytes
// are copied: from the region into the servable's memory, and from there into the region. The copies are made
// where those from and into messages are made, on the thread that reads the request and the one that brings
// the response.
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
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "tensor/tensor.h"

namespace braid {

struct RegionInfo {
  std::string name;
  std::string key;  // as for shm_open(): "/name"
  uint64_t offset = 0;
  uint64_t byte_size = 0;
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

// A region that is mapped. Any thread.
class ClientRegion {
 public:
  // Takes its bytes from `mapped` until it is gone. Errors: INTERNAL when the key opens nothing that can be
  // mapped, INVALID_ARGUMENT when the region does not lie within its file, UNAVAILABLE when no more may be
  // mapped.
  static Result<std::shared_ptr<const ClientRegion>> Open(RegionInfo info,
                                                          std::shared_ptr<MappedBytes> mapped);
  ~ClientRegion();
  ClientRegion(const ClientRegion&) = delete;
  ClientRegion& operator=(const ClientRegion&) = delete;

  const RegionInfo& info() const { return info_; }
  // Copy from and to the region, from `offset` in it on. REQUIRES: within byte_size. Errors: INVALID_ARGUMENT
  // when the client has made the file shorter than what it registered.
  Status Read(uint64_t offset, std::span<std::byte> to) const;
  Status Write(uint64_t offset, std::span<const std::byte> from) const;

 private:
  ClientRegion(RegionInfo info, UniqueFd file, std::byte* mapping, size_t mapped, size_t skip,
               std::shared_ptr<MappedBytes> budget);
  Status CheckLength() const;
  Status Shortened() const;

  const RegionInfo info_;
  const UniqueFd file_;
  std::byte* const mapping_;  // from the page in which the region begins
  const size_t mapped_;
  std::byte* const base_;
  const std::shared_ptr<MappedBytes> budget_;  // shared by all regions, which may outlive their registry
};

// What a tensor's parameters say; the same on both protocols.
struct RegionWish {
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
  // --allow-client-shm. Without it everything is refused with UNSUPPORTED. Before the first request.
  void set_allowed(bool allowed) { allowed_ = allowed; }
  // --client-shm-max-bytes: of all regions together, those that only requests still use too. Before the first
  // request.
  void set_max_bytes(uint64_t bytes) { mapped_ = std::make_shared<MappedBytes>(bytes); }

  // Errors: ALREADY_EXISTS, UNAVAILABLE for too many regions, and those of ClientRegion::Open().
  Status Register(RegionInfo info);
  // No error when there is no such region. An empty name: all.
  Status Unregister(std::string_view name);
  // One region, or with an empty name all in the order of their names. Errors: NOT_FOUND.
  Result<std::vector<RegionInfo>> List(std::string_view name) const;
  // Where a tensor of a request lies. REQUIRES: wish.region. Errors: NOT_FOUND for an unknown region,
  // INVALID_ARGUMENT when the part does not lie in it; `tensor` is named in the text.
  Result<RegionPart> Find(const RegionWish& wish, std::string_view tensor) const;

 private:
  // Each is a mapping and a descriptor, of which a process has some ten thousands.
  static constexpr size_t kMaxRegions = 4096;

  Status CheckAllowed() const;

  bool allowed_ = true;
  std::shared_ptr<MappedBytes> mapped_ = std::make_shared<MappedBytes>(UINT64_MAX);
  mutable std::shared_mutex mutex_;
  // Guarded by mutex_; the regions are shared with requests that use them.
  std::map<std::string, std::shared_ptr<const ClientRegion>, std::less<>> regions_;
};

// There are no GPUs here: nothing is ever registered.
Status RefuseCudaRegion(std::string_view name);
Status FindNoCudaRegion(std::string_view name);

}  // namespace braid
