// TextFields: the fields of a text in protobuf's text format, each with its position, value and path.
//
//   const TextFields fields(text, *inference::ModelConfig::descriptor());
//   fields.PlaceOf("instance_group[0].kind");   // {4, 9}
//
// The reader continues after an error, so the rest of a faulty text has positions too. Protobuf's own
// ParseInfoTree cannot look up map entries by key, and has no positions for a text that it cannot parse.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <string_view>
#include <vector>

#include "check/finding.h"

namespace braid::check {

struct TextField {
  // As in FieldFault::field; an unknown name stands in it as written.
  std::string path;
  Position name;
  // Where its value begins; equals `name` if it has no value.
  Position at;
  // A scalar as written, texts without quotes; empty for messages.
  std::string value;
};

// A field name or an enum value that its type does not have.
struct UnknownWord {
  Position at;
  std::string word;
  // The valid names: the fields of the message, or the values of the enum.
  std::vector<std::string> known;
  // "ModelConfig", "DataType".
  std::string type;
  bool is_field = true;
};

class TextFields {
 public:
  // Looks up extensions and types of google.protobuf.Any in the program's generated pool.
  TextFields(std::string_view text, const google::protobuf::Descriptor& type);

  // In the order of the text; a message precedes its fields.
  const std::vector<TextField>& all() const { return fields_; }
  const std::vector<UnknownWord>& unknown() const { return unknown_; }
  // Returns null if the text has no such field.
  const TextField* Find(std::string_view path) const;
  // Returns the position of a scalar's value, or of a message's name. Falls back to the nearest enclosing
  // field that the text has, and then to 1:1.
  Position PlaceOf(std::string_view path) const;

 private:
  class Reader;
  std::vector<TextField> fields_;
  std::vector<UnknownWord> unknown_;
};

// Converts a column of protobuf's tokenizer, counted from 0 with tab stops of eight, to bytes counted from 1.
int ByteColumn(std::string_view text, int line, int column);

// "input[2].dims[0]" -> "input[2]"; "input[2]" -> "input"; "input" -> "".
std::string_view AroundField(std::string_view path);

}  // namespace braid::check
