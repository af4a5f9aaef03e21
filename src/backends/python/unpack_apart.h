// Unpacks a packed environment in another process, which can write to the new folder and access nothing else.
// This contains bugs in the code that reads archives.
#pragma once

#include <string>

#include "backends/python/environment_archive.h"
#include "base/status.h"
#include "workers/child_reaper.h"

namespace braid {

// As UnpackArchive(), but by `program` run as "PROGRAM unpack-environment". Blocks; an error of `report`
// kills the process.
Result<UnpackProgress> UnpackApart(const std::string& program, ChildReaper& reaper, int archive_fd,
                                   const std::string& folder, const UnpackLimits& limits,
                                   const UnpackReport& report);

// The main function of that process: unpacks the archive open as descriptor 3, and reports on standard
// output. Returns the exit code.
int RunUnpackEnvironment(int argc, const char* const* argv);

}  // namespace braid
