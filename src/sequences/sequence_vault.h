// SequenceVault: keeps the sequences of stateful models across a planned restart of the server, and across a
// reload of their model (--sequence_state_path, --sequence_state_store).
//
//   BRAID_ASSIGN_OR_RETURN(auto vault, SequenceVault::Open({.path = "/var/lib/braid"}, log));
//   vault->Enter(servable);   // before it is published: it gets the saved sequences, or waits for them
//   vault->Leave(*servable);  // after its last request: its sequences are handed over, or saved
//
// Only sequences whose whole state is in the server are kept (SequenceKeeper::savable()). These are states of
// a stateful model of a config.json, implicit states of a Triton model, and states that a Python model
// returns by save_sequence.
//
// Restart. Each version of a model has a file in the folder (sequence_folder.h). The file is written when the
// version ends for any reason, and at intervals if its sequences have changed. A new version reads its file,
// which stays until the next save replaces it. The states are as old as the last save. After a planned stop
// they are current. After a server was killed they may be up to an interval old, and requests answered since
// then are forgotten. The states of another model (another identity) are useless. Their file is set aside as
// *.other-model, a damaged file as *.damaged, and one written by another release as *.other-format. Each
// replaces an earlier one, and the server continues without the states.
//
// Reload. The new version holds requests until the version that it replaces has answered its last; then it
// takes the sequences over directly. In the old version no request waits for a held one: the code that drains
// it calls SequenceKeeper::BeginDrain(). Requests wait for `hold_ns` at most. If a request runs longer than
// that, its sequence is handed over late, and requests for it were refused meanwhile. If the new version is
// another model, the sequences end.
//
// Unload and retirement save too. An operator who gives a path wants sequences to outlast such events, and
// many reload by an unload and a load. A model that never comes back leaves its file behind.
//
// Without sequences there is no file.
//
// If replicas share a store (sequences/state_store.h), there is no folder. A new version finds each sequence
// in the store at the sequence's first request; StoreLink does this. Sequences that are not in the store when
// a version ends are written to it; a reload hands them over in memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "sequences/sequence_folder.h"
#include "sequences/state_store.h"
#include "serving/sequences.h"
#include "serving/servable.h"

namespace braid {

// Any thread may call all methods.
class SequenceVault {
 public:
  struct Options {
    std::string path;  // of the folder; unused with a store
    StateStore* store = nullptr;
    // The interval of checks for changes; 0: sequences are saved only at the end.
    int64_t interval_ns = int64_t{60} * 1000000000;
    // How long requests wait for the sequences of the replaced version.
    int64_t hold_ns = int64_t{30} * 1000000000;
  };

  // Opens the folder and begins to save at intervals, on a separate thread. `log` outlives the vault. Errors:
  // those of SequenceFolder::Open().
  static Result<std::unique_ptr<SequenceVault>> Open(const Options& options, Logger& log);
  // Waits for a running save.
  ~SequenceVault();
  SequenceVault(const SequenceVault&) = delete;
  SequenceVault& operator=(const SequenceVault&) = delete;

  // Gives a servable the sequences of its file. If the previous servable of the same version has not left
  // yet, the new one holds its requests until then. Call it once for each servable, before requests can find
  // it. Blocks on the disk. Does nothing for servables without savable sequences.
  void Enter(const std::shared_ptr<Servable>& servable);
  // Hands the sequences of a servable to its replacement, or saves them. Call it for each servable that may
  // have entered, after its last request or its stop. Blocks on the disk. Afterwards the vault has no
  // reference to it.
  void Leave(Servable& servable);
  // Prepares for the stop of a servable that still has requests. From now on it is handed no sequences, since
  // it would lose them. If instances are killed, the sequences they lose are kept in their current state.
  // Leave() follows after the stop.
  void BeginStop(Servable& servable);

  // Saves the sequences that have changed since the last save.
  void SaveChanged();

  // Ends the saves at intervals. A save must finish by `deadline_ns` (SteadyNowNs() time); otherwise the file
  // stays as it was, which is logged.
  void BeginShutdown(int64_t deadline_ns);
  // Waits until all writes have ended, at most until `deadline_ns`. Errors: UNAVAILABLE with the names of the
  // files if the system does not finish a write; the process must then leave by _exit(). REQUIRES:
  // BeginShutdown() was called.
  Status Shutdown(int64_t deadline_ns);

 private:
  // Name and version.
  using Key = std::pair<std::string, int64_t>;

  struct Saved {
    std::string identity;
    std::vector<SavedSequence> sequences;
  };

  enum class State : unsigned char {
    kWaiting,  // for the one before it in the line to leave; holds its requests
    kTaking,   // is receiving its sequences
    kServing,
    kLeft,
  };

  struct Entry {
    Entry(std::shared_ptr<Servable> servable, SequenceKeeper& keeper);

    const Key key;
    const std::string who;   // for the log
    const std::string file;  // its name
    SequenceKeeper& keeper;  // not to be called once the state is kLeft

    // Guarded by the vault's mutex.
    std::shared_ptr<Servable> servable;  // shared so that the keeper lives until the state is kLeft
    State state = State::kWaiting;
    bool stopping = false;                   // takes no more sequences
    std::vector<SavedSequence> before_stop;  // the sequences when `stopping` was set
    uint64_t ended_before_stop = 0;          // how many sequences had ended when `stopping` was set
    Saved left_behind;                       // in kLeft: its sequences
    bool in_file = false;                    // in kLeft: the file has the same

    Mutex save_mutex;  // held during a save at intervals; lock order: before the vault's
    bool closed BRAID_GUARDED_BY(save_mutex) = false;  // there are no more saves at intervals
    // SequenceKeeper::changes() of the file's content. Guarded by save_mutex until `closed`.
    std::optional<uint64_t> saved_changes;
    bool failing BRAID_GUARDED_BY(save_mutex) = false;  // the last save failed, and that was logged
  };
  // The servables of a version whose sequences are not settled yet, oldest first. Only the first may be
  // kServing; the others wait.
  struct Line {
    std::vector<std::shared_ptr<Entry>> entries;
    bool settling = false;  // a thread is handling the sequences of those that have left
  };

  SequenceVault(const Options& options, std::optional<SequenceFolder> folder, Logger& log);

  std::shared_ptr<Entry> Find(Servable& servable) const BRAID_REQUIRES(mutex_);
  void RestoreFromFile(Entry& entry);
  void SetAside(const Entry& entry, std::string_view suffix);
  // Hands over or saves the sequences of those that have left at the front of the line, unless another thread
  // is doing so. Releases the mutex temporarily.
  void Settle(const Key& key) BRAID_REQUIRES(mutex_);
  // Returns the first one in the line that has not left.
  static std::vector<std::shared_ptr<Entry>>::const_iterator FirstStaying(const Line& line);
  Saved JoinLeft(const Line& line) const;
  void HandOver(Saved saved, Entry& heir);
  void SaveIfChanged(Entry& entry);
  Status Write(const Entry& entry, Saved saved);
  Status WriteToStore(const Entry& entry, Saved saved);
  // The destination of its saves, for the log.
  std::string PlaceOf(const Entry& entry) const;
  void RunSchedule();

  const Options options_;
  const std::optional<SequenceFolder> folder_;  // nothing with a store
  Logger& log_;
  std::atomic<int64_t> write_deadline_ns_{std::numeric_limits<int64_t>::max()};

  Mutex mutex_;
  CondVar changed_;  // notified of changes to all members below
  std::map<Key, Line> lines_ BRAID_GUARDED_BY(mutex_);
  std::multiset<std::string> writing_ BRAID_GUARDED_BY(mutex_);  // names of files
  bool exiting_ BRAID_GUARDED_BY(mutex_) = false;
  bool schedule_ended_ BRAID_GUARDED_BY(mutex_) = true;

  std::thread schedule_;
};

}  // namespace braid
