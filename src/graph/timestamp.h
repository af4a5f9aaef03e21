// Timestamp: when a packet is, in microseconds. Only the order counts; the values below are those of
// MediaPipe, so that graphs and clients which name them mean the same.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <string>

namespace braid::graph {

class Timestamp {
 public:
  constexpr Timestamp() = default;  // Unset()
  constexpr explicit Timestamp(int64_t value) : value_(value) {}

  static constexpr Timestamp Unset() { return Timestamp(kLeast); }
  // Before the first packet of a stream.
  static constexpr Timestamp Unstarted() { return Timestamp(kLeast + 1); }
  // Of a packet that stands for the whole stream and comes before all others: it is the only one.
  static constexpr Timestamp PreStream() { return Timestamp(kLeast + 2); }
  static constexpr Timestamp Min() { return Timestamp(kLeast + 3); }
  static constexpr Timestamp Max() { return Timestamp(kGreatest - 3); }
  static constexpr Timestamp PostStream() { return Timestamp(kGreatest - 2); }
  static constexpr Timestamp OneOverPostStream() { return Timestamp(kGreatest - 1); }
  // The bound of a stream that is closed.
  static constexpr Timestamp Done() { return Timestamp(kGreatest); }

  constexpr int64_t value() const { return value_; }
  // Whether it is one of Min() to Max(): what clients and most packets may have.
  constexpr bool IsRangeValue() const { return *this >= Min() && *this <= Max(); }
  // Whether a packet may have it.
  constexpr bool IsAllowedInStream() const { return *this >= PreStream() && *this <= PostStream(); }
  // The least timestamp that may follow a packet at this one in its stream. REQUIRES: IsAllowedInStream()
  constexpr Timestamp NextAllowedInStream() const {
    if (*this == PreStream() || *this >= Max()) return OneOverPostStream();
    return Timestamp(value_ + 1);
  }

  constexpr auto operator<=>(const Timestamp&) const = default;

  // "Timestamp::PreStream()" and the like; numbers for range values.
  std::string DebugString() const;

 private:
  static constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  static constexpr int64_t kGreatest = std::numeric_limits<int64_t>::max();
  int64_t value_ = kLeast;
};

}  // namespace braid::graph
