#include "fleet/replica.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/fmt/fmt.h>

#include "base/utf8.h"
#include "fleet/status_report.h"

namespace braid::fleet {
namespace {

using ::testing::ElementsAre;
using ::testing::FieldsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ModelView Model(const std::string& name, std::vector<VersionView> versions, const std::string& config) {
  ModelView model;
  model.name = name;
  model.versions = std::move(versions);
  model.config = ParseJson(config);
  return model;
}

Replica At(const std::string& host, std::vector<ModelView> models) {
  Replica replica;
  replica.endpoint = {host, 1, 0, 0};
  replica.server = "braid 1";
  replica.ready = true;
  replica.models = std::move(models);
  return replica;
}

TEST(Replica, HasTheFiguresOfItsMetrics) {
  Replica replica = At("h", {Model("a", {{"1", "READY", ""}}, ""), Model("b", {{"1", "READY", ""}}, "{}")});
  ReadMetrics(
      "# TYPE braid_sequences_active gauge\n"
      "braid_sequences_active{model=\"b\",version=\"1\"} 3\n"
      "braid_sequences_active{model=\"b\",version=\"2\"} 4\n"
      "braid_sequences_active{name=\"a\",version=\"1\"} 5\n"
      "braid_sequences_active{model=\"other\"} 5\n"
      "nv_inference_pending_request_count{submodel=\"b\",model=\"a\",version=\"1\"} 2\n"
      "nv_inference_pending_request_count{model=\"a\"\n"
      "nv_inference_pending_request_count{model=\"b\"} -inf\n"
      "process_start_time_seconds 1700000000.25\n",
      replica);
  EXPECT_EQ(replica.started_ms, 1700000000250);
  const std::vector<ModelView>& models = replica.models;
  EXPECT_EQ(models[0].live_sequences, 5);
  EXPECT_EQ(models[0].waiting, 2);
  // Only its metrics show this, because it has no configuration.
  EXPECT_TRUE(models[0].sequences);
  EXPECT_EQ(models[1].live_sequences, 7);
  EXPECT_EQ(models[1].waiting, 0);
  EXPECT_FALSE(models[1].sequences);
}

TEST(Replica, HasEnsemblesWithSequences) {
  const std::vector<VersionView> ready = {{"1", "READY", ""}};
  std::vector<ModelView> models = {
      Model("a", ready,
            R"({"ensemble_scheduling": {"step": [{"model_name": "plain"}, {"model_name": "b"}]}})"),
      Model("b", ready, R"({"ensemble_scheduling": {"step": [{"model_name": "sums"}]}})"),
      Model("c", ready,
            R"({"ensemble_scheduling": {"step": [{"model_name": "plain"}, {"model_name": "gone"}]}})"),
      Model("plain", ready, "{}"), Model("sums", ready, "{}")};
  models[4].sequences = true;
  MarkEnsembles(models);
  EXPECT_TRUE(models[0].sequences);
  EXPECT_TRUE(models[1].sequences);
  EXPECT_FALSE(models[2].sequences);
  EXPECT_FALSE(models[3].sequences);
}

TEST(Differences, AreNamedWithTheirReplicas) {
  const ModelView one = Model("m", {{"1", "READY", ""}}, R"({"max_batch_size": 8, "name": "m"})");
  EXPECT_THAT(Differences({At("a", {one}), At("b", {one})}), IsEmpty());
  const ModelView two =
      Model("m", {{"1", "READY", ""}, {"2", "UNAVAILABLE", "x"}}, R"({"max_batch_size": 4, "name": "m"})");
  Replica newer = At("c", {});
  newer.server = "braid 2";
  Replica silent;
  silent.endpoint = {"d", 1, 0, 0};
  silent.answer = UnavailableError("Connection refused");
  const std::vector<Replica> all = {At("a", {one}), At("b", {two}), newer, silent};
  EXPECT_THAT(
      Differences(all),
      ElementsAre(
          FieldsAre("", "the server is braid 1 at a:1, b:1; braid 2 at c:1"),
          FieldsAre("m",
                    "model m: missing at c:1; version 1 at a:1; version 1, version 2 UNAVAILABLE at b:1"),
          FieldsAre("m", "model m: its max_batch_size is 4 at b:1; 8 at a:1")));
  EXPECT_EQ(StatusJson(all)["models"][0]["differs"], true);
  EXPECT_EQ(StatusJson({At("a", {one}), At("b", {one})})["models"][0]["differs"], false);
}

TEST(StatusReport, SaysWhatIsNotKnown) {
  Replica without = At("a", {Model("m", {{"1", "READY", ""}}, "{}")});
  without.metrics = UnavailableError("HTTP 404");
  without.models[0].requests = 4;
  without.models[0].queue_ns = 8000;
  Replica silent;
  silent.endpoint = {"b", 1, 0, 0};
  silent.answer = UnavailableError("Connection refused");
  const std::string text = StatusText({without, silent});
  EXPECT_THAT(text,
              HasSubstr("a:1      ready      braid 1  1       -          -        4         0       2 us\n"));
  EXPECT_THAT(text, HasSubstr("b:1      no answer  Connection refused\n"));
  EXPECT_THAT(text, HasSubstr("1 of 2 did not answer\n"));
  const Json json = StatusJson({without, silent});
  EXPECT_TRUE(json["replicas"][0]["models"][0]["load"]["live_sequences"].is_null());
  EXPECT_EQ(json["replicas"][1]["error"], "Connection refused");
}

TEST(StatusReport, WhatServersSayDoesNotControlTheTerminal) {
  Replica one = At("a", {Model("m\x1b[2J\n\xff", {{"1", "READY\x1b", ""}}, "{}")});
  one.server = "braid\r\x9b";
  Replica two = At("b", {});
  two.answer = UnavailableError("no\x1b]0;x\x07");
  const std::string text = StatusText({one, two, At("c", {})});
  EXPECT_TRUE(IsUtf8(text));
  EXPECT_EQ(text.find_first_of("\x1b\r\x07"), std::string::npos);
  EXPECT_THAT(text, HasSubstr("m\\x1b[2J\\n\\xff"));
  EXPECT_THAT(text, HasSubstr("braid\\r\\x9b"));
}

// More replicas than are queried at the same time: each result is in its place.
TEST(Replica, AreAllLookedAtInTheirOrder) {
  std::vector<Endpoint> endpoints;
  for (uint16_t last = 1; last <= 200; ++last)
    endpoints.push_back({fmt::format("127.0.0.{}", last), 1, 0, 0});
  const std::vector<Replica> replicas = LookAtAll(endpoints, {});
  ASSERT_EQ(replicas.size(), endpoints.size());
  for (size_t i = 0; i < endpoints.size(); ++i) {
    EXPECT_EQ(replicas[i].endpoint, endpoints[i]);
    EXPECT_THAT(replicas[i].answer.message(), HasSubstr(endpoints[i].name() + ": Connection refused"));
  }
}

TEST(Replica, IsNotAskedWhenTheTimeIsOver) {
  Asking asking;
  asking.deadline_ns = 1;
  EXPECT_EQ(LookAt({"127.0.0.1", 1, 0, 0}, asking).answer.message(), "not all queries ended in time");
}

TEST(Replica, ThatDoesNotAnswerSaysWhy) {
  Asking asking;
  asking.timeout_s = 1;
  const std::vector<Replica> replicas = LookAtAll({{"127.0.0.1", 1, 0, 0}}, asking);
  EXPECT_EQ(replicas[0].answer.code(), StatusCode::kUnavailable);
  EXPECT_THAT(replicas[0].answer.message(), HasSubstr("Connection refused"));
}

}  // namespace
}  // namespace braid::fleet
