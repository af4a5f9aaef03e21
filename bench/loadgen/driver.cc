#include "driver.h"

#include <atomic>

#include "load/client.h"

namespace braid::bench {
namespace {

constexpr double kReadyTimeoutS = 1;

bool IsHttp(const Options& options) {
  return options.protocol == Protocol::kHttp || options.protocol == Protocol::kHttpJson;
}

load::Encoding EncodingOf(const Options& options) {
  load::Encoding encoding;
  encoding.protocol = IsHttp(options) ? load::Protocol::kHttp : load::Protocol::kGrpc;
  encoding.stream = options.protocol == Protocol::kGrpcStream;
  encoding.authority = options.host + ":" + options.port;
  const bool binary = options.protocol != Protocol::kHttpJson;
  encoding.http = {binary, binary};
  return encoding;
}

load::Parameter ParameterOf(const std::string& value) {
  switch (KindOfParameter(value)) {
    case ParameterKind::kBool:
      return value == "true";
    case ParameterKind::kInteger:
      return int64_t{std::stoll(value)};
    case ParameterKind::kText:
      break;
  }
  return value;
}

load::LoadRequest Encode(const Options& options) {
  load::InferRequest request;
  request.model = options.model();
  for (const auto& [name, value] : options.parameters) request.parameters[name] = ParameterOf(value);
  request.inputs = options.inputs;
  if (const SharedPayload* shared = options.shared.get()) {
    for (size_t i = 0; i < options.inputs.size(); ++i) {
      const size_t size = options.inputs[i].data.size();
      request.input_places.push_back({shared->key(), size, shared->input_offset(i)});
      request.outputs.push_back(
          {"OUTPUT" + std::to_string(i), {shared->key(), size, shared->output_offset(i)}});
    }
  }
  return {load::EncodeInfer(EncodingOf(options), request)};
}

// Returns a seed for each thread of a run, the same in every run.
uint64_t NextSeed() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

class CycleSource : public load::RequestSource {
 public:
  CycleSource(RequestCycle<load::LoadRequest> cycle, SharedPayload* shared)
      : cycle_(std::move(cycle)), shared_(shared) {}

  const load::LoadRequest& Next() override {
    if (shared_ != nullptr) shared_->SpoilOutputs();
    return cycle_.Next();
  }

 private:
  RequestCycle<load::LoadRequest> cycle_;
  SharedPayload* const shared_;
};

class RecordingObserver : public load::LoadObserver {
 public:
  RecordingObserver(const Options& options, const Window& window, Recording& recording)
      : options_(options), window_(window), recording_(recording) {}

  Status OnResponse(const load::LoadRequest&, const load::InferResponse& response, uint64_t nth) override {
    if (!options_.shared) return options_.expectation.Check(response.outputs, nth);
    std::vector<OutputView> outputs = response.outputs;
    options_.shared->FillIn(outputs);
    return options_.expectation.Check(outputs, nth);
  }

  void OnAnswered(const load::Answer& answer) override {
    recording_.Success(window_, answer.begin_ns, answer.end_ns, answer.request.message.bytes.size(),
                       answer.bytes_received, answer.response_ns.size());
  }

  void OnFailed(int64_t, int64_t, const Status& why, bool timed_out) override {
    timed_out ? recording_.Unanswered() : recording_.Failure(why.message());
  }

 private:
  const Options& options_;
  const Window& window_;
  Recording& recording_;
};

}  // namespace

Result<std::unique_ptr<Driver>> Driver::Make(const Options& options) {
  BRAID_ASSIGN_OR_RETURN(auto dialer, load::Dialer::Make({options.host, options.port}, {}));
  return std::unique_ptr<Driver>(new Driver(options, std::move(dialer)));
}

Driver::Driver(const Options& options, std::shared_ptr<const load::Dialer> dialer)
    : options_(options),
      dialer_(std::move(dialer)),
      encoding_(EncodingOf(options)),
      requests_(options, Encode) {}

bool Driver::Ready() const {
  return load::Client(encoding_.protocol, dialer_, {}, kReadyTimeoutS).Ready(options_.model());
}

Status Driver::RegisterMemory() const {
  if (!options_.shared) return OkStatus();
  load::Client client(encoding_.protocol, dialer_, {}, kReadyTimeoutS);
  return client.RegisterMemory(options_.shared->key(), options_.shared->key(), options_.shared->byte_size());
}

void Driver::Run(int slots, const Window& window, Recording& recording) const {
  load::LoadPlan plan;
  plan.dialer = dialer_;
  plan.encoding = encoding_;
  plan.slots = slots;
  plan.connections = options_.connections;
  plan.rate = options_.rate / options_.threads;
  plan.distribution = load::Distribution::kPoisson;
  plan.seed = NextSeed();
  plan.timeout_s = options_.timeout_s;
  plan.responses = static_cast<uint64_t>(options_.responses);
  std::vector<std::unique_ptr<load::RequestSource>> sources;
  for (int i = 0; i < slots; ++i) {
    sources.push_back(std::make_unique<CycleSource>(requests_.Make(), options_.shared.get()));
  }
  RecordingObserver observer(options_, window, recording);
  load::Budget budget(0);
  const int64_t unsent_ns = load::GenerateLoad(plan, sources, budget, window.stop, observer);
  if (!load::RateHeld(unsent_ns, window.end_ns.load(std::memory_order_relaxed))) recording.RateNotHeld();
}

}  // namespace braid::bench
