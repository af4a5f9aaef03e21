#include "serving/custom_metrics.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <thread>
#include <utility>

namespace braid {
namespace {

constexpr auto kNone = std::nullopt;

// Returns the value of the only series.
double OnlyValue(const CustomMetrics& metrics) {
  const auto families = metrics.Snapshot();
  EXPECT_EQ(families.size(), 1u);
  EXPECT_EQ(families.at(0).series.size(), 1u);
  return families.at(0).series.at(0).value;
}

TEST(CustomMetrics, ProcessesThatNameTheSameSeriesShareIt) {
  CustomMetrics metrics;
  auto one = metrics.Open();
  auto two = metrics.Open();
  const uint64_t of_one =
      one->CreateMetric(*one->CreateFamily("f", "first", MetricKind::kCounter), {{"a", "1"}}, kNone).value();
  const uint64_t of_two =
      two->CreateMetric(*two->CreateFamily("f", "second", MetricKind::kCounter), {{"a", "1"}}, kNone).value();
  EXPECT_TRUE(one->Increment(of_one, 2).ok());
  EXPECT_TRUE(two->Increment(of_two, 3).ok());
  EXPECT_EQ(one->Value(of_one).value(), 5);
  EXPECT_EQ(metrics.Snapshot().at(0).description, "first");
  one.reset();
  EXPECT_EQ(OnlyValue(metrics), 5);
  two.reset();
  EXPECT_TRUE(metrics.Snapshot().empty());
}

TEST(CustomMetrics, ASeriesEndsWithItsLastReferenceAndStartsAnew) {
  CustomMetrics metrics;
  auto session = metrics.Open();
  const uint64_t family = session->CreateFamily("f", "", MetricKind::kGauge).value();
  const uint64_t first = session->CreateMetric(family, {}, kNone).value();
  const uint64_t second = session->CreateMetric(family, {}, kNone).value();
  EXPECT_TRUE(session->Set(first, 7).ok());
  session->DropMetric(first);
  EXPECT_EQ(session->Value(second).value(), 7);
  EXPECT_EQ(session->Increment(first, 1).code(), StatusCode::kInvalidArgument);
  session->DropMetric(second);
  EXPECT_TRUE(metrics.Snapshot().empty());
  EXPECT_EQ(session->Value(session->CreateMetric(family, {}, kNone).value()).value(), 0);
}

TEST(CustomMetrics, TextsOfModelsAreBounded) {
  CustomMetrics metrics;
  auto session = metrics.Open();
  const uint64_t family = session->CreateFamily("f", std::string(70'000, 'd'), MetricKind::kGauge).value();
  EXPECT_EQ(session->CreateMetric(family, {{"a", "\xff"}}, kNone).status(),
            InvalidArgumentError("Invalid value of label 'a': expected UTF-8"));
  const std::string most(CustomMetrics::kMostLabelBytes - 1, 'x');
  EXPECT_EQ(session->CreateMetric(family, {{"a", most + "x"}}, kNone).status(),
            InvalidArgumentError("Invalid labels: expected up to 4096 bytes of names and values, got 4097"));
  EXPECT_TRUE(session->CreateMetric(family, {{"a", most}}, kNone).ok());
  EXPECT_EQ(metrics.Snapshot().at(0).description,
            std::string(CustomMetrics::kMostDescription, 'd') + "... (70000 bytes)");
  EXPECT_LT(session->CreateFamily(std::string(70'000, '-'), "", MetricKind::kGauge).status().message().size(),
            700U);
}

TEST(CustomMetrics, AScrapeSeesWhatHadBeenSentWhenItBegan) {
  CustomMetrics metrics;
  uint64_t sent = 0;
  uint64_t handled = 0;
  // Applied once the scrape has found the session behind and checks again.
  std::function<void()> apply;
  int asked = 0;
  auto session = metrics.Open({[&] { return sent; },
                               [&] {
                                 if (apply && ++asked == 2) std::exchange(apply, nullptr)();
                                 return handled;
                               }});
  const uint64_t family = session->CreateFamily("f", "", MetricKind::kCounter).value();
  const uint64_t metric = session->CreateMetric(family, {}, kNone).value();
  sent = 1;
  apply = [&] {
    EXPECT_TRUE(session->Increment(metric, 3).ok());
    handled = 1;
  };
  EXPECT_EQ(OnlyValue(metrics), 3);
  // A stuck process delays a scrape but does not stop it.
  sent = 2;
  EXPECT_EQ(OnlyValue(metrics), 3);
}

TEST(CustomMetrics, AFamilyTakesItsSeriesWithIt) {
  CustomMetrics metrics;
  auto session = metrics.Open();
  const uint64_t family = session->CreateFamily("f", "", MetricKind::kGauge).value();
  const uint64_t other = session->CreateFamily("f", "", MetricKind::kGauge).value();
  const uint64_t gone = session->CreateMetric(family, {{"x", "1"}}, kNone).value();
  const uint64_t stays = session->CreateMetric(other, {{"x", "2"}}, kNone).value();
  session->DropFamily(family);
  EXPECT_FALSE(session->Set(gone, 1).ok());
  EXPECT_TRUE(session->Set(stays, 1).ok());
  session->DropFamily(family);
  session->DropFamily(other);
  // The family has no references now, so its name is free for another kind.
  EXPECT_TRUE(session->CreateFamily("f", "", MetricKind::kCounter).ok());
}

TEST(CustomMetrics, KindsCanDoWhatTheyCan) {
  CustomMetrics metrics;
  auto session = metrics.Open();
  const auto make = [&](const char* name, MetricKind kind) {
    const std::optional<std::vector<double>> bounds =
        kind == MetricKind::kHistogram ? std::optional(std::vector<double>{0.1, 1}) : std::nullopt;
    return session->CreateMetric(session->CreateFamily(name, "", kind).value(), {}, bounds).value();
  };
  const uint64_t counter = make("c", MetricKind::kCounter);
  const uint64_t gauge = make("g", MetricKind::kGauge);
  const uint64_t histogram = make("h", MetricKind::kHistogram);
  const std::string monotonic =
      "TRITONSERVER_METRIC_KIND_COUNTER can only be incremented monotonically by non-negative values.";
  EXPECT_EQ(session->Increment(counter, -1).message(), monotonic);
  EXPECT_EQ(session->Increment(counter, std::numeric_limits<double>::quiet_NaN()).message(), monotonic);
  EXPECT_TRUE(session->Increment(counter, 0).ok());
  EXPECT_TRUE(session->Increment(gauge, -2.5).ok());
  EXPECT_EQ(session->Value(gauge).value(), -2.5);
  EXPECT_EQ(session->Set(counter, 1).message(), "TRITONSERVER_METRIC_KIND_COUNTER does not support Set");
  EXPECT_EQ(session->Observe(counter, 1).message(),
            "TRITONSERVER_METRIC_KIND_COUNTER does not support Observe");
  EXPECT_EQ(session->Observe(gauge, 1).message(), "TRITONSERVER_METRIC_KIND_GAUGE does not support Observe");
  EXPECT_EQ(session->Set(histogram, 1).message(), "TRITONSERVER_METRIC_KIND_HISTOGRAM does not support Set");
  EXPECT_EQ(session->Increment(histogram, 1).message(),
            "TRITONSERVER_METRIC_KIND_HISTOGRAM does not support Increment");
  EXPECT_EQ(session->Value(histogram).status().message(),
            "TRITONSERVER_METRIC_KIND_HISTOGRAM does not support Value");
}

TEST(CustomMetrics, HistogramsCountWhatIsNotAboveEachBound) {
  CustomMetrics metrics;
  auto session = metrics.Open();
  const uint64_t family = session->CreateFamily("h", "", MetricKind::kHistogram).value();
  const uint64_t metric = session->CreateMetric(family, {}, std::vector<double>{0.1, 1, 2.5}).value();
  for (double value : {0.05, 0.1, 1.5, 100.0}) EXPECT_TRUE(session->Observe(metric, value).ok());
  const CustomSeriesSnapshot series = metrics.Snapshot().at(0).series.at(0);
  EXPECT_EQ(series.cumulative, (std::vector<uint64_t>{2, 2, 3}));
  EXPECT_EQ(series.count, 4u);
  EXPECT_DOUBLE_EQ(series.value, 101.65);
  EXPECT_TRUE(session->CreateMetric(family, {{"no", "buckets"}}, std::vector<double>{}).ok());
}

TEST(CustomMetrics, RefuseWhatCannotBe) {
  CustomMetrics metrics;
  auto session = metrics.Open();
  for (const char* name : {"", "1a", "a b", "a-b", "nv_inference_count", "braid_x", "\xff"}) {
    EXPECT_EQ(session->CreateFamily(name, "", MetricKind::kCounter).status().code(),
              StatusCode::kInvalidArgument)
        << name;
  }
  const uint64_t counter = session->CreateFamily("a:b_1", "", MetricKind::kCounter).value();
  EXPECT_EQ(session->CreateFamily("a:b_1", "", MetricKind::kGauge).status().message(),
            "Family name already exists with different type");
  EXPECT_FALSE(session->CreateMetric(counter, {{"a:b", ""}}, kNone).ok());
  EXPECT_FALSE(session->CreateMetric(counter, {{"__x", ""}}, kNone).ok());
  EXPECT_FALSE(session->CreateMetric(counter, {}, std::vector<double>{1}).ok());
  EXPECT_FALSE(session->CreateMetric(counter + 1, {}, kNone).ok());
  const uint64_t histogram = session->CreateFamily("h", "", MetricKind::kHistogram).value();
  EXPECT_FALSE(session->CreateMetric(histogram, {}, kNone).ok());
  EXPECT_FALSE(session->CreateMetric(histogram, {{"le", "1"}}, std::vector<double>{1}).ok());
  for (const auto& bounds :
       {std::vector<double>{2, 1}, {1, 1}, {1, std::numeric_limits<double>::infinity()}}) {
    EXPECT_FALSE(session->CreateMetric(histogram, {}, bounds).ok());
  }
}

TEST(CustomMetrics, AreBounded) {
  CustomMetrics metrics;
  auto session = metrics.Open();
  for (size_t i = 0; i < CustomMetrics::kMostFamilies; ++i) {
    std::string name = "f";
    name += std::to_string(i);
    ASSERT_TRUE(session->CreateFamily(name, "", MetricKind::kCounter).ok());
  }
  EXPECT_EQ(session->CreateFamily("one_more", "", MetricKind::kCounter).status().code(),
            StatusCode::kUnavailable);
}

TEST(CustomMetrics, SessionsWorkAtTheSameTime) {
  CustomMetrics metrics;
  auto keeper = metrics.Open();
  const uint64_t kept =
      keeper->CreateMetric(*keeper->CreateFamily("f", "", MetricKind::kCounter), {}, kNone).value();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&metrics] {
      for (int round = 0; round < 50; ++round) {
        auto session = metrics.Open();
        const uint64_t family = session->CreateFamily("f", "", MetricKind::kCounter).value();
        const uint64_t metric = session->CreateMetric(family, {}, kNone).value();
        for (int k = 0; k < 10; ++k) EXPECT_TRUE(session->Increment(metric, 1).ok());
        metrics.Snapshot();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(keeper->Value(kept).value(), 2000);
}

}  // namespace
}  // namespace braid
