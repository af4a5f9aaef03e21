// Calls a model in this process, without a server, in a closed loop. Prints one JSON object like the load
// generator's.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <iostream>
#include <thread>
#include <vector>

#include <openvino/openvino.hpp>

namespace {

using Clock = std::chrono::steady_clock;

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// One call: sets its own input, as a request would bring it, infers, and reads the output.
void Call(ov::InferRequest& request, const std::vector<ov::Tensor>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) request.set_input_tensor(i, inputs[i]);
  request.infer();
  const ov::Tensor output = request.get_output_tensor(0);
  volatile const char first = *static_cast<const char*>(output.data());
  (void)first;
}

struct Options {
  std::string model;
  int concurrency = 1;
  int sequence_steps = 0;
  double duration = 4;
  double warmup = 1;
};

int Run(const Options& options) {
  ov::Core core;
  std::shared_ptr<ov::Model> model = core.read_model(options.model);
  ov::CompiledModel compiled = core.compile_model(model, "CPU");

  std::atomic<int> phase{0};  // 0: warm-up, 1: counts, 2: over
  std::vector<std::vector<double>> times(static_cast<size_t>(options.concurrency));
  std::vector<std::thread> threads;
  for (auto& mine : times) {
    threads.emplace_back([&] {
      ov::InferRequest request = compiled.create_infer_request();
      std::vector<ov::Tensor> inputs;
      for (const auto& port : compiled.inputs()) {
        ov::Shape shape;
        for (const auto& dimension : port.get_partial_shape()) {
          shape.push_back(dimension.is_static() ? static_cast<size_t>(dimension.get_length()) : 1);
        }
        inputs.emplace_back(port.get_element_type(), shape);
        std::memset(inputs.back().data(), 0, inputs.back().get_byte_size());
      }
      int step = 0;
      while (phase.load(std::memory_order_relaxed) < 2) {
        const auto before = Clock::now();
        if (options.sequence_steps > 0 && step++ % options.sequence_steps == 0) request.reset_state();
        Call(request, inputs);
        if (phase.load(std::memory_order_relaxed) == 1) {
          mine.push_back(std::chrono::duration<double, std::micro>(Clock::now() - before).count());
        }
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(options.warmup));
  const double cpu_before = CpuSeconds();
  const auto before = Clock::now();
  phase = 1;
  std::this_thread::sleep_for(std::chrono::duration<double>(options.duration));
  phase = 2;
  const double seconds = std::chrono::duration<double>(Clock::now() - before).count();
  const double cpu = CpuSeconds() - cpu_before;
  for (auto& thread : threads) thread.join();

  std::vector<double> all;
  for (const auto& mine : times) all.insert(all.end(), mine.begin(), mine.end());
  if (all.empty()) {
    std::cerr << "no inference ended within the time\n";
    return 1;
  }
  std::ranges::sort(all);
  const auto count = static_cast<double>(all.size());
  std::cout << "{\"requests\": " << all.size() << ", \"throughput\": " << count / seconds
            << ", \"p50_us\": " << all[all.size() / 2] << ", \"p99_us\": " << all[all.size() * 99 / 100]
            << ", \"cpu_us\": " << cpu * 1e6 / count << "}\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Calls a model by OpenVINO's own API in a closed loop; prints one JSON object.");
  app.add_option("--model", options.model, "the model's file")->required()->check(CLI::ExistingFile);
  app.add_option("--concurrency", options.concurrency, "threads that call it, each with a request of its own")
      ->check(CLI::Range(1, 256));
  app.add_option("--sequence-steps", options.sequence_steps,
                 "calls after which the state of a model begins anew; 0: it has none")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("--duration", options.duration, "seconds that count")->check(CLI::Range(0.01, 86400.0));
  app.add_option("--warmup", options.warmup, "seconds before them")->check(CLI::Range(0.0, 86400.0));
  CLI11_PARSE(app, argc, argv);
  try {
    return Run(options);
  } catch (const std::exception& error) {
    std::cerr << "braid_openvino_direct: " << error.what() << '\n';
    return 1;
  }
}
