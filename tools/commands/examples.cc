#include "commands/examples.h"

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

// The headers that nodes and calculators of the examples are compiled with.
constexpr char kHeaders[] = "include";

int RefuseExamples(std::string_view text) {
  std::cerr << "braid examples: " << ToUtf8(std::string(text)) << '\n';
  return 1;
}

// Returns the title of an example's README; "" without one.
std::string TitleOf(const fs::path& example) {
  std::ifstream file(example / "README.md");
  std::string line;
  std::getline(file, line);
  return line.starts_with("# ") ? line.substr(2) : "";
}

std::vector<std::string> NamesIn(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace

int RunExamples(int argc, const char* const* argv) {
  CLI::App app("Lists the examples, or copies them to DIR, with the headers for C and C++ in DIR/include.",
               "braid examples");
  std::string folder;
  std::vector<std::string> wanted;
  app.add_option("DIR", folder, "Folder that the examples are copied to; it is made");
  app.add_option("NAME", wanted, "Examples to copy (default: all)");
  app.footer(
      "examples:\n"
      "  braid examples\n"
      "  braid examples examples\n"
      "  braid examples examples models graphs\n");
  try {
    app.parse(argc - 1, argv + 1);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  const auto examples = FindDataFolder("examples", "examples");
  if (!examples.ok()) return RefuseExamples(examples.status().message());
  const std::vector<std::string> names = NamesIn(*examples);
  if (folder.empty()) {
    for (const std::string& name : names)
      std::cout << fmt::format("{:<20} {}\n", name, TitleOf(*examples / name));
    std::cout << "\nbraid examples DIR copies all of them, braid examples DIR NAME one.\n";
    return 0;
  }
  for (const std::string& name : wanted) {
    if (std::ranges::find(names, name) == names.end())
      return RefuseExamples(
          fmt::format("there is no example '{}'; expected {}", name, fmt::join(names, ", ")));
  }
  const auto headers = FindDataFolder(kHeaders, kHeaders);
  if (!headers.ok()) return RefuseExamples(headers.status().message());
  if (wanted.empty()) {
    if (const Status copied = CopyDataFolder(*examples, folder, ""); !copied.ok())
      return RefuseExamples(copied.message());
  }
  for (const std::string& name : wanted) {
    if (const Status copied = CopyDataFolder(*examples / name, fs::path(folder) / name, ""); !copied.ok())
      return RefuseExamples(copied.message());
  }
  if (!fs::exists(fs::path(folder) / kHeaders)) {
    if (const Status copied = CopyDataFolder(*headers, fs::path(folder) / kHeaders, ""); !copied.ok())
      return RefuseExamples(copied.message());
  }
  std::cout << fmt::format("copied to {}; try: braid serve {}/models\n", folder, folder);
  return 0;
}

}  // namespace braid
