// Starts a program in a confinement: it is confined before its first instruction.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "isolation/confinement.h"

namespace braid {

// The path of the very program that runs, also when its file was replaced meanwhile.
inline constexpr const char* kThisProgram = "/proc/self/exe";

struct ProgramStart {
  // The first is the program's path. Without any the process ends once it is confined.
  std::vector<std::string> arguments;
  std::vector<std::string> variables;  // "NAME=value"
  // Become its descriptors 0, 1, 2, and so on; it has no others.
  std::vector<int> descriptors;
  std::string folder = {};  // that it runs in; empty: the server's, or the confinement's
  // RLIMIT_... and its value, which lowers the server's.
  std::vector<std::pair<int, rlimit>> limits = {};
  Confinement confinement = {};
  // Whether it is without a network, as far as the system lets the server's user take that away. It makes sockets all the same.
  bool no_network = false;
  // Whether it is killed when the thread ends that started it.
  bool ends_with_thread = false;
};

// Returns its process id; it leads a session of its own, without a terminal, and a process group, with no signal blocked or ignored but
// those that the server was started with. Blocks until the program has taken the process over. Errors: INTERNAL: what the
// system refused; the confinement's.
Result<pid_t> StartProgram(const ProgramStart& start);

// Whether this machine lets a process be confined so: one is, and ends. Errors: INTERNAL: what the system refused.
Status TryConfinement(const Confinement& confinement);

}  // namespace braid
