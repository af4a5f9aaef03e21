#include "pipeline/dag_runner.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/guard.h"
#include "pipeline/sequence_nodes.h"
#include "serving/reshape.h"

namespace braid {

class DagRunner::Memory final : public BufferAllocator {
 public:
  explicit Memory(const ServableReference* step) : step_(step) {}

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

// The request for which a session runs, and the responses to it.
class DagRunner::Client final : public SessionClient {
 public:
  // The servable lives as long as the request is inside its gate.
  // `entry` and `turn` may be null.
  Client(DagRunner& runner, std::unique_ptr<InferenceRequest> request, SequenceQueue::Entry* entry,
         std::shared_ptr<SequenceTurn> turn)
      : runner_(runner),
        servable_(runner.servable_),
        plan_(runner.plan_),
        queue_(runner.queue_),
        begin_ns_(entry != nullptr ? SteadyNowNs() : request->queue_start_ns),
        request_(std::move(request)),
        entry_(entry),
        turn_(std::move(turn)) {}

  const InferenceRequest& request() const override { return *request_; }

  void Respond(std::optional<std::vector<Tensor>> outputs, bool final) override {
    const PatientAllocation patience;
    std::optional<InferenceResponse> response;
    if (outputs) response = MakeResponse(std::move(*outputs));
    // One response is given when nothing can go wrong any more.
    if (!servable_.info().decoupled) {
      if (response) held_ = std::move(response);
      if (!final) return;
      response = std::move(held_);
      Status finished = response ? plan_->FinishOutputs(response->outputs) : OkStatus();
      if (!finished.ok()) {
        Fail(std::move(finished), Dag::kNone);
        return;
      }
    }
    if (final) Leave();
    if (servable_.info().decoupled) Count(response ? ResponseKind::kSuccess : ResponseKind::kEmpty);
    if (final) {
      const int64_t now_ns = SteadyNowNs();
      const ExecutionTimes times{begin_ns_, begin_ns_, now_ns, now_ns};
      servable_.statistics().RecordExecution(request_->batch_size, times);
      servable_.statistics().RecordSuccess(request_->batch_size, request_->start_ns, request_->queue_start_ns,
                                           times);
    }
    request_->Respond(std::move(response), final);
    if (final && entry_ != nullptr) queue_->Leave(*entry_);
  }

  void Fail(Status status, uint32_t node) override {
    const PatientAllocation patience;
    Leave();
    const bool cancelled = status.code() == StatusCode::kCancelled && request_->cancelled();
    if (servable_.info().decoupled) Count(ResponseKind::kFail);
    servable_.statistics().RecordFailure(cancelled ? FailureReason::kCanceled : FailureReason::kBackend,
                                         request_->start_ns, SteadyNowNs());
    status = plan_->Fault(std::move(status), node);
    if (turn_ == nullptr) {
      request_->Fail(std::move(status));
      if (entry_ != nullptr) queue_->Leave(*entry_);
      return;
    }
    if (cancelled) turn_->ClientGone();
    std::shared_ptr<InferenceRequest> request = std::move(request_);  // as functions are copied
    turn_->Fail([request = std::move(request), status = std::move(status), queue = queue_, entry = entry_] {
      request->Fail(status);
      if (entry != nullptr) queue->Leave(*entry);
    });
  }

  Status MissingOutput(uint32_t node, const std::string& output) const override {
    return plan_->MissingOutput(node, output);
  }

 private:
  // Nobody calls into the session for this request after it.
  void Leave() {
    if (request_->cancellation) request_->cancellation->ClearListener();
    runner_.Remove(request_.get());
  }

  InferenceResponse MakeResponse(std::vector<Tensor> outputs) const {
    InferenceResponse response;
    for (Tensor& output : outputs) {
      const TensorSpec* spec = servable_.info().FindOutput(output.name);
      if (spec != nullptr && spec->model_shape) Reshape(*spec->model_shape, spec->shape, output.shape);
    }
    response.outputs = std::move(outputs);
    if (servable_.info().stateful) {
      response.outputs.push_back(SequenceIdOutput(std::get<uint64_t>(request_->correlation_id)));
    }
    response.model_name = servable_.info().name;
    response.model_version = servable_.info().version;
    return response;
  }

  void Count(ResponseKind kind) {
    const int64_t now_ns = SteadyNowNs();
    if (responses_ == 0 && kind != ResponseKind::kEmpty) {
      servable_.statistics().RecordFirstResponse(now_ns - request_->start_ns);
    }
    const int64_t before_ns = responses_ == 0 ? begin_ns_ : last_response_ns_;
    servable_.statistics().RecordResponse(responses_++, kind, now_ns - before_ns);
    last_response_ns_ = now_ns;
  }

  DagRunner& runner_;
  Servable& servable_;
  const std::shared_ptr<const DagPlan> plan_;   // shared with the runner, which may go before this
  const std::shared_ptr<SequenceQueue> queue_;  // shared with the runner, which may go before this
  const int64_t begin_ns_;
  std::unique_ptr<InferenceRequest> request_;
  SequenceQueue::Entry* const entry_;
  const std::shared_ptr<SequenceTurn> turn_;  // shared with the nodes that it watches
  std::optional<InferenceResponse> held_;
  uint32_t responses_ = 0;
  int64_t last_response_ns_ = 0;
};

DagRunner::DagRunner(Servable& servable, std::shared_ptr<const DagPlan> plan,
                     std::shared_ptr<SequenceQueue> queue)
    : servable_(servable),
      plan_(std::move(plan)),
      queue_(std::move(queue)),
      memory_(std::make_unique<Memory>(FirstStep())) {
  BRAID_CHECK(queue_ != nullptr || !servable_.info().stateful);
}

DagRunner::~DagRunner() = default;

BufferAllocator& DagRunner::input_allocator() { return *memory_; }

void DagRunner::Run(std::unique_ptr<InferenceRequest> request) {
  auto entry = Enter(*request);
  if (entry.ok()) {
    Run(std::move(request), *entry);
  } else {
    Refuse(std::move(request), nullptr, entry.status());
  }
}

Result<SequenceQueue::Entry*> DagRunner::Enter(const InferenceRequest& request) {
  if (!servable_.info().stateful) return nullptr;
  return queue_->Enter(*this, request);
}

void DagRunner::Run(std::unique_ptr<InferenceRequest> request, SequenceQueue::Entry* entry) {
  if (entry != nullptr) {
    queue_->Ready(*entry, std::move(request));
    return;
  }
  request->queue_start_ns = SteadyNowNs();
  Begin(std::move(request), nullptr);
}

void DagRunner::Refuse(std::unique_ptr<InferenceRequest> request, SequenceQueue::Entry* entry, Status why) {
  if (entry != nullptr) queue_->GiveUp(*entry, *request, why);
  request->Refuse(std::move(why));
}

std::vector<ServableUse> DagRunner::uses() const {
  std::vector<ServableUse> uses;
  for (const PlanNode& node : plan_->nodes) {
    if (node.servable != nullptr) uses.push_back({node.servable->name(), node.servable->version()});
  }
  return uses;
}

int64_t DagRunner::waiting() const {
  return queue_ == nullptr ? 0 : static_cast<int64_t>(queue_->waiting(*this));
}

void DagRunner::BeginRun(std::unique_ptr<InferenceRequest> request, SequenceQueue::Entry& entry) {
  request->call_chain = SequenceQueue::ChainOf(entry, *request);
  Begin(std::move(request), &entry);
}

void DagRunner::Begin(std::unique_ptr<InferenceRequest> request, SequenceQueue::Entry* entry) {
  auto nodes = OpenNodes();
  if (!nodes.ok()) {
    const std::shared_ptr<SequenceQueue> queue = queue_;
    servable_.statistics().RecordFailure(FailureReason::kOther, request->start_ns, SteadyNowNs());
    request->Fail(nodes.status());
    if (entry != nullptr) queue->Leave(*entry);
    return;
  }
  std::shared_ptr<SequenceTurn> turn = WatchSequence(*request, *nodes);
  // The request may have ended, and the servable with it, before the last lines of this function.
  InferenceRequest& entered = *request;
  const std::shared_ptr<Cancellation> cancellation = entered.cancellation;
  auto session = Session::Create(plan_->dag, std::move(*nodes), Wanted(entered), plan_->options);
  {
    std::lock_guard lock(mutex_);
    sessions_.emplace(&entered, session);
  }
  // The listener is cleared before the session ends, so the pointer holds while it can be called.
  if (cancellation) cancellation->SetListener([session = session.get()] { session->Cancel(); });
  std::vector<Tensor> inputs = std::move(entered.inputs);
  session->Start(std::move(inputs),
                 std::make_unique<Client>(*this, std::move(request), entry, std::move(turn)));
}

void DagRunner::Remove(const InferenceRequest* key) {
  std::lock_guard lock(mutex_);
  sessions_.erase(key);
}

Result<std::vector<std::unique_ptr<NodeSession>>> DagRunner::OpenNodes() const {
  std::vector<std::unique_ptr<NodeSession>> nodes;
  nodes.reserve(plan_->nodes.size());
  for (const PlanNode& node : plan_->nodes) {
    auto opened = node.node->Open();
    if (!opened.ok()) return plan_->Unavailable(static_cast<uint32_t>(nodes.size()), opened.status());
    nodes.push_back(std::move(*opened));
  }
  return nodes;
}

std::vector<uint32_t> DagRunner::Wanted(const InferenceRequest& request) const {
  std::vector<uint32_t> wanted;
  const auto& outputs = servable_.info().outputs;
  for (uint32_t i = 0; i < outputs.size(); ++i) {
    const auto& names = request.requested_outputs;
    if (names.empty() || std::find(names.begin(), names.end(), outputs[i].name) != names.end()) {
      wanted.push_back(i);
    }
  }
  return wanted;
}

const ServableReference* DagRunner::FirstStep() const {
  const Dag& dag = *plan_->dag;
  for (size_t i = 0; i < plan_->nodes.size(); ++i) {
    if (plan_->nodes[i].servable == nullptr) continue;
    for (const Dag::Port& port : dag.nodes()[i].inputs) {
      const auto& inputs = dag.inputs();
      if (std::find(inputs.begin(), inputs.end(), port.tensor) != inputs.end())
        return plan_->nodes[i].servable;
    }
  }
  return nullptr;
}

Readiness DagRunner::readiness() const {
  for (const PlanNode& node : plan_->nodes) {
    if (node.servable == nullptr) continue;
    const std::string& model = node.servable->name();
    auto servable = node.servable->Get();
    if (!servable.ok()) return {false, plan_->LacksVersion(model)};
    Readiness step = (*servable)->readiness();
    if (!step.ready) return {false, plan_->NotReady(model, step.reason)};
  }
  return {};
}

void DagRunner::CheckReadiness(std::function<void(Readiness)> done) const {
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
  for (const PlanNode& node : plan_->nodes) {
    if (node.servable == nullptr) {
      close({});
      continue;
    }
    auto servable = node.servable->Get();
    if (!servable.ok()) {
      close({false, plan_->LacksVersion(node.servable->name())});
      continue;
    }
    (*servable)->CheckReadiness(
        [close, plan = plan_, model = node.servable->name(), keep = *servable](Readiness step) {
          close(step.ready ? Readiness() : Readiness{false, plan->NotReady(model, step.reason)});
        });
  }
  close({});
}

void DagRunner::DropSequence(const CorrelationId& id) const {
  for (const PlanNode& node : plan_->nodes) {
    if (node.servable == nullptr) continue;
    if (const auto servable = node.servable->Get(); servable.ok()) (*servable)->DropSequence(id);
  }
}

void DagRunner::MarkSequence(const CorrelationId& id, std::vector<TakeBackSteps>& marks) const {
  for (const PlanNode& node : plan_->nodes) {
    if (node.servable == nullptr) continue;
    if (const auto servable = node.servable->Get(); servable.ok()) (*servable)->MarkSequence(id, marks);
  }
}

void DagRunner::Stop(int64_t deadline_ns) {
  if (servable_.gate().WaitUntilEmpty(deadline_ns)) return;
  if (queue_ != nullptr) queue_->Stop(*this);
  std::vector<std::shared_ptr<Session>> all;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [key, session] : sessions_) {
      if (auto alive = session.lock()) all.push_back(std::move(alive));
    }
  }
  for (const auto& session : all) {
    session->Abort(UnavailableError("Server exiting or model '" + servable_.info().name +
                                    "' being unloaded: the request did not end in time"));
  }
}

}  // namespace braid
