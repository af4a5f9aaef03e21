#include "custom_nodes/params.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace braid::custom_nodes {
namespace {

// A number at the beginning of a text, and the length that was read; 0 if there is none.
template <class Number>
struct Read {
  Number value = 0;
  size_t length = 0;
};

// Reads the number at the text's beginning, after blanks and a plus sign.
template <class Number>
Read<Number> ReadNumber(const std::string& text) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  const char* from = std::find_if(begin, end, [](unsigned char c) { return std::isspace(c) == 0; });
  if (end - from > 1 && *from == '+' && from[1] != '-') ++from;
  Number value = 0;
  const auto [at, fault] = std::from_chars(from, end, value);
  if (fault != std::errc()) return {};
  return {value, static_cast<size_t>(at - begin)};
}

// Reports a value of which not every character was read.
template <class Number>
std::optional<Number> Take(const std::string& key, const std::string& text, const Read<Number>& read,
                           std::vector<std::string>& warnings) {
  if (read.length == 0) {
    warnings.push_back("param '" + key + "' is '" + text + "', which has no number: it counts as not given");
    return std::nullopt;
  }
  if (read.length < text.size()) {
    warnings.push_back("param '" + key + "' is '" + text + "', which is read as '" +
                       text.substr(0, read.length) + "'");
  }
  return read.value;
}

template <class Number>
std::string ToText(Number number) {
  std::ostringstream text;
  text << number;
  return text.str();
}

}  // namespace

Params::Params(const CustomNodeParam* params, int count) {
  for (int i = 0; i < count; ++i) params_.emplace_back(params[i].key, params[i].value);
}

int32_t Params::Int(const std::string& key, int32_t least, std::optional<int32_t> otherwise) {
  std::optional<int32_t> value = FindInt(key);
  if (!value) value = otherwise;
  if (!value || *value < least) Refuse(key, "a whole number of at least " + ToText(least));
  return *value;
}

float Params::Float(const std::string& key, float least, float most, std::optional<float> otherwise) {
  std::optional<float> value = FindFloat(key);
  if (!value) value = otherwise;
  // Also refuses NaN.
  if (!value || !(*value >= least && *value <= most)) {
    const bool open = most == std::numeric_limits<float>::max();
    Refuse(key, open ? "a number of at least " + ToText(least)
                     : "a number from " + ToText(least) + " to " + ToText(most));
  }
  return *value;
}

std::string Params::Choice(const std::string& key, std::initializer_list<const char*> choices,
                           const char* otherwise) {
  const std::string* text = Find(key);
  if (text == nullptr && otherwise != nullptr) return otherwise;
  std::string expected;
  for (const char* choice : choices) {
    if (text != nullptr && *text == choice) return choice;
    expected += (expected.empty() ? "" : ", ") + std::string(choice);
  }
  Refuse(key, "one of " + expected);
}

bool Params::Flag(const std::string& key) {
  const std::string* text = Find(key);
  if (text == nullptr || *text == "true") return text != nullptr;
  if (*text != "false")
    warnings_.push_back("param '" + key + "' is '" + *text + "', which is not 'true' and so counts as false");
  return false;
}

std::optional<int32_t> Params::FindInt(const std::string& key) {
  const std::string* text = Find(key);
  if (text == nullptr) return std::nullopt;
  return Take(key, *text, ReadNumber<int32_t>(*text), warnings_);
}

std::optional<float> Params::FindFloat(const std::string& key) {
  const std::string* text = Find(key);
  if (text == nullptr) return std::nullopt;
  return Take(key, *text, ReadNumber<float>(*text), warnings_);
}

std::vector<float> Params::FindFloats(const std::string& key) {
  const std::string* text = Find(key);
  if (text == nullptr) return {};
  std::vector<float> numbers;
  bool good = text->size() >= 2 && text->front() == '[' && text->back() == ']';
  if (good) {
    std::istringstream elements(text->substr(1, text->size() - 2));
    for (std::string element; good && std::getline(elements, element, ',');) {
      const Read<float> read = ReadNumber<float>(element);
      good = read.length > 0;
      numbers.push_back(read.value);
    }
  }
  if (!good || numbers.empty()) {
    warnings_.push_back("param '" + key + "' is '" + *text +
                        "', not a list like '[1, 2.5, 3]': it counts as not given");
    return {};
  }
  return numbers;
}

void Params::Refuse(const std::string& key, const std::string& expected) const {
  const std::string* text = TextOf(key);
  throw std::invalid_argument("param '" + key + "' is " +
                              (text == nullptr ? std::string("missing") : "'" + *text + "'") + ": expected " +
                              expected);
}

std::vector<std::string> Params::Warnings() const {
  std::vector<std::string> all = warnings_;
  for (const auto& [key, value] : params_) {
    if (!known_.contains(key)) all.push_back("param '" + key + "' is unknown and has no effect");
  }
  return all;
}

const std::string* Params::Find(const std::string& key) {
  known_.insert(key);
  return TextOf(key);
}

const std::string* Params::TextOf(const std::string& key) const {
  const auto found = std::ranges::find(params_, key, &std::pair<std::string, std::string>::first);
  return found == params_.end() ? nullptr : &found->second;
}

}  // namespace braid::custom_nodes
