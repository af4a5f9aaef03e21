// Unpacking a packed environment in a process of its own, which can write to the new folder and reach nothing else: what
// reads the archive has only to be wrong once.
#pragma once

#include <string>

#include "backends/python/environment_archive.h"
#include "base/status.h"
#include "workers/child_reaper.h"

namespace braid {

// As UnpackArchive(), by `program` run as "PROGRAM unpack-environment". Blocks; an error of `report` ends the process.
Result<UnpackProgress> UnpackApart(const std::string& program, ChildReaper& reaper, int archive_fd,
                                   const std::string& folder, const UnpackLimits& limits,
                                   const UnpackReport& report);

// What that process does: unpacks what is open as descriptor 3, and tells of it on standard output. Returns its exit
// code.
int RunUnpackEnvironment(int argc, const char* const* argv);

}  // namespace braid
