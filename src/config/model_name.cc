#include "config/model_name.h"

#include <string>

#include "base/log.h"
#include "base/utf8.h"

namespace braid {
namespace {

constexpr std::string_view kBlanks = " \t\r\n\v\f";

bool IsPlainText(std::string_view text) {
  while (!text.empty()) {
    const auto character = TakeCharacter(text);
    if (!character || IsControlCharacter(*character)) return false;
  }
  return true;
}

}  // namespace

Status CheckServableName(std::string_view name) {
  if (name.find_first_not_of(kBlanks) == std::string_view::npos) {
    return InvalidArgumentError("Model name cannot be empty. Please enter a valid name to deploy.");
  }
  if (IsPlainText(name)) return OkStatus();
  return InvalidArgumentError("invalid model name '" + EscapeForLog(Shortened(name)) +
                              "', model name must be UTF-8 text without control characters");
}

Status CheckModelName(std::string_view name) {
  BRAID_RETURN_IF_ERROR(CheckServableName(name));
  constexpr size_t kMostBytes = 255;  // NAME_MAX
  if (name.size() > kMostBytes) {
    return InvalidArgumentError("invalid model name '" + Shortened(name) +
                                "', model name must have at most " + std::to_string(kMostBytes) +
                                " bytes, got " + std::to_string(name.size()));
  }
  // Surrounding blanks do not make ".." safe, because some systems trim names.
  const std::string_view bare = name.substr(
      name.find_first_not_of(kBlanks), name.find_last_not_of(kBlanks) - name.find_first_not_of(kBlanks) + 1);
  if (bare != "." && bare != ".." && name.find('/') == std::string_view::npos) return OkStatus();
  return InvalidArgumentError("invalid model name '" + Shortened(name) +
                              "', model name must not contain path traversal characters");
}

Status CheckLoadableName(std::string_view name) {
  if (name.find_first_of(";|&$`<>()[]{}\"'*?~#!\\") == std::string_view::npos) return OkStatus();
  return InvalidArgumentError("Invalid stub name: contains invalid characters");
}

}  // namespace braid
