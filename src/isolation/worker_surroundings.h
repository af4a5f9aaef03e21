// The files and environment variables that a worker of level strict or separate can use.
#pragma once

#include <string>
#include <vector>

#include "base/landlock.h"

namespace braid {

// Returns the paths that any program on this system needs: libraries, time zones, certificates, user names,
// processor and process state. The devices /dev/null, /dev/zero, /dev/full and /dev/random are included. It
// leaves out files of services, home folders, and other users' temporary files.
std::vector<LandlockPath> SystemPaths();

// Returns the device files of the machine's GPU drivers: /dev/nvidia*, /dev/dri. Tests pass another folder as
// `devices`.
std::vector<LandlockPath> GpuPaths(const std::string& devices = "/dev");

// Returns the installation folder of `python` (a path). If it is a link, also that of its target, so that a
// virtual environment's base is included. Leaves out paths in SystemPaths(). An empty `python` means no
// interpreter.
std::vector<LandlockPath> InterpreterPaths(const std::string& python);

// Returns an operator's folder, and the symbolic links in it and in their target folders. A worker can reach
// the targets.
std::vector<LandlockPath> FolderPaths(const std::string& folder);

// Returns this program, the folders that may lie beside it, and the folders of its loaded libraries. Leaves
// out paths in SystemPaths().
std::vector<LandlockPath> ProgramPaths();

// Selects from `variables` ("NAME=value") those for languages, time zones, program and library paths, Python,
// and thread and device counts, and those named in `more`. HOME and TMPDIR become `folder`.
std::vector<std::string> ShortEnvironment(const std::vector<std::string>& variables,
                                          const std::vector<std::string>& more, const std::string& folder);

}  // namespace braid
