// Trampoline: starts an owner's runnable items (requests that may go on) in a loop instead of in nested
// calls. Items that become runnable while the thread is in such a loop of the same owner join it. The stack
// therefore does not grow with a series of requests that each end at once.
#pragma once

#include <boost/container/small_vector.hpp>
#include <utility>

namespace braid {

template <class Item>
class Trampoline {
 public:
  using Items = boost::container::small_vector<Item, 1>;

  // Calls `begin` for each item and for those that join meanwhile. If the thread is already in a loop of this
  // owner, leaves the items to that loop. `owner` lives until this returns.
  template <class Begin>
  static void Run(const void* owner, Items items, const Begin& begin) {
    if (items.empty()) return;
    for (Trampoline* at = innermost_; at != nullptr; at = at->outer_) {
      if (at->owner_ != owner) continue;
      for (Item& one : items) at->items_.push_back(std::move(one));
      return;
    }
    Trampoline trampoline(owner, std::move(items));
    for (Items next = trampoline.Take(); !next.empty(); next = trampoline.Take()) {
      for (Item& one : next) begin(std::move(one));
    }
  }

  ~Trampoline() { innermost_ = outer_; }
  Trampoline(const Trampoline&) = delete;
  Trampoline& operator=(const Trampoline&) = delete;

 private:
  Trampoline(const void* owner, Items items) : owner_(owner), outer_(innermost_), items_(std::move(items)) {
    innermost_ = this;
  }
  // Returns the items that have joined; empty if none are left.
  Items Take() { return std::exchange(items_, {}); }

  // The loops that this thread is in.
  static inline thread_local Trampoline* innermost_ = nullptr;

  const void* const owner_;
  Trampoline* const outer_;
  Items items_;
};

}  // namespace braid
