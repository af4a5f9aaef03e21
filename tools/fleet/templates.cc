#include "fleet/templates.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace braid::fleet {

// The values of an element and of the enclosing scopes.
struct Templates::Scope {
  const Json& values;
  const Scope* around = nullptr;
};

// The parsed brackets before a key.
struct Templates::Head {
  bool holds = true;
  const Json* list = nullptr;
  std::string key;
};

const Json& Templates::Find(const std::string& name, const Scope& scope) const {
  static const Json none;
  for (const Scope* each = &scope; each != nullptr; each = each->around) {
    if (!each->values.is_object() && name == "item") return each->values;
    if (each->values.contains(name)) return each->values[name];
  }
  return parts_.contains(name) ? parts_[name] : none;
}

Templates::Head Templates::ReadHead(const std::string& key, const Scope& scope) const {
  if (!key.starts_with('[')) return {.key = key};
  const size_t end = key.find(']');
  Head head{.key = key.substr(std::min(key.size(), key.find_first_not_of(' ', end + 1)))};
  std::istringstream words(key.substr(1, end - 1));
  for (std::string word; words >> word;) {
    if (word.starts_with('*')) {
      head.list = &Find(word.substr(1), scope);
      continue;
    }
    const bool wanted = !word.starts_with('!');
    const Json& value = Find(wanted ? word : word.substr(1), scope);
    const bool there = !value.is_null() && value != false && value != "";
    head.holds = head.holds && there == wanted;
  }
  return head;
}

Json Templates::FilledText(const std::string& text, const Scope& scope) const {
  if (text.starts_with('@')) return Filled(parts_.at(text.substr(1)), scope);
  if (text.starts_with('$') && !text.starts_with("${")) return Find(text.substr(1), scope);
  std::string filled;
  size_t from = 0;
  for (size_t at = 0; (at = text.find("${", from)) != std::string::npos;) {
    const size_t end = text.find('}', at);
    if (end == std::string::npos) throw std::invalid_argument("a template has '${' without '}': " + text);
    filled += text.substr(from, at - from) +
              Find(text.substr(at + 2, end - at - 2), scope).get_ref<const std::string&>();
    from = end + 1;
  }
  return filled + text.substr(from);
}

Json Templates::FilledList(const Json& part, const Scope& scope) const {
  Json filled = Json::array();
  const auto add = [&](const Json& body, const Scope& inner) {
    Json element = Filled(body, inner);
    if (!element.is_array()) element = Json::array({std::move(element)});
    filled.insert(filled.end(), element.begin(), element.end());
  };
  for (const Json& each : part) {
    const bool has_head = each.is_object() && each.size() == 1 && each.items().begin().key().ends_with(']');
    if (!has_head) {
      filled.push_back(Filled(each, scope));
      continue;
    }
    const Json& body = *each.begin();
    const Head head = ReadHead(each.items().begin().key(), scope);
    if (!head.holds) continue;
    if (head.list == nullptr) add(body, scope);
    for (const Json& item : head.list != nullptr ? *head.list : Json::array()) add(body, {item, &scope});
  }
  return filled;
}

Json Templates::Filled(const Json& part, const Scope& scope) const {
  if (part.is_string()) return FilledText(part.get_ref<const std::string&>(), scope);
  if (part.is_array()) return FilledList(part, scope);
  if (!part.is_object()) return part;
  Json filled = Json::object();
  for (const auto& [key, body] : part.items()) {
    const Head head = ReadHead(key, scope);
    if (head.holds) filled[head.key] = Filled(body, scope);
  }
  return filled;
}

Json Templates::Fill(const std::string& name, const Json& values, const Json& item) const {
  const Scope whole{values};
  return Filled(parts_.at(name), {item, &whole});
}

}  // namespace braid::fleet
