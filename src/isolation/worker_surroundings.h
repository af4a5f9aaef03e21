// What a worker of level strict or separate has around it: the files that an interpreter needs, and the variables that
// are handed on to it.
#pragma once

#include <string>
#include <vector>

#include "base/landlock.h"

namespace braid {

// What programs of this system need whatever they do: libraries, time zones, certificates, names of users, the state of
// processors and processes, and the devices /dev/null, /dev/zero, /dev/full and /dev/random. No files of services, homes,
// or others' temporary files.
std::vector<LandlockPath> SystemPaths();

// The machine's GPUs, as their drivers open them: /dev/nvidia*, /dev/dri. `devices` is another place for tests.
std::vector<LandlockPath> GpuPaths(const std::string& devices = "/dev");

// The folder that `python` (a path) was installed into, that of the interpreter behind it where it is a link, and so
// that of a virtual environment with that which it was made from. Nothing for what SystemPaths() has already. Empty: no
// interpreter.
std::vector<LandlockPath> InterpreterPaths(const std::string& python);

// A folder of the operator's, and the symbolic links in it and in what they lead to: a worker reaches what is behind them.
std::vector<LandlockPath> FolderPaths(const std::string& folder);

// This program, what may stand beside it, and the folders of the libraries that it has loaded. Nothing for what
// SystemPaths() has already.
std::vector<LandlockPath> ProgramPaths();

// Of `variables` ("NAME=value") those for languages, time zones, paths of programs and libraries, Python, and numbers of
// threads and devices, and those in `more`; HOME and TMPDIR are `folder`.
std::vector<std::string> ShortEnvironment(const std::vector<std::string>& variables,
                                          const std::vector<std::string>& more, const std::string& folder);

}  // namespace braid
