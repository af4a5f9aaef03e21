#include "graph/port_names.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>
#include <utility>

namespace braid::graph {
namespace {

// Larger indices are mistakes: no node has so many ports.
constexpr int kMostPorts = 10000;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }

bool IsName(std::string_view text) {
  return !text.empty() && !IsDigit(text[0]) &&
         std::ranges::all_of(text, [](char c) { return IsLower(c) || IsDigit(c) || c == '_'; });
}

bool IsTag(std::string_view text) {
  return !text.empty() && !IsDigit(text[0]) &&
         std::ranges::all_of(text, [](char c) { return IsUpper(c) || IsDigit(c) || c == '_'; });
}

std::optional<int> ParseIndex(std::string_view text) {
  if (text.empty() || !std::ranges::all_of(text, IsDigit) || (text.size() > 1 && text[0] == '0')) return {};
  int index = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), index);
  if (parsed.ec != std::errc() || index >= kMostPorts) return {};
  return index;
}

// A parsed port, perhaps without an index; "TAG:name" and "name" get the next index.
struct Parsed {
  Port port;
  bool has_index = false;
};

Result<Parsed> Parse(std::string_view text) {
  Parsed parsed;
  std::string_view rest = text;
  if (const size_t name_at = rest.rfind(':'); name_at != std::string_view::npos) {
    parsed.port.name = rest.substr(name_at + 1);
    rest = rest.substr(0, name_at);
    if (const size_t index_at = rest.find(':'); index_at != std::string_view::npos) {
      const std::optional<int> index = ParseIndex(rest.substr(index_at + 1));
      if (!index) {
        return InvalidArgumentError(std::string("'").append(text).append(
            "' has an index that is not a number; expected 'name', 'TAG:name' or 'TAG:INDEX:name'"));
      }
      parsed.port.index = *index;
      parsed.has_index = true;
      rest = rest.substr(0, index_at);
    }
    // ":0:name" is the syntax of a port with an index but no tag.
    if (!IsTag(rest) && !(rest.empty() && parsed.has_index)) {
      return InvalidArgumentError(
          std::string("'").append(text).append("' has an invalid tag; expected [A-Z_][A-Z0-9_]*"));
    }
    parsed.port.tag = rest;
  } else {
    parsed.port.name = rest;
  }
  if (!IsName(parsed.port.name)) {
    return InvalidArgumentError(
        std::string("'").append(text).append("' has an invalid name; expected [a-z_][a-z0-9_]*"));
  }
  return parsed;
}

}  // namespace

std::vector<Port> ParsePorts(const google::protobuf::RepeatedPtrField<std::string>& texts,
                             std::string_view where, std::vector<std::string>& faults) {
  std::vector<Port> ports;
  std::map<std::string, std::vector<int>> indices;
  for (const std::string& text : texts) {
    Result<Parsed> parsed = Parse(text);
    if (!parsed.ok()) {
      faults.push_back(std::string(where) + ": " + parsed.status().message());
      continue;
    }
    std::vector<int>& of_tag = indices[parsed->port.tag];
    if (!parsed->has_index && parsed->port.tag.empty()) parsed->port.index = static_cast<int>(of_tag.size());
    if (std::ranges::find(of_tag, parsed->port.index) != of_tag.end()) {
      faults.push_back(std::string(where) + ": '" + text + "' duplicates " + TagIndexText(parsed->port) +
                       "; each tag and index must be unique");
      continue;
    }
    of_tag.push_back(parsed->port.index);
    ports.push_back(std::move(parsed->port));
  }
  for (auto& [tag, of_tag] : indices) {
    std::ranges::sort(of_tag);
    for (size_t i = 0; i < of_tag.size(); ++i) {
      if (of_tag[i] == static_cast<int>(i)) continue;
      faults.push_back(std::string(where) + ": " + tag + ":" + std::to_string(of_tag[i]) + " exists, but " +
                       tag + ":" + std::to_string(i) +
                       " does not; the indices of a tag start at 0 and have no gaps");
      break;
    }
  }
  return ports;
}

Ports SortPorts(std::vector<Port> ports) {
  std::ranges::sort(ports, {}, [](const Port& port) { return std::tie(port.tag, port.index); });
  return Ports(std::move(ports));
}

std::optional<TagIndex> ParseTagIndex(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view tag = text.substr(0, colon);
  if (colon == std::string_view::npos) {
    if (IsTag(tag)) return TagIndex{std::string(tag), 0};
    if (const std::optional<int> index = ParseIndex(text)) return TagIndex{"", *index};
    return std::nullopt;
  }
  const std::optional<int> index = ParseIndex(text.substr(colon + 1));
  if (!index || (!tag.empty() && !IsTag(tag))) return std::nullopt;
  return TagIndex{std::string(tag), *index};
}

std::string TagIndexText(const Port& port) { return port.tag + ":" + std::to_string(port.index); }

}  // namespace braid::graph
