// TextFields: the fields of a text in protobuf's text format, each with its place, its value and its path.
//
//   const TextFields fields(text, *inference::ModelConfig::descriptor());
//   fields.PlaceOf("instance_group[0].kind");   // {4, 9}
//
// The reader goes on behind what is wrong, so that the rest of a faulty text has places too. Protobuf's own ParseInfoTree
// has no places for entries of maps by their keys, nor for a text that it does not parse.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <string_view>
#include <vector>

#include "check/finding.h"

namespace braid::check {

struct TextField {
  // As FieldFault::field has it; a name that the message does not have stands there as it is.
  std::string path;
  Position name;
  // Where its value begins, which is the name's place where there is none.
  Position at;
  // Of a scalar: as it is written, texts without their quotes. Empty for messages.
  std::string value;
};

// A name, or a value of an enum, that its type does not have.
struct UnknownWord {
  Position at;
  std::string word;
  // What it could have been: the fields of the message, the values of the enum.
  std::vector<std::string> known;
  // "ModelConfig", "DataType".
  std::string type;
  bool is_field = true;
};

class TextFields {
 public:
  // Names of extensions and types of google.protobuf.Any are looked up in the pool of the program.
  TextFields(std::string_view text, const google::protobuf::Descriptor& type);

  // In the order of the text; a message stands before what is in it.
  const std::vector<TextField>& all() const { return fields_; }
  const std::vector<UnknownWord>& unknown() const { return unknown_; }
  // Null when the text has no such field.
  const TextField* Find(std::string_view path) const;
  // Of the value where it is a scalar, else of the name; of what is around it where the text does not have it, and 1:1
  // where it has none of those either.
  Position PlaceOf(std::string_view path) const;

 private:
  class Reader;
  std::vector<TextField> fields_;
  std::vector<UnknownWord> unknown_;
};

// The column, counted in bytes from 1, of what protobuf places at `column`, counted from 0 with tabs of eight.
int ByteColumn(std::string_view text, int line, int column);

// "input[2].dims[0]" -> "input[2]"; "input[2]" -> "input"; "input" -> "".
std::string_view AroundField(std::string_view path);

}  // namespace braid::check
