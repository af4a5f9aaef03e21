#include "base/utf8.h"

#include <simdjson.h>

#include <cstddef>

namespace braid {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

// Returns the length in bytes of the character that begins with `lead`; 0 if none begins so.
size_t LengthOf(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xc2) return 0;
  if (lead < 0xe0) return 2;
  if (lead < 0xf0) return 3;
  return lead < 0xf5 ? 4 : 0;
}

// The smallest character of each length in bytes. A smaller character in that length is overlong, so invalid.
constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};

}  // namespace

bool IsUtf8(std::string_view text) {
  // Names are short and mostly ASCII: check them here before calling the vectorised check.
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) return simdjson::validate_utf8(text.data(), text.size());
  }
  return true;
}

std::string ShellQuoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::optional<char32_t> TakeCharacter(std::string_view& text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t length = LengthOf(byte(0));
  char32_t character = length <= 1 ? byte(0) : byte(0) & (0x7fu >> length);
  bool good = length > 0 && length <= text.size();
  for (size_t i = 1; good && i < length; ++i) {
    good = (byte(i) & 0xc0u) == 0x80u;
    character = character << 6 | (byte(i) & 0x3fu);
  }
  const bool surrogate = character >= 0xd800 && character <= 0xdfff;
  good = good && character >= kSmallest[length] && character <= 0x10ffff && !surrogate;
  text.remove_prefix(good ? length : 1);
  return good ? std::optional(character) : std::nullopt;
}

std::string ToUtf8(std::string_view text) {
  if (IsUtf8(text)) return std::string(text);
  std::string out;
  out.reserve(text.size() + kReplacement.size());
  while (!text.empty()) {
    const std::string_view before = text;
    if (TakeCharacter(text)) {
      out += before.substr(0, before.size() - text.size());
    } else {
      out += kReplacement;
    }
  }
  return out;
}

std::string Shortened(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  // A byte of the form 10xxxxxx continues a character.
  size_t end = most;
  while (end > 0 && most - end < 3 && (static_cast<unsigned char>(text[end]) & 0xc0u) == 0x80u) --end;
  return std::string(text.substr(0, end)) + "... (" + std::to_string(text.size()) + " bytes)";
}

std::string WithoutCredentials(std::string_view message) {
  std::string text(message);
  for (size_t at = text.find('@'); at != std::string::npos; at = text.find('@', at + 1)) {
    size_t begin = text.find_last_of(" '\",", at) + 1;
    const size_t scheme = text.find("://", begin);
    if (scheme < at) begin = scheme + 3;
    if (begin == at || (scheme > at && text.find(':', begin) > at)) continue;
    text.replace(begin, at - begin, "***");
    at = begin + 3;
  }
  return text;
}

bool IsControlCharacter(char32_t character) {
  return character < 0x20 || (character >= 0x7f && character < 0xa0) ||
         (character >= 0x2028 && character <= 0x202e) || (character >= 0x2066 && character <= 0x2069);
}

}  // namespace braid
