#include "scheduling/warmup_listener.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

// Counts what reaches the model.
class Model final : public ExecutionListener {
 public:
  void OnExecuted(Instance&, int64_t, size_t, const ExecutionTimes&) override { ++executed; }
  void OnResponse(Instance&, InferenceRequest& request, std::optional<InferenceResponse> response, bool final,
                  const ExecutionTimes&) override {
    ++responses;
    request.Respond(std::move(response), final);
  }
  void OnRescheduled(Instance&, std::unique_ptr<InferenceRequest>) override {}
  void OnUnstarted(Instance&, std::vector<std::unique_ptr<Execution>>) override {}
  void OnAvailability(Instance&, bool) override { ++availabilities; }

  int executed = 0;
  int responses = 0;
  int availabilities = 0;
};

// Answers each execution at once, and returns from it before or after the answer.
class AnsweringInstance final : public Instance {
 public:
  const std::string& name() const override { return name_; }
  void Execute(std::unique_ptr<Execution> execution) override {
    ++executions;
    rows += execution->rows;
    for (auto& request : execution->requests) {
      if (prepared != request->priority) ++unprepared;
      seen.clear();
      for (const Tensor& input : request->inputs) {
        seen.append(seen.empty() ? "" : " ").append(input.name);
        if (input.type == DataType::kBool)
          seen.append("=").append(std::to_string(static_cast<int>(*input.data.data())));
      }
    }
    if (!returns_late) listener->OnExecuted(*this, execution->rows, 1, {});
    InferenceResponse response;
    if (executions == fails_at) response.status = InternalError("no good");
    for (auto& request : execution->requests) listener->OnResponse(*this, *request, response, true, {});
  }

  ExecutionListener* listener = nullptr;
  bool returns_late = false;
  int fails_at = 0;
  uint64_t prepared = 0;
  int unprepared = 0;
  std::string seen;  // the inputs of the last request
  int executions = 0;
  int64_t rows = 0;

 private:
  std::string name_ = "m_0_0";
};

struct Fixture {
  Fixture() {
    info.name = std::string("m");  // assigning the literal makes g++ 12 see an overlap that is none
    info.max_batch_size = 8;
    info.inputs.resize(1);
    info.inputs[0].name = "IN";
    info.inputs[0].type = DataType::kInt32;
    info.inputs[0].shape = {-1, 1};
    sample.name = "first";
    sample.count = 3;
    Tensor input{"IN", DataType::kInt32, {2, 1}, CopyToHeap(std::vector<std::byte>(8))};
    sample.inputs.push_back(input);
    for (auto& instance : instances) instance.listener = &warmup;
  }
  Status Run(const std::function<void(InferenceRequest&)>& prepare = nullptr) {
    return warmup.Run(info, {&instances[0], &instances[1]}, {sample}, prepare, [](const std::string&) {});
  }

  ServableInfo info;
  WarmupSample sample;
  Model model;
  WarmupListener warmup{model};
  AnsweringInstance instances[2];
};

TEST(WarmupListener, RunsEachSampleAsOftenAsItSaysOnEachInstanceAndCountsNothing) {
  Fixture f;
  f.instances[0].prepared = f.instances[1].prepared = 7;
  EXPECT_TRUE(f.Run([](InferenceRequest& request) { request.priority = 7; }).ok());
  for (const auto& instance : f.instances) {
    EXPECT_EQ(instance.executions, 3);
    EXPECT_EQ(instance.rows, 6);
    EXPECT_EQ(instance.unprepared, 0);
  }
  EXPECT_EQ(f.model.executed, 0);
  EXPECT_EQ(f.model.responses, 0);
}

TEST(WarmupListener, TheFirstFailureEndsIt) {
  Fixture f;
  f.instances[0].fails_at = 2;
  const Status status = f.Run();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "failed to run warmup sample 'first': no good; ");
  EXPECT_EQ(f.instances[0].executions, 2);
  EXPECT_EQ(f.instances[1].executions, 0);
}

TEST(WarmupListener, ASampleThatDoesNotFitTheModelFails) {
  Fixture f;
  f.sample.inputs[0].name = "OTHER";
  const Status status = f.Run();
  EXPECT_EQ(status.message(),
            "failed to run warmup sample 'first': [request id: <id_unknown>] expected 1 inputs but got 0 "
            "inputs for "
            "model 'm'. Got input(s) [], but missing required input(s) ['IN']. Please provide all required "
            "input(s).; ");
}

// Control tensors too, which the server would add itself.
TEST(WarmupListener, InputsThatNoClientSendsAreGivenOnce) {
  Fixture f;
  const auto flag = [](const std::string& name, char value) {
    return Tensor{name, DataType::kBool, {1, 1}, CopyToHeap(std::vector<std::byte>(1, std::byte(value)))};
  };
  f.sample.inputs.push_back(flag("START", 0));
  f.sample.inputs.push_back(flag("EXTRA", 3));
  EXPECT_TRUE(f.Run([&](InferenceRequest& request) {
                 EXPECT_EQ(request.inputs.size(), 1u);
                 request.inputs.push_back(flag("START", 1));
                 request.inputs.push_back(flag("END", 1));
               }).ok());
  for (const auto& instance : f.instances) {
    EXPECT_EQ(instance.executions, 3);
    EXPECT_EQ(instance.rows, 6);
    EXPECT_EQ(instance.seen, "IN START=0 END=1 EXTRA=3");
  }
}

// Whose size of a batch is known by nothing else.
TEST(WarmupListener, OfAModelWhoseInputsAreOptional) {
  Fixture f;
  f.info.inputs[0].optional = true;
  f.sample.inputs[0].name = "OTHER";
  f.sample.batch_size = 2;
  EXPECT_TRUE(f.Run().ok());
  EXPECT_EQ(f.instances[0].rows, 6);
}

TEST(WarmupListener, ReturnsThatComeAfterTheAnswerAreNotTheModels) {
  Fixture f;
  f.instances[0].returns_late = true;
  EXPECT_TRUE(f.Run().ok());
  for (int i = 0; i < 3; ++i) f.warmup.OnExecuted(f.instances[0], 2, 1, {});
  EXPECT_EQ(f.model.executed, 0);
  // From here on everything is the model's.
  f.warmup.OnExecuted(f.instances[0], 2, 1, {});
  EXPECT_EQ(f.model.executed, 1);
  f.warmup.OnAvailability(f.instances[0], false);
  EXPECT_EQ(f.model.availabilities, 1);
}

}  // namespace
}  // namespace braid
