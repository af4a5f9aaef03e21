// Stateful models: any infer request takes the states of a sequence. Results are compared bit for bit with
// those of OpenVINO's own variables.
#include <gmock/gmock.h>

#include <openvino/pass/low_latency.hpp>
#include <openvino/pass/manager.hpp>
#include <set>
#include <thread>

#include "backends/openvino/model_states.h"
#include "backends/openvino/testing/stateful_models.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
  // A running model, used as a scheduler does.
  struct Served {
    ServableInfo info;
    std::unique_ptr<BackendModel> model;
    PassingListener listener;
    ~Served() {
      if (model != nullptr) model->Stop(SteadyNowNs() + 10'000'000'000);
    }

    // Runs one step on an instance; returns the client's outputs. `states` are those of the sequence, none in
    // a new one. A step that fails leaves them unchanged.
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
    // With bf16 support, OpenVINO uses it by default, and differently in the two forms of a model.
    config.plugin_config["INFERENCE_PRECISION_HINT"] = "f32";
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

  // Runs three sequences at once over two instances, and each alone with the variables of an infer request.
  // The results have the same bits. `inputs` makes the inputs of a step of a sequence.
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
    ov::CompiledModel compiled =
        core_.compile_model(model, "CPU", ov::hint::inference_precision(ov::element::f32));
    auto served = Serve(config);
    ASSERT_NE(served, nullptr);
    std::vector<ov::InferRequest> own;
    for (int i = 0; i < 3; ++i) own.push_back(compiled.create_infer_request());
    std::vector<std::vector<Tensor>> states(3);
    for (int step = 0; step < 12; ++step) {
      for (int sequence = 0; sequence < 3; ++sequence) {
        SCOPED_TRACE("step " + std::to_string(step) + " of sequence " + std::to_string(sequence));
        // The last sequence begins again in between.
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
      // The device gives a scalar state one dimension.
      if (!states[i].shape.empty()) {
        EXPECT_EQ(DimsOf(states[i]), DimsOf(variable->get_state()));
      }
      EXPECT_EQ(BytesOf(states[i]), BytesOf(variable->get_state())) << specs[i].name;
    }
  }

  ov::Core core_;
};

// The inputs for a step of a sequence, different in each step.
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
  // The initial value is computed, once, when the model is loaded.
  auto init = std::make_shared<ov::opset13::Sqrt>(models::FloatConstant({1, 3}, {2, 3, 5}));
  Save(models::RunningSum({1, 3}, init, {1, 3}));
  CompareWithVariables(Stateful(), true, inputs);
}

TEST_F(StatefulModels, AnyShapeThatTheStateMayHave) {
  // The state takes the shape of the tensor that was added to it.
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

// Each step adds a row to a state that begins empty.
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
            "model 'm' cannot be stateful: it has no variables (pairs of ReadValue and Assign) that change; "
            "low_latency_transformation can turn its TensorIterator into variables");
  config.low_latency_transformation = true;
  const auto inputs = [](int64_t steps) {
    return [steps](int sequence, int step) {
      return std::vector<Tensor>{
          Floats("x", {1, steps, 4}, Values(static_cast<size_t>(steps) * 4, sequence, step))};
    };
  };
  CompareWithVariables(config, true, inputs(1));
  // A loop of several steps stays a loop.
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

// The transformation replaces a loop's own initial states with zeros. Without it they may be constants, or
// inputs, which only variables support.
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
  EXPECT_EQ(loaded->info.stateful->states[0].type, DataType::kInt32);
  EXPECT_EQ(loaded->info.stateful->states[1].name, "z_sum");
}

TEST_F(StatefulModels, AStateThatBeginsWithAnInputStaysAVariable) {
  Save(models::BeginsWithInput());
  CompareWithVariables(Stateful(), false, [](int sequence, int step) {
    return std::vector<Tensor>{Floats("in", {1, 2}, Values(2, sequence, step))};
  });
}

TEST_F(StatefulModels, VariablesOfAnyShapeMayBeginWithAnInput) {
  Save(models::BeginsWithInput(ov::PartialShape{-1, -1}));
  CompareWithVariables(Stateful(), false, [](int sequence, int step) {
    const int64_t rows = 1 + sequence;
    const Shape shape = step < 5 ? Shape{1, 2} : Shape{rows, 2};
    return std::vector<Tensor>{
        Floats("in", shape, Values(static_cast<size_t>(*ElementCount(shape)), sequence, step))};
  });
  Save(models::BeginsWithInput(ov::PartialShape{}));
  CompareWithVariables(Stateful(), false, [](int sequence, int step) {
    return std::vector<Tensor>{Floats("in", {}, Values(1, sequence, step))};
  });
}

// OpenVINO's own variables lose such a state on a CPU.
TEST_F(StatefulModels, AStateMayBeTheLastInputAsItCame) {
  for (const bool begins_with_input : {false, true}) {
    Save(models::Difference(begins_with_input));
    auto served = Serve(Stateful());
    ASSERT_NE(served, nullptr);
    std::vector<std::vector<Tensor>> states(2);
    for (int step = 0; step < 6; ++step) {
      for (size_t i = 0; i < states.size(); ++i) {
        const auto sequence = static_cast<int>(i);
        const std::vector<float> now = Values(2, sequence, step);
        std::vector<float> before = begins_with_input ? now : std::vector<float>{1, 2};
        if (step > 0) before = Values(2, sequence, step - 1);
        const Tensor input = Floats("in", {1, 2}, now);
        const auto outputs = served->Step(static_cast<size_t>(step) % 2, {input}, states[i]);
        ASSERT_TRUE(outputs.ok()) << outputs.status();
        EXPECT_THAT(ValuesOf<float>(outputs->at(0)), ElementsAre(now[0] - before[0], now[1] - before[1]));
        EXPECT_EQ(ValuesOf<float>(outputs->at(1)), before);
        EXPECT_EQ(ValuesOf<float>(states[i].at(0)), now);
        EXPECT_EQ(ValuesOf<float>(input), now);
      }
    }
  }
}

// OpenVINO's own variables do not support this on a CPU.
TEST_F(StatefulModels, AVariableMayBeReadTwice) {
  Save(models::ReadTwice());
  auto served = Serve(Stateful());
  ASSERT_NE(served, nullptr);
  std::vector<Tensor> states;
  for (int step = 0; step < 5; ++step) {
    const auto outputs = served->Step(0, {Floats("in", {1, 2}, {3, 5})}, states);
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    const float first = 1 + 3 * static_cast<float>(step);
    const float second = 2 + 5 * static_cast<float>(step);
    EXPECT_THAT(ValuesOf<float>(outputs->at(0)), ElementsAre(11 * first + 3, 11 * second + 5));
  }
  EXPECT_EQ(states.size(), 1u);
}

TEST_F(StatefulModels, AStateMayHaveAnyTypeOfNumber) {
  Save(models::TwoStates(ov::element::i64));
  auto served = Serve(Stateful());
  ASSERT_NE(served, nullptr);
  std::vector<Tensor> states;
  for (int step = 1; step < 5; ++step) {
    const auto outputs = served->Step(0, {Floats("in", {2}, {1, 2})}, states);
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    const auto s = static_cast<float>(step);
    EXPECT_THAT(ValuesOf<float>(outputs->at(0)), ElementsAre((100 + s) * (7 + s), (-100 + 2 * s) * (7 + s)));
    EXPECT_THAT(ValuesOf<int64_t>(states.at(0)), ElementsAre(7 + step));
    EXPECT_THAT(Dims(states[0].shape), IsEmpty());
  }
}

TEST_F(StatefulModels, AVariableMayBeCalledAsAnInputIs) {
  auto in = models::Input("s", ov::element::f32, ov::PartialShape{1});
  auto other = models::Input("other", ov::element::f32, ov::PartialShape{1});
  auto variable = models::MakeVariable("s", ov::PartialShape{1});
  auto read = std::make_shared<ov::opset13::ReadValue>(models::FloatConstant({1}, {1000}), variable);
  auto sum = std::make_shared<ov::opset13::Add>(std::make_shared<ov::opset13::Add>(read, in), other);
  auto assign = std::make_shared<ov::opset13::Assign>(sum, variable);
  auto out = std::make_shared<ov::opset13::Subtract>(sum, in);
  Save(std::make_shared<ov::Model>(ov::OutputVector{models::Named("out", out->output(0))},
                                   ov::SinkVector{assign}, ov::ParameterVector{in, other}));
  auto served = Serve(Stateful());
  ASSERT_NE(served, nullptr);
  std::vector<Tensor> states;
  const Tensor a = Floats("s", {1}, {1});
  const Tensor b = Floats("other", {1}, {20});
  // Clients may send inputs in any order.
  auto outputs = served->Step(0, {b, a}, states);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT(ValuesOf<float>(outputs->at(0)), ElementsAre(1020));
  outputs = served->Step(0, {b, a}, states);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT(ValuesOf<float>(outputs->at(0)), ElementsAre(1041));
  EXPECT_THAT(ValuesOf<float>(states.at(0)), ElementsAre(1042));
}

TEST_F(StatefulModels, VariablesThatDoNotChangeAreNoStates) {
  auto in = models::Input("in", ov::element::f32, ov::PartialShape{1});
  auto only_read = models::MakeVariable("only_read", ov::PartialShape{1});
  auto only_assigned = models::MakeVariable("only_assigned", ov::PartialShape{1});
  auto read = std::make_shared<ov::opset13::ReadValue>(models::FloatConstant({1}, {5}), only_read);
  auto sum = std::make_shared<ov::opset13::Add>(read, in);
  ov::SinkVector sinks{std::make_shared<ov::opset13::Assign>(sum, only_assigned)};
  ov::Model still(ov::OutputVector{sum}, sinks, ov::ParameterVector{in});
  auto taken = TakeStates(still);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_THAT(taken->states, IsEmpty());
  EXPECT_EQ(still.inputs().size(), 1u);
  EXPECT_EQ(still.outputs().size(), 1u);
  EXPECT_THAT(still.get_sinks(), IsEmpty());
  EXPECT_THAT(still.get_variables(), IsEmpty());
}

TEST_F(StatefulModels, TypesThatCannotBeKeptAreNamed) {
  const auto load_error = [this](const ov::element::Type& type, const ov::PartialShape& shape) {
    auto in = models::Input("in", type, ov::PartialShape{1});
    auto variable = models::MakeVariable("odd", shape, type);
    auto read = std::make_shared<ov::opset13::ReadValue>(variable);
    auto both = std::make_shared<ov::opset13::Concat>(ov::OutputVector{read, in}, 0);
    auto out = std::make_shared<ov::opset13::ShapeOf>(both);
    Save(std::make_shared<ov::Model>(ov::OutputVector{models::Named("out", out->output(0))},
                                     ov::SinkVector{std::make_shared<ov::opset13::Assign>(in, variable)},
                                     ov::ParameterVector{in}));
    return LoadError(Stateful());
  };
  EXPECT_EQ(load_error(ov::element::string, ov::PartialShape{1}),
            "state 'odd' is of type string, which cannot be kept between requests");
  EXPECT_EQ(load_error(ov::element::f32, ov::PartialShape::dynamic()),
            "state 'odd' has no fixed number of dimensions, so it cannot be kept between requests");
}

TEST_F(StatefulModels, LowLatencyWithoutALoopChangesNothing) {
  OvmsModelConfig config = Stateful();
  config.low_latency_transformation = true;
  Save(models::RunningSum({1, 3}));
  CompareWithVariables(config, true, [](int sequence, int step) {
    return std::vector<Tensor>{Floats("in", {1, 3}, Values(3, sequence, step))};
  });
  Save(models::Affine({1, 2}));
  EXPECT_EQ(LoadError(config),
            "model 'm' cannot be stateful: it has no variables (pairs of ReadValue and Assign) that change, "
            "and low_latency_transformation found no TensorIterator or Loop");
}

TEST_F(StatefulModels, StatesThatDoNotFitAreRefusedAndLeaveTheSequenceAsItIs) {
  struct Case {
    std::shared_ptr<ov::Model> model;
    Shape shape;
  };
  for (const Case& each : {Case{models::TwoStates(), {2}}, Case{models::BeginsWithInput(), {1, 2}}}) {
    Save(each.model);
    auto served = Serve(Stateful());
    ASSERT_NE(served, nullptr);
    const std::vector<Tensor> inputs{Floats("in", each.shape, {1, 2})};
    std::vector<Tensor> states;
    ASSERT_TRUE(served->Step(0, inputs, states).ok());
    auto expected = states;
    const auto first = served->Step(0, inputs, expected);
    ASSERT_TRUE(first.ok());
    std::vector<Tensor> bad = states;
    bad[0].type = DataType::kInt16;
    EXPECT_EQ(served->Step(0, inputs, bad).status().code(), StatusCode::kInvalidArgument);
    bad = states;
    bad.back().data = bad.back().data.Slice(0, 4);
    EXPECT_EQ(served->Step(0, inputs, bad).status().code(), StatusCode::kInvalidArgument);
    bad = states;
    bad.push_back(states[0]);
    EXPECT_THAT(served->Step(0, inputs, bad).status().message(), HasSubstr("with the states"));
    const auto again = served->Step(0, inputs, states);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(BytesOf(again->at(0)), BytesOf(first->at(0)));
    EXPECT_EQ(BytesOf(states[0]), BytesOf(expected[0]));
  }
}

TEST_F(StatefulModels, AStepThatFailsLeavesTheStatesAsTheyWere) {
  Save(models::RunningSum({-1, 2}, models::FloatConstant({1, 2}, {0, 0}), {-1, 2}));
  auto served = Serve(Stateful());
  ASSERT_NE(served, nullptr);
  std::vector<Tensor> states;
  ASSERT_TRUE(served->Step(0, {Floats("in", {3, 2}, {1, 2, 3, 4, 5, 6})}, states).ok());
  // Two rows cannot be added to three.
  const auto failed = served->Step(0, {Floats("in", {2, 2}, {1, 1, 1, 1})}, states);
  EXPECT_EQ(failed.status().code(), StatusCode::kInvalidArgument) << failed.status();
  const auto good = served->Step(0, {Floats("in", {1, 2}, {10, 10})}, states);
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_THAT(ValuesOf<float>(good->at(0)), ElementsAre(11, 12, 13, 14, 15, 16));
}

TEST_F(StatefulModels, TheMemoryOfStatesIsUsedAgain) {
  for (const ov::PartialShape& shape : {ov::PartialShape{1, 64}, ov::PartialShape{-1, 64}}) {
    Save(models::RunningSum(shape, models::FloatConstant({1, 64}, std::vector<float>(64, 0)), shape));
    auto served = Serve(Stateful());
    ASSERT_NE(served, nullptr);
    constexpr size_t kSequences = 7;
    std::vector<std::vector<Tensor>> states(kSequences);
    std::set<const std::byte*> places;
    for (int step = 0; step < 100; ++step) {
      for (size_t i = 0; i < kSequences; ++i) {
        const std::vector<float> ones(64, 1);
        ASSERT_TRUE(
            served->Step((i + static_cast<size_t>(step)) % 2, {Floats("in", {1, 64}, ones)}, states[i]).ok());
        places.insert(states[i].at(0).data.data());
        EXPECT_EQ(ValuesOf<float>(states[i][0]), std::vector<float>(64, static_cast<float>(step + 1)));
      }
    }
    // One piece for each sequence, and those being written.
    EXPECT_LE(places.size(), kSequences + 2);
  }
}

TEST_F(StatefulModels, StatesOutliveTheirModel) {
  for (const auto& model : {models::RunningSum({1, 2}), models::BeginsWithInput()}) {
    Save(model);
    auto served = Serve(Stateful());
    ASSERT_NE(served, nullptr);
    std::vector<Tensor> states;
    const auto outputs = served->Step(0, {Floats("in", {1, 2}, {3, 4})}, states);
    ASSERT_TRUE(outputs.ok());
    served.reset();
    EXPECT_EQ(BytesOf(states.at(0)), BytesOf(outputs->at(0)));
  }
}

// Each thread has an instance; the states of a sequence move between instances.
TEST_F(StatefulModels, InstancesRunBesideEachOther) {
  for (const auto& model : {models::TwoStates(), models::BeginsWithInput()}) {
    Save(model);
    auto served = Serve(Stateful());
    ASSERT_NE(served, nullptr);
    const Shape shape = served->info.inputs[0].shape;
    constexpr size_t kSequences = 4;
    std::vector<std::vector<Tensor>> states(2 * kSequences);
    std::vector<std::vector<std::byte>> last(2 * kSequences);
    for (size_t round = 0; round < 10; ++round) {
      std::vector<std::thread> threads;
      for (size_t t = 0; t < 2; ++t) {
        threads.emplace_back([&, t] {
          for (int step = 0; step < 20; ++step) {
            for (size_t i = 0; i < kSequences; ++i) {
              const size_t sequence = 2 * i + (t + round) % 2;
              const auto outputs = served->Step(t, {Floats("in", shape, {1, 2})}, states[sequence]);
              ASSERT_TRUE(outputs.ok()) << outputs.status();
              last[sequence] = BytesOf(outputs->at(0));
            }
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
    }
    for (size_t i = 1; i < states.size(); ++i) {
      EXPECT_EQ(last[i], last[0]);
      EXPECT_EQ(BytesOf(states[i][0]), BytesOf(states[0][0]));
    }
  }
}

// A compiled model from the cache has the states in the same places.
TEST_F(StatefulModels, CompiledModelsAreCached) {
  const std::string cache = folder_->path() + "/cache";
  std::filesystem::create_directories(cache);
  OpenVinoBackend::Options options;
  options.cache_directory = cache;
  backend_ = OpenVinoBackend::Create(options, log_).value();
  for (const bool ports : {true, false}) {
    Save(ports ? models::TwoStates() : models::BeginsWithInput());
    for (int i = 0; i < 2; ++i) {
      CompareWithVariables(Stateful(), ports, [ports](int sequence, int step) {
        const Shape shape = ports ? Shape{2} : Shape{1, 2};
        return std::vector<Tensor>{Floats("in", shape, Values(2, sequence, step))};
      });
    }
  }
  EXPECT_FALSE(std::filesystem::is_empty(cache));
}

// Without "stateful" nothing goes from one request to another.
TEST_F(StatefulModels, ModelsThatAreNotStatefulBeginAnewWithEachRequest) {
  struct Case {
    std::shared_ptr<ov::Model> model;
    std::string input;
    Shape shape;
  };
  const ov::Output<ov::Node> none;
  const Case cases[] = {{models::RunningSum({1, 2}), "in", {1, 2}},
                        {models::RunningSum({1, 2}, none, {1, 2}), "in", {1, 2}},
                        {models::BeginsWithInput(), "in", {1, 2}},
                        {models::TwoStates(), "in", {2}},
                        {models::GruStep(), "x", {1, 4}}};
  for (const Case& each : cases) {
    Save(each.model);
    OvmsModelConfig config = Config();
    config.nireq = 1;
    auto model = Start(config);
    ASSERT_NE(model, nullptr);
    EXPECT_FALSE(model->info().stateful.has_value());
    ov::CompiledModel compiled = core_.compile_model(each.model, "CPU");
    for (int step = 0; step < 5; ++step) {
      const auto count = static_cast<size_t>(*ElementCount(each.shape));
      const Tensor input = Floats(each.input, each.shape, Values(count, 0, step));
      ov::InferRequest fresh = compiled.create_infer_request();
      fresh.set_input_tensor(
          0, ov::Tensor(ov::element::f32, DimsOf(input), const_cast<std::byte*>(input.data.data())));
      fresh.infer();
      const InferenceResponse response = Infer(model, {input});
      ASSERT_TRUE(response.status.ok()) << response.status;
      EXPECT_EQ(response.outputs.size(), each.model->outputs().size());
      EXPECT_EQ(BytesOf(response.outputs.at(0)), BytesOf(fresh.get_output_tensor(0)));
    }
    Stop(model);
  }
}

TEST_F(StatefulModels, WhatIsReadTwiceBeginsAnewToo) {
  Save(models::ReadTwice());
  auto model = Start(Config());
  ASSERT_NE(model, nullptr);
  for (int i = 0; i < 3; ++i) {
    const InferenceResponse response = Infer(model, {Floats("in", {1, 2}, {3, 5})});
    ASSERT_TRUE(response.status.ok()) << response.status;
    EXPECT_THAT(ValuesOf<float>(response.outputs.at(0)), ElementsAre(14, 27));
  }
  Stop(model);
}

// A variable that is read and assigned in one of the branches of an If.
TEST_F(StatefulModels, VariablesWithinABranchAreRefused) {
  auto in = models::Input("in", ov::element::f32, ov::PartialShape{1});
  auto inner = std::make_shared<ov::opset13::Parameter>(ov::element::f32, ov::PartialShape{1});
  auto variable = models::MakeVariable("inside", ov::PartialShape{1});
  auto read = std::make_shared<ov::opset13::ReadValue>(models::FloatConstant({1}, {0}), variable);
  auto sum = std::make_shared<ov::opset13::Add>(read, inner);
  auto then_result = std::make_shared<ov::opset13::Result>(sum);
  auto then_body = std::make_shared<ov::Model>(
      ov::ResultVector{then_result}, ov::SinkVector{std::make_shared<ov::opset13::Assign>(sum, variable)},
      ov::ParameterVector{inner});
  auto other = std::make_shared<ov::opset13::Parameter>(ov::element::f32, ov::PartialShape{1});
  auto else_result = std::make_shared<ov::opset13::Result>(other);
  auto else_body = std::make_shared<ov::Model>(ov::ResultVector{else_result}, ov::ParameterVector{other});
  auto positive = std::make_shared<ov::opset13::Greater>(in, models::FloatConstant({1}, {0}));
  auto branch = std::make_shared<ov::opset13::If>(positive);
  branch->set_then_body(then_body);
  branch->set_else_body(else_body);
  branch->set_input(in, inner, other);
  auto out = branch->set_output(then_result, else_result);
  ov::Model model(ov::OutputVector{out}, ov::ParameterVector{in});
  EXPECT_EQ(TakeStates(model).status().message(),
            "state 'inside' is inside a loop or a branch, where no device can read it");
  bool changed = false;
  EXPECT_THAT(ForgetStates(model, changed), ElementsAre("inside"));
  EXPECT_TRUE(changed);
}

// A step that the network does not accept leaves the states of all sequences unchanged.
TEST_F(StatefulModels, AStepOfABadShapeSpoilsNothing) {
  for (const bool are_ports : {true, false}) {
    Save(are_ports ? models::RunningSum({1, -1}, models::FloatConstant({1, 2}, {0, 0}), {1, -1})
                   : models::BeginsWithInput({1, -1}));
    OvmsModelConfig config = Stateful();
    auto served = Serve(config);
    ASSERT_NE(served, nullptr);
    std::vector<Tensor> one;
    std::vector<Tensor> other;
    float expected = are_ports ? 0 : 2;
    for (int step = 0; step < 8; ++step) {
      SCOPED_TRACE(step);
      const auto instance = static_cast<size_t>(step % 2);
      expected += 1;
      auto outputs = served->Step(instance, {Floats("in", {1, 2}, {1, 1})}, one);
      ASSERT_TRUE(outputs.ok()) << outputs.status();
      EXPECT_THAT(ValuesOf<float>(outputs->at(0)), ElementsAre(expected, expected));
      auto bad = served->Step(instance, {Floats("in", {1, 3}, {1, 1, 1})}, one);
      ASSERT_FALSE(bad.ok());
      EXPECT_EQ(bad.status().code(), StatusCode::kInvalidArgument) << bad.status();
      EXPECT_THAT(bad.status().message(),
                  HasSubstr("model 'm' cannot take inputs of these shapes: in (1,3): "));
      auto more = served->Step(instance, {Floats("in", {1, 2}, {1, 1})}, other);
      ASSERT_TRUE(more.ok()) << more.status();
      EXPECT_THAT(ValuesOf<float>(more->at(0)), ElementsAre(expected, expected));
    }
  }
}

}  // namespace
}  // namespace braid
