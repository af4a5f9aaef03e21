#include "sequences/sequence_vault.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <system_error>

#include "base/clock.h"
#include "base/guard.h"
#include "base/thread.h"

namespace braid {
namespace {

constexpr std::string_view kOtherModel = ".other-model";
constexpr std::string_view kOtherFormat = ".other-format";
constexpr std::string_view kDamaged = ".damaged";

std::pair<std::string, int64_t> KeyOf(const Servable& servable) {
  return {servable.info().name, servable.info().version};
}

std::string Who(const ServableInfo& info) {
  return "'" + info.name + "' version " + std::to_string(info.version);
}

std::string Count(size_t sequences) {
  return std::to_string(sequences) + (sequences == 1 ? " sequence" : " sequences");
}

uint64_t Ended(const SequenceKeeper& keeper) {
  const SequenceCounts counts = keeper.counts();
  return counts.ended + counts.expired;
}

// Adds the sequences of `older` whose ids are missing in `sequences`.
void AddMissing(std::vector<SavedSequence> older, std::vector<SavedSequence>& sequences) {
  std::set<CorrelationId> known;
  for (const SavedSequence& sequence : sequences) known.insert(sequence.id);
  std::copy_if(std::make_move_iterator(older.begin()), std::make_move_iterator(older.end()),
               std::back_inserter(sequences),
               [&known](const SavedSequence& sequence) { return !known.contains(sequence.id); });
}

}  // namespace

SequenceVault::Entry::Entry(std::shared_ptr<Servable> servable, SequenceKeeper& keeper)
    : key(KeyOf(*servable)),
      who(Who(servable->info())),
      file(SequenceFolder::NameOf(servable->info().name, servable->info().version)),
      keeper(keeper),
      servable(std::move(servable)) {}

SequenceVault::SequenceVault(const Options& options, std::optional<SequenceFolder> folder, Logger& log)
    : options_(options), folder_(std::move(folder)), log_(log) {}

Result<std::unique_ptr<SequenceVault>> SequenceVault::Open(const Options& options, Logger& log) {
  std::optional<SequenceFolder> folder;
  if (options.store == nullptr) {
    BRAID_ASSIGN_OR_RETURN(folder, SequenceFolder::Open(options.path));
  }
  std::unique_ptr<SequenceVault> vault(new SequenceVault(options, std::move(folder), log));
  if (options.interval_ns == 0) return vault;
  try {
    {
      MutexLock lock(vault->mutex_);
      vault->schedule_ended_ = false;
    }
    vault->schedule_ = StartThread("brd-vault", [vault = vault.get()] { vault->RunSchedule(); });
  } catch (const std::system_error& fault) {
    return InternalError(std::string("failed to start the thread that saves sequences: ") + fault.what());
  }
  return vault;
}

SequenceVault::~SequenceVault() {
  BeginShutdown(SteadyNowNs());
  if (schedule_.joinable()) schedule_.join();
}

// ---- entering ----

void SequenceVault::Enter(const std::shared_ptr<Servable>& servable) {
  SequenceKeeper* const keeper = servable->sequences();
  if (keeper == nullptr) return;
  if (!keeper->savable()) {
    BRAID_LOG_INFO(log_,
                   "{}: its sequences cannot be saved: the model keeps their state without save_sequence and "
                   "load_sequence",
                   Who(servable->info()));
    return;
  }
  const RetryingAllocation retrying;  // retried, so that a failed allocation does not lose sequences
  // Without an identity the model cannot be told from another one. The reason was logged when the identity
  // was computed.
  if (keeper->identity().empty()) return;
  const auto entry = std::make_shared<Entry>(servable, *keeper);
  {
    MutexLock lock(mutex_);
    Line& line = lines_[KeyOf(*servable)];
    line.entries.push_back(entry);
    if (line.entries.size() > 1) {
      keeper->HoldUntilRestored(SteadyNowNs() + options_.hold_ns);
      return;
    }
    entry->state = State::kTaking;
  }
  RestoreFromFile(*entry);
  MutexLock lock(mutex_);
  entry->state = State::kServing;
  changed_.NotifyAll();
}

void SequenceVault::RestoreFromFile(Entry& entry) {
  if (!folder_) return;
  auto read = folder_->Read(entry.file);
  if (!read.ok()) {
    if (read.status().code() == StatusCode::kNotFound) return;
    BRAID_LOG_ERROR(log_, "{}: its sequences cannot be restored from {}: {}", entry.who, PlaceOf(entry),
                    read.status().message());
    SetAside(entry, read.status().code() == StatusCode::kUnsupported ? kOtherFormat : kDamaged);
    return;
  }
  const size_t count = read->sequences.size();
  if (read->identity != entry.keeper.identity()) {
    BRAID_LOG_WARNING(log_,
                      "{}: {} dropped: they were saved by another model (its files or states have changed)",
                      entry.who, Count(count));
    SetAside(entry, kOtherModel);
    return;
  }
  const int64_t age_s = std::max(WallNowMs() - read->written_ms, int64_t{0}) / 1000;
  const size_t taken = entry.keeper.Restore(std::move(read->sequences));
  BRAID_LOG_INFO(log_, "{}: {} restored{}, as of {} s ago", entry.who, Count(taken),
                 taken == count ? "" : " of " + std::to_string(count), age_s);
  MutexLock lock(entry.save_mutex);
  if (taken == count) entry.saved_changes = entry.keeper.changes();
}

void SequenceVault::SetAside(const Entry& entry, std::string_view suffix) {
  if (!folder_) return;
  if (Status moved = folder_->SetAside(entry.file, suffix); !moved.ok()) {
    BRAID_LOG_ERROR(log_, "{}: {} cannot be set aside: {}", entry.who, PlaceOf(entry), moved.message());
  }
}

// ---- leaving ----

std::shared_ptr<SequenceVault::Entry> SequenceVault::Find(Servable& servable) const {
  const auto line = lines_.find(KeyOf(servable));
  if (line == lines_.end()) return nullptr;
  const auto& entries = line->second.entries;
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const auto& one) { return one->servable.get() == &servable; });
  return found == entries.end() ? nullptr : *found;
}

std::vector<std::shared_ptr<SequenceVault::Entry>>::const_iterator SequenceVault::FirstStaying(
    const Line& line) {
  return std::find_if(line.entries.begin(), line.entries.end(),
                      [](const auto& one) { return one->state != State::kLeft; });
}

void SequenceVault::BeginStop(Servable& servable) {
  if (servable.sequences() == nullptr) return;
  const RetryingAllocation retrying;  // as in Enter()
  MutexLock lock(mutex_);
  const std::shared_ptr<Entry> entry = Find(servable);
  if (entry == nullptr) return;
  entry->stopping = true;
  while (entry->state == State::kTaking) changed_.Wait(mutex_);
  entry->ended_before_stop = Ended(entry->keeper);
  entry->before_stop = entry->keeper.Save();
}

void SequenceVault::Leave(Servable& servable) {
  if (servable.sequences() == nullptr) return;
  const RetryingAllocation retrying;  // as in Enter()
  std::shared_ptr<Entry> entry;
  {
    MutexLock lock(mutex_);
    entry = Find(servable);
  }
  if (entry == nullptr) return;
  {
    // Waits for a running save, which would otherwise replace a later one.
    MutexLock save(entry->save_mutex);
    entry->closed = true;
  }
  std::shared_ptr<Servable> share;  // destroyed after the lock is released
  MutexLock lock(mutex_);
  while (entry->state == State::kTaking) changed_.Wait(mutex_);
  const uint64_t changes = entry->keeper.changes();
  entry->left_behind = {entry->keeper.identity(), entry->keeper.Save()};
  // Missing sequences were lost, unless some have ended meanwhile: then the two cannot be told apart.
  if (entry->stopping && entry->ended_before_stop == Ended(entry->keeper)) {
    AddMissing(std::move(entry->before_stop), entry->left_behind.sequences);
  }
  entry->in_file = entry->saved_changes == changes;  // closed, so no other thread writes it
  entry->state = State::kLeft;
  share = std::move(entry->servable);
  Settle(KeyOf(servable));
}

void SequenceVault::Settle(const Key& key) {
  Line& line = lines_.at(key);
  if (line.settling) return;
  for (;;) {
    const auto heir = FirstStaying(line);
    // An earlier one that has not left will handle these sequences later, and so will one that is stopping.
    if (heir == line.entries.begin()) return;
    if (heir != line.entries.end() && (*heir)->stopping) return;
    Saved saved = JoinLeft(line);
    if (heir != line.entries.end()) {
      const std::shared_ptr<Entry> entry = *heir;
      line.entries.erase(line.entries.begin(), heir);
      entry->state = State::kTaking;
      {
        const MutexUnlock unlock(mutex_);
        HandOver(std::move(saved), *entry);
      }
      entry->state = State::kServing;
      changed_.NotifyAll();
      return;
    }
    // Servables that enter during this write wait for it.
    const size_t known = line.entries.size();
    const std::shared_ptr<Entry> last = line.entries.back();
    const bool in_file = known == 1 && last->in_file;
    line.settling = true;
    {
      const MutexUnlock unlock(mutex_);
      const size_t count = saved.sequences.size();
      if (Status written = in_file ? OkStatus() : Write(*last, std::move(saved)); !written.ok()) {
        BRAID_LOG_ERROR(log_, "{}: {} cannot be saved to {}: {}; the earlier save stays", last->who,
                        Count(count), PlaceOf(*last), written.message());
      } else if (count > 0) {
        BRAID_LOG_INFO(log_, "{}: {} saved", last->who, Count(count));
      }
    }
    line.settling = false;
    if (line.entries.size() == known) {
      lines_.erase(key);
      return;
    }
  }
}

// Joins the sequences of those that have left at the front, the newest first: sequences that began anew in a
// later one win.
SequenceVault::Saved SequenceVault::JoinLeft(const Line& line) const {
  Saved joined;
  for (auto entry = std::make_reverse_iterator(FirstStaying(line)); entry != line.entries.rend(); ++entry) {
    const Saved& older = (*entry)->left_behind;
    if (older.sequences.empty()) continue;
    if (joined.sequences.empty()) {
      joined = older;
      continue;
    }
    if (older.identity != joined.identity) {
      BRAID_LOG_WARNING(log_, "{}: {} dropped: the new version is a different model", (*entry)->who,
                        Count(older.sequences.size()));
      continue;
    }
    AddMissing(older.sequences, joined.sequences);
  }
  return joined;
}

void SequenceVault::HandOver(Saved saved, Entry& heir) {
  const size_t count = saved.sequences.size();
  if (count > 0 && saved.identity != heir.keeper.identity()) {
    BRAID_LOG_WARNING(log_, "{}: {} dropped: the new version is a different model", heir.who, Count(count));
    SetAside(heir, kOtherModel);
    heir.keeper.Restore({});
    return;
  }
  const size_t taken = heir.keeper.Restore(std::move(saved.sequences));
  if (count == 0) return;
  BRAID_LOG_INFO(log_, "{}: {}{} carried over from the previous version", heir.who, Count(taken),
                 taken == count ? "" : " of " + std::to_string(count));
}

// ---- saving ----

Status SequenceVault::Write(const Entry& entry, Saved saved) {
  {
    MutexLock lock(mutex_);
    writing_.insert(entry.file);
  }
  // Guarded, because after an exception a shutdown would wait for this write for ever.
  const Status written = Guarded([&] {
    if (!folder_) return WriteToStore(entry, std::move(saved));
    if (saved.sequences.empty()) return folder_->Remove(entry.file);
    return folder_->Write(entry.file, {std::move(saved.identity), WallNowMs(), std::move(saved.sequences)},
                          [this] { return SteadyNowNs() > write_deadline_ns_.load(); });
  });
  MutexLock lock(mutex_);
  writing_.erase(writing_.find(entry.file));
  changed_.NotifyAll();
  return written;
}

std::string SequenceVault::PlaceOf(const Entry& entry) const {
  return folder_ ? folder_->PathOf(entry.file) : "the sequence store";
}

Status SequenceVault::WriteToStore(const Entry& entry, Saved saved) {
  struct Writes {
    Mutex mutex;
    CondVar changed;
    size_t left BRAID_GUARDED_BY(mutex) = 0;
    size_t failed BRAID_GUARDED_BY(mutex) = 0;
    Status last BRAID_GUARDED_BY(mutex);
  };
  // Shared with writes that outlive this call.
  const auto writes = std::make_shared<Writes>();
  std::erase_if(saved.sequences, [](const SavedSequence& sequence) { return sequence.lease.stored; });
  {
    MutexLock lock(writes->mutex);
    writes->left = saved.sequences.size();
  }
  for (SavedSequence& sequence : saved.sequences) {
    StateStore::Step step;
    step.lease = sequence.lease;
    step.states = std::make_shared<const std::vector<Tensor>>(std::move(sequence.states));
    options_.store->Write({entry.key.first, entry.key.second, std::move(sequence.id)}, saved.identity, step,
                          [writes](const Result<StateStore::Written>& written) {
                            MutexLock lock(writes->mutex);
                            --writes->left;
                            // A sequence of another replica is not this server's to keep.
                            if (!written.ok()) {
                              ++writes->failed;
                              writes->last = written.status();
                            }
                            writes->changed.NotifyAll();
                          });
  }
  MutexLock lock(writes->mutex);
  while (writes->left > 0) {
    const int64_t left_ns = write_deadline_ns_.load() - SteadyNowNs();
    if (left_ns <= 0) return UnavailableError("it took too long");
    writes->changed.WaitFor(writes->mutex, std::chrono::nanoseconds(std::min(left_ns, kSecondNs)));
  }
  if (writes->failed == 0) return OkStatus();
  return UnavailableError(std::to_string(writes->failed) + " of them: " + writes->last.message());
}

void SequenceVault::SaveIfChanged(Entry& entry) {
  MutexLock lock(entry.save_mutex);
  if (entry.closed) return;
  // Read before the states: changes in between are saved next time.
  const uint64_t changes = entry.keeper.changes();
  if (entry.saved_changes == changes) return;
  const Status written = Write(entry, {entry.keeper.identity(), entry.keeper.Save()});
  const bool failed_before = std::exchange(entry.failing, !written.ok());
  if (written.ok()) {
    entry.saved_changes = changes;
    if (failed_before) BRAID_LOG_INFO(log_, "{}: its sequences are saved again", entry.who);
  } else if (!failed_before) {
    BRAID_LOG_ERROR(log_, "{}: its sequences cannot be saved to {}: {}; the earlier save stays", entry.who,
                    PlaceOf(entry), written.message());
  }
}

void SequenceVault::SaveChanged() {
  std::vector<std::shared_ptr<Entry>> serving;
  {
    MutexLock lock(mutex_);
    for (const auto& [key, line] : lines_) {
      std::copy_if(line.entries.begin(), line.entries.end(), std::back_inserter(serving),
                   [](const auto& entry) { return entry->state == State::kServing; });
    }
  }
  for (const auto& entry : serving) {
    {
      MutexLock lock(mutex_);
      if (exiting_) return;  // all are saved when they leave
    }
    SaveIfChanged(*entry);
  }
}

void SequenceVault::RunSchedule() {
  MutexLock lock(mutex_);
  int64_t next_ns = SteadyNowNs() + options_.interval_ns;
  while (!exiting_) {
    if (const int64_t left_ns = next_ns - SteadyNowNs(); left_ns > 0) {
      changed_.WaitFor(mutex_, std::chrono::nanoseconds(std::min(left_ns, 3600 * kSecondNs)));
      continue;
    }
    lock.Unlock();
    GuardedOrReport("brd-vault", [this] { SaveChanged(); });
    lock.Lock();
    next_ns = SteadyNowNs() + options_.interval_ns;
  }
  schedule_ended_ = true;
  changed_.NotifyAll();
}

void SequenceVault::BeginShutdown(int64_t deadline_ns) {
  write_deadline_ns_ = deadline_ns;
  MutexLock lock(mutex_);
  exiting_ = true;
  changed_.NotifyAll();
}

Status SequenceVault::Shutdown(int64_t deadline_ns) {
  {
    MutexLock lock(mutex_);
    while (!schedule_ended_ || !writing_.empty()) {
      const int64_t left_ns = deadline_ns - SteadyNowNs();
      if (left_ns > 0) {
        changed_.WaitFor(mutex_, std::chrono::nanoseconds(std::min(left_ns, kSecondNs)));
        continue;
      }
      std::string files;
      for (const std::string& file : writing_)
        files += (files.empty() ? "" : ", ") + (folder_ ? folder_->PathOf(file) : file);
      return UnavailableError("sequences are still being written: " + files);
    }
  }
  if (schedule_.joinable()) schedule_.join();
  return OkStatus();
}

}  // namespace braid
