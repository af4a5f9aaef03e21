// TextFile: a file in protobuf's text format as `braid check` looks at it: its fields, and what is wrong with the text.
#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "check/finding.h"
#include "check/text_fields.h"

namespace braid::check {

class TextFile {
 public:
  // `type` is the message that the text is to be.
  TextFile(std::string path, std::string text, const google::protobuf::Message& type);

  const std::string& path() const { return path_; }
  const TextFields& fields() const { return fields_; }
  // Adds what keeps the text from being parsed: names and values that do not exist, with what they could have been, and
  // faults of the syntax. Returns whether there is anything. `servable` may be empty.
  bool ReportFaults(const std::string& servable, Findings& findings) const;

 private:
  const std::string path_;
  const std::string text_;
  const google::protobuf::Message& type_;
  const TextFields fields_;
};

// What a message says of a word that its type does not have, with the nearest known one: ("there is no field 'dim' in
// ModelInput", "did you mean 'dims'?").
struct Explained {
  std::string message;
  std::string advice;
};
Explained Explain(const UnknownWord& word);

// "did you mean 'x'?", or "" when no name is near.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& known);

}  // namespace braid::check
