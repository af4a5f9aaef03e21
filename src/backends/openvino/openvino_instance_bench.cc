// The overhead of an instance over an inference of a tiny model, on the caller's thread and on OpenVINO's;
// and the cost of a sequence's state.
#include <benchmark/benchmark.h>
#include <sched.h>

#include <atomic>
#include <cstring>
#include <openvino/op/util/variable.hpp>
#include <openvino/openvino.hpp>
#include <openvino/opsets/opset13.hpp>

#include "backends/openvino/compiled_facts.h"
#include "backends/openvino/model_states.h"
#include "backends/openvino/openvino_model.h"
#include "base/clock.h"

namespace braid {
namespace {

ov::Core& TheCore() {
  static ov::Core core;
  return core;
}

std::shared_ptr<ov::Model> TinyModel() {
  auto b = std::make_shared<ov::opset13::Parameter>(ov::element::f32, ov::PartialShape{1, 10});
  auto add = std::make_shared<ov::opset13::Add>(b, ov::opset13::Constant::create(ov::element::f32, {}, {1}));
  return std::make_shared<ov::Model>(ov::OutputVector{add->output(0)}, ov::ParameterVector{b});
}

std::unique_ptr<RequestSource> SourceOf(const std::shared_ptr<ov::Model>& model) {
  auto compile = [model]() -> Result<ov::CompiledModel> { return TheCore().compile_model(model, "CPU"); };
  return std::make_unique<RequestSource>(compile().value(), model, compile);
}

void BM_OpenVinoInfer(benchmark::State& state) {
  auto model = TheCore().compile_model(TinyModel(), "CPU");
  ov::InferRequest request = model.create_infer_request();
  for (auto _ : state) request.infer();
}
BENCHMARK(BM_OpenVinoInfer);

void BM_OpenVinoStartAndWait(benchmark::State& state) {
  auto model = TheCore().compile_model(TinyModel(), "CPU");
  ov::InferRequest request = model.create_infer_request();
  for (auto _ : state) {
    request.start_async();
    request.wait();
  }
}
BENCHMARK(BM_OpenVinoStartAndWait);

class Listener final : public ExecutionListener {
 public:
  void OnExecuted(Instance&, int64_t, size_t, const ExecutionTimes&) override {}
  void OnResponse(Instance&, InferenceRequest&, std::optional<InferenceResponse> response, bool,
                  const ExecutionTimes&) override {
    benchmark::DoNotOptimize(response);
    responses.fetch_add(1);
    responses.notify_all();
  }
  void OnRescheduled(Instance&, std::unique_ptr<InferenceRequest>) override {}
  void OnUnstarted(Instance&, std::vector<std::unique_ptr<Execution>>) override {}
  void OnAvailability(Instance&, bool) override {}
  std::atomic<uint64_t> responses{0};
};

// From Execute() to OnResponse(). The argument: whether the caller's thread may run the inference.
void BM_InstanceExecute(benchmark::State& state) {
  CompiledFacts facts;
  facts.model_name = "tiny";
  CompiledTensor tensor{"b", DataType::kFp32, ov::element::f32, true, {1, 10}, 40};
  facts.inputs = {tensor};
  tensor.name = "a";
  facts.outputs = {tensor};
  OpenVinoModel model(SourceOf(TinyModel()), facts, {{"tiny_0", false}}, nullptr);
  Listener listener;
  if (!model.Start(listener, [](const std::string&) {}).ok()) return state.SkipWithError("not started");
  Instance& instance = *model.instances()[0];
  HeapAllocator heap;
  const Tensor input{"b", DataType::kFp32, {1, 10}, heap.Allocate(40).value()};
  for (auto _ : state) {
    auto execution = std::make_unique<Execution>();
    execution->requests.push_back(std::make_unique<InferenceRequest>());
    execution->requests[0]->inputs = {input};
    execution->rows = 1;
    execution->on_callers_thread = state.range(0) != 0;
    const uint64_t before = listener.responses.load();
    instance.Execute(std::move(execution));
    listener.responses.wait(before);
  }
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0) state.counters["cpus"] = CPU_COUNT(&cpus);
  model.Stop(SteadyNowNs() + 1'000'000'000);
}
BENCHMARK(BM_InstanceExecute)->Arg(1)->Arg(0);

// How a step of a sequence gets its state.
enum Place : int64_t { kPlain, kPorts, kVariables };

// The state begins with zeros, or with a value that only an inference can compute.
std::shared_ptr<ov::Model> Adding(size_t floats, Place place) {
  using namespace ov::opset13;  // NOLINT: a graph is hard to read otherwise
  const ov::Shape shape{1, floats};
  auto in = std::make_shared<Parameter>(ov::element::f32, ov::Shape{1, 1});
  if (place == kPlain) {
    auto state = std::make_shared<Parameter>(ov::element::f32, shape);
    auto sum = std::make_shared<Add>(state, in);
    auto out = std::make_shared<Relu>(in);
    return std::make_shared<ov::Model>(ov::OutputVector{out, sum}, ov::ParameterVector{in, state});
  }
  auto variable =
      std::make_shared<ov::op::util::Variable>(ov::op::util::VariableInfo{shape, ov::element::f32, "s"});
  ov::Output<ov::Node> init = Constant::create(ov::element::f32, shape, {0.0f});
  if (place == kVariables) init = std::make_shared<Multiply>(init, in);
  auto sum = std::make_shared<Add>(std::make_shared<ReadValue>(init, variable), in);
  auto out = std::make_shared<Relu>(in);
  return std::make_shared<ov::Model>(ov::OutputVector{out},
                                     ov::SinkVector{std::make_shared<Assign>(sum, variable)},
                                     ov::ParameterVector{in});
}

class KeepingListener final : public ExecutionListener {
 public:
  void OnExecuted(Instance&, int64_t, size_t, const ExecutionTimes&) override {}
  void OnResponse(Instance&, InferenceRequest&, std::optional<InferenceResponse> response, bool,
                  const ExecutionTimes&) override {
    last = std::move(*response);
    responses.fetch_add(1);
    responses.notify_all();
  }
  void OnRescheduled(Instance&, std::unique_ptr<InferenceRequest>) override {}
  void OnUnstarted(Instance&, std::vector<std::unique_ptr<Execution>>) override {}
  void OnAvailability(Instance&, bool) override {}
  InferenceResponse last;
  std::atomic<uint64_t> responses{0};
};

// Steps of one sequence, one after the other. Arguments: bytes of the state, and Place. kPlain does the same
// arithmetic in an ordinary model: the caller feeds the second output back in.
void BM_SequenceStep(benchmark::State& state) {
  const auto place = static_cast<Place>(state.range(1));
  auto model = Adding(static_cast<size_t>(state.range(0)) / sizeof(float), place);
  ModelNames names = NamesOf(*model);
  ModelStates states;
  if (place != kPlain) states = TakeStates(*model).value();
  CompiledFacts facts = MakeFacts("m", *model, names).value();
  if (place != kPlain && !AddStates(*model, std::move(states), facts).ok()) return;
  const size_t own = facts.own_inputs();
  OpenVinoModel served(SourceOf(model), std::move(facts), {{"m_0", false}}, nullptr);
  KeepingListener listener;
  if (!served.Start(listener, [](const std::string&) {}).ok()) return state.SkipWithError("not started");
  Instance& instance = *served.instances()[0];
  HeapAllocator heap;
  Tensor input{names.inputs[0].name, DataType::kFp32, {1, 1}, heap.Allocate(4).value()};
  Tensor kept{place == kPlain ? names.inputs[1].name : "s",
              DataType::kFp32,
              {1, state.range(0) / 4},
              heap.Allocate(static_cast<size_t>(state.range(0))).value()};
  std::memset(input.data.mutable_data(), 0, input.data.size());
  std::memset(kept.data.mutable_data(), 0, kept.data.size());
  for (auto _ : state) {
    auto execution = std::make_unique<Execution>();
    execution->requests.push_back(std::make_unique<InferenceRequest>());
    execution->requests[0]->inputs = {input, std::move(kept)};
    execution->rows = 1;
    execution->on_callers_thread = true;
    const uint64_t before = listener.responses.load();
    instance.Execute(std::move(execution));
    listener.responses.wait(before);
    if (!listener.last.status.ok()) return state.SkipWithError("the step failed");
    kept = std::move(listener.last.outputs.at(1));
    if (place == kPlain) kept.name = names.inputs[own - 1].name;
    listener.last = {};
  }
  served.Stop(SteadyNowNs() + 1'000'000'000);
}
BENCHMARK(BM_SequenceStep)
    ->ArgNames({"bytes", "place"})
    ->ArgsProduct({{1 << 10, 1 << 20}, {kPlain, kPorts, kVariables}});

}  // namespace
}  // namespace braid
