// Where an inference runs: on the thread that hands it over, or on OpenVINO's own threads.
//
// Handing over to another thread takes about 30 us until the answer is there, which is several times what a
// tiny model needs; and the caller is a thread of the network, which must not be held up by a large one. So a
// model runs where it is called as long as its measured time says that this costs the caller no more than
// handing over would.
#pragma once

#include <cstddef>
#include <cstdint>

namespace braid {

// What is known of a model's inferences on one instance. Plain data; the owner of the infer request keeps it.
struct RunTimes {
  int64_t typical_ns = 0;  // 0: none measured
  size_t most_bytes = 0;   // the largest inputs that ran in a short time
};

// The longest inference that runs on the caller's thread: about what two hand-overs take.
inline constexpr int64_t kLongestRunOnCaller = 50'000;

// Whether an inference over `input_bytes` of inputs is to run on the caller's thread. One with larger inputs
// than any that was measured may take longer, whatever the others took.
inline bool RunsOnCaller(const RunTimes& times, size_t input_bytes) {
  return times.typical_ns > 0 && times.typical_ns <= kLongestRunOnCaller && input_bytes <= times.most_bytes;
}

// Takes a further measurement into account. A thread that lost its processor for a while says little about
// the model, so one long time moves the typical one only so far.
inline RunTimes UpdateRunTimes(RunTimes times, int64_t ns, size_t input_bytes) {
  if (ns < 1) ns = 1;
  if (times.typical_ns == 0) {
    times.typical_ns = ns;
  } else {
    const int64_t counted = ns < 4 * times.typical_ns ? ns : 4 * times.typical_ns;
    times.typical_ns += (counted - times.typical_ns) / 8;
    if (times.typical_ns < 1) times.typical_ns = 1;
  }
  if (ns <= kLongestRunOnCaller && input_bytes > times.most_bytes) times.most_bytes = input_bytes;
  return times;
}

}  // namespace braid
