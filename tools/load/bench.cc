#include "load/bench.h"

#include <sys/utsname.h>

#include <spdlog/fmt/fmt.h>
#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <iostream>
#include <thread>

#include "base/clock.h"
#include "base/thread.h"
#include "base/utf8.h"
#include "load/chat.h"
#include "load/elements.h"

namespace braid::load {
namespace {

constexpr double kSettleS = 0.2;  // of running load, before its first measurement
constexpr double kFirstCountWindowS = 1;
constexpr size_t kCompared = 3;

int64_t ToNs(double seconds) { return static_cast<int64_t>(seconds * 1e9); }

// A running load: its threads and their observers.
class RunningLoad {
 public:
  // `requests`: it ends after this many; 0: at Stop().
  RunningLoad(const BenchOptions& options, const std::shared_ptr<const Dialer>& dialer,
              const Encoding& encoding, const Workload& workload, uint64_t responses, double load, int slots,
              uint64_t requests)
      : budget_(requests) {
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    const int threads =
        std::clamp(options.max_threads > 0 ? options.max_threads : std::clamp(cores / 2, 1, 4), 1, slots);
    for (int i = 0; i < threads; ++i) {
      LoadPlan& plan = plans_.emplace_back();
      plan.dialer = dialer;
      plan.encoding = encoding;
      plan.slots = slots / threads + (i < slots % threads ? 1 : 0);
      plan.connections = options.connections;
      plan.rate = options.open_load() ? load / threads : 0;
      plan.distribution = options.distribution;
      plan.seed = options.seed * 1000 + static_cast<uint64_t>(i) + 1;
      plan.delay_ns = options.open_load() ? ToNs(i / load) : 0;
      plan.timeout_s = options.connect.timeout_s;
      plan.responses = responses;
      observers_.push_back(std::make_unique<SampleObserver>(workload.expected()));
      std::vector<std::unique_ptr<RequestSource>>& sources = sources_.emplace_back();
      for (int slot = 0; slot < plan.slots; ++slot) sources.push_back(workload.NewSource());
    }
    unsent_ns_.resize(plans_.size());
    running_ = threads;
    for (size_t i = 0; i < plans_.size(); ++i) {
      threads_.push_back(StartThread("brd-load-" + std::to_string(i), [this, i] {
        unsent_ns_[i] = GenerateLoad(plans_[i], sources_[i], budget_, stop_, *observers_[i]);
        --running_;
      }));
    }
  }
  ~RunningLoad() { Stop(); }

  bool running() const { return running_ > 0; }

  Samples Take() {
    Samples all;
    for (const auto& observer : observers_) all.Append(observer->Take());
    return all;
  }

  void Stop() {
    stop_ = true;
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }

  // After Stop(): the arrival of the first request that was not sent.
  int64_t unsent_ns() const { return *std::ranges::min_element(unsent_ns_); }

 private:
  Budget budget_;
  std::vector<LoadPlan> plans_;
  std::vector<std::vector<std::unique_ptr<RequestSource>>> sources_;
  std::vector<std::unique_ptr<SampleObserver>> observers_;
  std::vector<int64_t> unsent_ns_;
  std::atomic<bool> stop_{false};
  std::atomic<int> running_{0};
  std::vector<std::thread> threads_;
};

// A server under measurement.
class Side {
 public:
  static Result<std::unique_ptr<Side>> Make(const BenchOptions& options, const std::string& url) {
    std::unique_ptr<Side> side(new Side(options));
    BRAID_ASSIGN_OR_RETURN(side->dialer_, options.connect.MakeDialer(url));
    BRAID_ASSIGN_OR_RETURN(const Connection::Headers headers, options.connect.ParseHeaders());
    side->client_ = std::make_unique<Client>(options.connect.protocol_kind(), side->dialer_, headers,
                                             options.connect.timeout_s);
    Result<ModelInfo> model = side->ReadModel();
    // An unknown model is the server's error, not wrong usage of the command.
    if (!model.ok()) return Status(StatusCode::kUnavailable, model.status().message());
    side->model_ = std::move(*model);
    for (const std::string& text : options.datatypes) {
      const Status set = SetDatatype(text, side->model_);
      if (!set.ok()) return set.WithPrefix("--datatype: ");
    }
    BRAID_RETURN_IF_ERROR(side->MakeWorkload(headers));
    return side;
  }
  ~Side() {
    // The server may already be down.
    if (const Status told = TellOfMemory(false); !told.ok()) return;
  }

  const ModelInfo& model() const { return model_; }
  std::string Name() { return client_->ServerName(); }

  // Starts a load. Errors: the server refuses the shared memory.
  Result<std::unique_ptr<RunningLoad>> Start(double load, uint64_t requests) {
    int slots = static_cast<int>(load);
    if (options_.open_load())
      slots = options_.sequences.enabled ? options_.sequence_count : options_.max_in_flight;
    BRAID_RETURN_IF_ERROR(workload_->MakeRegions(slots));
    BRAID_RETURN_IF_ERROR(TellOfMemory(true));
    return std::make_unique<RunningLoad>(options_, dialer_, encoding_, *workload_, responses_, load, slots,
                                         requests);
  }

  std::optional<ServerStatistics> Statistics() {
    const Result<ServerStatistics> statistics = client_->Statistics(options_.model, options_.version);
    if (!statistics.ok()) return std::nullopt;
    return *statistics;
  }

 private:
  explicit Side(const BenchOptions& options) : options_(options) {}

  Result<ModelInfo> ReadModel() {
    if (!options_.chat()) return client_->Model(options_.model, options_.version);
    // Servers of OpenAI's API may have no other.
    BRAID_RETURN_IF_ERROR(CheckChatModel(*client_, options_.model));
    ModelInfo model;
    model.name = options_.model;
    return model;
  }

  Status MakeWorkload(const Connection::Headers& headers) {
    BRAID_ASSIGN_OR_RETURN(DataSet data, ReadData());
    WorkloadOptions made;
    const bool grpc = options_.connect.protocol == "grpc";
    if (model_.decoupled && !options_.streaming) {
      return InvalidArgumentError("model " + model_.name +
                                  " is decoupled and needs a stream: add -i grpc --streaming");
    }
    if (model_.sequences && !options_.sequences.enabled) {
      sequences_by_model_ = true;
    }
    encoding_ = {grpc ? Protocol::kGrpc : Protocol::kHttp,
                 options_.streaming,
                 dialer_->address().http_host(),
                 headers,
                 options_.http,
                 options_.chat()};
    made.encoding = encoding_;
    made.request.model = options_.model;
    made.request.version = options_.version;
    made.request.parameters = options_.parameters;
    responses_ = options_.responses > 0 ? options_.responses : model_.decoupled ? 0 : 1;
    if (options_.streaming && responses_ == 0)
      made.request.parameters["triton_enable_empty_final_response"] = true;
    made.sequences = options_.sequences;
    made.sequences.enabled = options_.sequences.enabled || sequences_by_model_;
    if (made.sequences.enabled && options_.shared_memory) {
      return InvalidArgumentError("model " + model_.name +
                                  " has sequences, which --shared-memory does not support");
    }
    made.shared_memory = options_.shared_memory;
    made.output_bytes = options_.output_bytes;
    BRAID_ASSIGN_OR_RETURN(workload_, Workload::Make(made, model_, std::move(data), options_.batch));
    return OkStatus();
  }

  Result<DataSet> ReadData() {
    DataSet all;
    for (const std::string& from : options_.input_data) {
      DataSet one;
      if (from == "random" || from == "zero") {
        if (options_.input_data.size() > 1)
          return InvalidArgumentError("--input-data " + from + " cannot be combined with other data");
        DataOptions data = options_.data;
        data.fill.fill = from == "zero" ? Fill::kZero : Fill::kRandom;
        std::mt19937_64 random(options_.seed);
        if (options_.chat()) {
          // An element of BYTES: four bytes of length, and the text.
          BRAID_ASSIGN_OR_RETURN(const std::string element, MakeElements("BYTES", {1}, data.fill, random));
          one.streams.push_back({MakeChatStep(element.substr(4))});
        } else {
          BRAID_ASSIGN_OR_RETURN(DataStep step, MakeStep(model_, data, random));
          one.streams.push_back({std::move(step)});
        }
      } else if (!options_.chat() && !from.empty() && IsFolder(from)) {
        BRAID_ASSIGN_OR_RETURN(one, ReadDataFolder(model_, options_.data, from));
      } else {
        const Result<std::string> text = ReadFile(from);
        if (!text.ok()) {
          return InvalidArgumentError("--input-data: " + text.status().message() +
                                      (options_.chat() ? "; expected random or a file"
                                                       : "; expected random, zero, a file or a folder"));
        }
        BRAID_ASSIGN_OR_RETURN(one, options_.chat() ? ReadChatFile(*text, from)
                                                    : ReadDataFile(model_, options_.data, *text, from));
      }
      for (auto& stream : one.streams) all.streams.push_back(std::move(stream));
    }
    const bool compared = std::ranges::any_of(all.streams, [](const std::vector<DataStep>& stream) {
      return std::ranges::any_of(stream, [](const DataStep& step) { return !step.expected.empty(); });
    });
    if (options_.validate && !compared) {
      return InvalidArgumentError(
          "--validate: --input-data has no outputs to compare; add \"validation_data\" to a data file");
    }
    return all;
  }

  static bool IsFolder(const std::string& path) { return std::ifstream(path + "/.").good(); }

  Status TellOfMemory(bool register_it) {
    if (!options_.shared_memory || workload_ == nullptr) return OkStatus();
    for (const SharedRegion* region : workload_->regions()) {
      const auto known = std::ranges::find(told_, region->name());
      if (register_it && known == told_.end()) {
        const Status status = client_->RegisterMemory(region->name(), region->key(), region->bytes());
        if (!status.ok())
          return Status(StatusCode::kUnavailable, status.message()).WithPrefix("shared memory: ");
        told_.push_back(region->name());
      } else if (!register_it && known != told_.end()) {
        // The server may be down.
        if (const Status status = client_->UnregisterMemory(region->name());
            status.code() == StatusCode::kUnavailable)
          break;
      }
    }
    if (!register_it) told_.clear();
    return OkStatus();
  }

  const BenchOptions& options_;
  std::shared_ptr<const Dialer> dialer_;
  std::unique_ptr<Client> client_;
  ModelInfo model_;
  Encoding encoding_;
  std::unique_ptr<Workload> workload_;
  uint64_t responses_ = 1;
  bool sequences_by_model_ = false;
  std::vector<std::string> told_;  // regions that are registered with the server
};

class Bench {
 public:
  Bench(const BenchOptions& options, const std::atomic<bool>& interrupted)
      : options_(options), interrupted_(interrupted) {}

  Result<BenchResult> Run() {
    BenchResult result;
    BRAID_ASSIGN_OR_RETURN(const std::unique_ptr<Side> first, Side::Make(options_, options_.connect.url));
    std::unique_ptr<Side> second;
    if (!options_.compare_url.empty()) {
      Result<std::unique_ptr<Side>> made = Side::Make(options_, options_.compare_url);
      if (!made.ok()) return made.status().WithPrefix("--compare: ");
      second = std::move(*made);
    }
    result.environment = Describe(*first, second.get());
    for (const double load : options_.open_load() ? options_.rates : options_.concurrency) {
      if (interrupted_) break;
      const Level* shown = nullptr;
      if (second != nullptr) {
        BRAID_ASSIGN_OR_RETURN(Comparison comparison, Compare(*first, *second, load));
        if (comparison.first.trials == 0 || comparison.second.trials == 0) break;
        result.comparisons.push_back(std::move(comparison));
        shown = &result.comparisons.back().first;
      } else {
        BRAID_ASSIGN_OR_RETURN(Level level, Measure(*first, load));
        if (level.trials == 0) break;
        result.levels.push_back(std::move(level));
        shown = &result.levels.back();
      }
      if (options_.latency_threshold_ms > 0 &&
          Watched(shown->figures) > options_.latency_threshold_ms * 1000) {
        std::cerr << fmt::format("the latency exceeds {} ms: the sweep ends\n",
                                 options_.latency_threshold_ms);
        break;
      }
    }
    result.interrupted = interrupted_;
    return result;
  }

 private:
  Environment Describe(Side& first, Side* second) const {
    Environment environment;
    char date[64] = "";
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    localtime_r(&now, &local);
    std::strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S %Z", &local);
    environment.date = date;
    std::ifstream cpus("/proc/cpuinfo");
    for (std::string line; std::getline(cpus, line);) {
      if (!line.starts_with("model name")) continue;
      environment.machine = line.substr(line.find(':') + 2) + ", ";
      break;
    }
    utsname system{};
    uname(&system);
    environment.machine +=
        fmt::format("{} cores, {} {}", std::thread::hardware_concurrency(), system.sysname, system.release);
    environment.server = first.Name();
    if (second != nullptr) environment.second_server = second->Name();
    environment.model = first.model().name;
    environment.platform = first.model().platform;
    return environment;
  }

  std::string LoadText(double load) const {
    return options_.open_load() ? fmt::format("rate {:g}/s", load) : fmt::format("concurrency {:g}", load);
  }

  // Returns the latency in us that stability and the threshold are judged by.
  double Watched(const Figures& figures) const {
    return options_.percentile > 0 ? figures.latency.at(options_.percentile) : figures.latency.mean_us;
  }

  void Show(const std::string& what, const Figures& figures) const {
    std::string line = fmt::format("{}: {:.1f} infer/s, mean {:.0f} us, p50 {:.0f}, p95 {:.0f}, p99 {:.0f}",
                                   what, figures.inferences_per_s, figures.latency.mean_us,
                                   figures.latency.at(50), figures.latency.at(95), figures.latency.at(99));
    if (options_.chat()) line += fmt::format(", {:.1f} tokens/s", figures.responses_per_s);
    if (figures.failed > 0) line += fmt::format(", {} failed", figures.failed);
    std::cerr << line << '\n';
  }

  // Sleeps until a steady time, the end of the load, or an interrupt.
  void Wait(const RunningLoad& load, int64_t until_ns) const {
    while (!interrupted_ && load.running()) {
      const int64_t left_ns = until_ns - SteadyNowNs();
      if (left_ns <= 0) return;
      std::this_thread::sleep_for(std::chrono::nanoseconds(std::min<int64_t>(left_ns, 20'000'000)));
    }
  }

  struct Window {
    Samples samples;
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
    std::optional<ServerStatistics> server;
  };

  // Requests count only within measurements, errors always.
  static Samples FailuresOf(Samples samples) {
    samples.answered.clear();
    samples.between_ns.clear();
    samples.bytes_sent = 0;
    samples.bytes_received = 0;
    return samples;
  }

  // Takes one measurement of a running load. nullopt: interrupted before any response.
  std::optional<Window> MeasureWindow(Side& side, RunningLoad& load) {
    Window window;
    const std::optional<ServerStatistics> before = side.Statistics();
    window.samples = FailuresOf(load.Take());
    window.begin_ns = SteadyNowNs();
    double seconds = options_.count_windows ? kFirstCountWindowS : options_.interval_s;
    while (true) {
      Wait(load, window.begin_ns + ToNs(seconds));
      window.end_ns = SteadyNowNs();
      window.samples.Append(load.Take());
      const bool counted = !options_.count_windows ||
                           window.samples.answered.size() >= options_.window_requests ||
                           window.samples.failed > 0;
      if (counted || interrupted_ || !load.running()) break;
      seconds += kFirstCountWindowS;
    }
    if (const std::optional<ServerStatistics> after = side.Statistics(); before && after)
      window.server = *after - *before;
    if (interrupted_ && window.samples.answered.empty() && window.samples.failed == 0) return std::nullopt;
    return window;
  }

  FigureOptions figure_options() const {
    return {options_.batch, options_.percentile, options_.streaming || options_.chat()};
  }

  Figures FiguresOf(std::vector<Window> windows) const {
    Samples all;
    std::optional<ServerStatistics> server;
    for (Window& window : windows) {
      all.Append(std::move(window.samples));
      if (!window.server) continue;
      if (!server) server = ServerStatistics();
      *server = *server + *window.server;
    }
    // The windows are consecutive.
    Figures figures =
        MakeFigures(std::move(all), windows.front().begin_ns, windows.back().end_ns, figure_options());
    figures.server = server;
    return figures;
  }

  // Measures a fixed number of requests.
  Result<Level> MeasureCount(Side& side, double load) {
    Level level;
    level.load = load;
    Window window;
    const std::optional<ServerStatistics> before = side.Statistics();
    const int64_t begin_ns = SteadyNowNs();
    BRAID_ASSIGN_OR_RETURN(const std::unique_ptr<RunningLoad> running,
                           side.Start(load, options_.request_count));
    Wait(*running, std::numeric_limits<int64_t>::max());
    running->Stop();
    window.samples = running->Take();
    window.begin_ns = begin_ns;
    window.end_ns = begin_ns + 1;
    for (const Sample& sample : window.samples.answered)
      window.end_ns = std::max(window.end_ns, sample.end_ns);
    if (const std::optional<ServerStatistics> after = side.Statistics(); before && after)
      window.server = *after - *before;
    if (window.samples.answered.empty() && window.samples.failed == 0) return level;
    level.trials = 1;
    std::vector<Window> windows;
    windows.push_back(std::move(window));
    level.figures = FiguresOf(std::move(windows));
    Show(LoadText(load), level.figures);
    return level;
  }

  Status WarmUp(Side& side, double load) {
    if (options_.warmup_requests == 0) return OkStatus();
    BRAID_ASSIGN_OR_RETURN(const std::unique_ptr<RunningLoad> running,
                           side.Start(load, options_.warmup_requests));
    Wait(*running, std::numeric_limits<int64_t>::max());
    return OkStatus();
  }

  Result<Level> Measure(Side& side, double load) {
    BRAID_RETURN_IF_ERROR(WarmUp(side, load));
    if (options_.request_count > 0) return MeasureCount(side, load);
    BRAID_ASSIGN_OR_RETURN(const std::unique_ptr<RunningLoad> running, side.Start(load, 0));
    Wait(*running, SteadyNowNs() + ToNs(kSettleS));
    Level level;
    level.load = load;
    level.stable = options_.max_trials < static_cast<int>(kCompared);
    std::vector<Window> windows;
    std::vector<std::pair<double, double>> seen;
    for (int trial = 0; trial < options_.max_trials && !interrupted_; ++trial) {
      std::optional<Window> window = MeasureWindow(side, *running);
      if (!window) break;
      ++level.trials;
      const Figures figures =
          MakeFigures(window->samples, window->begin_ns, window->end_ns, figure_options());
      seen.emplace_back(figures.inferences_per_s, Watched(figures));
      if (windows.size() == kCompared) windows.erase(windows.begin());
      windows.push_back(std::move(*window));
      if (options_.verbose) Show(fmt::format("{}, measurement {}", LoadText(load), trial + 1), figures);
      if (IsStable(seen, options_.stability_percent)) {
        level.stable = true;
        break;
      }
      // A server that answers no request does not become stable.
      if (figures.requests == 0 && figures.failed > 0) break;
    }
    running->Stop();
    if (windows.empty()) return level;
    windows.back().samples.Append(FailuresOf(running->Take()));
    const int64_t end_ns = windows.back().end_ns;
    level.rate_held = !options_.open_load() || RateHeld(running->unsent_ns(), end_ns);
    level.figures = FiguresOf(std::move(windows));
    Show(LoadText(load), level.figures);
    if (!level.stable && !interrupted_) {
      std::cerr << fmt::format("  not stable after {} measurements\n", level.trials);
    }
    return level;
  }

  // Takes a single measurement.
  Result<Level> MeasureOnce(Side& side, double load) {
    if (options_.request_count > 0) return MeasureCount(side, load);
    BRAID_ASSIGN_OR_RETURN(const std::unique_ptr<RunningLoad> running, side.Start(load, 0));
    Wait(*running, SteadyNowNs() + ToNs(kSettleS));
    Level level;
    level.load = load;
    std::optional<Window> window = MeasureWindow(side, *running);
    running->Stop();
    if (!window) return level;
    window->samples.Append(FailuresOf(running->Take()));
    level.trials = 1;
    level.rate_held = !options_.open_load() || RateHeld(running->unsent_ns(), window->end_ns);
    std::vector<Window> windows;
    windows.push_back(std::move(*window));
    level.figures = FiguresOf(std::move(windows));
    return level;
  }

  // The servers take turns; the first one alternates between rounds.
  Result<Comparison> Compare(Side& first, Side& second, double load) {
    Comparison comparison;
    comparison.load = load;
    std::vector<Level> rounds[2];
    std::vector<double> throughput;
    std::vector<double> p50;
    std::vector<double> p99;
    Side* sides[2] = {&first, &second};
    for (Side* side : sides) BRAID_RETURN_IF_ERROR(WarmUp(*side, load));
    for (int round = 0; round < options_.rounds && !interrupted_; ++round) {
      Level levels[2];
      for (int turn = 0; turn < 2; ++turn) {
        const int which = (round + turn) % 2;
        BRAID_ASSIGN_OR_RETURN(levels[which], MeasureOnce(*sides[which], load));
        if (levels[which].trials > 0 && options_.verbose) {
          Show(fmt::format("{}, round {}, {}", LoadText(load), round + 1, which == 0 ? "first" : "second"),
               levels[which].figures);
        }
      }
      if (levels[0].trials == 0 || levels[1].trials == 0) break;
      const auto ratio = [&](auto value) {
        const double base = value(levels[0].figures);
        return base > 0 ? value(levels[1].figures) / base : 0;
      };
      throughput.push_back(ratio([](const Figures& f) { return f.inferences_per_s; }));
      p50.push_back(ratio([](const Figures& f) { return f.latency.at(50); }));
      p99.push_back(ratio([](const Figures& f) { return f.latency.at(99); }));
      for (int i = 0; i < 2; ++i) rounds[i].push_back(std::move(levels[i]));
    }
    if (rounds[0].empty()) return comparison;
    comparison.throughput = MakeRatios(throughput);
    comparison.p50 = MakeRatios(p50);
    comparison.p99 = MakeRatios(p99);
    comparison.first = Middle(std::move(rounds[0]));
    comparison.second = Middle(std::move(rounds[1]));
    std::cerr << fmt::format("{}: throughput x{:.3f} ({:.3f} to {:.3f}), p50 x{:.3f} ({:.3f} to {:.3f})\n",
                             LoadText(load), comparison.throughput.median, comparison.throughput.least,
                             comparison.throughput.greatest, comparison.p50.median, comparison.p50.least,
                             comparison.p50.greatest);
    return comparison;
  }

  // Returns the round with the median throughput, with the errors of all rounds.
  static Level Middle(std::vector<Level> rounds) {
    std::map<std::string, uint64_t> errors;
    uint64_t failed = 0;
    bool rate_held = true;
    for (const Level& round : rounds) {
      for (const auto& [text, count] : round.figures.errors) errors[text] += count;
      failed += round.figures.failed;
      rate_held = rate_held && round.rate_held;
    }
    const int trials = static_cast<int>(rounds.size());
    std::ranges::sort(rounds, {}, [](const Level& round) { return round.figures.inferences_per_s; });
    Level middle = std::move(rounds[rounds.size() / 2]);
    middle.trials = trials;
    middle.rate_held = rate_held;
    middle.figures.errors = std::move(errors);
    middle.figures.failed = failed;
    return middle;
  }

  const BenchOptions& options_;
  const std::atomic<bool>& interrupted_;
};

}  // namespace

bool BenchResult::errors() const {
  const auto failed = [](const Level& level) {
    return level.figures.failed > 0 || level.figures.requests == 0;
  };
  return std::ranges::any_of(levels, failed) ||
         std::ranges::any_of(comparisons, [&](const Comparison& comparison) {
           return failed(comparison.first) || failed(comparison.second);
         });
}

Ratios MakeRatios(std::vector<double> ratios) {
  if (ratios.empty()) return {};
  std::ranges::sort(ratios);
  const size_t half = ratios.size() / 2;
  const double median = ratios.size() % 2 == 1 ? ratios[half] : (ratios[half - 1] + ratios[half]) / 2;
  return {median, ratios.front(), ratios.back()};
}

Result<BenchResult> RunBenchmark(const BenchOptions& options, const std::atomic<bool>& interrupted) {
  return Bench(options, interrupted).Run();
}

}  // namespace braid::load
