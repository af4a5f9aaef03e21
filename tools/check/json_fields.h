// JsonFields: the position of each value in a JSON text, by its path ("/model_config_list/0/config/name").
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "check/finding.h"

namespace braid::check {

struct JsonField {
  // Position of the key; for elements of lists and for the root, of the value.
  Position name;
  Position at;
  // A text (without quotes), number, true, false or null as written; empty for lists and objects.
  std::string value;
};

class JsonFields {
 public:
  explicit JsonFields(std::string_view text);

  // Fields by path. If a key occurs twice, the last occurrence counts.
  const std::map<std::string, JsonField, std::less<>>& all() const { return fields_; }
  const JsonField* Find(std::string_view path) const;
  // Returns the position of a value, or of the key if the value is a list or an object. Falls back to the
  // nearest enclosing value that the text has.
  Position PlaceOf(std::string_view path) const;
  // Where the text stops being valid JSON; nullopt if all of it is valid.
  std::optional<Position> fault() const { return fault_; }

 private:
  class Reader;
  std::map<std::string, JsonField, std::less<>> fields_;
  std::optional<Position> fault_;
};

}  // namespace braid::check
