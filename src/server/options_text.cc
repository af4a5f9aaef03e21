#include "server/options_text.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include "server/options_table.h"

namespace braid {
namespace {

constexpr size_t kWidth = 100;
constexpr size_t kHelpColumn = 34;

// The options that most users need first.
constexpr std::string_view kFirstOptions[] = {"model-repository",
                                              "model-control-mode",
                                              "load-model",
                                              "watch",
                                              "exit-on-error",
                                              "isolate",
                                              "python",
                                              "execute-timeout-ms",
                                              "host",
                                              "http-port",
                                              "http-use-ssl",
                                              "grpc-port",
                                              "grpc-use-ssl",
                                              "token-file",
                                              "metrics-port",
                                              "log-verbose",
                                              "log-file",
                                              "cache-config",
                                              "config_path",
                                              "port",
                                              "rest_port"};

// Returns `text` wrapped between words, with `indent` spaces before each line except the first.
std::string Wrapped(std::string_view text, size_t indent) {
  std::string lines;
  size_t column = indent;
  while (!text.empty()) {
    size_t end = std::min(text.find(' '), text.size());
    if (column > indent && column + 1 + end > kWidth) {
      lines += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      lines += ' ';
      ++column;
    }
    lines += text.substr(0, end);
    column += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string HelpLine(std::string_view left, std::string_view text) {
  std::string line = "  " + std::string(left);
  if (line.size() + 2 > kHelpColumn) {
    line += "\n" + std::string(kHelpColumn, ' ');
  } else {
    line.resize(kHelpColumn, ' ');
  }
  return line + Wrapped(text, kHelpColumn) + "\n";
}

std::string Signature(const OptionSpec& spec) {
  std::string text = spec.is_boolean() ? fmt::format("--{}[=BOOL]", spec.name)
                                       : fmt::format("--{} {}", spec.name, spec.value);
  return spec.repeatable && spec.support == OptionSupport::kWorks ? text + " ..." : text;
}

std::string SupportText(const OptionSpec& spec) {
  switch (spec.support) {
    case OptionSupport::kWorks:
      return "works";
    case OptionSupport::kIgnored:
      return fmt::format("no effect: {}", spec.reason);
    case OptionSupport::kRefused:
      return fmt::format("refused: {}", spec.reason);
  }
  return "";
}

std::string_view OriginText(OptionOrigin origin) {
  switch (origin) {
    case OptionOrigin::kDefault:
      return "default";
    case OptionOrigin::kCommandLine:
      return "command line";
    case OptionOrigin::kImplied:
      return "other options";
  }
  return "";
}

// Returns the number of single insertions, deletions and replacements from `a` to `b`.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string VersionText() { return "braid " BRAID_VERSION "\n"; }

std::string ServeUsage() {
  return "usage: braid serve [OPTION...] MODELS_DIR...      (braid serve --help lists the options)\n";
}

std::string ServeHelp(bool all) {
  std::string help =
      "usage: braid serve [OPTION...] MODELS_DIR...\n"
      "\n"
      "Serves the models of the folders over HTTP (port 8000) and gRPC (port 8001), metrics on port 8002.\n"
      "A value follows its option after a space or '='; BOOL is true, false, 1, 0, or nothing for true;\n"
      "options with '...' can be repeated.\n";
  const OptionSpec* before = nullptr;
  std::string other;
  for (const OptionSpec& spec : OptionTable()) {
    if (!all && std::ranges::find(kFirstOptions, spec.name) == std::end(kFirstOptions)) continue;
    if (spec.support != OptionSupport::kWorks) {
      other += HelpLine(Signature(spec), SupportText(spec));
      continue;
    }
    if (!before || before->group != spec.group) help += fmt::format("\n{}:\n", OptionGroupTitle(spec.group));
    std::string text(spec.help);
    if (std::string value = spec.DefaultText(); !value.empty()) text += fmt::format(" [{}]", value);
    help += HelpLine(Signature(spec), text);
    before = &spec;
  }
  help += "\nAbout this command:\n";
  help +=
      HelpLine("--print-config", "Print every setting, its default and where its value comes from, and exit");
  help += HelpLine("--help", "Print the options that most users need first");
  help += HelpLine("--help-all", "Print all options");
  help += HelpLine("--help-markdown", "Print the options as a Markdown table");
  if (!all) return help;
  return help + "\nKnown but without effect (accepted and logged, or refused with a reason):\n" + other;
}

std::string ConfigText(const ServerOptions& options) {
  std::vector<std::array<std::string, 4>> rows = {{"OPTION", "VALUE", "DEFAULT", "ORIGIN"}};
  for (const OptionSpec& spec : OptionTable()) {
    OptionOrigin origin = options.origin(spec.name);
    std::string value;
    if (spec.support == OptionSupport::kWorks) {
      value = spec.show(options);
    } else if (origin == OptionOrigin::kDefault) {
      continue;
    } else {
      value = "(no effect)";
    }
    rows.push_back({std::string(spec.name), value, spec.DefaultText(), std::string(OriginText(origin))});
  }
  std::array<size_t, 3> widths{};
  for (auto& row : rows) {
    for (size_t i = 0; i < 3; ++i) {
      if (row[i].empty()) row[i].push_back('-');
      widths[i] = std::max(widths[i], std::min<size_t>(row[i].size(), 40));
    }
  }
  std::string text;
  for (const auto& row : rows) {
    text += fmt::format("{:<{}}  {:<{}}  {:<{}}  {}\n", row[0], widths[0], row[1], widths[1], row[2],
                        widths[2], row[3]);
  }
  return text;
}

std::string OptionsAsMarkdown() {
  std::string text;
  const OptionSpec* before = nullptr;
  for (const OptionSpec& spec : OptionTable()) {
    if (!before || before->group != spec.group) {
      text += fmt::format("{}### {}\n\n| option | default | meaning | here |\n| --- | --- | --- | --- |\n",
                          before ? "\n" : "", OptionGroupTitle(spec.group));
    }
    before = &spec;
    std::string value = spec.DefaultText();
    text += fmt::format("| `{}` | {} | {} | {} |\n", Signature(spec), value.empty() ? "" : "`" + value + "`",
                        spec.help, SupportText(spec));
  }
  return text;
}

std::string_view NearestOption(std::string_view name) {
  std::string_view nearest;
  size_t least = 4;  // more distant names do not help
  if (name.size() > 64) return nearest;
  for (const OptionSpec& spec : OptionTable()) {
    if (size_t distance = EditDistance(name, spec.name); distance < least && distance < name.size()) {
      least = distance;
      nearest = spec.name;
    }
  }
  return nearest;
}

}  // namespace braid
