#include "workers/model_asks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <optional>

#include "serving/testing/fake_control.h"
#include "workers/testing/holding_servable.h"
#include "workers/worker_asks.h"

namespace braid {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

class ModelAsksTest : public testing::Test {
 protected:
  void SetUp() override {
    asks_.emplace(catalog_, control_);
    asks_->AddTo(services_);
  }

  static AskMessage Message(AskTopic topic, std::string_view text) {
    AskMessage message;
    message.ask_id = 1;
    message.topic = topic;
    message.text = text;
    return message;
  }
  std::future<Result<std::string>> Start(const AskMessage& message) {
    auto promise = std::make_shared<std::promise<Result<std::string>>>();
    services_.asks.at(message.topic)(
        message, [promise](Result<std::string> answer) { promise->set_value(std::move(answer)); });
    return promise->get_future();
  }
  Result<std::string> Ask(const AskMessage& message) { return Start(message).get(); }
  Result<std::string> IsReady(const std::string& version) {
    const std::string text = R"({"model_name":"m","model_version":")" + version + "\"}";
    return Ask(Message(AskTopic::kIsModelReady, text));
  }

  Catalog catalog_;
  FakeControl control_;
  WorkerServices services_;
  std::optional<ModelAsks> asks_;
};

TEST_F(ModelAsksTest, LoadsWithAConfigurationAndFiles) {
  const std::string contents = "pass\n";
  AskMessage message = Message(AskTopic::kLoadModel, R"({"model_name":"m","config":"{}"})");
  message.attachments = {{"file:1/model.py", std::as_bytes(std::span(contents))}};
  ASSERT_TRUE(Ask(message).ok());
  ASSERT_EQ(control_.loads().size(), 1u);
  EXPECT_EQ(control_.loads()[0].model_name, "m");
  EXPECT_EQ(control_.loads()[0].config_json, "{}");
  EXPECT_EQ(control_.loads()[0].files.at("1/model.py"), contents);
  ASSERT_TRUE(Ask(Message(AskTopic::kLoadModel, R"({"model_name":"n","config":""})")).ok());
  EXPECT_FALSE(control_.loads()[1].config_json.has_value());
}

TEST_F(ModelAsksTest, TellsWhatTheRepositorySays) {
  control_.set_answer(InternalError("failed to load 'm'"));
  EXPECT_EQ(Ask(Message(AskTopic::kLoadModel, R"({"model_name":"m"})")).status(),
            InternalError("failed to load 'm'"));
  AskMessage message = Message(AskTopic::kLoadModel, R"({"model_name":"m"})");
  message.attachments = {{"1/model.py", {}}};
  EXPECT_EQ(Ask(message).status().message(), "Unrecognized load parameter '1/model.py' with type 'BYTES'");
}

TEST_F(ModelAsksTest, Unloads) {
  ASSERT_TRUE(Ask(Message(AskTopic::kUnloadModel, R"({"model_name":"m","unload_dependents":true})")).ok());
  EXPECT_THAT(control_.unloads(), testing::ElementsAre(std::pair(std::string("m"), true)));
}

TEST_F(ModelAsksTest, LoadsDoNotWaitForOneAnotherUpToALimit) {
  control_.BlockLoads(true);
  const AskMessage message = Message(AskTopic::kLoadModel, R"({"model_name":"m"})");
  std::vector<std::future<Result<std::string>>> answers;
  for (int i = 0; i < ModelAsks::kMostRunning; ++i) answers.push_back(Start(message));
  control_.WaitForLoads(ModelAsks::kMostRunning);
  EXPECT_EQ(Ask(message).status().code(), StatusCode::kUnavailable);
  control_.BlockLoads(false);
  for (auto& answer : answers) EXPECT_TRUE(answer.get().ok());
}

TEST_F(ModelAsksTest, KnowsWhetherAModelIsReady) {
  EXPECT_EQ(IsReady("").value(), "false");
  auto servable = std::make_shared<HoldingServable>("m");
  catalog_.Publish(servable);
  EXPECT_EQ(IsReady("").value(), "true");
  EXPECT_EQ(IsReady("1").value(), "true");
  EXPECT_EQ(IsReady("2").value(), "false");
  servable->readiness_.ready = false;
  EXPECT_EQ(IsReady("1").value(), "false");
  control_.set_serving(false);
  EXPECT_EQ(IsReady("1").status(), UnavailableError("Server not ready"));
}

TEST_F(ModelAsksTest, RefusesAVersionThatIsNone) {
  EXPECT_EQ(
      IsReady("abc").status().message(),
      "failed to get model version from specified version string 'abc' (details: stol), version should be "
      "an integral value > 0");
  EXPECT_EQ(IsReady("-1").status().message(),
            "failed to get model version from specified version string '-1', version should be an integral "
            "value > 0");
}

TEST(WorkerAsksTest, AnswersIntoTheChannel) {
  Channel::WorkerEnd end;
  std::shared_ptr<Channel> channel = Channel::CreateServerEnd({}, end).value();
  auto worker = Channel::OpenWorkerEnd(std::move(end)).value();
  WorkerServices services;
  services.asks[AskTopic::kIsModelReady] = [](const AskMessage& ask, AskAnswer answer) {
    answer(std::string(ask.text));
  };
  std::vector<std::byte> message;
  AnswerMessage answer;
  AskMessage ask;
  ask.ask_id = 5;
  ask.topic = AskTopic::kIsModelReady;
  ask.text = "true";
  HandleAsk(services, ask, channel);
  ASSERT_EQ(worker->Receive(message, kSecond), Channel::Outcome::kMessage);
  ASSERT_TRUE(Decode(message, answer));
  EXPECT_EQ(answer.ask_id, 5u);
  EXPECT_EQ(answer.text, "true");
  // This topic has no handler.
  ask.topic = AskTopic::kMetric;
  HandleAsk(services, ask, channel);
  ASSERT_EQ(worker->Receive(message, kSecond), Channel::Outcome::kMessage);
  ASSERT_TRUE(Decode(message, answer));
  EXPECT_EQ(answer.code, StatusCode::kUnsupported);
  // No answer is wanted.
  ask.ask_id = 0;
  HandleAsk(services, ask, channel);
  EXPECT_EQ(worker->Receive(message, 0), Channel::Outcome::kTimeout);
}

}  // namespace
}  // namespace braid
