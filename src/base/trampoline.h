// Trampoline: begins what can run of one owner (requests that may go on) in a loop, in place of a call within
// a call. What becomes runnable while the thread is in such a loop of the same owner joins it, so that the
// stack does not grow with a row of requests that each end at once.
#pragma once

#include <boost/container/small_vector.hpp>
#include <utility>

namespace braid {

template <class Item>
class Trampoline {
 public:
  using Items = boost::container::small_vector<Item, 1>;

  // Calls `begin` for each of the items and for those that join meanwhile; leaves them to the loop of
  // this owner that the thread is in, if there is one. The owner lives until this returns.
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
  // Empty when nothing is left.
  Items Take() { return std::exchange(items_, {}); }

  // The loops that this thread is in.
  static inline thread_local Trampoline* innermost_ = nullptr;

  const void* const owner_;
  Trampoline* const outer_;
  Items items_;
};

}  // namespace braid
