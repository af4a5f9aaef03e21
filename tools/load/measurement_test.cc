#include "load/measurement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "load/bench.h"

namespace braid::load {
namespace {

using ::testing::HasSubstr;

TEST(Percentile, IsTheSmallestValueThatSoManyAreNotAbove) {
  std::vector<int64_t> times;
  for (int i = 1; i <= 200; ++i) times.push_back(i);
  EXPECT_EQ(PercentileOf(times, 50), 100);
  EXPECT_EQ(PercentileOf(times, 99), 198);
  EXPECT_EQ(PercentileOf(times, 100), 200);
  EXPECT_EQ(PercentileOf({7}, 1), 7);
  EXPECT_EQ(PercentileOf({}, 50), 0);
}

TEST(Latency, IsDescribedInMicroseconds) {
  std::vector<int64_t> times = {4000, 1000, 3000, 2000};
  const Latency latency = Describe(times, 75);
  EXPECT_DOUBLE_EQ(latency.mean_us, 2.5);
  EXPECT_NEAR(latency.deviation_us, 1.118, 0.001);
  EXPECT_DOUBLE_EQ(latency.at(50), 2);
  EXPECT_DOUBLE_EQ(latency.at(75), 3);
  EXPECT_DOUBLE_EQ(latency.min_us, 1);
  EXPECT_DOUBLE_EQ(latency.max_us, 4);
}

TEST(Figures, AreOfTheSamplesThatEndedWithinTheWindow) {
  constexpr int64_t kSecond = 1'000'000'000;
  Samples samples;
  samples.answered = {{kSecond / 2, kSecond - 1, kSecond - 1, 1},  // before
                      {kSecond, kSecond + 2000, kSecond + 1000, 3},
                      {kSecond, kSecond + 4000, kSecond + 3000, 1},
                      {kSecond, 3 * kSecond + 1, kSecond, 1}};  // after
  samples.between_ns = {500, 500};
  samples.failed = 2;
  samples.errors = {{"no", 2}};
  const Figures figures = MakeFigures(samples, kSecond, 3 * kSecond, {.batch = 4, .stream = true});
  EXPECT_EQ(figures.requests, 2U);
  EXPECT_DOUBLE_EQ(figures.requests_per_s, 1);
  EXPECT_DOUBLE_EQ(figures.inferences_per_s, 4);
  EXPECT_DOUBLE_EQ(figures.responses_per_s, 2);
  EXPECT_DOUBLE_EQ(figures.latency.mean_us, 3);
  EXPECT_DOUBLE_EQ(figures.first_response->mean_us, 2);
  EXPECT_DOUBLE_EQ(figures.between_responses->mean_us, 0.5);
  EXPECT_EQ(figures.failed, 2U);
  uint64_t counted = 0;
  for (const Bar& bar : figures.histogram) counted += bar.count;
  EXPECT_EQ(counted, 2U);
}

TEST(Stability, WantsThreeInARowNearTheirMean) {
  EXPECT_FALSE(IsStable({{100, 10}, {100, 10}}, 10));
  EXPECT_TRUE(IsStable({{5, 90}, {100, 10}, {105, 10.5}, {95, 9.5}}, 10));
  EXPECT_FALSE(IsStable({{100, 10}, {130, 10}, {95, 10}}, 10));
  EXPECT_FALSE(IsStable({{100, 10}, {100, 14}, {100, 10}}, 10));
  EXPECT_FALSE(IsStable({{0, 0}, {0, 0}, {0, 0}}, 10));
}

TEST(CompareOutputs, NamesTheFirstElementThatDiffers) {
  std::string right("\1\0\0\0\2\0\0\0", 8);
  std::string wrong("\1\0\0\0\3\0\0\0", 8);
  InferResponse response;
  response.outputs = {
      {"Y", "INT32", {2}, {std::string_view(right).substr(0, 3), std::string_view(right).substr(3)}}};
  const std::vector<Tensor> expected = {{"Y", "INT32", {2}, right}};
  EXPECT_TRUE(CompareOutputs(expected, response, {}).ok());
  response.outputs[0].data = {wrong};
  EXPECT_EQ(CompareOutputs(expected, response, {}).message(),
            "validation: output Y: element 1 is 3, expected 2");
  response.outputs[0].data = {};
  EXPECT_TRUE(CompareOutputs(expected, response, {{"Y", right + "more"}}).ok());
  response.outputs[0].shape = {1, 2};
  EXPECT_THAT(CompareOutputs(expected, response, {}).message(), HasSubstr("shape [1,2], expected [2]"));
  EXPECT_THAT(CompareOutputs({{"Z", "INT32", {}, ""}}, response, {}).message(), HasSubstr("lacks output Z"));
}

TEST(Ratios, HaveTheMiddleAndTheEnds) {
  const Ratios odd = MakeRatios({3, 1, 2});
  EXPECT_DOUBLE_EQ(odd.median, 2);
  EXPECT_DOUBLE_EQ(odd.least, 1);
  EXPECT_DOUBLE_EQ(odd.greatest, 3);
  EXPECT_DOUBLE_EQ(MakeRatios({1, 2}).median, 1.5);
}

TEST(Reports, SayTheSameFigures) {
  BenchOptions options;
  options.connect.url = "one:8000";
  BenchResult result;
  result.environment.model = "a<b>";
  Level level;
  level.load = 4;
  level.figures.requests = 10;
  level.figures.inferences_per_s = 1234.5;
  level.figures.latency.mean_us = 77;
  level.figures.latency.percentiles_us = {{50, 70}, {90, 80}, {95, 85}, {99, 95}};
  level.figures.failed = 1;
  level.figures.errors = {{"it, \"failed\"", 1}};
  level.figures.server = ServerStatistics{.requests = 10, .queue_ns = 50'000};
  result.levels = {level};
  const std::string csv = CsvReport(options, result);
  EXPECT_THAT(csv, HasSubstr("\n4,1234.50,10,1,5.0,0.0,0.0,0.0,77.0,70.0,80.0,85.0,95.0,,,,\n"));
  const auto json = nlohmann::json::parse(JsonReport(options, result));
  EXPECT_EQ(json["measurements"][0]["concurrency"], 4);
  EXPECT_EQ(json["measurements"][0]["latency_us"]["p99"], 95);
  EXPECT_EQ(json["measurements"][0]["server"]["queue_us"], 5);
  EXPECT_THAT(TextReport(options, result), HasSubstr("1 x it, \"failed\""));
  const std::string page = HtmlReport(options, result);
  EXPECT_THAT(page, HasSubstr("a&lt;b&gt;"));
  EXPECT_THAT(page, HasSubstr("1234.5"));
  EXPECT_THAT(page, HasSubstr("it, &quot;failed&quot;"));
  EXPECT_TRUE(result.errors());
}

TEST(Samples, OfCompletionsCountTokens) {
  const std::vector<std::vector<Tensor>> nothing;
  SampleObserver observer(nothing);
  const LoadRequest request;
  const std::vector<int64_t> arrivals = {30, 40, 70};
  observer.OnAnswered({request, 10, 90, arrivals, 0, 12});
  observer.OnAnswered({request, 10, 90, arrivals, 0});
  const Samples samples = observer.Take();
  EXPECT_EQ(samples.answered[0].first_ns, 30);
  EXPECT_EQ(samples.answered[0].responses, 12U);  // as the server says
  EXPECT_EQ(samples.answered[1].responses, 3U);
  EXPECT_THAT(samples.between_ns, ::testing::ElementsAre(10, 30, 10, 30));
}

TEST(Reports, OfCompletionsSpeakOfTokens) {
  BenchOptions options;
  options.connect.protocol = "openai";
  BenchResult result;
  Level level;
  level.figures.responses_per_s = 256.5;
  level.figures.first_response = Latency{.mean_us = 7, .percentiles_us = {{50, 5}, {90, 6}, {99, 8}}};
  level.figures.between_responses = Latency{.mean_us = 2, .percentiles_us = {}};
  result.levels = {level};
  const auto json = nlohmann::json::parse(JsonReport(options, result))["measurements"][0];
  EXPECT_EQ(json["tokens_per_s"], 256.5);
  EXPECT_EQ(json["first_token_us"]["p90"], 6);
  EXPECT_EQ(json["between_tokens_us"]["mean"], 2);
  EXPECT_THAT(TextReport(options, result), HasSubstr("    tokens/s        256.5\n first token "));
  const std::string csv = CsvReport(options, result);
  EXPECT_THAT(csv, HasSubstr(",p50 first response,p90 first response,Tokens/Second\n"));
  EXPECT_THAT(csv, HasSubstr(",7.0,8.0,2.0,0.0,5.0,6.0,256.5\n"));
  EXPECT_THAT(HtmlReport(options, result), HasSubstr("Between tokens"));
}

}  // namespace
}  // namespace braid::load
