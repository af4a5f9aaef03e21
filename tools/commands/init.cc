#include "commands/init.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include "base/utf8.h"
#include "commands/data_folder.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

struct Kind {
  std::string_view name;
  std::string_view what;
  std::string_view serve;  // the arguments of `braid serve`
};

constexpr Kind kKinds[] = {
    {"python", "a Python model", "models --watch"},
    {"decoupled", "a model that sends several responses", "models --watch"},
    {"bls", "a model that calls another one", "models --watch"},
    {"stateful", "a model with sequences", "models --watch"},
    {"graph", "a graph with a Python node", "--config_path config.json --host 127.0.0.1"},
    {"pipeline", "a pipeline of two OpenVINO models", "--config_path config.json --host 127.0.0.1"},
};

// The file of a skeleton that has its first request; it is printed.
constexpr char kFirstRequest[] = "first_request";

int RefuseInit(std::string_view text) {
  std::cerr << "braid init: " << ToUtf8(std::string(text)) << '\n';
  return 1;
}

// Names of folders, of models and of Python modules.
bool IsName(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !text.empty() && letter(text[0]) && std::ranges::all_of(text, [&letter](char c) {
    return letter(c) || (c >= '0' && c <= '9') || c == '_';
  });
}

std::string KindsText() {
  std::string text = "kinds:\n";
  for (const Kind& kind : kKinds) text += fmt::format("  {:<10} {}\n", kind.name, kind.what);
  return text;
}

}  // namespace

int RunInit(int argc, const char* const* argv) {
  CLI::App app("Makes the folder NAME with a model that works, its test and a README.", "braid init");
  std::string name;
  std::string kind_name = "python";
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) names.emplace_back(kind.name);
  app.add_option("NAME", name, "Name of the folder and of the model")->required();
  app.add_option("--kind", kind_name, "See the list below")
      ->check(CLI::IsMember(names))
      ->capture_default_str();
  app.footer(KindsText());
  try {
    app.parse(argc - 1, argv + 1);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  if (!IsName(name)) {
    return RefuseInit("the name is '" + name +
                      "'; expected a letter, and then letters, digits and underscores");
  }
  const Kind& kind = *std::ranges::find(kKinds, std::string_view(kind_name), &Kind::name);
  const auto skeletons = FindDataFolder("skeletons", "tools/commands/skeletons");
  if (!skeletons.ok()) return RefuseInit(skeletons.status().message());
  if (const Status made = CopyDataFolder(*skeletons / kind.name, name, name); !made.ok())
    return RefuseInit(made.message());
  std::ifstream file(fs::path(name) / kFirstRequest);
  std::string request;
  std::getline(file, request);
  file.close();
  std::error_code error;
  fs::remove(fs::path(name) / kFirstRequest, error);
  std::cout << fmt::format(
      "{0} has {1}. Test it and serve it:\n\n"
      "  cd {0}\n"
      "  pytest\n"
      "  braid serve {2}\n\n"
      "Its first request, in another terminal:\n\n"
      "  {3}\n",
      name, kind.what, kind.serve, request);
  return 0;
}

}  // namespace braid
