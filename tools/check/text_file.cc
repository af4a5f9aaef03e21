#include "check/text_file.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <utility>

#include "base/nearest_name.h"

namespace braid::check {
namespace {

// The limit of the server's parsers.
constexpr int kDeepestParsed = 64;
constexpr size_t kMostNamed = 12;

// Names of numpy, OpenVINO and KServe for Triton's types.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"FLOAT", "TYPE_FP32"},    {"FLOAT16", "TYPE_FP16"}, {"FLOAT32", "TYPE_FP32"},  {"FLOAT64", "TYPE_FP64"},
    {"HALF", "TYPE_FP16"},     {"DOUBLE", "TYPE_FP64"},  {"BFLOAT16", "TYPE_BF16"}, {"BYTES", "TYPE_STRING"},
    {"OBJECT", "TYPE_STRING"}, {"STR", "TYPE_STRING"},   {"BOOLEAN", "TYPE_BOOL"},  {"INT", "TYPE_INT32"},
    {"LONG", "TYPE_INT64"},
};

struct SyntaxFault {
  Position at;
  std::string message;
};

class Collector final : public google::protobuf::io::ErrorCollector {
 public:
  explicit Collector(std::string_view text) : text_(text) {}
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    if (line < 0) {
      faults.push_back({{}, message});
    } else {
      faults.push_back({{line + 1, ByteColumn(text_, line, column)}, message});
    }
  }
  // Unknown names: TextFields has them with their exact positions.
  void AddWarning(int, google::protobuf::io::ColumnNumber, const std::string&) override {}

  std::vector<SyntaxFault> faults;

 private:
  std::string_view text_;
};

// `lenient` skips unknown names, to find the faults after them.
std::vector<SyntaxFault> Parse(const std::string& text, const google::protobuf::Message& type, bool lenient) {
  Collector faults(text);
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&faults);
  parser.SetRecursionLimit(kDeepestParsed);
  parser.AllowUnknownField(lenient);
  parser.AllowUnknownExtension(lenient);
  google::protobuf::io::ArrayInputStream input(text.data(), static_cast<int>(text.size()));
  const std::unique_ptr<google::protobuf::Message> message(type.New());
  const bool parsed = parser.Parse(&input, message.get());
  return parsed ? std::vector<SyntaxFault>() : std::move(faults.faults);
}

}  // namespace

std::string DidYouMean(std::string_view word, const std::vector<std::string>& known) {
  NearestName nearest(word);
  for (const std::string& name : known) nearest.Offer(name);
  return nearest.name().empty() ? std::string() : "did you mean '" + nearest.name() + "'?";
}

Explained Explain(const UnknownWord& word) {
  const auto is_known = [&word](const std::string& name) {
    return std::ranges::find(word.known, name) != word.known.end();
  };
  Explained explained;
  if (word.is_field) {
    explained.message = "unknown field '" + word.word + "' in " + word.type;
  } else {
    explained.message = "'" + word.word + "' is not a value of " + word.type;
  }
  std::string upper = word.word;
  std::ranges::transform(upper, upper.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const std::string plain = upper.substr(upper.starts_with("TYPE_") ? 5 : 0);
  for (const auto& [name, meant] : kOtherNames) {
    if (name == plain && is_known(std::string(meant))) upper = meant;
  }
  if (is_known("TYPE_" + upper)) upper = "TYPE_" + upper;
  if (is_known("KIND_" + upper)) upper = "KIND_" + upper;
  explained.advice = is_known(upper) ? "did you mean '" + upper + "'?" : DidYouMean(word.word, word.known);
  if (!explained.advice.empty()) return explained;
  if (word.is_field && word.known.size() > kMostNamed) {
    explained.advice = "leave it out";
    return explained;
  }
  for (const std::string& name : word.known)
    explained.advice += (explained.advice.empty() ? "it has " : ", ") + name;
  return explained;
}

TextFile::TextFile(std::string path, std::string text, const google::protobuf::Message& type)
    : path_(std::move(path)), text_(std::move(text)), type_(type), fields_(text_, *type.GetDescriptor()) {}

bool TextFile::ReportFaults(const std::string& servable, Findings& findings) const {
  std::vector<SyntaxFault> faults = Parse(text_, type_, false);
  if (faults.empty()) return false;
  for (const UnknownWord& word : fields_.unknown()) {
    Explained explained = Explain(word);
    findings.Add({Level::kError, word.is_field ? "unknown-field" : "unknown-value", path_, word.at,
                  std::move(explained.message), std::move(explained.advice), "", servable});
  }
  // The parser reports only the first unknown word, and only its line. TextFields has all of them with exact
  // positions, so the parser's report is dropped.
  const auto named = [this](const SyntaxFault& fault) {
    return std::ranges::any_of(fields_.unknown(), [&fault](const UnknownWord& word) {
      return word.at.line <= fault.at.line &&
             fault.message.find("\"" + word.word + "\"") != std::string::npos;
    });
  };
  if (std::ranges::any_of(faults, named)) faults = Parse(text_, type_, true);
  for (SyntaxFault& fault : faults) {
    if (named(fault)) continue;
    findings.Add({Level::kError, "syntax", path_, fault.at, std::move(fault.message), "", "", servable});
  }
  return true;
}

}  // namespace braid::check
