// Timestamp: the time of a packet, in microseconds. Only the order counts. The special values are those of
// MediaPipe, so that they mean the same to graphs and clients.
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
  // The time of a packet that stands for the whole stream; such a packet is the only one.
  static constexpr Timestamp PreStream() { return Timestamp(kLeast + 2); }
  static constexpr Timestamp Min() { return Timestamp(kLeast + 3); }
  static constexpr Timestamp Max() { return Timestamp(kGreatest - 3); }
  static constexpr Timestamp PostStream() { return Timestamp(kGreatest - 2); }
  static constexpr Timestamp OneOverPostStream() { return Timestamp(kGreatest - 1); }
  // The bound of a stream that is closed.
  static constexpr Timestamp Done() { return Timestamp(kGreatest); }

  constexpr int64_t value() const { return value_; }
  // Whether it lies between Min() and Max(), as the times of clients and of most packets do.
  constexpr bool IsRangeValue() const { return *this >= Min() && *this <= Max(); }
  // Whether a packet may have this time.
  constexpr bool IsAllowedInStream() const { return *this >= PreStream() && *this <= PostStream(); }
  // Returns the least time that may follow this one in a stream. REQUIRES: IsAllowedInStream()
  constexpr Timestamp NextAllowedInStream() const {
    if (*this == PreStream() || *this >= Max()) return OneOverPostStream();
    return Timestamp(value_ + 1);
  }

  constexpr auto operator<=>(const Timestamp&) const = default;

  // Returns "Timestamp::PreStream()" and the like; numbers for range values.
  std::string DebugString() const;

 private:
  static constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  static constexpr int64_t kGreatest = std::numeric_limits<int64_t>::max();
  int64_t value_ = kLeast;
};

}  // namespace braid::graph
