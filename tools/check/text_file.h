// TextFile: a file in protobuf's text format with its fields and its faults.
#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "check/finding.h"
#include "check/text_fields.h"

namespace braid::check {

class TextFile {
 public:
  // `type` is the message that the text must describe.
  TextFile(std::string path, std::string text, const google::protobuf::Message& type);

  const std::string& path() const { return path_; }
  const TextFields& fields() const { return fields_; }
  // Adds the faults of the text: unknown names and values, with suggestions, and syntax errors. Returns
  // whether there are any. `servable` may be empty.
  bool ReportFaults(const std::string& servable, Findings& findings) const;

 private:
  const std::string path_;
  const std::string text_;
  const google::protobuf::Message& type_;
  const TextFields fields_;
};

// Describes an unknown word and suggests the nearest known one: ("unknown field 'dim' in ModelInput",
// "did you mean 'dims'?").
struct Explained {
  std::string message;
  std::string advice;
};
Explained Explain(const UnknownWord& word);

// Returns "did you mean 'x'?", or "" if no known name is similar.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& known);

}  // namespace braid::check
