#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/topology.h"
#include "mediapipe/ovms_calculators.pb.h"
#include "mediapipe/stream_handlers.pb.h"

namespace braid::graph {
namespace {

using ::mediapipe::PythonExecutorCalculatorOptions;
using ::mediapipe::SyncSetInputStreamHandlerOptions;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Error(std::string_view text) {
  auto config = ParseGraphConfig(text);
  return config.ok() ? "none" : config.status().message();
}

TEST(ParseGraphConfig, AllSpellingsOfTheTextFormat) {
  auto config = ParseGraphConfig(R"(
    # A comment.
    input_stream: "OVMS_PY_TENSOR:in", input_stream: 'second';
    output_stream: "ou" 't'
    input_side_packet: ["a", "b"]
    node: {
      name: "python" calculator: 'PythonExecutorCalculator';
      input_stream: "INPUT:in"
      node_options: {
        [type.googleapis.com / mediapipe.PythonExecutorCalculatorOptions]: { handler_path: "/m/node.py" }
      }
      input_stream_handler {
        input_stream_handler: "SyncSetInputStreamHandler",
        options {
          [mediapipe.SyncSetInputStreamHandlerOptions.ext] {
            sync_set { tag_index: "LOOPBACK:0" }
          }
        }
      }
    }
    node {
      node_options { [type.googleapis.com/mediapipe.PythonExecutorCalculatorOptions] { handler_path: "x" } }
      options { [mediapipe.PythonExecutorCalculatorOptions.ext]: { handler_path: "y" } }
    })");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->input_stream(), ElementsAre("OVMS_PY_TENSOR:in", "second"));
  EXPECT_THAT(config->output_stream(), ElementsAre("out"));
  EXPECT_THAT(config->input_side_packet(), ElementsAre("a", "b"));
  ASSERT_EQ(config->node_size(), 2);
  PythonExecutorCalculatorOptions options;
  ASSERT_TRUE(config->node(0).node_options(0).UnpackTo(&options));
  EXPECT_EQ(options.handler_path(), "/m/node.py");
  const auto& sets =
      config->node(0).input_stream_handler().options().GetExtension(SyncSetInputStreamHandlerOptions::ext);
  EXPECT_EQ(sets.sync_set(0).tag_index(0), "LOOPBACK:0");
  ASSERT_TRUE(config->node(1).node_options(0).UnpackTo(&options));
  EXPECT_EQ(options.handler_path(), "x");
  EXPECT_EQ(config->node(1).options().GetExtension(PythonExecutorCalculatorOptions::ext).handler_path(), "y");
}

TEST(ParseGraphConfig, FaultsHaveTheirPlace) {
  EXPECT_THAT(Error("input_stream: \"a\"\n  inputs: \"b\""), HasSubstr("line 2, column 9: "));
  EXPECT_THAT(Error("input_stream: \"a\"\n  inputs: \"b\""), HasSubstr("inputs"));
  EXPECT_THAT(Error("node { calculator: 5 }"), HasSubstr("line 1, column 20: "));
  EXPECT_THAT(Error("node { node_options { [type.googleapis.com/mediapipe.Unknown] { } } }"),
              HasSubstr("mediapipe.Unknown"));
  EXPECT_THAT(Error("node { options { [mediapipe.Unknown.ext] { } } }"), HasSubstr("mediapipe.Unknown.ext"));
  EXPECT_THAT(Error("node {"), HasSubstr("line 1"));
}

TEST(ParseGraphConfig, OptionsWithoutWhatTheyNeed) {
  EXPECT_THAT(
      Error(R"(node { node_options {
                [type.googleapis.com/mediapipe.PythonExecutorCalculatorOptions] { } } })"),
      HasSubstr(
          "PythonExecutorCalculatorOptions\" stored in google.protobuf.Any has missing required fields"));
}

TEST(ParseGraphConfig, AnEmptyTextIsNoGraph) {
  EXPECT_EQ(Error(""), "The graph is empty.");
  EXPECT_EQ(Error(" # nothing\n"), "The graph is empty.");
}

}  // namespace
}  // namespace braid::graph
