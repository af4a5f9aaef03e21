#include "load/bench_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid::load {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Parsed {
  std::optional<int> exit_code;
  BenchOptions options;
  std::string error;
};

Parsed Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), {"braid", "bench"});
  Parsed parsed;
  testing::internal::CaptureStderr();
  parsed.exit_code = ParseBenchOptions(static_cast<int>(arguments.size()), arguments.data(), parsed.options);
  parsed.error = testing::internal::GetCapturedStderr();
  return parsed;
}

TEST(Range, HasItsEndAndItsSteps) {
  EXPECT_THAT(ParseRange("4")->Values(), ElementsAre(4));
  EXPECT_THAT(ParseRange("1:3")->Values(), ElementsAre(1, 2, 3));
  EXPECT_THAT(ParseRange("1:8:4")->Values(), ElementsAre(1, 5));
  EXPECT_THAT(ParseRange("0.5:1.5:0.5")->Values(), ElementsAre(0.5, 1, 1.5));
  for (const char* bad : {"", "0", "1:", "x", "3:1", "1:2:3:4", "1:9999999:0.001", "-1", "nan"}) {
    EXPECT_FALSE(ParseRange(bad).ok()) << bad;
  }
}

TEST(BenchOptions, HaveTheNamesOfPerfAnalyzer) {
  const Parsed parsed = Parse({"-m",
                               "m",
                               "-x",
                               "2",
                               "-i",
                               "gRPC",
                               "-u",
                               "h:1",
                               "-b",
                               "4",
                               "--request-rate-range",
                               "10:20:10",
                               "--request-distribution",
                               "poisson",
                               "-p",
                               "250",
                               "--sequence-id-range",
                               "5:9",
                               "--request-parameter",
                               "n:3:int",
                               "--shape",
                               "X:1,2",
                               "--percentile=95",
                               "--streaming"});
  ASSERT_FALSE(parsed.exit_code) << parsed.error;
  const BenchOptions& options = parsed.options;
  EXPECT_EQ(options.connect.protocol, "grpc");
  EXPECT_THAT(options.rates, ElementsAre(10, 20));
  EXPECT_DOUBLE_EQ(options.interval_s, 0.25);
  EXPECT_EQ(options.sequences.first_id, 5U);
  EXPECT_EQ(options.sequences.ids, 4U);
  EXPECT_TRUE(options.sequences.enabled);
  EXPECT_EQ(std::get<int64_t>(options.parameters.at("n")), 3);
  EXPECT_THAT(options.data.shapes.at("X"), ElementsAre(1, 2));
}

TEST(BenchOptions, SayWhatToUseInPlaceOfWhatThereIsNot) {
  const Parsed refused = Parse({"-m", "m", "--binary-search"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.error, HasSubstr("--binary-search is not supported: sweep with --concurrency-range"));
  EXPECT_EQ(Parse({"-m", "m", "--service-kind=tfserving"}).exit_code, 2);
}

TEST(BenchOptions, RefuseWhatDoesNotGoTogether) {
  EXPECT_THAT(Parse({"-m", "m", "--streaming"}).error, HasSubstr("add -i grpc"));
  EXPECT_THAT(Parse({"-m", "m", "--request-distribution", "poisson"}).error,
              HasSubstr("needs --request-rate-range"));
  EXPECT_THAT(Parse({"-m", "m", "--concurrency-range", "1.5"}).error, HasSubstr("whole numbers"));
  EXPECT_EQ(Parse({"-m", "m", "--concurrency-range", "1", "--request-rate-range", "1"}).exit_code, 2);
  EXPECT_EQ(Parse({}).exit_code, 2);
  EXPECT_EQ(Parse({"-m", "m", "--shared-memory", "cuda"}).exit_code, 2);
}

TEST(BenchOptions, OfChatCompletions) {
  const Parsed parsed =
      Parse({"-m", "llm", "-i", "OpenAI", "--request-parameter", "max_tokens=8", "--input-data", "f"});
  ASSERT_FALSE(parsed.exit_code) << parsed.error;
  EXPECT_TRUE(parsed.options.chat());
  EXPECT_EQ(parsed.options.connect.protocol_kind(), Protocol::kHttp);
  const auto refused = [](std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), {"-m", "llm", "-i", "openai"});
    const Parsed parsed = Parse(arguments);
    EXPECT_EQ(parsed.exit_code, 2);
    return parsed.error;
  };
  EXPECT_THAT(refused({"--shape", "X:1"}),
              HasSubstr("--shape does not apply to -i openai: a request has no tensors"));
  EXPECT_THAT(refused({"-b", "2"}), HasSubstr("--batch-size does not apply"));
  EXPECT_THAT(refused({"-x", "2"}), HasSubstr("--model-version does not apply"));
  EXPECT_THAT(refused({"--streaming"}), HasSubstr("answers are always streamed"));
  EXPECT_THAT(refused({"--sequence-length", "2"}), HasSubstr("requests form no sequences"));
  EXPECT_THAT(refused({"--input-data", "zero"}), HasSubstr("--input-data zero does not apply"));
}

}  // namespace
}  // namespace braid::load
