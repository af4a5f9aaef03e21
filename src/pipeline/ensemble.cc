#include "pipeline/ensemble.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "model_config.pb.h"
#include "pipeline/ensemble_graph.h"
#include "pipeline/graph.h"
#include "pipeline/servable_node.h"
#include "pipeline/session.h"
#include "serving/request_check.h"
#include "serving/reshape.h"

namespace braid {
namespace {

constexpr std::string_view kNoVersion = "which has no loaded version.";

std::string DependsOn(const std::string& ensemble, const std::string& model) {
  return "ensemble '" + ensemble + "' depends on '" + model + "' ";
}

// What sessions need of an ensemble, and still need when it is gone.
struct Plan {
  std::string prefix;  // of error texts
  std::shared_ptr<const Graph> graph;
  std::vector<std::unique_ptr<const ServableNode>> nodes;
  SessionOptions options;
};

// Memory for inputs is that of the step which takes the first of them, so that its instances map it as it is;
// whichever version of it there is now.
class StepMemory final : public BufferAllocator {
 public:
  explicit StepMemory(const ServableReference* step) : step_(step) {}

  Result<Buffer> Allocate(size_t size) override {
    if (step_ != nullptr) {
      if (auto servable = step_->Get(); servable.ok()) return (*servable)->input_allocator().Allocate(size);
    }
    return heap_.Allocate(size);
  }

 private:
  const ServableReference* const step_;
  HeapAllocator heap_;
};

// The sessions that run now, so that a stop can end them.
class SessionList {
 public:
  void Add(const InferenceRequest* key, const std::shared_ptr<Session>& session) {
    std::lock_guard lock(mutex_);
    sessions_.emplace(key, session);
  }
  void Remove(const InferenceRequest* key) {
    std::lock_guard lock(mutex_);
    sessions_.erase(key);
  }
  std::vector<std::shared_ptr<Session>> All() const {
    std::vector<std::shared_ptr<Session>> all;
    std::lock_guard lock(mutex_);
    for (const auto& [key, session] : sessions_) {
      if (auto alive = session.lock()) all.push_back(std::move(alive));
    }
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<const InferenceRequest*, std::weak_ptr<Session>> sessions_;  // guarded by mutex_
};

class RunningEnsemble final : public Ensemble, public std::enable_shared_from_this<RunningEnsemble> {
 public:
  RunningEnsemble(ServableInfo info, std::shared_ptr<const Plan> plan)
      : Ensemble(std::move(info)), plan_(std::move(plan)), memory_(FirstStep()) {}

  BufferAllocator& input_allocator() override { return memory_; }
  void Infer(std::unique_ptr<InferenceRequest> request) override;
  Readiness readiness() const override;
  void CheckReadiness(std::function<void(Readiness)> done) override;
  void Stop(int64_t deadline_ns) override;

 private:
  class Client;

  const ServableReference* FirstStep() const;
  // The places among the graph's outputs that a request wants.
  std::vector<uint32_t> Wanted(const InferenceRequest& request) const;
  Result<std::vector<std::unique_ptr<NodeSession>>> OpenNodes() const;

  const std::shared_ptr<const Plan> plan_;  // shared with the sessions
  StepMemory memory_;
  SessionList sessions_;
};

// The request for which a session runs, and the responses to it.
class RunningEnsemble::Client final : public SessionClient {
 public:
  // The ensemble lives as long as the request is inside its gate.
  Client(RunningEnsemble& ensemble, std::shared_ptr<const Plan> plan,
         std::unique_ptr<InferenceRequest> request)
      : ensemble_(ensemble), plan_(std::move(plan)), request_(std::move(request)) {}

  const InferenceRequest& request() const override { return *request_; }

  void Respond(std::optional<std::vector<Tensor>> outputs, bool final) override {
    std::optional<InferenceResponse> response;
    if (outputs) response = MakeResponse(std::move(*outputs));
    // One response is given when nothing can go wrong any more.
    if (!ensemble_.info().decoupled) {
      if (response) held_ = std::move(response);
      if (!final) return;
      response = std::move(held_);
    }
    if (final) Leave();
    if (ensemble_.info().decoupled) Count(response ? ResponseKind::kSuccess : ResponseKind::kEmpty);
    if (final) {
      const int64_t now_ns = SteadyNowNs();
      const ExecutionTimes times{request_->queue_start_ns, request_->queue_start_ns, now_ns, now_ns};
      ensemble_.statistics().RecordExecution(request_->batch_size, times);
      ensemble_.statistics().RecordSuccess(request_->batch_size, request_->start_ns, request_->queue_start_ns,
                                           times);
    }
    request_->Respond(std::move(response), final);
  }

  void Fail(Status status) override {
    Leave();
    const bool cancelled = status.code() == StatusCode::kCancelled && request_->cancelled();
    if (ensemble_.info().decoupled) Count(ResponseKind::kFail);
    ensemble_.statistics().RecordFailure(cancelled ? FailureReason::kCanceled : FailureReason::kBackend,
                                         request_->start_ns, SteadyNowNs());
    request_->Fail(status.WithPrefix(plan_->prefix));
  }

 private:
  // Nobody calls into the session for this request after it.
  void Leave() {
    if (request_->cancellation) request_->cancellation->ClearListener();
    ensemble_.sessions_.Remove(request_.get());
  }

  InferenceResponse MakeResponse(std::vector<Tensor> outputs) const {
    InferenceResponse response;
    for (Tensor& output : outputs) {
      const TensorSpec* spec = ensemble_.info().FindOutput(output.name);
      if (spec != nullptr && spec->model_shape) Reshape(*spec->model_shape, spec->shape, output.shape);
    }
    response.outputs = std::move(outputs);
    response.model_name = ensemble_.info().name;
    response.model_version = ensemble_.info().version;
    return response;
  }

  void Count(ResponseKind kind) {
    const int64_t now_ns = SteadyNowNs();
    if (responses_ == 0 && kind != ResponseKind::kEmpty) {
      ensemble_.statistics().RecordFirstResponse(now_ns - request_->start_ns);
    }
    const int64_t before_ns = responses_ == 0 ? request_->queue_start_ns : last_response_ns_;
    ensemble_.statistics().RecordResponse(responses_++, kind, now_ns - before_ns);
    last_response_ns_ = now_ns;
  }

  RunningEnsemble& ensemble_;
  const std::shared_ptr<const Plan> plan_;
  const std::unique_ptr<InferenceRequest> request_;
  std::optional<InferenceResponse> held_;
  uint32_t responses_ = 0;
  int64_t last_response_ns_ = 0;
};

void RunningEnsemble::Infer(std::unique_ptr<InferenceRequest> request) {
  if (Status status = CheckRequest(info_, *request); !status.ok()) {
    request->Refuse(std::move(status));
    return;
  }
  request->queue_start_ns = SteadyNowNs();
  auto nodes = OpenNodes();
  if (!nodes.ok()) {
    statistics_.RecordFailure(FailureReason::kOther, request->start_ns, SteadyNowNs());
    request->Fail(nodes.status());
    return;
  }
  // The request may have ended, and the ensemble with it, before the last lines of this function.
  InferenceRequest& entered = *request;
  const std::shared_ptr<Cancellation> cancellation = entered.cancellation;
  auto session = Session::Create(plan_->graph, std::move(*nodes), Wanted(entered), plan_->options);
  sessions_.Add(&entered, session);
  // The listener is cleared before the session ends, so the pointer holds while it can be called.
  if (cancellation) cancellation->SetListener([session = session.get()] { session->Cancel(); });
  std::vector<Tensor> inputs = std::move(entered.inputs);
  session->Start(std::move(inputs), std::make_unique<Client>(*this, plan_, std::move(request)));
}

Result<std::vector<std::unique_ptr<NodeSession>>> RunningEnsemble::OpenNodes() const {
  std::vector<std::unique_ptr<NodeSession>> nodes;
  nodes.reserve(plan_->nodes.size());
  for (const auto& node : plan_->nodes) {
    auto opened = node->Open();
    if (!opened.ok()) {
      return UnavailableError(DependsOn(info_.name, node->servable().name()) + std::string(kNoVersion));
    }
    nodes.push_back(std::move(*opened));
  }
  return nodes;
}

std::vector<uint32_t> RunningEnsemble::Wanted(const InferenceRequest& request) const {
  std::vector<uint32_t> wanted;
  for (uint32_t i = 0; i < info_.outputs.size(); ++i) {
    const auto& names = request.requested_outputs;
    if (names.empty() || std::find(names.begin(), names.end(), info_.outputs[i].name) != names.end()) {
      wanted.push_back(i);
    }
  }
  return wanted;
}

const ServableReference* RunningEnsemble::FirstStep() const {
  const Graph& graph = *plan_->graph;
  for (size_t i = 0; i < plan_->nodes.size(); ++i) {
    for (const Graph::Port& port : graph.nodes()[i].inputs) {
      const auto& inputs = graph.inputs();
      if (std::find(inputs.begin(), inputs.end(), port.tensor) != inputs.end())
        return &plan_->nodes[i]->servable();
    }
  }
  return nullptr;
}

Readiness RunningEnsemble::readiness() const {
  for (const auto& node : plan_->nodes) {
    const std::string& model = node->servable().name();
    auto servable = node->servable().Get();
    if (!servable.ok()) return {false, DependsOn(info_.name, model) + std::string(kNoVersion)};
    Readiness step = (*servable)->readiness();
    if (!step.ready) return {false, DependsOn(info_.name, model) + "which is not ready: " + step.reason};
  }
  return {};
}

// Asks every step; the first that says no is the answer, which waits for all of them.
void RunningEnsemble::CheckReadiness(std::function<void(Readiness)> done) {
  struct Inquiry {
    std::mutex mutex;
    size_t open;       // guarded by mutex
    Readiness result;  // guarded by mutex
    std::function<void(Readiness)> done;
  };
  auto inquiry = std::make_shared<Inquiry>();  // shared by the answers
  inquiry->open = plan_->nodes.size() + 1;
  inquiry->result = readiness();
  inquiry->done = std::move(done);
  auto close = [inquiry](Readiness result) {
    {
      std::lock_guard lock(inquiry->mutex);
      if (inquiry->result.ready) inquiry->result = std::move(result);
      if (--inquiry->open > 0) return;
    }
    inquiry->done(std::move(inquiry->result));
  };
  for (const auto& node : plan_->nodes) {
    const std::string who = DependsOn(info_.name, node->servable().name());
    auto servable = node->servable().Get();
    if (!servable.ok()) {
      close({false, who + std::string(kNoVersion)});
      continue;
    }
    (*servable)->CheckReadiness([close, who, keep = *servable](Readiness step) {
      close(step.ready ? Readiness() : Readiness{false, who + "which is not ready: " + step.reason});
    });
  }
  close({});
}

void RunningEnsemble::Stop(int64_t deadline_ns) {
  if (gate().WaitUntilEmpty(deadline_ns)) return;
  for (const auto& session : sessions_.All()) {
    session->Abort(UnavailableError("Server exiting or model '" + info_.name +
                                    "' being unloaded: the request did not end in time"));
  }
}

}  // namespace

Result<std::shared_ptr<Servable>> Ensemble::Create(ServableInfo info, const Catalog& catalog,
                                                   const WhyMissing& why_missing) {
  BRAID_CHECK(info.config != nullptr);
  auto config = std::make_shared<inference::ModelConfig>(*info.config);
  BRAID_RETURN_IF_ERROR(CheckEnsembleConfig(*config));
  info.kind = ServableKind::kEnsemble;
  info.platform = "ensemble";
  info.instance_count = 0;
  config->set_platform("ensemble");

  auto plan = std::make_shared<Plan>();
  plan->prefix = "in ensemble '" + info.name + "', ";
  plan->options.max_runs_per_node = config->ensemble_scheduling().max_inflight_requests();
  std::vector<std::shared_ptr<const ServableInfo>> models;
  for (const auto& step : config->ensemble_scheduling().step()) {
    std::vector<std::string> outputs;
    for (const auto& [output, tensor] : step.output_map()) outputs.push_back(output);
    std::sort(outputs.begin(), outputs.end());
    plan->nodes.push_back(
        std::make_unique<ServableNode>(catalog, step.model_name(), StepVersion(step), std::move(outputs)));
    auto model = plan->nodes.back()->servable().Get();
    if (!model.ok()) {
      std::string tail = why_missing ? why_missing(step.model_name()) : std::string(kNoVersion);
      if (StepVersion(step) > 0 && catalog.Find(step.model_name(), -1).ok()) {
        tail = "whose required version " + std::to_string(StepVersion(step)) + " is not loaded.";
      }
      return InvalidArgumentError(DependsOn(info.name, step.model_name()) + tail);
    }
    info.decoupled = info.decoupled || (*model)->info().decoupled;
    models.emplace_back(*model, &(*model)->info());
  }
  if (info.decoupled) config->mutable_model_transaction_policy()->set_decoupled(true);
  info.config = std::move(config);
  BRAID_ASSIGN_OR_RETURN(plan->graph, MakeEnsembleGraph(info, models));
  return std::shared_ptr<Servable>(std::make_shared<RunningEnsemble>(std::move(info), std::move(plan)));
}

}  // namespace braid
