#include "scheduling/stateful_model.h"

#include <algorithm>
#include <mutex>

#include "base/guard.h"
#include "images/encoded_images.h"
#include "scheduling/hand_over.h"
#include "scheduling/held_requests.h"
#include "scheduling/request_intake.h"
#include "scheduling/response_delivery.h"
#include "scheduling/sequence_line.h"
#include "scheduling/sequence_store.h"
#include "scheduling/stateful_table.h"
#include "scheduling/trace_points.h"
#include "serving/ovms_status.h"
#include "serving/sequence_inputs.h"
#include "serving/sequence_turn.h"

namespace braid {
namespace {

// A request whose turn has begun, and what it begins with.
struct Turn {
  std::unique_ptr<InferenceRequest> request;
  SequenceStore::States states;
};

class Model final : public StatefulModel,
                    private RequestFront,
                    private SequenceKeeper,
                    public std::enable_shared_from_this<Model> {
 public:
  Model(ServableInfo info, Timers& timers, Logger& log, const ScheduledModel::Options& options)
      : StatefulModel(std::move(info)),
        timers_(timers),
        log_(log),
        delivery_(info_, statistics_, timers),
        store_({.states = info_.stateful->states,
                .initial = nullptr,
                .savable = true,
                .identity = info_.sequence_identity}),
        max_waiting_(options.max_queue_size),
        table_({.max_sequences = info_.stateful->max_sequences, .max_waiting = options.max_queue_size},
               store_),
        held_(timers) {}

  ~Model() override {
    if (inner_ != nullptr && !stopping_) Stop(timers_.NowNs());
  }

  Status StartInner(std::unique_ptr<BackendModel> backend,
                    const std::function<void(const std::string&)>& progress, ScheduledModel::Options options);

  BufferAllocator& input_allocator() override { return inner_->input_allocator(); }
  void Infer(std::unique_ptr<InferenceRequest> request) override;
  Readiness readiness() const override { return inner_->readiness(); }
  void CheckReadiness(std::function<void(Readiness)> done) override {
    inner_->CheckReadiness(std::move(done));
  }
  int64_t pending_requests() const override {
    const int64_t inside = inner_->pending_requests();
    std::lock_guard lock(mutex_);
    return inside + static_cast<int64_t>(table_.waiting() + held_.size() + line_.waiting());
  }
  SequenceKeeper* sequences() override { return this; }
  void Stop(int64_t deadline_ns) override;

 private:
  struct Ending {
    std::unique_ptr<InferenceRequest> request;
    FailureReason reason;
    Status status;
    bool refused = false;
  };
  // What was decided under mutex_ and is done without it.
  struct Work {
    HandOver<Turn>::Turns turns;
    std::vector<Ending> endings;
  };

  SequenceCounts counts() const override { return store_.counts(); }
  bool savable() const override { return store_.savable(); }
  const std::string& identity() const override { return store_.identity(); }
  uint64_t changes() const override { return store_.changes(); }
  std::vector<SavedSequence> Save() const override { return store_.Save(); }
  void CleanUp() override;
  void Drop(const CorrelationId& id) override;
  TakeBackSteps Mark(const CorrelationId& id) override;
  void HoldUntilRestored(int64_t deadline_ns) override;
  size_t Restore(std::vector<SavedSequence> saved) override;
  // No sequence keeps a place that others wait for.
  void BeginDrain() override {}

  void OnResponse(InferenceRequest& request, InferenceResponse& response) override;
  Followers OnEnd(InferenceRequest& request, Outcome outcome) override;
  void Follow(Followers followers) override;

  // Has the images of a request decoded, which takes its place before.
  void Decode(std::unique_ptr<InferenceRequest> request);
  void OnDecoded(std::unique_ptr<InferenceRequest> request, SequencePlace* place, Status status);
  // A request that is ready for the model. `place` is null unless it has one in the line.
  void Arrive(std::unique_ptr<InferenceRequest> request, SequencePlace* place);
  // Works off a turn in the line, and those that it leads to.
  void AdvanceLocked(SequenceLine::Turn turn, Work& work);
  // It is the request's turn to be admitted.
  void EnterLocked(std::unique_ptr<InferenceRequest> request, Work& work);
  void HoldLocked(std::unique_ptr<InferenceRequest> request, Work& work);
  void AdmitLocked(std::unique_ptr<InferenceRequest> request, Work& work);
  // The client of an end has gone; the sequence may be on its way from an earlier life.
  void HoldEndLocked(uint64_t id);
  // No request waits for sequences of an earlier life any more.
  void ReleaseLocked(Work& work);
  void OnHeldTooLong();

  // Takes a request that waits in the line out of it. Its client has gone; an end keeps its place.
  std::unique_ptr<InferenceRequest> LeaveCancelledLocked(SequencePlace& place);
  // From here on a request that waits leaves at once when its client goes.
  void Listen(InferenceRequest& request);
  void OnCancelled(InferenceRequest& request);
  void EndCancelled();

  // `here`: this thread may run executions itself.
  void Perform(Work work, bool here);
  // Whatever becomes of the sequence now, the request runs with the states that it has at this moment.
  Turn TurnLocked(std::unique_ptr<InferenceRequest> request) const;
  void BeginTurn(Turn turn, bool here);
  void End(Ending ending);
  Ending Cancelled(std::unique_ptr<InferenceRequest> request) const {
    return {std::move(request), FailureReason::kCanceled, CancelledWhileWaiting(info_.name)};
  }
  Ending Stopped(std::unique_ptr<InferenceRequest> request) const {
    return {std::move(request), FailureReason::kOther, StoppedWhileWaiting(info_.name)};
  }
  static Ending Refused(std::unique_ptr<InferenceRequest> request, Status status) {
    return {std::move(request), FailureReason::kRejected, std::move(status), true};
  }
  static void RefuseMissing(std::vector<std::unique_ptr<InferenceRequest>> requests, Work& work);
  Status NoRoom(const InferenceRequest& request) const {
    return TooManyWaitForSequences(request, max_waiting_, info_.name);
  }

  // Constant.
  Timers& timers_;
  Logger& log_;
  const ResponseDelivery delivery_;  // of requests that end in here

  SequenceStore store_;  // provides its own synchronisation
  const size_t max_waiting_;

  // Taken after a request's Cancellation and before the locks of the timers and of store_; not held across a
  // call to the model behind, a sink or a Cancellation.
  mutable std::mutex mutex_;
  // All guarded by mutex_.
  SequenceLine line_;  // of requests of those sequences that have images on their way
  StatefulTable table_;
  HeldRequests held_;
  std::vector<uint64_t> held_ends_;  // the sequences of ends that were held until their clients have gone
  std::vector<std::unique_ptr<InferenceRequest>> cancelled_;  // waited; the timers' thread ends them
  TimerId cancel_timer_;
  bool stopping_ = false;

  // Constant once it is started. The last member: it calls back until it has stopped.
  std::shared_ptr<ScheduledModel> inner_;
};

Status Model::StartInner(std::unique_ptr<BackendModel> backend,
                         const std::function<void(const std::string&)>& progress,
                         ScheduledModel::Options options) {
  options.front = this;
  options.statistics = &statistics_;
  ServableInfo inner = info_;
  // Clients may ask for it by its name.
  TensorSpec& id = inner.outputs.emplace_back();
  id.name = kSequenceIdInput;
  id.type = DataType::kUint64;
  id.shape = {1};
  // What the samples hold is not needed again.
  info_.warmup.clear();
  BRAID_ASSIGN_OR_RETURN(
      inner_, ScheduledModel::Start(std::move(inner), std::move(backend), timers_, log_, progress, options));
  return OkStatus();
}

// --- Requests in ---------------------------------------------------------------------------------

void Model::Infer(std::unique_ptr<InferenceRequest> request) {
  if (Status status = TakeSequenceInputs(*request); !status.ok()) {
    request->Refuse(std::move(status));
    return;
  }
  if (NeedsDecoding(inner_->info(), *request)) {
    Decode(std::move(request));
    return;
  }
  if (Status status = FinishIntake(inner_->info(), *request); !status.ok()) {
    request->Refuse(std::move(status));
    return;
  }
  Arrive(std::move(request), nullptr);
}

void Model::Decode(std::unique_ptr<InferenceRequest> request) {
  SequencePlace* place = nullptr;
  // A start without an id has nothing before it, and nothing behind it knows its id yet.
  if (const auto id = std::get<uint64_t>(request->correlation_id); id != 0) {
    std::lock_guard lock(mutex_);
    if (line_.Last(id) == nullptr || line_.behind() < max_waiting_) place = &line_.Enter(id);
  }
  if (place == nullptr && request->correlation_id != CorrelationId(uint64_t{0})) {
    Status status = NoRoom(*request);
    delivery_.Refuse(*request, FailureReason::kRejected, std::move(status));
    return;
  }
  // The request's place in the servable keeps this.
  DecodeImagesThen(std::move(request), [this, place](auto decoded, Status status) {
    OnDecoded(std::move(decoded), place, std::move(status));
  });
}

void Model::OnDecoded(std::unique_ptr<InferenceRequest> request, SequencePlace* place, Status status) {
  if (status.ok()) status = FinishIntake(inner_->info(), *request);
  if (status.ok()) {
    Arrive(std::move(request), place);
    return;
  }
  const std::shared_ptr<Model> self = shared_from_this();
  Work work;
  if (place != nullptr) {
    const bool ends = EndsSequence(*request) && status.code() == StatusCode::kCancelled;
    std::lock_guard lock(mutex_);
    AdvanceLocked(ends ? line_.Abandon(*place) : line_.Leave(*place), work);
  }
  request->Refuse(std::move(status));
  Perform(std::move(work), false);
}

void Model::Arrive(std::unique_ptr<InferenceRequest> request, SequencePlace* place) {
  // The request may have ended, and the model with it, before the last lines of this function.
  const std::shared_ptr<Model> self = shared_from_this();
  request->queue_start_ns = timers_.NowNs();
  request->scheduling = {};
  TraceQueued(*request);
  Listen(*request);

  const bool here = request->here;

  Work work;
  {
    const PatientAllocation patience;
    std::lock_guard lock(mutex_);
    const bool joins = place == nullptr && !line_.empty() &&
                       line_.Last(std::get<uint64_t>(request->correlation_id)) != nullptr;
    if (stopping_) {
      work.endings.push_back(Stopped(std::move(request)));
      if (place != nullptr) AdvanceLocked(line_.Leave(*place), work);
    } else if (joins && line_.behind() >= max_waiting_) {
      Status status = NoRoom(*request);
      work.endings.push_back(Refused(std::move(request), std::move(status)));
    } else if (place == nullptr && !joins) {
      EnterLocked(std::move(request), work);
    } else {
      if (joins) place = &line_.Enter(std::get<uint64_t>(request->correlation_id));
      InferenceRequest& entered = *request;
      SequenceLine::Turn turn = line_.Ready(*place, std::move(request));
      if (turn.place == nullptr && entered.cancelled()) {
        work.endings.push_back(Cancelled(LeaveCancelledLocked(*place)));
      }
      AdvanceLocked(std::move(turn), work);
    }
  }
  Perform(std::move(work), here);
}

void Model::AdvanceLocked(SequenceLine::Turn turn, Work& work) {
  while (turn.place != nullptr) {
    if (turn.request != nullptr) {
      if (stopping_) {
        work.endings.push_back(Stopped(std::move(turn.request)));
      } else {
        EnterLocked(std::move(turn.request), work);
      }
    } else if (held_.holding()) {
      HoldEndLocked(turn.place->id());
    } else {
      table_.EndWithoutRequest(turn.place->id());
    }
    turn = line_.Leave(*turn.place);
  }
}

void Model::EnterLocked(std::unique_ptr<InferenceRequest> request, Work& work) {
  if (held_.holding()) {
    HoldLocked(std::move(request), work);
  } else {
    AdmitLocked(std::move(request), work);
  }
}

// What is behind others in the line is nobody's turn when it leaves, so nothing follows.
std::unique_ptr<InferenceRequest> Model::LeaveCancelledLocked(SequencePlace& place) {
  auto request = line_.Withdraw(place);
  if (EndsSequence(*request)) {
    line_.Abandon(place);
  } else {
    line_.Leave(place);
  }
  return request;
}

void Model::AdmitLocked(std::unique_ptr<InferenceRequest> request, Work& work) {
  InferenceRequest& entered = *request;
  const auto refuse = [&](Status status) {
    work.endings.push_back(Refused(std::move(request), std::move(status)));
  };
  switch (table_.Admit(request)) {
    case StatefulTable::Answer::kBegins:
      work.turns.push_back(TurnLocked(std::move(request)));
      return;
    case StatefulTable::Answer::kWaits:
      // The call graph need not know of it: it waits for turns that have begun. These wait in the model
      // behind, where the graph sees them, or run on instances that make no calls, as no backend of such
      // models does.
      if (entered.cancelled()) work.endings.push_back(Cancelled(table_.Cancel(entered)));
      return;
    case StatefulTable::Answer::kTooMany:
      return refuse(OvmsError(OvmsCode::kMaxSequenceNumberReached));
    case StatefulTable::Answer::kExists:
      return refuse(OvmsError(OvmsCode::kSequenceAlreadyExists));
    case StatefulTable::Answer::kTerminated:
      return refuse(OvmsError(OvmsCode::kSequenceTerminated));
    case StatefulTable::Answer::kMissing:
      return refuse(OvmsError(OvmsCode::kSequenceMissing));
    case StatefulTable::Answer::kNoRoom:
      return refuse(NoRoom(entered));
  }
}

void Model::Listen(InferenceRequest& request) {
  if (request.cancellation == nullptr) return;
  // The listener is cleared or replaced before the request leaves, so both pointers hold while it can be
  // called.
  request.cancellation->SetListener([this, entered = &request] { OnCancelled(*entered); });
}

void Model::OnCancelled(InferenceRequest& request) {
  const PatientAllocation patience;
  std::lock_guard lock(mutex_);
  // One that does not wait yet sees its cancellation when it is about to; one that does no longer is the
  // inner model's.
  if (!request.scheduling.queued) return;
  if (SequencePlace* place = request.scheduling.place) {
    cancelled_.push_back(LeaveCancelledLocked(*place));
  } else if (request.scheduling.sequence != 0) {
    cancelled_.push_back(table_.Cancel(request));
  } else {
    if (EndsSequence(request)) HoldEndLocked(std::get<uint64_t>(request.correlation_id));
    cancelled_.push_back(held_.Remove(request));
  }
  // This is called from within the Cancellation, so the request cannot end here.
  if (cancel_timer_ || stopping_) return;
  cancel_timer_ = timers_.At(timers_.NowNs(), [weak = weak_from_this()] {
    if (std::shared_ptr<Model> self = weak.lock()) self->EndCancelled();
  });
}

void Model::EndCancelled() {
  Work work;
  {
    const PatientAllocation patience;
    std::lock_guard lock(mutex_);
    cancel_timer_ = {};
    for (auto& request : cancelled_) work.endings.push_back(Cancelled(std::move(request)));
    cancelled_.clear();
  }
  Perform(std::move(work), false);
}

// --- Turns ---------------------------------------------------------------------------------------

void Model::Perform(Work work, bool here) {
  int begun = 0;
  HandOver<Turn>::Run(this, std::move(work.turns),
                      [&](Turn turn) { BeginTurn(std::move(turn), here && begun++ < kMostOnCallersThread); });
  for (Ending& ending : work.endings) End(std::move(ending));
}

Turn Model::TurnLocked(std::unique_ptr<InferenceRequest> request) const {
  SequenceStore::States states = store_.Get(request->scheduling.sequence);
  return {std::move(request), std::move(states)};
}

void Model::BeginTurn(Turn turn, bool here) {
  InferenceRequest& request = *turn.request;
  // The states and all outputs are needed, whatever the client has asked for.
  request.scheduling.wanted_outputs = std::exchange(request.requested_outputs, {});
  if (turn.states != nullptr) {
    request.inputs.insert(request.inputs.end(), turn.states->begin(), turn.states->end());
  }
  inner_->Schedule(std::move(turn.request), here);
}

void Model::End(Ending ending) {
  InferenceRequest& request = *ending.request;
  if (request.cancellation != nullptr) request.cancellation->ClearListener();
  if (ending.refused) {
    delivery_.Refuse(request, ending.reason, std::move(ending.status));
  } else {
    delivery_.Fail(request, ending.reason, std::move(ending.status));
  }
}

void Model::OnResponse(InferenceRequest& request, InferenceResponse& response) {
  std::vector<Tensor>& outputs = response.outputs;
  const std::vector<StateSpec>& specs = store_.states();
  const size_t own = outputs.size() - std::min(outputs.size(), specs.size());
  std::vector<Tensor> states(std::make_move_iterator(outputs.begin() + static_cast<ptrdiff_t>(own)),
                             std::make_move_iterator(outputs.end()));
  outputs.resize(own);
  if (Status status = store_.Check(states); !status.ok()) {
    outputs.clear();
    response.status =
        InternalError("model '" + info_.name + "' gave states that are not its own: " + status.message());
    return;
  }
  if (!request.sequence_end) {
    for (size_t i = 0; i < states.size(); ++i) states[i].name = specs[i].name;
    store_.Put(request.scheduling.sequence, std::move(states), true);
  }
  outputs.push_back(SequenceIdOutput(std::get<uint64_t>(request.correlation_id)));
  request.requested_outputs = std::move(request.scheduling.wanted_outputs);
}

RequestFront::Followers Model::OnEnd(InferenceRequest& request, Outcome outcome) {
  // A start that was never answered has left nothing to go on from.
  if (outcome == Outcome::kGood && request.sequence_start && !request.sequence_end &&
      !store_.HasRun(request.scheduling.sequence)) {
    outcome = Outcome::kFailed;
  }
  const auto end = outcome == Outcome::kGood     ? StatefulTable::Outcome::kGood
                   : outcome == Outcome::kFailed ? StatefulTable::Outcome::kFailed
                                                 : StatefulTable::Outcome::kCancelled;
  Followers followers;
  bool goes_on = false;
  {
    std::lock_guard lock(mutex_);
    goes_on = table_.End(request, end, followers.refused);
  }
  if (goes_on) followers.sequence = request.scheduling.sequence;
  if (goes_on || !followers.refused.empty()) followers.front = {shared_from_this(), this};
  return followers;
}

void Model::Follow(Followers followers) {
  Work work;
  if (followers.sequence != 0) {
    std::lock_guard lock(mutex_);
    if (auto next = table_.Next(followers.sequence)) work.turns.push_back(TurnLocked(std::move(next)));
  }
  RefuseMissing(std::move(followers.refused), work);
  Perform(std::move(work), false);
}

void Model::RefuseMissing(std::vector<std::unique_ptr<InferenceRequest>> requests, Work& work) {
  for (auto& request : requests) {
    work.endings.push_back(Refused(std::move(request), OvmsError(OvmsCode::kSequenceMissing)));
  }
}

// --- The keeper ----------------------------------------------------------------------------------

void Model::CleanUp() {
  if (!info_.stateful->idle_cleanup) return;
  std::lock_guard lock(mutex_);
  table_.CleanUp();
}

void Model::Drop(const CorrelationId& id) {
  const auto* number = std::get_if<uint64_t>(&id);
  if (number == nullptr) return;
  const std::shared_ptr<Model> self = shared_from_this();
  std::vector<std::unique_ptr<InferenceRequest>> refused;
  {
    std::lock_guard lock(mutex_);
    table_.Drop(*number, refused);
  }
  Work work;
  RefuseMissing(std::move(refused), work);
  Perform(std::move(work), false);
}

TakeBackSteps Model::Mark(const CorrelationId& id) {
  const auto* number = std::get_if<uint64_t>(&id);
  if (number == nullptr) return nullptr;
  std::optional<SequenceStore::Mark> mark;
  {
    std::lock_guard lock(mutex_);
    mark = table_.Mark(*number);
  }
  if (!mark) return nullptr;
  return [weak = weak_from_this(), mark = *std::move(mark)](uint64_t steps) {
    if (const std::shared_ptr<Model> self = weak.lock()) self->store_.TakeBack(mark, steps);
  };
}

void Model::HoldUntilRestored(int64_t deadline_ns) {
  std::lock_guard lock(mutex_);
  if (stopping_) return;
  held_.Hold(deadline_ns, [weak = weak_from_this()] {
    if (std::shared_ptr<Model> self = weak.lock()) self->OnHeldTooLong();
  });
}

void Model::HoldLocked(std::unique_ptr<InferenceRequest> request, Work& work) {
  if (request->cancelled()) {
    if (EndsSequence(*request)) HoldEndLocked(std::get<uint64_t>(request->correlation_id));
    work.endings.push_back(Cancelled(std::move(request)));
  } else if (held_.size() >= max_waiting_) {
    Status status = NoRoom(*request);
    work.endings.push_back(Refused(std::move(request), std::move(status)));
  } else {
    held_.Add(std::move(request));
  }
}

void Model::HoldEndLocked(uint64_t id) {
  if (held_ends_.size() < max_waiting_) held_ends_.push_back(id);
}

void Model::ReleaseLocked(Work& work) {
  for (auto& request : held_.Release()) AdmitLocked(std::move(request), work);
  for (const uint64_t id : std::exchange(held_ends_, {})) table_.EndWithoutRequest(id);
}

void Model::OnHeldTooLong() {
  Work work;
  {
    const PatientAllocation patience;
    std::lock_guard lock(mutex_);
    if (!stopping_) ReleaseLocked(work);
  }
  Perform(std::move(work), false);
}

size_t Model::Restore(std::vector<SavedSequence> saved) {
  const std::shared_ptr<Model> self = shared_from_this();
  size_t taken = 0;
  Work work;
  {
    const PatientAllocation patience;
    std::lock_guard lock(mutex_);
    if (stopping_) return 0;
    for (SavedSequence& sequence : saved) taken += table_.Restore(std::move(sequence)) ? 1 : 0;
    ReleaseLocked(work);
  }
  Perform(std::move(work), false);
  return taken;
}

// --- Stop ----------------------------------------------------------------------------------------

void Model::Stop(int64_t deadline_ns) {
  Work work;
  {
    const PatientAllocation patience;
    // Nobody restores what stops.
    std::lock_guard lock(mutex_);
    for (auto& request : held_.Release()) work.endings.push_back(Stopped(std::move(request)));
    held_ends_.clear();
  }
  Perform(std::exchange(work, {}), false);
  gate().WaitUntilEmpty(deadline_ns);
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    std::vector<std::unique_ptr<InferenceRequest>> waiting;
    table_.RefuseWaiting(waiting);
    for (auto& request : waiting) work.endings.push_back(Stopped(std::move(request)));
    for (SequencePlace* place : line_.Waiting()) {
      work.endings.push_back(Stopped(line_.Withdraw(*place)));
      line_.Leave(*place);
    }
    for (auto& request : cancelled_) work.endings.push_back(Cancelled(std::move(request)));
    cancelled_.clear();
    timers_.Withdraw(cancel_timer_);
  }
  if (!work.endings.empty()) {
    BRAID_LOG_WARNING(log_, "model '{}' version {} stops with {} requests that waited for their sequences",
                      info_.name, info_.version, work.endings.size());
  }
  Perform(std::move(work), false);
  inner_->gate().Close();
  inner_->Stop(deadline_ns);
}

}  // namespace

StatefulModel::~StatefulModel() = default;

Result<std::shared_ptr<StatefulModel>> StatefulModel::Start(
    ServableInfo info, std::unique_ptr<BackendModel> backend, Timers& timers, Logger& log,
    const std::function<void(const std::string&)>& progress, const ScheduledModel::Options& options) {
  BRAID_CHECK(info.stateful.has_value());
  auto model = std::make_shared<Model>(std::move(info), timers, log, options);
  BRAID_RETURN_IF_ERROR(model->StartInner(std::move(backend), progress, options));
  return std::shared_ptr<StatefulModel>(std::move(model));
}

}  // namespace braid
