#include "scheduling/warmup.h"

#include <gtest/gtest.h>

#include "model_config.pb.h"
#include "scheduling/testing/manual_timers.h"
#include "scheduling/testing/recording_sink.h"
#include "sequences/scheduled_model.h"

namespace braid {
namespace {

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
    if (!returns_late) Return(execution->rows);
    InferenceResponse response;
    if (executions == fails_at) response.status = InternalError("no good");
    for (auto& request : execution->requests) {
      if (listener == nullptr) {
        request->Respond(response, true);
      } else {
        listener->OnResponse(*this, *request, response, true, {});
      }
    }
  }
  void Return(int64_t count) {
    if (listener != nullptr) listener->OnExecuted(*this, count, 1, {});
  }

  ExecutionListener* listener = nullptr;  // null: the requests answer themselves
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
    info.name = std::string("m");  // assigning the literal makes g++ 12 warn of an overlap that does not
                                   // exist
    info.max_batch_size = 8;
    info.inputs.resize(1);
    info.inputs[0].name = "IN";
    info.inputs[0].type = DataType::kInt32;
    info.inputs[0].shape = {-1, 1};
    sample.name = "first";
    sample.count = 3;
    Tensor input{"IN", DataType::kInt32, {2, 1}, CopyToHeap(std::vector<std::byte>(8))};
    sample.inputs.push_back(input);
  }
  Status Run(const std::function<void(InferenceRequest&)>& prepare = [](InferenceRequest&) {}) {
    return RunWarmup(
        info, {&instances[0], &instances[1]}, {sample}, prepare,
        [](Instance& instance, auto execution) { instance.Execute(std::move(execution)); },
        [](const std::string&) {});
  }

  ServableInfo info;
  WarmupSample sample;
  AnsweringInstance instances[2];
};

TEST(Warmup, RunsEachSampleAsOftenAsItSaysOnEachInstance) {
  Fixture f;
  f.instances[0].prepared = f.instances[1].prepared = 7;
  EXPECT_TRUE(f.Run([](InferenceRequest& request) { request.priority = 7; }).ok());
  for (const auto& instance : f.instances) {
    EXPECT_EQ(instance.executions, 3);
    EXPECT_EQ(instance.rows, 6);
    EXPECT_EQ(instance.unprepared, 0);
  }
}

TEST(Warmup, TheFirstFailureEndsIt) {
  Fixture f;
  f.instances[0].fails_at = 2;
  const Status status = f.Run();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "failed to run warmup sample 'first': no good; ");
  EXPECT_EQ(f.instances[0].executions, 2);
  EXPECT_EQ(f.instances[1].executions, 0);
}

TEST(Warmup, ASampleThatDoesNotFitTheModelFails) {
  Fixture f;
  f.sample.inputs[0].name = "OTHER";
  const Status status = f.Run();
  EXPECT_EQ(status.message(),
            "failed to run warmup sample 'first': [request id: <id_unknown>] expected 1 inputs but got 0 "
            "inputs for "
            "model 'm'. Got input(s) [], but missing required input(s) ['IN']. Please provide all required "
            "input(s).; ");
}

// Including control tensors that the server would add itself.
TEST(Warmup, InputsThatNoClientSendsAreGivenOnce) {
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

// Only the sample says its batch size.
TEST(Warmup, OfAModelWhoseInputsAreOptional) {
  Fixture f;
  f.info.inputs[0].optional = true;
  f.sample.inputs[0].name = "OTHER";
  f.sample.batch_size = 2;
  EXPECT_TRUE(f.Run().ok());
  EXPECT_EQ(f.instances[0].rows, 6);
}

// --- The warm-up at the start of a model ---------------------------------------------------------

class AnsweringBackend final : public BackendModel {
 public:
  BufferAllocator& input_allocator() override { return allocator_; }
  std::vector<Instance*> instances() override { return {&instance}; }
  Status Start(ExecutionListener& listener, const std::function<void(const std::string&)>&) override {
    instance.listener = &listener;
    return OkStatus();
  }
  void Stop(int64_t) override { ++stops; }
  Readiness readiness() const override { return {}; }

  AnsweringInstance instance;
  int stops = 0;

 private:
  HeapAllocator allocator_;
};

class WarmModel : public ::testing::Test {
 protected:
  WarmModel() {
    f_.info.config = std::make_shared<const inference::ModelConfig>();
    f_.info.warmup = {f_.sample};
  }
  ~WarmModel() override {
    if (model_ == nullptr) return;
    model_->gate().Close();
    model_->Stop(0);
  }

  Status Start() {
    auto started = StartModel(f_.info, std::move(owned_), timers_, log_, [](const std::string&) {});
    if (started.ok()) model_ = *started;
    return started.status();
  }
  void Infer(RecordingSink& sink) {
    auto request = std::make_unique<InferenceRequest>();
    request->inputs = f_.sample.inputs;
    request->sink = &sink;
    request->servable = ServableHandle::Enter(model_);
    model_->Infer(std::move(request));
  }
  StatisticsSnapshot stats() { return model_->statistics().Snapshot(); }

  Fixture f_;
  ManualTimers timers_;
  Logger log_;
  std::unique_ptr<AnsweringBackend> owned_ = std::make_unique<AnsweringBackend>();
  AnsweringInstance& instance_ = owned_->instance;
  std::shared_ptr<InstancePool> model_;
};

TEST_F(WarmModel, CountsNothing) {
  ASSERT_TRUE(Start().ok());
  EXPECT_EQ(instance_.executions, 3);
  EXPECT_EQ(stats().execution_count, 0u);
  EXPECT_EQ(stats().success.count, 0u);
  EXPECT_TRUE(model_->info().warmup.empty());
}

TEST_F(WarmModel, DoesNotStartWhenASampleFails) {
  instance_.fails_at = 1;
  EXPECT_EQ(Start().message(), "failed to run warmup sample 'first': no good; ");
}

TEST_F(WarmModel, ReturnsThatComeAfterTheAnswerAreNotTheModels) {
  instance_.returns_late = true;
  ASSERT_TRUE(Start().ok());
  for (int i = 0; i < 3; ++i) instance_.Return(2);
  EXPECT_EQ(stats().execution_count, 0u);
  // From here on all results belong to requests.
  RecordingSink sink;
  Infer(sink);
  EXPECT_TRUE(sink.ended);
  instance_.Return(2);
  EXPECT_EQ(stats().execution_count, 1u);
  // Executions of a dying instance do not return.
  instance_.listener->OnAvailability(instance_, false);
  EXPECT_TRUE(model_->readiness().ready);
}

}  // namespace
}  // namespace braid
