// Trampoline: runs the turns of one owner (requests that may go on) in a loop, in place of a call within a
// call. A turn that comes up while the thread runs another one of the same owner joins that loop, so that the
// stack does not grow with a row of requests that each end at once.
#pragma once

#include <boost/container/small_vector.hpp>
#include <utility>

namespace braid {

template <class Turn>
class Trampoline {
 public:
  using Turns = boost::container::small_vector<Turn, 1>;

  // Calls `begin` for each of the turns and for those that join meanwhile; leaves them to the loop of
  // this owner that the thread is in, if there is one. The owner lives until this returns.
  template <class Begin>
  static void Run(const void* owner, Turns turns, const Begin& begin) {
    if (turns.empty()) return;
    for (Trampoline* at = innermost_; at != nullptr; at = at->outer_) {
      if (at->owner_ != owner) continue;
      for (Turn& turn : turns) at->turns_.push_back(std::move(turn));
      return;
    }
    Trampoline trampoline(owner, std::move(turns));
    for (Turns next = trampoline.Take(); !next.empty(); next = trampoline.Take()) {
      for (Turn& turn : next) begin(std::move(turn));
    }
  }

  ~Trampoline() { innermost_ = outer_; }
  Trampoline(const Trampoline&) = delete;
  Trampoline& operator=(const Trampoline&) = delete;

 private:
  Trampoline(const void* owner, Turns turns) : owner_(owner), outer_(innermost_), turns_(std::move(turns)) {
    innermost_ = this;
  }
  // Empty when nothing is left.
  Turns Take() { return std::exchange(turns_, {}); }

  // The loops that this thread is in.
  static inline thread_local Trampoline* innermost_ = nullptr;

  const void* const owner_;
  Trampoline* const outer_;
  Turns turns_;
};

}  // namespace braid
