#include "config/sequence_config.h"

#include <gtest/gtest.h>

#include "config/initial_states.h"
#include "config/model_config.h"
#include "config/testing/scratch_folder.h"

namespace braid {
namespace {

inference::ModelConfig Parse(const std::string& batching, int max_batch_size = 4) {
  auto config = ParseConfigText(
      "name: 'm' backend: 'python' max_batch_size: " + std::to_string(max_batch_size) +
          " input { name: 'IN' data_type: TYPE_FP32 dims: [4] } output { name: 'OUT' data_type: TYPE_FP32 "
          "dims: [4] } sequence_batching { " +
          batching + " }",
      "config.pbtxt");
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? *config : inference::ModelConfig();
}

std::string Validate(const std::string& batching) {
  inference::ModelConfig config = Parse(batching);
  EXPECT_TRUE(CompleteNames(config, "m").ok());
  NormalizeConfig(config);
  return ValidateConfig(config).message();
}

std::string Control(const std::string& fields) {
  return "control_input { name: 'C' control { " + fields + " } }";
}
std::string State(const std::string& fields) {
  return "state { input_name: 'S' output_name: 'T' " + fields + " }";
}

TEST(SequenceConfig, IsGood) {
  EXPECT_EQ(Validate(""), "");
  EXPECT_EQ(Validate("direct { max_queue_delay_microseconds: 100 minimum_slot_utilization: 0.5 }"), "");
  EXPECT_EQ(Validate("oldest { max_candidate_sequences: 4 preferred_batch_size: [ 4 ] }"), "");
  EXPECT_EQ(Validate(Control("kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ]")), "");
  EXPECT_EQ(Validate(Control("kind: CONTROL_SEQUENCE_READY fp32_false_true: [ 0, 1 ]")), "");
  EXPECT_EQ(Validate(Control("kind: CONTROL_SEQUENCE_END bool_false_true: [ false, true ]")), "");
  EXPECT_EQ(Validate(Control("kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING")), "");
  EXPECT_EQ(Validate(State("data_type: TYPE_INT32 dims: [ -1 ]")), "");
  EXPECT_EQ(Validate(State("data_type: TYPE_INT32 dims: [ -1 ] initial_state { name: 'i' data_type: "
                           "TYPE_INT32 dims: [ 3 ] data_file: 'f' }")),
            "");
}

TEST(SequenceConfig, SaysWhatIsWrong) {
  const std::string control = "sequence batching control input 'C' of m ";
  const std::string state = "sequence batching state 'S' of m";
  const std::string start = "kind: CONTROL_SEQUENCE_START ";
  const std::string good_state = "data_type: TYPE_INT32 dims: [ 2 ] ";
  const std::pair<std::string, std::string> faults[] = {
      {"direct { minimum_slot_utilization: 1.5 }",
       "sequence batching minimum slot utilization must be in range [0.0, 1.0] for m"},
      {"oldest { max_candidate_sequences: -1 }",
       "sequence batching max candidate sequences must be in range [0, 1048576] for m"},
      {"oldest { preferred_batch_size: [ 8 ] }",
       "sequence batching preferred size must be <= max batch size for m"},
      {"oldest { preferred_batch_size: [ 0 ] }", "sequence batching preferred size must be positive for m"},
      {"control_input { }", "sequence batching control input must specify 'name' for m"},
      {"control_input { name: 'C' }", control + "must specify exactly one 'control'"},
      {Control(start),
       control + "must specify one of 'int32_false_true', 'fp32_false_true' or 'bool_false_true'"},
      {Control(start + "int32_false_true: [ 0 ]"),
       control + "must specify exactly 2 values, for false and for true"},
      {Control(start + "int32_false_true: [ 0, 1 ] fp32_false_true: [ 0, 1 ]"),
       control + "must specify one of 'int32_false_true', 'fp32_false_true' or 'bool_false_true'"},
      {Control("kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_FP32"),
       control +
           "must specify 'data_type' as TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32 or TYPE_STRING"},
      {Control("kind: CONTROL_SEQUENCE_CORRID int32_false_true: [ 0, 1 ]"),
       control +
           "must not specify 'int32_false_true', 'fp32_false_true' or 'bool_false_true': it carries the "
           "sequence id"},
      {Control(start + "int32_false_true: [ 0, 1 ]") + Control(start + "int32_false_true: [ 0, 1 ]"),
       control + "is specified more than once"},
      {Control(start + "int32_false_true: [ 0, 1 ]") + "control_input { name: 'D' control { " + start +
           "int32_false_true: [ 0, 1 ] } }",
       "sequence batching control input 'D' of m: CONTROL_SEQUENCE_START is specified more than once"},
      {"control_input { name: 'IN' control { " + start + "int32_false_true: [ 0, 1 ] } }",
       "sequence batching control input 'IN' of m must not be a model input as well: the server adds it"},
      {"state { }", "sequence batching state must specify 'input_name' and 'output_name' for m"},
      {State(""), state + " must specify 'data_type'"},
      {State("data_type: TYPE_INT32"), state + " must specify 'dims'"},
      {State("data_type: TYPE_INT32 dims: 0"),
       state + " dimension must be integer >= 1, or -1 to indicate a variable-size dimension"},
      {State(good_state) + State(good_state), state + " is specified more than once"},
      {State(good_state + "initial_state { name: 'i' data_type: TYPE_INT32 dims: [ 3 ] zero_data: true }"),
       state + ": 'initial_state' must have the dims of the state"},
      {State(good_state + "initial_state { name: 'i' data_type: TYPE_FP32 dims: [ 2 ] zero_data: true }"),
       state + ": 'initial_state' must have the 'data_type' of the state"},
      {State(good_state + "initial_state { name: 'i' data_type: TYPE_INT32 dims: [ 2 ] }"),
       state + ": 'initial_state' must specify 'zero_data' or 'data_file'"},
      {State(good_state + "initial_state { data_type: TYPE_INT32 dims: [ 2 ] }"),
       state + ": 'initial_state' must specify 'name'"},
      {State(good_state + "initial_state { name: 'i' data_type: TYPE_INT32 dims: [ 2 ] data_file: '../f' }"),
       state + ": 'initial_state': 'data_file' must name a file in the folder initial_state, without '..'"},
      {"state { input_name: 'IN' output_name: 'T' " + good_state + " }",
       "sequence batching state 'IN' of m must not be a model input or control input as well: the server "
       "adds "
       "it"},
      {"state { input_name: 'S' output_name: 'OUT' " + good_state + " }",
       state + " must have the 'data_type' of output 'OUT'"},
  };
  for (const auto& [text, message] : faults) EXPECT_EQ(Validate(text), message) << text;
}

TEST(InitialStates, AreZerosOrComeFromAFile) {
  testing::ScratchFolder scratch;
  scratch.Write("m/initial_state/two", std::string("\1\0\0\0\2\0\0\0", 8));
  auto folder = Folder::Open(scratch / "m");
  ASSERT_TRUE(folder.ok());
  const std::string file = "initial_state { name: 'i' data_type: TYPE_INT32 dims: [ 2 ] data_file: 'two' }";
  auto states =
      LoadInitialStates(Parse(State("data_type: TYPE_STRING dims: [ -1, 3 ]") +
                              "state { input_name: 'F' output_name: 'G' data_type: TYPE_INT32 dims: "
                              "[ -1 ] " +
                              file + " }"),
                        *folder);
  ASSERT_TRUE(states.ok()) << states.status();
  ASSERT_EQ(states->size(), 2u);
  EXPECT_EQ((*states)[0].name, "S");
  EXPECT_EQ((*states)[0].shape, Shape({1, 1, 3}));
  EXPECT_EQ((*states)[0].data.text(), std::string(12, '\0'));
  EXPECT_EQ((*states)[1].shape, Shape({1, 2}));
  EXPECT_EQ((*states)[1].data.text(), std::string("\1\0\0\0\2\0\0\0", 8));
}

TEST(InitialStates, SayWhatIsWrongWithTheFile) {
  testing::ScratchFolder scratch;
  scratch.Write("m/initial_state/short", "abc");
  auto folder = Folder::Open(scratch / "m");
  ASSERT_TRUE(folder.ok());
  const auto load = [&](const std::string& file) {
    return LoadInitialStates(
               Parse(State("data_type: TYPE_INT32 dims: [ 2 ] initial_state { name: 'i' data_type: "
                           "TYPE_INT32 dims: [ 2 ] data_file: '" +
                           file + "' }"),
                     0),
               *folder)
        .status()
        .message();
  };
  EXPECT_EQ(load("short"),
            "initial state of 'S' for model 'm': file 'initial_state/short' has 3 bytes, which do not match "
            "TYPE_INT32 of shape [2]");
  EXPECT_NE(load("none").find("file 'initial_state/none' cannot be read"), std::string::npos);
}

}  // namespace
}  // namespace braid
