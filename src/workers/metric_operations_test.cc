#include "workers/metric_operations.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

TEST(MetricOperations, ReachTheMetrics) {
  CustomMetrics metrics;
  auto session = metrics.Open();
  const auto ask = [&](const std::string& text) { return PerformMetricOperation(*session, text); };
  const std::string family = ask(R"({"do":"family","name":"g","description":"d\n","kind":1})").value();
  const std::string metric = ask(R"({"do":"metric","family":)" + family + R"(,"labels":{"a":"b"}})").value();
  const auto with = [&](const std::string& rest) { return R"({"metric":)" + metric + "," + rest + "}"; };
  EXPECT_EQ(ask(with(R"("do":"increment","value":1.25)")).value(), "");
  EXPECT_EQ(ask(with(R"("do":"value")")).value(), "1.25");
  EXPECT_EQ(ask(with(R"("do":"set","value":"-inf")")).value(), "");
  EXPECT_EQ(ask(with(R"("do":"value")")).value(), "-inf");
  EXPECT_EQ(ask(with(R"("do":"observe","value":1)")).status().message(),
            "TRITONSERVER_METRIC_KIND_GAUGE does not support Observe");
  EXPECT_TRUE(ask(with(R"("do":"drop_metric")")).ok());
  EXPECT_TRUE(metrics.Snapshot().empty());
}

TEST(MetricOperations, RefuseWhatIsNone) {
  CustomMetrics metrics;
  auto session = metrics.Open();
  ASSERT_TRUE(
      PerformMetricOperation(*session, R"({"do":"family","name":"h","description":"","kind":2})").ok());
  for (const char* text : {
           "",
           "[]",
           "{}",
           R"({"do":1})",
           R"({"do":"family","name":"f","description":"","kind":3})",
           R"({"do":"family","name":"f","kind":1})",
           R"({"do":"metric","family":1,"labels":{"a":1},"buckets":[]})",
           R"({"do":"metric","family":1,"buckets":["x"]})",
           R"({"do":"metric","family":-1,"buckets":[1]})",
           R"({"do":"set","metric":99,"value":1})",
           R"({"do":"set","metric":99,"value":"x"})",
           R"({"do":"fly","metric":99,"value":1})",
       }) {
    EXPECT_EQ(PerformMetricOperation(*session, text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace braid
