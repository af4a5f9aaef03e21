// ModelMemory: keeps the memory of the models of model folders below a limit (--models-memory-max-bytes), by
// unloading those that are idle, the least recently used first.
//
// The memory of a model is the PSS of its worker processes. Weights in the server's own process cannot be
// told apart; for a model without workers the size of its files stands for them. Before its first load a
// model is taken to need the size of its files, later what it was last measured to need.
//
// Models with requests in flight or open sequences stay. So do those that a loaded ensemble, pipeline or
// graph uses. Pinned models stay too (kPinnedParameter), and those that a client or the server's start has loaded.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "repository/model_folders.h"
#include "repository/servable_table.h"
#include "serving/catalog.h"

namespace braid {

// Thread-safe. The constructor's references outlive the object.
class ModelMemory {
 public:
  // `max_bytes` of 0: no limit; the memory is only measured.
  ModelMemory(uint64_t max_bytes, const ModelFolders& folders, ServableTable& table, const Catalog& catalog,
              Logger& log)
      : max_bytes_(max_bytes), folders_(folders), table_(table), catalog_(catalog), log_(log) {}

  // Room for a load in progress, until its end. None of its models is unloaded meanwhile.
  class Reservation {
   public:
    Reservation() = default;
    Reservation(ModelMemory& memory, std::set<std::string> models, uint64_t bytes)
        : memory_(&memory), models_(std::move(models)), bytes_(bytes) {}
    Reservation(Reservation&& other) noexcept { *this = std::move(other); }
    Reservation& operator=(Reservation&& other) noexcept {
      std::swap(memory_, other.memory_);
      std::swap(models_, other.models_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Reservation();

   private:
    friend class ModelMemory;
    ModelMemory* memory_ = nullptr;
    std::set<std::string> models_;
    uint64_t bytes_ = 0;
  };

  // Makes room for the load of these models; those that are loaded need none. Unloads models, and waits until
  // models are idle. Blocks, at most until `deadline_ns` (SteadyNowNs()). Errors, with the figures:
  // RESOURCE_EXHAUSTED if the models do not fit beside those that stay; UNAVAILABLE if too many are in use.
  Result<Reservation> Reserve(const std::set<std::string>& models, int64_t deadline_ns);

  // Measures models that were just loaded with a reservation, and unloads others if these are larger than
  // expected. Errors: RESOURCE_EXHAUSTED, with the figures, for a model that does not fit; it is unloaded,
  // unless a client has loaded it.
  Status Settle(const std::set<std::string>& models, Reservation& reservation);

  // Measures all models, and unloads some if they have grown beyond the limit. Call it every few seconds.
  void Refresh();

  uint64_t max_bytes() const { return max_bytes_; }
  // The memory when it was last measured, of all models, and the number of models unloaded for want of it.
  uint64_t used_bytes() const;
  uint64_t evictions() const;

 private:
  struct Known {
    uint64_t bytes = 0;      // when it was last measured
    int64_t loaded_ms = 0;   // since 1970
    int64_t settled_ns = 0;  // SteadyNowNs() of the load's end; 0: not loaded on demand
  };
  using Residents = std::vector<ServableTable::Resident>;

  uint64_t Measure(const ServableTable::Resident& resident) const;
  uint64_t SizeOnDisk(const std::string& model) const;
  uint64_t NeededLocked(const std::set<std::string>& models, const Residents& residents)
      BRAID_REQUIRES(mutex_);
  // The memory of models and reservations; with `leaving`, that of draining models too.
  uint64_t UsedLocked(const Residents& residents, bool leaving) const BRAID_REQUIRES(mutex_);
  Status SettleLocked(const ServableTable::Resident& loaded, const Residents& residents)
      BRAID_REQUIRES(mutex_);
  // The memory of pinned models and of those that clients or the start have loaded.
  uint64_t FixedLocked(const Residents& residents) const BRAID_REQUIRES(mutex_);
  int64_t LastUseMsLocked(const ServableTable::Resident& resident) const BRAID_REQUIRES(mutex_);
  bool IsIdleLocked(const ServableTable::Resident& resident) const BRAID_REQUIRES(mutex_);
  // Unloads idle models until the others fit, if there are enough.
  void EvictDownLocked() BRAID_REQUIRES(mutex_);
  // Begins to unload the idle model that was used least recently. Returns false if there is none.
  bool EvictLocked(const Residents& residents) BRAID_REQUIRES(mutex_);

  const uint64_t max_bytes_;
  const ModelFolders& folders_;
  ServableTable& table_;
  const Catalog& catalog_;
  Logger& log_;

  mutable Mutex mutex_;
  std::map<std::string, Known> known_ BRAID_GUARDED_BY(mutex_);
  uint64_t reserved_bytes_ BRAID_GUARDED_BY(mutex_) = 0;
  std::multiset<std::string> loading_ BRAID_GUARDED_BY(mutex_);  // the models of reservations
  uint64_t evictions_ BRAID_GUARDED_BY(mutex_) = 0;
};

}  // namespace braid
