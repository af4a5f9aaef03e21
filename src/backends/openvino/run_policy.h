// Decides where an inference runs: on the calling thread or on OpenVINO's threads.
//
// Handing over to another thread delays the answer by about 30 us, several times the inference time of a tiny
// model. But the calling thread serves the network, and a large model must not block it. So a model runs on
// the calling thread while its measured time costs the caller no more than handing over.
#pragma once

#include <cstddef>
#include <cstdint>

namespace braid {

// The measured times of a model's inferences on one instance. Plain data, kept by the owner of the infer
// request.
struct RunTimes {
  int64_t typical_ns = 0;  // 0: none measured
  size_t most_bytes = 0;   // the largest inputs that ran within kLongestRunOnCaller
};

// The longest inference, in ns, to run on the calling thread: about the time of two hand-overs.
inline constexpr int64_t kLongestRunOnCaller = 50'000;

// Whether an inference over `input_bytes` of inputs runs on the calling thread. Inputs larger than any
// measured may take longer, so they do not.
inline bool RunsOnCaller(const RunTimes& times, size_t input_bytes) {
  return times.typical_ns > 0 && times.typical_ns <= kLongestRunOnCaller && input_bytes <= times.most_bytes;
}

// Adds a measurement. A thread that was preempted measures a long time, so one measurement has a bounded
// effect on the typical time.
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
