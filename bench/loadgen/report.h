// The one JSON object that a run prints.
#pragma once

#include <string>

#include "options.h"
#include "recording.h"

namespace braid::bench {

// What the machine was used for during the window. Times and memory of the server are 0 where no process id
// was given.
struct Usage {
  double window_s = 0;  // as asked for: what requests are counted in
  double actual_s = 0;  // between the two readings of processor time
  double client_cpu_s = 0;
  double server_cpu_s = 0;
  double server_peak_resident_kb = 0;
  double server_peak_proportional_kb = 0;
  size_t server_processes = 0;
};

// `recording` is sorted.
std::string MakeReport(const Options& options, const Recording& recording, const Usage& usage);

}  // namespace braid::bench
