// The JSON object that a run prints.
#pragma once

#include <string>

#include "options.h"
#include "recording.h"

namespace braid::bench {

// The resource usage during the window. The server's times and memory are 0 without a process id.
struct Usage {
  double window_s = 0;  // the requested length, in which requests are counted
  double actual_s = 0;  // between the two readings of processor time
  double client_cpu_s = 0;
  double server_cpu_s = 0;
  double server_peak_resident_kb = 0;
  double server_peak_proportional_kb = 0;
  size_t server_processes = 0;
};

// REQUIRES: `recording` is sorted.
std::string MakeReport(const Options& options, const Recording& recording, const Usage& usage);

}  // namespace braid::bench
