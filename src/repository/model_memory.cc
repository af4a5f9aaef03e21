#include "repository/model_memory.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "base/clock.h"
#include "base/process_memory.h"
#include "config/model_config.h"
#include "model_config.pb.h"

namespace braid {
namespace {

// A worker process without a model's weights.
constexpr uint64_t kWorkerBytes = uint64_t{16} << 20;
// How long a loaded model waits for the requests that have asked for it.
constexpr int64_t kFirstUseNs = kSecondNs / 2;
constexpr int64_t kRecheckNs = 20 * kMillisecondNs;

std::string InMiB(uint64_t bytes) { return fmt::format("{} MiB", (bytes + (1 << 20) - 1) >> 20); }

bool IsPinned(const ServableTable::Resident& resident) {
  return std::ranges::any_of(resident.versions, [](const std::shared_ptr<Servable>& version) {
    const auto& config = version->info().config;
    return config != nullptr && IsSet(*config, kPinnedParameter);
  });
}

std::string FixedText(uint64_t fixed) {
  return fixed == 0 ? "" : ", of which models that stay loaded take " + InMiB(fixed);
}

}  // namespace

ModelMemory::Reservation::~Reservation() {
  if (memory_ == nullptr) return;
  MutexLock lock(memory_->mutex_);
  memory_->reserved_bytes_ -= bytes_;
  for (const std::string& model : models_) memory_->loading_.erase(memory_->loading_.find(model));
}

uint64_t ModelMemory::SizeOnDisk(const std::string& model) const {
  const auto found = folders_.Open(model);
  if (!found.ok()) return 0;
  uint64_t bytes = 0;
  std::error_code fault;
  using Options = std::filesystem::directory_options;
  std::filesystem::recursive_directory_iterator files(found->folder.path(), Options::skip_permission_denied,
                                                      fault);
  for (const std::filesystem::recursive_directory_iterator end; !fault && files != end;
       files.increment(fault)) {
    std::error_code unreadable;
    if (!files->is_regular_file(unreadable)) continue;
    if (const uint64_t size = files->file_size(unreadable); !unreadable) bytes += size;
  }
  return bytes;
}

uint64_t ModelMemory::Measure(const ServableTable::Resident& resident) const {
  uint64_t bytes = 0;
  bool here = false;  // it runs in the server's process
  for (const auto& version : resident.versions) {
    if (version->info().kind != ServableKind::kModel) continue;
    bool workers = false;
    for (const InstanceReport& instance : version->instances()) {
      workers = workers || instance.pid != 0 || !instance.ready;
      if (instance.pid != 0) bytes += ReadProportionalBytes(instance.pid).value_or(0);
    }
    if (const auto shared = version->instance_template())
      bytes += ReadProportionalBytes(shared->pid).value_or(0);
    here = here || !workers;
  }
  return here ? bytes + SizeOnDisk(resident.name) : bytes;
}

uint64_t ModelMemory::NeededLocked(const std::set<std::string>& models, const Residents& residents) {
  uint64_t bytes = 0;
  for (const std::string& model : models) {
    const bool loaded = std::ranges::any_of(residents, [&](const ServableTable::Resident& resident) {
      return resident.name == model && !resident.versions.empty();
    });
    if (loaded) continue;
    const auto known = known_.find(model);
    bytes += known != known_.end() ? known->second.bytes : SizeOnDisk(model) + kWorkerBytes;
  }
  return bytes;
}

uint64_t ModelMemory::UsedLocked(const Residents& residents, bool leaving) const {
  uint64_t bytes = reserved_bytes_;
  for (const auto& resident : residents) {
    if (resident.versions.empty() && !leaving) continue;
    if (const auto known = known_.find(resident.name); known != known_.end()) bytes += known->second.bytes;
  }
  return bytes;
}

uint64_t ModelMemory::FixedLocked(const Residents& residents) const {
  uint64_t bytes = 0;
  for (const auto& resident : residents) {
    if (!resident.kept && !IsPinned(resident)) continue;
    if (const auto known = known_.find(resident.name); known != known_.end()) bytes += known->second.bytes;
  }
  return bytes;
}

int64_t ModelMemory::LastUseMsLocked(const ServableTable::Resident& resident) const {
  const auto known = known_.find(resident.name);
  int64_t last_ms = known == known_.end() ? 0 : known->second.loaded_ms;
  for (const auto& version : resident.versions) {
    const auto used_ms = static_cast<int64_t>(version->statistics().Snapshot().last_inference_ms);
    last_ms = std::max(last_ms, used_ms);
  }
  return last_ms;
}

bool ModelMemory::IsIdleLocked(const ServableTable::Resident& resident) const {
  const auto known = known_.find(resident.name);
  const bool expected = known != known_.end() && SteadyNowNs() < known->second.settled_ns + kFirstUseNs;
  return std::ranges::all_of(resident.versions, [expected](const std::shared_ptr<Servable>& version) {
    if (version->gate().inside() > 0) return false;
    if (expected && version->statistics().Snapshot().last_inference_ms == 0) return false;
    return version->sequences() == nullptr || version->sequences()->counts().active == 0;
  });
}

bool ModelMemory::EvictLocked(const Residents& residents) {
  std::set<std::string> used;
  for (const auto& servable : catalog_.All()) {
    for (const ServableUse& use : servable->uses()) used.insert(use.name);
  }
  std::vector<std::pair<int64_t, const ServableTable::Resident*>> idle;
  for (const auto& resident : residents) {
    const bool stays = resident.versions.empty() || resident.kept || loading_.contains(resident.name) ||
                       used.contains(resident.name) || IsPinned(resident) || !IsIdleLocked(resident);
    if (!stays) idle.emplace_back(LastUseMsLocked(resident), &resident);
  }
  std::ranges::sort(idle, {}, [](const auto& one) { return one.first; });
  for (const auto& [last_ms, resident] : idle) {
    ServableTable::RetiredServables leaving;
    if (!table_.Unload(resident->name, leaving).ok()) continue;  // a load of it has begun
    BRAID_LOG_INFO(log_, "unloading '{}' ({}): the memory of models is limited to {}", resident->name,
                   InMiB(known_[resident->name].bytes), InMiB(max_bytes_));
    table_.Drain(std::move(leaving));
    ++evictions_;
    return true;
  }
  return false;
}

void ModelMemory::EvictDownLocked() {
  for (;;) {
    const Residents residents = table_.Residents();
    if (UsedLocked(residents, false) <= max_bytes_ || !EvictLocked(residents)) return;
  }
}

Result<ModelMemory::Reservation> ModelMemory::Reserve(const std::set<std::string>& models,
                                                      int64_t deadline_ns) {
  for (;;) {
    bool draining = false;
    {
      MutexLock lock(mutex_);
      const Residents residents = table_.Residents();
      const uint64_t needed = max_bytes_ == 0 ? 0 : NeededLocked(models, residents);
      const uint64_t used = UsedLocked(residents, true);
      if (max_bytes_ == 0 || used + needed <= max_bytes_) {
        reserved_bytes_ += needed;
        loading_.insert(models.begin(), models.end());
        return Reservation(*this, models, needed);
      }
      if (const uint64_t fixed = FixedLocked(residents); fixed + needed > max_bytes_) {
        return ResourceExhaustedError(
            fmt::format("it needs about {}, and --models-memory-max-bytes allows {}{}", InMiB(needed),
                        InMiB(max_bytes_), FixedText(fixed)));
      }
      draining = std::ranges::any_of(residents, &ServableTable::Resident::draining);
      if (!draining && EvictLocked(residents)) continue;
      if (SteadyNowNs() >= deadline_ns) {
        return UnavailableError(fmt::format(
            "it needs about {}, and {} of the {} that --models-memory-max-bytes allows are in use",
            InMiB(needed), InMiB(used), InMiB(max_bytes_)));
      }
    }
    const int64_t recheck_ns = std::min(deadline_ns, SteadyNowNs() + kRecheckNs);
    if (draining) {
      (void)table_.AwaitDrains(recheck_ns);
    } else {
      (void)table_.AwaitRelease(table_.releases(), recheck_ns);
    }
  }
}

Status ModelMemory::Settle(const std::set<std::string>& models, Reservation& reservation) {
  Residents residents = table_.Residents();
  std::erase_if(residents, [&](const auto& resident) { return !models.contains(resident.name); });
  std::map<std::string, uint64_t> bytes;
  for (const auto& loaded : residents) bytes[loaded.name] = Measure(loaded);
  MutexLock lock(mutex_);
  reserved_bytes_ -= std::exchange(reservation.bytes_, 0);
  for (const auto& [name, now] : bytes) known_[name] = {now, WallNowMs(), SteadyNowNs()};
  if (max_bytes_ == 0) return OkStatus();
  const Residents all = table_.Residents();
  Status fault;
  for (const auto& loaded : residents) {
    if (Status settled = SettleLocked(loaded, all); !settled.ok()) fault = std::move(settled);
  }
  EvictDownLocked();
  return fault;
}

// Unloads the model if it does not fit beside those that stay.
Status ModelMemory::SettleLocked(const ServableTable::Resident& loaded, const Residents& residents) {
  uint64_t fixed = FixedLocked(residents);
  const uint64_t bytes = known_[loaded.name].bytes;
  if (loaded.kept || IsPinned(loaded)) fixed -= bytes;
  if (fixed + bytes <= max_bytes_) return OkStatus();
  Status fault = ResourceExhaustedError(fmt::format("it needs {}, and --models-memory-max-bytes allows {}{}",
                                                    InMiB(bytes), InMiB(max_bytes_), FixedText(fixed)));
  ServableTable::RetiredServables leaving;
  if (!loaded.kept && table_.Unload(loaded.name, leaving).ok()) table_.Drain(std::move(leaving));
  return fault;
}

void ModelMemory::Refresh() {
  const Residents residents = table_.Residents();
  // Measured without the lock, because that may take long.
  std::map<std::string, uint64_t> bytes;
  for (const auto& resident : residents) {
    if (!resident.versions.empty()) bytes[resident.name] = Measure(resident);
  }
  MutexLock lock(mutex_);
  for (const auto& [name, now] : bytes) known_[name].bytes = now;
  if (max_bytes_ != 0) EvictDownLocked();
}

uint64_t ModelMemory::used_bytes() const {
  const Residents residents = table_.Residents();
  MutexLock lock(mutex_);
  return UsedLocked(residents, true);
}

uint64_t ModelMemory::evictions() const {
  MutexLock lock(mutex_);
  return evictions_;
}

}  // namespace braid
