// What an instance adds to an inference of a tiny model, on the caller's thread and on OpenVINO's.
#include <benchmark/benchmark.h>
#include <sched.h>

#include <atomic>
#include <openvino/openvino.hpp>
#include <openvino/opsets/opset13.hpp>

#include "backends/openvino/compiled_facts.h"
#include "backends/openvino/openvino_model.h"
#include "base/clock.h"

namespace braid {
namespace {

ov::CompiledModel TinyModel() {
  static ov::Core core;
  auto b = std::make_shared<ov::opset13::Parameter>(ov::element::f32, ov::PartialShape{1, 10});
  auto add = std::make_shared<ov::opset13::Add>(b, ov::opset13::Constant::create(ov::element::f32, {}, {1}));
  return core.compile_model(
      std::make_shared<ov::Model>(ov::OutputVector{add->output(0)}, ov::ParameterVector{b}), "CPU");
}

void BM_OpenVinoInfer(benchmark::State& state) {
  auto model = TinyModel();
  ov::InferRequest request = model.create_infer_request();
  for (auto _ : state) request.infer();
}
BENCHMARK(BM_OpenVinoInfer);

void BM_OpenVinoStartAndWait(benchmark::State& state) {
  auto model = TinyModel();
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

// From Execute() to OnResponse(). The argument says whether the caller's thread may run it.
void BM_InstanceExecute(benchmark::State& state) {
  CompiledFacts facts;
  facts.model_name = "tiny";
  CompiledTensor tensor{"b", DataType::kFp32, ov::element::f32, true, {1, 10}, 40};
  facts.inputs = {tensor};
  tensor.name = "a";
  facts.outputs = {tensor};
  OpenVinoModel model(TinyModel(), facts, {{"tiny_0", false}}, nullptr);
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

}  // namespace
}  // namespace braid
