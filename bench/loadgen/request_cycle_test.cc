#include "request_cycle.h"

#include <gtest/gtest.h>

namespace braid::bench {
namespace {

std::string Text(const Options& options) {
  std::string text = options.model();
  for (const auto& [name, value] : options.parameters)
    text.append(" ").append(name).append("=").append(value);
  return text;
}

TEST(RequestCycleTest, SendsTheSameWithoutSequences) {
  Options options;
  options.models = {"m"};
  const RequestCycle<std::string>::Maker maker(options, Text);
  RequestCycle<std::string> one = maker.Make();
  RequestCycle<std::string> two = maker.Make();
  const std::string& first = one.Next();
  EXPECT_EQ(first, "m");
  EXPECT_EQ(&one.Next(), &first);
  EXPECT_EQ(&two.Next(), &first);
}

TEST(RequestCycleTest, AsksModelsInTurn) {
  Options options;
  options.models = {"a", "b", "c"};
  const RequestCycle<std::string>::Maker maker(options, Text);
  RequestCycle<std::string> one = maker.Make();
  RequestCycle<std::string> two = maker.Make();
  for (int i = 0; i < 2; ++i) {
    for (const char* model : {"a", "b", "c"}) EXPECT_EQ(one.Next(), model);
    for (const char* model : {"b", "c", "a"}) EXPECT_EQ(two.Next(), model);
  }
}

TEST(RequestCycleTest, GoesThroughOneSequenceAfterTheOther) {
  Options options;
  options.models = {"m"};
  options.sequence_steps = 4;
  const RequestCycle<std::string>::Maker maker(options, Text);
  maker.Make();
  RequestCycle<std::string> cycle = maker.Make();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(cycle.Next(), "m sequence_id=2 sequence_start=true");
    EXPECT_EQ(cycle.Next(), "m sequence_id=2");
    EXPECT_EQ(cycle.Next(), "m sequence_id=2");
    EXPECT_EQ(cycle.Next(), "m sequence_end=true sequence_id=2");
  }
}

TEST(RequestCycleTest, TwoStepsAreStartAndEnd) {
  Options options;
  options.models = {""};
  options.sequence_steps = 2;
  const RequestCycle<std::string>::Maker maker(options, Text);
  RequestCycle<std::string> cycle = maker.Make();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(cycle.Next(), " sequence_id=1 sequence_start=true");
    EXPECT_EQ(cycle.Next(), " sequence_end=true sequence_id=1");
  }
}

}  // namespace
}  // namespace braid::bench
