#include "check/json_fields.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/json.h"
#include "config/json_reader.h"

namespace braid::check {
namespace {

// Deeper than the server's limit.
constexpr int kDeepestJson = 64;

}  // namespace

// Reads the valid beginning of the text. Each function returns false at an error, and at_ is its position.
class JsonFields::Reader {
 public:
  Reader(std::string_view text, JsonFields& out) : text_(text), out_(out) {}

  void Read() {
    if (text_.starts_with("\xEF\xBB\xBF")) Skip(3);
    const bool all = Value("", Here(), 0) && (Blanks(), at_ == text_.size());
    if (!all) out_.fault_ = Here();
  }

 private:
  Position Here() const { return {line_, static_cast<int>(at_ - line_begin_) + 1}; }
  bool AtEnd() const { return at_ == text_.size(); }
  char Next() const { return AtEnd() ? '\0' : text_[at_]; }
  void Skip(size_t count) {
    for (; count > 0 && !AtEnd(); --count) {
      if (text_[at_++] != '\n') continue;
      ++line_;
      line_begin_ = at_;
    }
  }
  void Blanks() {
    while (Next() == ' ' || Next() == '\t' || Next() == '\n' || Next() == '\r') Skip(1);
  }
  bool Take(char symbol) {
    Blanks();
    if (AtEnd() || Next() != symbol) return false;
    Skip(1);
    return true;
  }

  bool Value(const std::string& path, Position name, int depth) {
    Blanks();
    const Position at = Here();
    if (path.empty()) name = at;
    if (Next() == '{' || Next() == '[') {
      out_.fields_[path] = {name, name, {}};
      const bool list = Next() == '[';
      Skip(1);
      if (depth == kDeepestJson) return false;
      return list ? List(path, depth) : Object(path, depth);
    }
    std::string value;
    if (!(Next() == '"' ? Text(value) : Word(value))) return false;
    out_.fields_[path] = {name, at, std::move(value)};
    return true;
  }

  bool Object(const std::string& path, int depth) {
    if (Take('}')) return true;
    do {
      Blanks();
      const Position name = Here();
      std::string key;
      if (Next() != '"' || !Text(key) || !Take(':') || !Value(JsonPath(path, key), name, depth + 1))
        return false;
    } while (Take(','));
    return Take('}');
  }

  bool List(const std::string& path, int depth) {
    if (Take(']')) return true;
    size_t index = 0;
    do {
      Blanks();
      if (!Value(JsonPath(path, index++), Here(), depth + 1)) return false;
    } while (Take(','));
    return Take(']');
  }

  // A text with its quotes. The server's own parser decodes it.
  bool Text(std::string& value) {
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != '"' && static_cast<unsigned char>(text_[end]) >= 0x20) {
      end += text_[end] == '\\' ? 2 : 1;
    }
    if (end >= text_.size() || text_[end] != '"') return false;
    return Parse(end + 1 - at_, value);
  }
  // A number, true, false, null.
  bool Word(std::string& value) {
    const auto inside = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '+' || c == '.';
    };
    size_t end = at_;
    while (end < text_.size() && inside(text_[end])) ++end;
    return end > at_ && Parse(end - at_, value);
  }
  bool Parse(size_t length, std::string& value) {
    const std::string_view written = text_.substr(at_, length);
    const auto json = ParseJson(written);
    if (json.is_discarded()) return false;
    value = json.is_string() ? json.get<std::string>() : std::string(written);
    Skip(length);
    return true;
  }

  const std::string_view text_;
  JsonFields& out_;
  size_t at_ = 0;
  int line_ = 1;
  size_t line_begin_ = 0;
};

JsonFields::JsonFields(std::string_view text) { Reader(text, *this).Read(); }

const JsonField* JsonFields::Find(std::string_view path) const {
  const auto found = fields_.find(path);
  return found == fields_.end() ? nullptr : &found->second;
}

Position JsonFields::PlaceOf(std::string_view path) const {
  for (;;) {
    if (const JsonField* field = Find(path)) return field->at;
    const size_t slash = path.rfind('/');
    if (slash == std::string_view::npos) return {1, 1};
    path = path.substr(0, slash);
  }
}

}  // namespace braid::check
