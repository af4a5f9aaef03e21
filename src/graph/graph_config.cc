#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <string>

#include "graph/topology.h"
#include "mediapipe/core_calculators.pb.h"
#include "mediapipe/ovms_calculators.pb.h"
#include "mediapipe/stream_handlers.pb.h"

namespace braid::graph {
namespace {

// No user's graph is nested as deeply; deeper texts would need too much stack.
constexpr int kDeepest = 100;

class ParseFaults final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (!text_.empty()) text_ += "\n";
    if (line >= 0) {
      text_ += "line " + std::to_string(line + 1) + ", column " + std::to_string(column + 1) + ": ";
    }
    text_ += message;
  }
  void AddWarning(int, int, const std::string&) override {}
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Texts name the types of options, and no code refers to them. Without this, a linker would drop them from
// programs with static libraries.
void KeepTypesOfOptions() {
  for (const google::protobuf::Descriptor* type :
       {::mediapipe::SyncSetInputStreamHandlerOptions::descriptor(),
        ::mediapipe::PythonExecutorCalculatorOptions::descriptor(),
        ::mediapipe::GateCalculatorOptions::descriptor()}) {
    BRAID_CHECK(type != nullptr);
  }
}

}  // namespace

Result<::mediapipe::CalculatorGraphConfig> ParseGraphConfig(std::string_view text) {
  KeepTypesOfOptions();
  ::mediapipe::CalculatorGraphConfig config;
  ParseFaults faults;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&faults);
  parser.SetRecursionLimit(kDeepest);
  if (!parser.ParseFromString(std::string(text), &config)) {
    return InvalidArgumentError("The graph is not a valid CalculatorGraphConfig in protobuf's text format: " +
                                faults.text());
  }
  if (config.ByteSizeLong() == 0) return InvalidArgumentError("The graph is empty.");
  return config;
}

}  // namespace braid::graph
