// The memory available to this process.
#pragma once

#include <cstdint>
#include <string>

namespace braid {

// Returns the memory of the machine, or of its control group if that is less. `group_folder` is the mount
// point of control groups.
uint64_t MemorySize(const std::string& group_folder = "/sys/fs/cgroup");

}  // namespace braid
