// JsonFields: where in a JSON text each value stands, by its path ("/model_config_list/0/config/name").
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "check/finding.h"

namespace braid::check {

struct JsonField {
  // Of the key; of the value itself for elements of lists and for the whole.
  Position name;
  Position at;
  // Of a text, a number, true, false or null: as it is written, texts without their quotes.
  std::string value;
};

class JsonFields {
 public:
  explicit JsonFields(std::string_view text);

  // By path; of a key that is given twice, the last.
  const std::map<std::string, JsonField, std::less<>>& all() const { return fields_; }
  const JsonField* Find(std::string_view path) const;
  // Of the value, or of the key where the value is a list or an object; of what is around it where the text does not
  // have it.
  Position PlaceOf(std::string_view path) const;
  // Where the text stops to be JSON; nothing when all of it is.
  std::optional<Position> fault() const { return fault_; }

 private:
  class Reader;
  std::map<std::string, JsonField, std::less<>> fields_;
  std::optional<Position> fault_;
};

}  // namespace braid::check
