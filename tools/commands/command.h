// The commands of the braid program: `braid NAME ARGUMENT...`. Each is a row of the table in command.cc,
// which `braid --help` prints. Each command except the server has a file in this folder.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace braid {

struct Command {
  std::string_view name;
  std::string_view arguments;  // as in its usage line: "PATH..."
  std::string_view help;       // one line about the command
  // Prints to the standard streams; argv[1] is the name. Returns the exit code, 0 for success.
  int (*run)(int argc, const char* const* argv);
};

std::span<const Command> Commands();

// Returns the text of `braid --help`.
std::string ProgramHelp();

// Finds the command and runs it. The exit code is 1 without a command or with an unknown one.
int RunProgram(int argc, const char* const* argv);

}  // namespace braid
