// Starts a program in a confinement, which applies from its first instruction.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "isolation/confinement.h"

namespace braid {

// The path of the running program, even if its file was replaced.
inline constexpr const char* kThisProgram = "/proc/self/exe";

struct ProgramStart {
  // The first is the program's path. Without arguments the process ends once it is confined.
  std::vector<std::string> arguments;
  std::vector<std::string> variables;  // "NAME=value"
  // Become its descriptors 0, 1, 2, and so on; it gets no others.
  std::vector<int> descriptors;
  std::string folder = {};  // its working folder; empty: the server's or the confinement's
  // RLIMIT_... and a value, which can only lower the server's.
  std::vector<std::pair<int, rlimit>> limits = {};
  Confinement confinement = {};
  // Removes the network, as far as the server's user may. The process can still create sockets.
  bool no_network = false;
  // Kills the process when the thread that started it ends.
  bool ends_with_thread = false;
};

// Starts the program and returns its process id. The process leads a new session without a terminal, and a
// process group. Signals are neither blocked nor ignored, except those that the server was started with.
// Blocks until the program runs in the process. Errors: INTERNAL if a system call failed; those of the
// confinement.
Result<pid_t> StartProgram(const ProgramStart& start);

// Tests a confinement on a process that ends at once. Errors: INTERNAL if a system call failed.
Status TryConfinement(const Confinement& confinement);

}  // namespace braid
