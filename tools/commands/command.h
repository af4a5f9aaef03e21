// The commands of the braid program: `braid NAME ARGUMENT...`. Each is a row of the table in command.cc, which
// `braid --help` prints, and but for the server a file beside this one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace braid {

struct Command {
  std::string_view name;
  std::string_view arguments;  // as its line of usage shows them: "PATH..."
  std::string_view help;       // what it does, in one line
  // Prints to the standard streams; argv[1] is the name. Returns the exit code: 0 when it did what it was asked for.
  int (*run)(int argc, const char* const* argv);
};

std::span<const Command> Commands();

// `braid --help`.
std::string ProgramHelp();

// Finds the command and runs it. Without one, or with one that there is not, the exit code is 1.
int RunProgram(int argc, const char* const* argv);

}  // namespace braid
