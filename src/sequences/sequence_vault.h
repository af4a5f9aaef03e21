// SequenceVault: keeps the sequences of stateful models over a planned restart of the server, and over a
// reload of their model (--sequence_state_path, --sequence_state_store).
//
//   BRAID_ASSIGN_OR_RETURN(auto vault, SequenceVault::Open({.path = "/var/lib/braid"}, log));
//   vault->Enter(servable);   // before it is published: it gets what was saved, or waits for it
//   vault->Leave(*servable);  // its last request has left: what it has is handed on, or saved
//
// Only what the server has is kept (SequenceKeeper::savable()): states of a stateful model of a config.json, implicit
// states of a Triton model, and what a Python model gives by save_sequence.
//
// Restart. Each version of a model has a file in the folder (sequence_folder.h). It is written when the
// version ends, whatever ends it, and meanwhile at intervals if its sequences have changed. A version that
// comes takes its file, which stays until the next save takes its place. The states are as old as the last
// save: those of a planned stop are the last ones, after a server was killed they may be up to an interval
// old, and requests that were answered since then are forgotten. What was saved by another model (another
// identity) is of no use; it is set aside as *.other-model, a file that is damaged as *.damaged, one that
// another release has written as *.other-format, each in the place of an earlier one. The server goes on
// without.
//
// Reload. The version that replaces another one holds requests until that one has answered its last; then it
// takes the sequences over directly. In the old version no request waits for one that is held: whoever drains
// it says so (SequenceKeeper::BeginDrain()). Requests wait for `hold_ns` at most; what comes over later,
// since a request runs for so long, finds those that were refused meanwhile. If it is another model, the
// sequences end.
//
// Unload and retirement save too: an operator who gives a path wants sequences to outlast what happens to
// their servable, and an unload with a load behind it is how many reload. A model that never comes back
// leaves its file behind.
//
// Without sequences there is no file.
//
// Where replicas share a store (sequences/state_store.h), there is no folder: a version that comes finds each sequence
// in the store when its first request comes, which is its StoreLink's business. What the store has not when a
// version ends is written there; a reload hands it over in memory.
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

// All methods may be called from any thread.
class SequenceVault {
 public:
  struct Options {
    std::string path;  // of the folder; means nothing with a store
    StateStore* store = nullptr;
    // Between two looks at what has changed; 0: sequences are saved at the end alone.
    int64_t interval_ns = int64_t{60} * 1000000000;
    // How long requests wait for the sequences of the version that is replaced.
    int64_t hold_ns = int64_t{30} * 1000000000;
  };

  // Opens the folder and begins to save at intervals, on a thread of its own. `log` outlives the vault.
  // Errors: as SequenceFolder::Open().
  static Result<std::unique_ptr<SequenceVault>> Open(const Options& options, Logger& log);
  // Waits for a save that runs.
  ~SequenceVault();
  SequenceVault(const SequenceVault&) = delete;
  SequenceVault& operator=(const SequenceVault&) = delete;

  // To be called once for each servable, before anybody can find it. Gives it the sequences of its file, or,
  // while the one that served the same version before has not left, makes it hold its requests until then.
  // Blocks on the disk. Does nothing for servables without sequences to save.
  void Enter(const std::shared_ptr<Servable>& servable);
  // To be called for each servable that has entered, or may have, when its last request has left or it was
  // stopped. Hands its sequences to the one that replaces it, else saves them. Blocks on the disk. Afterwards
  // the vault holds no share in it.
  void Leave(Servable& servable);
  // To be called before a servable is stopped that still has requests: it is handed no sequences from now on,
  // as it would lose them, and what it loses with instances that are ended by force is kept as it stood.
  // Leave() follows when it was stopped.
  void BeginStop(Servable& servable);

  // Saves what has changed since it was last saved.
  void SaveChanged();

  // No more saves at intervals; all that is still to be saved has to be written by `deadline_ns`
  // (SteadyNowNs() time), else the file stays as it was, which is said in the log.
  void BeginShutdown(int64_t deadline_ns);
  // Waits until nothing is being written, at most until `deadline_ns`. Errors: UNAVAILABLE with the names of
  // the files when the system does not end a write: the process has to leave by _exit(). REQUIRES:
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
    kTaking,   // is being given its sequences
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
    bool stopping = false;                   // takes no sequences any more
    std::vector<SavedSequence> before_stop;  // when stopping
    uint64_t ended_before_stop = 0;          // when stopping: how many had ended
    Saved left_behind;                       // when kLeft
    bool in_file = false;                    // when kLeft: the file has the same

    Mutex save_mutex;  // held while it is saved at intervals; taken before the vault's
    bool closed BRAID_GUARDED_BY(save_mutex) = false;  // there are no more saves at intervals
    // SequenceKeeper::changes() of what is in the file. Guarded by save_mutex until it is closed.
    std::optional<uint64_t> saved_changes;
    bool failing BRAID_GUARDED_BY(save_mutex) = false;  // the last save has failed, and that was logged
  };
  // Those that serve or have served a version and whose sequences are not settled yet, oldest first. The
  // first one is the only one that may be kServing, and those behind it wait.
  struct Line {
    std::vector<std::shared_ptr<Entry>> entries;
    bool settling = false;  // a thread decides what becomes of those that have left
  };

  SequenceVault(const Options& options, std::optional<SequenceFolder> folder, Logger& log);

  std::shared_ptr<Entry> Find(Servable& servable) const BRAID_REQUIRES(mutex_);
  void RestoreFromFile(Entry& entry);
  void SetAside(const Entry& entry, std::string_view suffix);
  // Decides what becomes of the sequences of those that have left at the front of the line, if there are any
  // and no other thread does. Releases the mutex for a while.
  void Settle(const Key& key) BRAID_REQUIRES(mutex_);
  // The first one in the line that has not left.
  static std::vector<std::shared_ptr<Entry>>::const_iterator FirstStaying(const Line& line);
  Saved JoinLeft(const Line& line) const;
  void HandOver(Saved saved, Entry& heir);
  void SaveIfChanged(Entry& entry);
  Status Write(const Entry& entry, Saved saved);
  Status WriteToStore(const Entry& entry, Saved saved);
  // Where it is written to, for the log.
  std::string PlaceOf(const Entry& entry) const;
  void RunSchedule();

  const Options options_;
  const std::optional<SequenceFolder> folder_;  // nothing with a store
  Logger& log_;
  std::atomic<int64_t> write_deadline_ns_{std::numeric_limits<int64_t>::max()};

  Mutex mutex_;
  CondVar changed_;  // of anything below
  std::map<Key, Line> lines_ BRAID_GUARDED_BY(mutex_);
  std::multiset<std::string> writing_ BRAID_GUARDED_BY(mutex_);  // names of files
  bool exiting_ BRAID_GUARDED_BY(mutex_) = false;
  bool schedule_ended_ BRAID_GUARDED_BY(mutex_) = true;

  std::thread schedule_;
};

}  // namespace braid
