// Stateful models: sequences whose states are given to whichever infer request is next, compared bit for bit
// with OpenVINO's own variables.
#include <gmock/gmock.h>

#include <openvino/pass/low_latency.hpp>
#include <openvino/pass/manager.hpp>

#include "backends/openvino/model_states.h"
#include "backends/openvino/testing/stateful_models.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PlainListener final : public ExecutionListener {
 public:
  void OnExecuted(Instance&, int64_t, size_t, const ExecutionTimes&) override {}
  void OnResponse(Instance&, InferenceRequest& request, std::optional<InferenceResponse> response, bool final,
                  const ExecutionTimes&) override {
    request.Respond(std::move(response), final);
  }
  void OnRescheduled(Instance&, std::unique_ptr<InferenceRequest>) override {}
  void OnUnstarted(Instance&, std::vector<std::unique_ptr<Execution>>) override {}
  void OnAvailability(Instance&, bool) override {}
};

std::vector<std::byte> BytesOf(const Tensor& tensor) {
  return {tensor.data.data(), tensor.data.data() + tensor.data.size()};
}
std::vector<std::byte> BytesOf(const ov::Tensor& tensor) {
  const auto* data = static_cast<const std::byte*>(tensor.data());
  return {data, data + tensor.get_byte_size()};
}
std::vector<size_t> DimsOf(const ov::Tensor& tensor) { return tensor.get_shape(); }
std::vector<size_t> DimsOf(const Tensor& tensor) { return {tensor.shape.begin(), tensor.shape.end()}; }

class StatefulModels : public OpenVinoHarness {
 protected:
  // A model that runs, spoken to as a scheduler does.
  struct Served {
    ServableInfo info;
    std::unique_ptr<BackendModel> model;
    PlainListener listener;
    ~Served() {
      if (model != nullptr) model->Stop(SteadyNowNs() + 10'000'000'000);
    }

    // One step on an instance: the client's outputs; `states` are those of the sequence, none in a new one.
    // A step that fails leaves them alone.
    Result<std::vector<Tensor>> Step(size_t instance, std::vector<Tensor> inputs,
                                     std::vector<Tensor>& states) {
      WaitingSink sink;
      auto execution = std::make_unique<Execution>();
      execution->rows = 1;
      execution->on_callers_thread = true;
      auto request = std::make_unique<InferenceRequest>();
      request->inputs = std::move(inputs);
      request->inputs.insert(request->inputs.end(), states.begin(), states.end());
      request->sink = &sink;
      execution->requests.push_back(std::move(request));
      model->instances().at(instance)->Execute(std::move(execution));
      InferenceResponse response = sink.Wait();
      if (!response.status.ok()) return response.status;
      const size_t own = info.outputs.size();
      EXPECT_EQ(response.outputs.size(), own + info.stateful->states.size());
      states.assign(response.outputs.begin() + static_cast<ptrdiff_t>(own), response.outputs.end());
      response.outputs.resize(own);
      return std::move(response.outputs);
    }
  };

  OvmsModelConfig Stateful() {
    OvmsModelConfig config = Config();
    config.stateful = true;
    config.nireq = 2;
    return config;
  }
  std::unique_ptr<Served> Serve(const OvmsModelConfig& config) {
    auto loaded = Load(config);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    if (!loaded.ok()) return nullptr;
    auto served = std::make_unique<Served>();
    served->info = std::move(loaded->info);
    served->model = std::move(loaded->model);
    const Status started = served->model->Start(served->listener, [](const std::string&) {});
    EXPECT_TRUE(started.ok()) << started;
    return started.ok() ? std::move(served) : nullptr;
  }

  // Runs three sequences beside each other, over two instances, and each by itself with the variables of an
  // infer request; the results have the same bits. `inputs` makes those of a step of a sequence.
  void CompareWithVariables(const OvmsModelConfig& config, bool are_ports,
                            const std::function<std::vector<Tensor>(int sequence, int step)>& inputs) {
    auto model = core_.read_model(VersionPath() + "/model.xml");
    if (config.low_latency_transformation) {
      ov::pass::Manager manager;
      manager.register_pass<ov::pass::LowLatency2>();
      manager.run_passes(model);
    }
    const auto taken = TakeStates(*model->clone());
    ASSERT_TRUE(taken.ok()) << taken.status();
    EXPECT_EQ(taken->are_ports, are_ports);
    ov::CompiledModel compiled = core_.compile_model(model, "CPU");
    auto served = Serve(config);
    ASSERT_NE(served, nullptr);
    std::vector<ov::InferRequest> own;
    for (int i = 0; i < 3; ++i) own.push_back(compiled.create_infer_request());
    std::vector<std::vector<Tensor>> states(3);
    for (int step = 0; step < 12; ++step) {
      for (int sequence = 0; sequence < 3; ++sequence) {
        SCOPED_TRACE("step " + std::to_string(step) + " of sequence " + std::to_string(sequence));
        // The last sequence begins anew in between.
        const bool begins = sequence == 2 && step == 6;
        auto& request = own[static_cast<size_t>(sequence)];
        auto& mine = states[static_cast<size_t>(sequence)];
        if (begins) request.reset_state();
        if (begins) mine.clear();
        const std::vector<Tensor> values = inputs(sequence, step);
        for (size_t i = 0; i < values.size(); ++i) {
          request.set_input_tensor(i, ov::Tensor(compiled.input(i).get_element_type(), DimsOf(values[i]),
                                                 const_cast<std::byte*>(values[i].data.data())));
        }
        request.infer();
        auto outputs = served->Step(static_cast<size_t>((step + sequence) % 2), values, mine);
        ASSERT_TRUE(outputs.ok()) << outputs.status();
        for (size_t i = 0; i < outputs->size(); ++i) {
          const ov::Tensor expected = request.get_output_tensor(i);
          EXPECT_EQ(DimsOf((*outputs)[i]), DimsOf(expected));
          EXPECT_EQ(BytesOf((*outputs)[i]), BytesOf(expected)) << "output " << i;
        }
        CompareStates(request.query_state(), served->info.stateful->states, mine);
      }
    }
    EXPECT_EQ(served->info.inputs.size(), inputs(0, 0).size());
  }

  static void CompareStates(std::vector<ov::VariableState> expected, const std::vector<StateSpec>& specs,
                            const std::vector<Tensor>& states) {
    ASSERT_EQ(states.size(), specs.size());
    for (size_t i = 0; i < specs.size(); ++i) {
      const auto variable = std::find_if(expected.begin(), expected.end(),
                                         [&](const auto& each) { return each.get_name() == specs[i].name; });
      ASSERT_NE(variable, expected.end()) << specs[i].name;
      EXPECT_EQ(states[i].name, specs[i].name);
      EXPECT_EQ(states[i].type, specs[i].type);
      EXPECT_TRUE(ShapeMatches(specs[i].shape, states[i].shape)) << ShapeToString(states[i].shape);
      EXPECT_EQ(DimsOf(states[i]), DimsOf(variable->get_state()));
      EXPECT_EQ(BytesOf(states[i]), BytesOf(variable->get_state())) << specs[i].name;
    }
  }

  ov::Core core_;
};

// What a step of a sequence is given: no two are the same.
std::vector<float> Values(size_t count, int sequence, int step) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) {
    values.push_back(0.37f * static_cast<float>(i + 1) + 1.11f * static_cast<float>(sequence) -
                     0.083f * static_cast<float>(step * step));
  }
  return values;
}

TEST_F(StatefulModels, ARunningSumIsKeptOutsideOfTheInferRequests) {
  Save(models::RunningSum({1, 3}));
  OvmsModelConfig config = Stateful();
  config.max_sequence_number = 9;
  config.idle_sequence_cleanup = false;
  config.allow_in_pipelines = true;
  auto served = Serve(config);
  ASSERT_NE(served, nullptr);
  const ServableInfo& info = served->info;
  ASSERT_EQ(info.inputs.size(), 1u);
  EXPECT_EQ(info.inputs[0].name, "in");
  ASSERT_EQ(info.outputs.size(), 1u);
  EXPECT_EQ(info.outputs[0].name, "sum");
  ASSERT_TRUE(info.stateful.has_value());
  ASSERT_EQ(info.stateful->states.size(), 1u);
  EXPECT_EQ(info.stateful->states[0].name, "total");
  EXPECT_EQ(info.stateful->states[0].type, DataType::kFp32);
  EXPECT_THAT(Dims(info.stateful->states[0].shape), ElementsAre(1, 3));
  EXPECT_EQ(info.stateful->max_sequences, 9u);
  EXPECT_FALSE(info.stateful->idle_cleanup);
  EXPECT_TRUE(info.stateful->allow_in_pipelines);

  std::vector<Tensor> one;
  std::vector<Tensor> other;
  auto outputs = served->Step(0, {Floats("in", {1, 3}, {1, 2, 3})}, one);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT(ValuesOf<float>(outputs->at(0)), ElementsAre(1, 2, 3));
  ASSERT_TRUE(served->Step(0, {Floats("in", {1, 3}, {100, 100, 100})}, other).ok());
  outputs = served->Step(1, {Floats("in", {1, 3}, {1, 1, 1})}, one);
  EXPECT_THAT(ValuesOf<float>(outputs->at(0)), ElementsAre(2, 3, 4));
  EXPECT_THAT(ValuesOf<float>(one.at(0)), ElementsAre(2, 3, 4));
  EXPECT_THAT(ValuesOf<float>(other.at(0)), ElementsAre(100, 100, 100));
}

TEST_F(StatefulModels, RunningSumsAreThoseOfVariables) {
  const auto inputs = [](int sequence, int step) {
    return std::vector<Tensor>{Floats("in", {1, 3}, Values(3, sequence, step))};
  };
  const ov::Output<ov::Node> none;
  Save(models::RunningSum({1, 3}, none, {1, 3}));
  CompareWithVariables(Stateful(), true, inputs);
  Save(models::RunningSum({1, 3}, models::FloatConstant({1, 3}, {5, -6, 7}), {1, 3}));
  CompareWithVariables(Stateful(), true, inputs);
  // What it begins with is the result of a computation, which is done when the model is loaded.
  auto init = std::make_shared<ov::opset13::Sqrt>(models::FloatConstant({1, 3}, {2, 3, 5}));
  Save(models::RunningSum({1, 3}, init, {1, 3}));
  CompareWithVariables(Stateful(), true, inputs);
}

TEST_F(StatefulModels, AnyShapeThatTheStateMayHave) {
  // The state takes the shape of what was added to it.
  const auto inputs = [](int sequence, int step) {
    const int64_t rows = step < 4 ? 1 : 1 + sequence;
    return std::vector<Tensor>{
        Floats("in", {rows, 2}, Values(static_cast<size_t>(rows) * 2, sequence, step))};
  };
  Save(models::RunningSum({-1, 2}, models::FloatConstant({1, 2}, {3, 4}), {-1, 2}));
  CompareWithVariables(Stateful(), true, inputs);
  Save(models::RunningSum({-1, -1}, models::FloatConstant({1, 1}, {3}), {-1, -1}));
  CompareWithVariables(Stateful(), true, inputs);
}

// A row is added at each step, to none at first.
TEST_F(StatefulModels, AStateThatGrows) {
  auto in = models::Input("in", ov::element::f32, ov::PartialShape{1, 4});
  auto variable = models::MakeVariable("rows", ov::PartialShape{-1, 4});
  auto read = std::make_shared<ov::opset13::ReadValue>(variable);
  auto rows = std::make_shared<ov::opset13::Concat>(ov::OutputVector{read, in}, 0);
  auto assign = std::make_shared<ov::opset13::Assign>(rows, variable);
  auto axis = ov::opset13::Constant::create(ov::element::i64, {1}, {0});
  auto sum = std::make_shared<ov::opset13::ReduceSum>(rows, axis);
  Save(std::make_shared<ov::Model>(ov::OutputVector{models::Named("sum", sum->output(0))},
                                   ov::SinkVector{assign}, ov::ParameterVector{in}));
  CompareWithVariables(Stateful(), true, [](int sequence, int step) {
    return std::vector<Tensor>{Floats("in", {1, 4}, Values(4, sequence, step))};
  });
}

TEST_F(StatefulModels, ALoopBecomesStatesByLowLatency) {
  OvmsModelConfig config = Stateful();
  Save(models::LstmLoop(1, false));
  EXPECT_EQ(LoadError(config),
            "model 'm' cannot be stateful: it keeps nothing between requests, since it has no variables (pairs "
            "of ReadValue and Assign) that change; its TensorIterator becomes some with "
            "low_latency_transformation");
  config.low_latency_transformation = true;
  const auto inputs = [](int64_t steps) {
    return [steps](int sequence, int step) {
      return std::vector<Tensor>{
          Floats("x", {1, steps, 4}, Values(static_cast<size_t>(steps) * 4, sequence, step))};
    };
  };
  CompareWithVariables(config, true, inputs(1));
  // A loop of several steps stays one.
  Save(models::LstmLoop(3, false));
  CompareWithVariables(config, true, inputs(3));
  // The file has three steps, the settings say one.
  config.shapes["x"].dimensions = {{1, 1}, {1, 1}, {4, 4}};
  auto served = Serve(config);
  ASSERT_NE(served, nullptr);
  EXPECT_THAT(Dims(served->info.inputs[0].shape), ElementsAre(1, 1, 4));
  EXPECT_EQ(served->info.inputs[0].name, "x");
  std::vector<Tensor> states;
  EXPECT_TRUE(served->Step(0, inputs(1)(0, 0), states).ok());
  EXPECT_EQ(states.size(), 2u);
}

// What the states of a loop begin with by itself, the transformation replaces by zeros; without that they may
// be constants, or inputs, which only variables can take.
TEST_F(StatefulModels, LoopsWhoseStatesBeginAsTheModelSays) {
  for (const bool is_input : {false, true}) {
    auto model = models::LstmLoop(1, is_input);
    ov::pass::Manager manager;
    manager.register_pass<ov::pass::LowLatency2>(/*use_const_initializer=*/false);
    manager.run_passes(model);
    Save(model);
    CompareWithVariables(Stateful(), !is_input, [is_input](int sequence, int step) {
      std::vector<Tensor> inputs{Floats("x", {1, 1, 4}, Values(4, sequence, step))};
      if (is_input) inputs.push_back(Floats("c0", {1, 3}, Values(3, sequence, step + 1)));
      return inputs;
    });
  }
}

TEST_F(StatefulModels, AnInputWhoseShapeAloneIsUsedLeavesTheStateAConstant) {
  Save(models::LstmLoop(1, true));
  OvmsModelConfig config = Stateful();
  config.low_latency_transformation = true;
  CompareWithVariables(config, true, [](int sequence, int step) {
    return std::vector<Tensor>{Floats("x", {1, 1, 4}, Values(4, sequence, step)),
                               Floats("c0", {1, 3}, Values(3, sequence, step + 1))};
  });
}

TEST_F(StatefulModels, CellsWithStatesOfTheirOwn) {
  Save(models::GruStep());
  CompareWithVariables(Stateful(), true, [](int sequence, int step) {
    return std::vector<Tensor>{Floats("x", {1, 4}, Values(4, sequence, step))};
  });
}

TEST_F(StatefulModels, TwoStatesAreInTheOrderOfTheirNames) {
  Save(models::TwoStates());
  CompareWithVariables(Stateful(), true, [](int sequence, int step) {
    return std::vector<Tensor>{Floats("in", {2}, Values(2, sequence, step))};
  });
  const auto loaded = Load(Stateful());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->info.stateful->states.size(), 2u);
  EXPECT_EQ(loaded->info.stateful->states[0].name, "count");
  EXPECT_EQ(loaded->info.stateful->states[0].type, DataType::kInt64);
  EXPECT_EQ(loaded->info.stateful->states[1].name, "z_sum");
}

TEST_F(StatefulModels, AStateThatBeginsWithAnInputStaysAVariable) {
  Save(models::BeginsWithInput());
  CompareWithVariables(Stateful(), false, [](int sequence, int step) {
    return std::vector<Tensor>{Floats("in", {1, 2}, Values(2, sequence, step))};
  });
}

TEST_F(StatefulModels, AVariableThatIsReadTwice) {
  Save(models::ReadTwice());
  CompareWithVariables(Stateful(), true, [](int sequence, int step) {
    return std::vector<Tensor>{Floats("in", {1, 2}, Values(2, sequence, step))};
  });
}

}  // namespace
}  // namespace braid
