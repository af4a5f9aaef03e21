// CallGraph: finds calls by user code that can never run, because each instance which could run them waits,
// directly or not, for them.
//
// It knows the requests that wait and, by their call chains, the instances that are blocked until these have
// run. Whenever one is added that somebody waits for, it looks whether some of them can still go on: a
// request can when an instance of its model is not blocked, or is blocked by requests that can go on. What is
// left is a cycle, and as there was none before, the new request closes it. Such a request fails, which ends
// the cycle.
//
// A model that calls itself on its only instance, two models that call each other, and two clients whose
// calls block the last instances of each other are all found so. Requests that start at once are never
// looked at, nor are those that block nobody.
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

// One for all models, pipelines and ensembles of a server. Any thread.
class CallGraph {
 public:
  // The instances that requests to one model wait for. Shared by the model and its waiting requests.
  class Instances {
   public:
    explicit Instances(std::string name) : name_(std::move(name)) {}
    // `instance` is what CallChain::blocked_instance names it by. All are added before the first request
    // waits.
    void Add(const void* instance, std::string name);
    // One that is being restarted will be idle when it is back: it counts as able to go on.
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

  // While one of these exists, the request waits.
  using Ticket = std::shared_ptr<const void>;

  CallGraph() = default;
  CallGraph(const CallGraph&) = delete;
  CallGraph& operator=(const CallGraph&) = delete;

  // Whether the graph has to know of waiting requests with this chain (which may be null).
  static bool Concerns(const CallChain* chain) {
    return chain != nullptr && chain->blocked_instance != nullptr;
  }

  // A request waits until some instance of `instances` is free; with `only`, until that one is.
  // Errors: INTERNAL when it would wait for ever; the text names the cycle. REQUIRES: Concerns(chain).
  Result<Ticket> Wait(const std::shared_ptr<const Instances>& instances,
                      const std::shared_ptr<const CallChain>& chain, const void* only = nullptr);

  // How many groups of requests wait: those with one chain at one model make one. For tests.
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
  // One more, or one less, group that waits for these.
  void Await(const Group& group) BRAID_REQUIRES(mutex_);
  void AwaitNoMore(const Group& group) BRAID_REQUIRES(mutex_);
  bool IsAwaited(const Group& group) const BRAID_REQUIRES(mutex_);
  // The groups none of which can ever go on.
  std::vector<const Group*> Stuck() const BRAID_REQUIRES(mutex_);
  static std::string Describe(const Group& from, const std::vector<const Group*>& stuck);

  mutable Mutex mutex_;  // a leaf lock
  std::map<Key, Group> groups_ BRAID_GUARDED_BY(mutex_);
  // How many groups wait for each instance.
  std::unordered_map<const void*, size_t> awaited_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
