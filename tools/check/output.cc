#include "check/output.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "base/log.h"

namespace braid::check {
namespace {

constexpr int kJsonVersion = 1;
constexpr std::array<Level, 4> kLevels = {Level::kError, Level::kRefused, Level::kDifference, Level::kNote};

std::string_view ColorOf(Level level) {
  switch (level) {
    case Level::kError:
    case Level::kRefused:
      return "\033[1;31m";
    case Level::kDifference:
      return "\033[1;33m";
    case Level::kNote:
      return "\033[1;36m";
  }
  return "";
}

std::string Counted(size_t count, std::string_view one, std::string_view many) {
  return std::to_string(count) + " " + std::string(count == 1 ? one : many);
}

// Escapes a text for workflow commands: line ends, and in properties also separators.
std::string Escaped(std::string_view text, bool property) {
  std::string escaped;
  for (const char c : text) {
    if (c == '%') {
      escaped += "%25";
    } else if (c == '\r') {
      escaped += "%0D";
    } else if (c == '\n') {
      escaped += "%0A";
    } else if (property && c == ':') {
      escaped += "%3A";
    } else if (property && c == ',') {
      escaped += "%2C";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace

std::string PlaceText(const Finding& finding) {
  std::string text = finding.path;
  if (finding.at.line > 0) {
    text += ":" + std::to_string(finding.at.line) + ":" + std::to_string(std::max(finding.at.column, 1));
  }
  return text;
}

std::string MessageText(const Finding& finding) {
  std::string text = finding.message;
  while (text.ends_with('\n')) text.pop_back();
  for (size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at))
    text.replace(at, 1, "; ");
  if (!finding.advice.empty()) text += "; " + finding.advice;
  return EscapeForLog(text);
}

std::string SummaryLine(const CheckResult& result) {
  std::map<std::string, size_t> kinds;
  for (const Checked& one : result.summary) {
    const bool model = one.kind != "ensemble" && one.kind != "pipeline" && one.kind != "graph";
    ++kinds[model ? "model" : one.kind];
  }
  std::string line = "checked ";
  if (kinds.empty()) line += "nothing";
  bool first = true;
  for (const char* kind : {"model", "ensemble", "pipeline", "graph"}) {
    const auto found = kinds.find(kind);
    if (found == kinds.end()) continue;
    line += (std::exchange(first, false) ? "" : ", ") + Counted(found->second, kind, std::string(kind) + "s");
  }
  line += ": ";
  first = true;
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kWords = {
      {{"error", "errors"}, {"refused", "refused"}, {"difference", "differences"}, {"note", "notes"}}};
  for (size_t i = 0; i < kLevels.size(); ++i) {
    const size_t count = result.findings.Count(kLevels[i]);
    if (count == 0) continue;
    line += (std::exchange(first, false) ? "" : ", ") + Counted(count, kWords[i].first, kWords[i].second);
  }
  return line + (first ? "nothing to say" : "");
}

std::string AsText(const CheckResult& result, bool color) {
  std::string text;
  for (const Finding& finding : result.findings.all()) {
    const std::string level(LevelName(finding.level));
    text += EscapeForLog(PlaceText(finding)) + ": ";
    text += color ? std::string(ColorOf(finding.level)) + level + "\033[0m" : level;
    text += ": " + MessageText(finding) + (finding.page.empty() ? "" : " [" + finding.page + "]") + "\n";
  }
  return text + SummaryLine(result) + "\n";
}

std::string AsJson(const CheckResult& result) {
  Json json;
  json["version"] = kJsonVersion;
  json["findings"] = Json::array();
  for (const Finding& finding : result.findings.all()) {
    Json one;
    one["file"] = finding.path;
    one["line"] = finding.at.line;
    one["column"] = finding.at.column;
    one["level"] = LevelName(finding.level);
    one["rule"] = finding.rule;
    one["message"] = finding.message;
    one["advice"] = finding.advice;
    one["docs"] = finding.page;
    one["servable"] = finding.servable;
    json["findings"].push_back(std::move(one));
  }
  json["servables"] = Json::array();
  for (const Checked& checked : result.summary) {
    Json one;
    one["name"] = checked.name;
    one["kind"] = checked.kind;
    one["file"] = checked.path;
    one["loads"] = checked.loads;
    one["complete"] = !checked.open;
    json["servables"].push_back(std::move(one));
  }
  for (const Level level : kLevels)
    json["counts"][std::string(LevelName(level))] = result.findings.Count(level);
  return DumpJson(json) + "\n";
}

std::string AsGithub(const CheckResult& result) {
  std::string text;
  for (const Finding& finding : result.findings.all()) {
    text += Blocks(finding.level)                 ? "::error"
            : finding.level == Level::kDifference ? "::warning"
                                                  : "::notice";
    text += " file=" + Escaped(finding.path, true);
    if (finding.at.line > 0) {
      text += ",line=" + std::to_string(finding.at.line) +
              ",col=" + std::to_string(std::max(finding.at.column, 1));
    }
    text += ",title=" + Escaped("braid check: " + std::string(LevelName(finding.level)), true);
    text += "::" + Escaped(MessageText(finding), false) + "\n";
  }
  return text;
}

}  // namespace braid::check
