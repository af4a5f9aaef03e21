#include "scheduling/call_graph.h"

#include <algorithm>
#include <unordered_set>

namespace braid {
namespace {

// Collects the links that are blocked until a request with this chain has run. No links are known to wait
// behind a caller that is not blocked.
void CollectBlocked(const CallChain& chain, std::vector<const CallChain*>& blocked) {
  if (chain.blocked_instance == nullptr ||
      std::find(blocked.begin(), blocked.end(), &chain) != blocked.end()) {
    return;
  }
  blocked.push_back(&chain);
  for (const auto& parent : chain.parents) CollectBlocked(*parent, blocked);
}

// Appends the instances from `instance` down to the head of `chain`. Returns false if the chain does not
// contain it.
bool AppendPath(const CallChain& chain, const void* instance, std::vector<std::string>& names) {
  if (chain.blocked_instance == nullptr) return false;
  const bool found = chain.blocked_instance == instance ||
                     std::any_of(chain.parents.begin(), chain.parents.end(),
                                 [&](const auto& parent) { return AppendPath(*parent, instance, names); });
  if (found) names.push_back(chain.instance);
  return found;
}

bool Blocks(const std::vector<const CallChain*>& blocked, const void* instance) {
  return std::any_of(blocked.begin(), blocked.end(),
                     [instance](const CallChain* link) { return link->blocked_instance == instance; });
}

}  // namespace

void CallGraph::Instances::Add(const void* instance, std::string name) {
  Member& member = members_.emplace_back();
  member.instance = instance;
  member.name = std::move(name);
}

void CallGraph::Instances::SetAvailable(const void* instance, bool available) {
  for (Member& member : members_) {
    if (member.instance == instance) member.available.store(available, std::memory_order_relaxed);
  }
}

class CallGraph::Waiting {
 public:
  Waiting(CallGraph& graph, Key key) : graph_(graph), key_(key) {}
  ~Waiting() { graph_.Leave(key_); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  CallGraph& graph_;
  const Key key_;
};

Result<CallGraph::Ticket> CallGraph::Wait(const std::shared_ptr<const Instances>& instances,
                                          const std::shared_ptr<const CallChain>& chain, const void* only) {
  const Key key{instances.get(), only, chain.get()};
  {
    MutexLock lock(mutex_);
    Group& group = groups_[key];
    // Another request of a group changes nothing for the others.
    if (group.requests++ == 0) {
      group.instances = instances;
      group.only = only;
      group.chain = chain;
      CollectBlocked(*chain, group.blocked);
      Await(group);
      const auto stuck = IsAwaited(group) ? Stuck() : std::vector<const Group*>();
      if (std::find(stuck.begin(), stuck.end(), &group) != stuck.end()) {
        std::string path = Describe(group, stuck);
        AwaitNoMore(group);
        groups_.erase(key);
        return InternalError("the call to model '" + instances->name_ + "' would wait for itself: " + path);
      }
    }
  }
  return Ticket(std::make_shared<const Waiting>(*this, key));
}

void CallGraph::Leave(const Key& key) {
  Group gone;  // destroyed after the lock is released
  MutexLock lock(mutex_);
  auto it = groups_.find(key);
  if (--it->second.requests > 0) return;
  AwaitNoMore(it->second);
  gone = std::move(it->second);
  groups_.erase(it);
}

void CallGraph::Await(const Group& group) {
  for (const Instances::Member& member : group.instances->members_) {
    if (group.only == nullptr || group.only == member.instance) ++awaited_[member.instance];
  }
}

void CallGraph::AwaitNoMore(const Group& group) {
  for (const Instances::Member& member : group.instances->members_) {
    if (group.only != nullptr && group.only != member.instance) continue;
    const auto found = awaited_.find(member.instance);
    if (--found->second == 0) awaited_.erase(found);
  }
}

bool CallGraph::IsAwaited(const Group& group) const {
  for (const CallChain* link : group.blocked) {
    if (awaited_.contains(link->blocked_instance)) return true;
  }
  return false;
}

size_t CallGraph::size() const {
  MutexLock lock(mutex_);
  return groups_.size();
}

std::vector<const CallGraph::Group*> CallGraph::Stuck() const {
  std::vector<const Group*> waiting;
  waiting.reserve(groups_.size());
  for (const auto& [key, group] : groups_) waiting.push_back(&group);
  for (;;) {
    std::unordered_set<const void*> blocked;
    for (const Group* group : waiting) {
      for (const CallChain* link : group->blocked) blocked.insert(link->blocked_instance);
    }
    const auto can_go_on = [&blocked](const Group* group) {
      return std::any_of(
          group->instances->members_.begin(), group->instances->members_.end(),
          [&](const Instances::Member& member) {
            return (group->only == nullptr || group->only == member.instance) &&
                   (!member.available.load(std::memory_order_relaxed) || !blocked.contains(member.instance));
          });
    };
    const size_t before = waiting.size();
    std::erase_if(waiting, can_go_on);
    if (waiting.size() == before) return waiting;
  }
}

std::string CallGraph::Describe(const Group& from, const std::vector<const Group*>& stuck) {
  std::vector<std::string> behind;  // the instances that `from` waits for, until the chain of `from` is met
                                    // again
  std::vector<const Group*> seen;
  const Group* at = &from;
  std::vector<std::string> names;
  for (;;) {
    seen.push_back(at);
    const Group* next = nullptr;
    const void* through = nullptr;
    for (const Instances::Member& member : at->instances->members_) {
      if (at->only != nullptr && at->only != member.instance) continue;
      if (AppendPath(*from.chain, member.instance, names)) break;
      for (const Group* group : stuck) {
        if (next == nullptr && Blocks(group->blocked, member.instance) &&
            std::find(seen.begin(), seen.end(), group) == seen.end()) {
          next = group;
          through = member.instance;
        }
      }
    }
    if (!names.empty() || next == nullptr) break;
    AppendPath(*next->chain, through, behind);
    at = next;
  }
  names.insert(names.end(), behind.begin(), behind.end());
  std::string text;
  for (const std::string& name : names) {
    text += name;
    text += " -> ";
  }
  text += at->instances->name_;
  return text;
}

}  // namespace braid
