#include "check/graph_check.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "check/text_file.h"
#include "config/config_file.h"
#include "config/without_effect.h"
#include "graph/node_names.h"
#include "graph/topology.h"
#include "mediapipe/calculator.pb.h"
#include "serving/faults.h"

namespace braid::check {
namespace {

constexpr std::string_view kGraphs = "docs/compatibility.md#openvino-model-server-python-nodes-and-graphs";

// Returns the word between the first two quotes from `from` on; moves `from` behind it.
std::optional<std::string> NextQuoted(const std::string& text, size_t& from) {
  const size_t begin = text.find('\'', from);
  const size_t end = begin == std::string::npos ? begin : text.find('\'', begin + 1);
  if (end == std::string::npos) return std::nullopt;
  from = end + 1;
  return text.substr(begin + 1, end - begin - 1);
}

// Whether a field's value is a word, or a stream ("TAG:index:name") of that name.
bool IsValue(const TextField& field, const std::string& word) {
  const std::string_view value = field.value;
  if (value.empty() || word.empty()) return false;
  return value == word || (value.size() > word.size() && value.ends_with(word) &&
                           value[value.size() - word.size() - 1] == ':');
}

// Returns the position of the node, stream or calculator that a fault names. Faults of graphs name no fields:
// a fault of a node begins with "node 'NAME'", and the quoted words after it are values of its fields.
Position PlaceOfFault(const TextFields& fields, const std::vector<std::string>& nodes,
                      const std::string& fault) {
  size_t from = 0;
  std::string inside;
  if (fault.starts_with("node '")) {
    const auto name = NextQuoted(fault, from);
    const auto node = name ? std::ranges::find(nodes, *name) : nodes.end();
    if (node != nodes.end()) inside = "node[" + std::to_string(node - nodes.begin()) + "]";
  }
  while (const auto word = NextQuoted(fault, from)) {
    for (const TextField& field : fields.all()) {
      if ((inside.empty() || field.path.starts_with(inside + ".")) && IsValue(field, *word)) return field.at;
    }
  }
  return inside.empty() ? Position{1, 1} : fields.PlaceOf(inside);
}

std::vector<std::string> LinesOf(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end != 0) lines.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

std::string PlainField(std::string_view path) {
  std::string plain;
  int brackets = 0;
  for (const char c : path) {
    if (c == '[') ++brackets;
    if (brackets == 0) plain += c;
    if (c == ']') --brackets;
  }
  // "node_options.[type.googleapis.com/x].f"
  for (size_t at = plain.find(".."); at != std::string::npos; at = plain.find("..")) plain.erase(at, 1);
  return plain;
}

}  // namespace

void CheckGraph(LoadSandbox& sandbox, const OvmsGraphConfig& graph, const Finding& entry, Findings& findings,
                Summary& summary) {
  summary.push_back({graph.name, "graph", graph.graph_path, false, false});
  auto text = ReadConfigFile(graph.graph_path);
  if (!text.ok()) {
    Finding finding = entry;
    finding.level = Level::kError;
    finding.rule = "load";
    if (finding.path.empty()) finding.path = graph.graph_path;
    finding.message = "the graph's file cannot be read: " + text.status().message();
    finding.advice = "name the file in graph_path, relative to base_path";
    finding.servable = graph.name;
    findings.Add(std::move(finding));
    return;
  }
  // The parser links the types of options into the program.
  const auto parsed = graph::ParseGraphConfig(*text);
  const std::vector<std::string> nodes = parsed.ok() ? graph::NodeNames(*parsed) : std::vector<std::string>();
  const TextFile file(graph.graph_path, *text, ::mediapipe::CalculatorGraphConfig::default_instance());
  const bool wrong = file.ReportFaults(graph.name, findings);
  sandbox.TakeFaultLocation();
  auto servable = sandbox.makers().Graph(graph, [](const std::string&) {});
  if (servable.ok()) {
    for (const TextField& field : file.fields().all()) {
      const std::string plain = PlainField(field.path);
      for (const FieldWithoutEffect& rule : GraphFieldsWithoutEffect()) {
        if (plain != rule.field) continue;
        findings.Add({Level::kNote, "no-effect", file.path(), field.name, std::string(rule.message),
                      std::string(rule.advice), std::string(kGraphs), graph.name});
      }
    }
    sandbox.catalog().Publish(*std::move(servable));
    summary.back().loads = true;
    return;
  }
  if (wrong) return;
  const LoadSandbox::FaultLocation fault_location = sandbox.TakeFaultLocation();
  const bool refused = servable.status().fault() == Fault::kNotImplemented;
  std::vector<std::string> lines = LinesOf(servable.status().message());
  // Drops the heading of a list of faults.
  if (lines.size() > 1 && lines.front().ends_with(':')) lines.erase(lines.begin());
  for (const std::string& line : lines) {
    Finding finding{refused ? Level::kRefused : Level::kError,
                    refused ? "refused" : "load",
                    file.path(),
                    {},
                    line,
                    "",
                    refused ? std::string(kGraphs) : "",
                    graph.name};
    // A message "...: graph 'NAME': ..." repeats the graph's name.
    const std::string head = "graph '" + graph.name + "': ";
    const size_t at = line.find(head);
    finding.at =
        PlaceOfFault(file.fields(), nodes, at == std::string::npos ? line : line.substr(at + head.size()));
    if (fault_location.code) {
      finding.rule = "import";
      finding.path = fault_location.code->file;
      finding.at = {fault_location.code->line, fault_location.code->line > 0 ? 1 : 0};
    }
    findings.Add(std::move(finding));
    if (fault_location.code) break;
  }
}

}  // namespace braid::check
