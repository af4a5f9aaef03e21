// HandOver: what one thread hands from its owner to what runs it. What becomes free to go within a hand-over
// of the same owner joins it, so that the stack does not grow with a row of requests that each end at once.
#pragma once

#include <boost/container/small_vector.hpp>
#include <utility>

namespace braid {

template <class Turn>
class HandOver {
 public:
  using Turns = boost::container::small_vector<Turn, 1>;

  // Calls `begin` for each of the turns and for those that join meanwhile; leaves them to the hand-over of
  // this owner that the thread is in, if there is one. The owner lives until this returns.
  template <class Begin>
  static void Run(const void* owner, Turns turns, const Begin& begin) {
    if (turns.empty()) return;
    for (HandOver* at = innermost_; at != nullptr; at = at->outer_) {
      if (at->owner_ != owner) continue;
      for (Turn& turn : turns) at->turns_.push_back(std::move(turn));
      return;
    }
    HandOver hand_over(owner, std::move(turns));
    for (Turns next = hand_over.Take(); !next.empty(); next = hand_over.Take()) {
      for (Turn& turn : next) begin(std::move(turn));
    }
  }

  ~HandOver() { innermost_ = outer_; }
  HandOver(const HandOver&) = delete;
  HandOver& operator=(const HandOver&) = delete;

 private:
  HandOver(const void* owner, Turns turns) : owner_(owner), outer_(innermost_), turns_(std::move(turns)) {
    innermost_ = this;
  }
  // Empty when nothing is left.
  Turns Take() { return std::exchange(turns_, {}); }

  // The hand-overs that this thread is in.
  static inline thread_local HandOver* innermost_ = nullptr;

  const void* const owner_;
  HandOver* const outer_;
  Turns turns_;
};

}  // namespace braid
