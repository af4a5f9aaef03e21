// The resource usage of a process and all its descendants, from /proc.
#pragma once

#include <set>

namespace braid::bench {

// Returns `root` and its living descendants.
std::set<int> ProcessTree(int root);

// The following functions return sums over processes; a process that has ended adds nothing.
//
// User and system time so far, in seconds.
double CpuSeconds(const std::set<int>& processes);
// Resident memory in KiB; a page that two processes share counts twice.
double ResidentKb(const std::set<int>& processes);
// Proportional memory in KiB; a shared page counts once in total. Slow, and pauses the processes briefly.
double ProportionalKb(const std::set<int>& processes);

}  // namespace braid::bench
