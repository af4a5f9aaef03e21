#include "commands/command.h"

#include <algorithm>
#include <iostream>

#include <spdlog/fmt/fmt.h>

#include "backends/native/native_worker.h"
#include "backends/python/unpack_apart.h"
#include "base/nearest_name.h"
#include "commands/bench.h"
#include "commands/check.h"
#include "commands/examples.h"
#include "commands/fleet.h"
#include "commands/fleet_view.h"
#include "commands/health.h"
#include "commands/init.h"
#include "commands/try.h"
#include "server/native_worker.h"
#include "server/options_table.h"
#include "server/options_text.h"
#include "server/serve.h"

namespace braid {
namespace {

constexpr Command kCommands[] = {
    {"serve", "MODELS_DIR...", "serve the models of folders, or of a config.json, over HTTP and gRPC",
     [](int argc, const char* const* argv) { return RunServe(argc, argv, &kFleetView); }},
    {"init", "NAME [--kind KIND]", "make a folder with a model that works, and its test", RunInit},
    {"examples", "[DIR]", "list the examples, or copy them", RunExamples},
    {"check", "PATH...", "check whether models would load, and which changes their files need", RunCheck},
    {"try", "MODEL", "send a request to a model of a running server", RunTry},
    {"bench", "-m MODEL", "measure a model of a running server", RunBench},
    {"health", "[URL]", "ask a running server whether it is ready", RunHealth},
    {"fleet", "status|reload|envoy", "manage several running servers as one fleet", RunFleet},
};

int Refuse(std::string_view message) {
  std::cerr << "braid: " << message << '\n' << ProgramHelp();
  return 1;
}

}  // namespace

std::span<const Command> Commands() { return kCommands; }

std::string ProgramHelp() {
  std::string help =
      "Braid serves models with their own Python around them.\n"
      "\n"
      "usage:\n";
  for (const Command& command : Commands()) {
    help += fmt::format("  {:<30} {}\n", fmt::format("braid {} {}", command.name, command.arguments),
                        command.help);
  }
  help +=
      "  braid COMMAND --help           list the options of a command\n"
      "  braid --version                print the version\n"
      "  braid --help                   print this\n"
      "\n"
      "examples:\n"
      "  braid serve examples/models --host 127.0.0.1\n"
      "  braid serve --config_path config.json --port 9000 --rest_port 8000\n";
  return help;
}

int RunProgram(int argc, const char* const* argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  const auto command = std::ranges::find(Commands(), name, &Command::name);
  if (command != Commands().end()) return command->run(argc, argv);
  // The server starts this one as a separate process.
  if (name == "unpack-environment") return RunUnpackEnvironment(argc, argv);
  if (name == kNativeWorkerCommand) return RunNativeWorkerCommand(argc, argv);
  if (name == "--version" || name == "-V") {
    std::cout << VersionText();
    return 0;
  }
  if (name == "--help" || name == "-h" || name == "help") {
    std::cout << ProgramHelp();
    return 0;
  }
  if (name.empty()) return Refuse("no command is given");
  if (name.starts_with("--") && FindOption(name.substr(2, name.find('=') - 2))) {
    return Refuse(fmt::format("{} is an option of a command; did you mean: braid serve {}", name, name));
  }
  NearestName nearest(name);
  for (const Command& known : Commands()) nearest.Offer(known.name);
  const std::string meant =
      nearest.name().empty() ? "" : fmt::format("; did you mean: braid {}", nearest.name());
  return Refuse(fmt::format("unknown command '{}'{}", name, meant));
}

}  // namespace braid
