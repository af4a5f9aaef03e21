// OnDemandLoads: the loads that requests have asked for. Requests for one model share one load. After a
// failed load the model is not tried again before a pause, which grows with each failure.
//
//   OnDemandLoads loads(options, load, loads_model, refresh);
//   loads.Load("m", SteadyNowNs(), [](Status loaded) { ... });
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "serving/on_demand_loader.h"

namespace braid {

// Thread-safe.
class OnDemandLoads final : public OnDemandLoader {
 public:
  struct Options {
    int64_t wait_ns = 0;  // how long a request waits
    int threads = 1;      // concurrent loads
    int64_t first_pause_ns = int64_t{1} * 1'000'000'000;
    int64_t longest_pause_ns = int64_t{60} * 1'000'000'000;
    int64_t refresh_ns = int64_t{3} * 1'000'000'000;
  };
  // The result of a load. A failure without `pause` is tried again by the next request.
  struct Outcome {
    Status status;
    bool pause = true;
  };
  struct Calls {
    // Loads the model. Blocks, on user code too; gives up to wait for other loads at `deadline_ns`.
    std::function<Outcome(const std::string& model, int64_t deadline_ns)> load;
    // Whether requests load the model, which is not loaded now.
    std::function<bool(const std::string& model, int64_t version)> awaits;
    // Called regularly, on a thread of the loads.
    std::function<void()> refresh;
    // Sets the counts about memory.
    std::function<void(OnDemandCounts&)> count_memory;
  };
  OnDemandLoads(Options options, Calls calls) : options_(options), calls_(std::move(calls)) {}
  // Shuts down, and waits for running loads.
  ~OnDemandLoads();

  // Starts the threads. Loads wait until then. Errors: those of TryStartThread().
  Status Start();

  void Load(const std::string& model, int64_t since_ns, std::function<void(Status)> done) override;
  bool Awaits(const std::string& model, int64_t version) const override {
    return calls_.awaits(model, version);
  }
  OnDemandCounts counts() const override;
  // Forgets that the model's last load failed, because a client has loaded or unloaded it since.
  void Forget(const std::string& model);

  // Ends all waits with an error, and begins no more loads.
  void Shutdown();

 private:
  struct Waiter {
    int64_t deadline_ns = 0;
    std::function<void(Status)> done;
  };
  struct Entry {
    std::vector<Waiter> waiters;
    bool queued = false;   // or running
    Status fault;          // of the last load
    int64_t retry_ns = 0;  // SteadyNowNs() of the next try after a fault
    int64_t pause_ns = 0;
  };

  void RunLoads();
  void RunClock();
  // Loads the first model of the queue and tells its waiters.
  void LoadNext() BRAID_REQUIRES(mutex_);
  // Returns the waiters whose time has passed.
  std::vector<Waiter> TakeExpiredLocked(int64_t now_ns, int64_t& next_ns) BRAID_REQUIRES(mutex_);

  const Options options_;
  const Calls calls_;

  mutable Mutex mutex_;
  CondVar queued_;   // the loading threads wait on it
  CondVar changed_;  // the clock waits on it
  bool ending_ BRAID_GUARDED_BY(mutex_) = false;
  std::map<std::string, Entry, std::less<>> entries_ BRAID_GUARDED_BY(mutex_);
  std::deque<std::string> queue_ BRAID_GUARDED_BY(mutex_);
  OnDemandCounts counts_ BRAID_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace braid
