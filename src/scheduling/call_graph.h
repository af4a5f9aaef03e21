// CallGraph: detects calls by user code that can never run, because every instance that could run them waits
// for them, directly or indirectly.
//
// It tracks waiting requests. Their call chains tell which instances are blocked until the requests have run.
// When a request is added that another request waits for, the graph checks which requests can make progress.
// A request can if an instance of its model is not blocked, or is blocked only by requests that can make
// progress. The rest form a cycle. As there was none before, the new request closes the cycle. It fails,
// which breaks the cycle.
//
// This detects a model that calls itself on its only instance, two models that call each other, and two
// clients whose calls block each other's last instances. Requests that start at once are never checked, nor
// are requests that block no instance.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "serving/call_chain.h"

namespace braid {

// One graph serves all models, pipelines and ensembles of a server. Any thread.
class CallGraph {
 public:
  // The instances that requests to one model wait for. Shared by the model and its waiting requests.
  class Instances {
   public:
    explicit Instances(std::string name) : name_(std::move(name)) {}
    // Adds an instance; `instance` is its identity in CallChain::blocked_instance. All are added before the
    // first request waits.
    void Add(const void* instance, std::string name);
    // An instance that is being restarted will be idle afterwards, so it counts as not blocked.
    void SetAvailable(const void* instance, bool available);

   private:
    friend class CallGraph;
    struct Member {
      const void* instance = nullptr;
      std::string name;
      std::atomic<bool> available{true};
    };
    const std::string name_;
    std::deque<Member> members_;
  };

  // The request waits for as long as its ticket exists.
  using Ticket = std::shared_ptr<const void>;

  CallGraph() = default;
  CallGraph(const CallGraph&) = delete;
  CallGraph& operator=(const CallGraph&) = delete;

  // Returns whether waiting requests with this chain must be registered. `chain` may be null.
  static bool Concerns(const CallChain* chain) {
    return chain != nullptr && chain->blocked_instance != nullptr;
  }

  // Registers a request that waits until some instance of `instances` is free; with `only`, until that one
  // is. Errors: INTERNAL if it would wait for ever; the text names the cycle. REQUIRES: Concerns(chain).
  Result<Ticket> Wait(const std::shared_ptr<const Instances>& instances,
                      const std::shared_ptr<const CallChain>& chain, const void* only = nullptr);

  // The number of groups of waiting requests: requests with one chain at one model form a group. For tests.
  size_t size() const;

 private:
  using Key = std::tuple<const Instances*, const void*, const CallChain*>;
  struct Group {
    std::shared_ptr<const Instances> instances;
    const void* only = nullptr;
    std::shared_ptr<const CallChain> chain;
    std::vector<const CallChain*> blocked;  // the links of the chain that wait for the group
    size_t requests = 0;
  };
  class Waiting;

  void Leave(const Key& key);
  // Add and remove a group that waits for its instances.
  void Await(const Group& group) BRAID_REQUIRES(mutex_);
  void AwaitNoMore(const Group& group) BRAID_REQUIRES(mutex_);
  bool IsAwaited(const Group& group) const BRAID_REQUIRES(mutex_);
  // Returns the groups that can never make progress.
  std::vector<const Group*> Stuck() const BRAID_REQUIRES(mutex_);
  static std::string Describe(const Group& from, const std::vector<const Group*>& stuck);

  mutable Mutex mutex_;  // a leaf lock
  std::map<Key, Group> groups_ BRAID_GUARDED_BY(mutex_);
  // The number of groups that wait for each instance.
  std::unordered_map<const void*, size_t> awaited_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
