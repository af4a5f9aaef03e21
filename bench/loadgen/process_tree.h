// What a process and all its descendants use, from /proc.
#pragma once

#include <set>

namespace braid::bench {

// `root` and its living descendants.
std::set<int> ProcessTree(int root);

// The sums over processes; one that has gone meanwhile adds nothing.
// User and system time so far, in seconds.
double CpuSeconds(const std::set<int>& processes);
// Resident memory in KiB; a page that two processes share counts twice.
double ResidentKb(const std::set<int>& processes);
// Proportional memory in KiB; a shared page counts once in all. Slow, and stalls the processes for a moment.
double ProportionalKb(const std::set<int>& processes);

}  // namespace braid::bench
