// How much memory there is for this process.
#pragma once

#include <cstdint>
#include <string>

namespace braid {

// That of the machine, or of its control group if that is less. `group_folder` is where the system shows
// control groups.
uint64_t MemorySize(const std::string& group_folder = "/sys/fs/cgroup");

}  // namespace braid
