#include "scheduling/sequence_model.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>

#include "scheduling/batcher.h"
#include "scheduling/response_delivery.h"
#include "scheduling/response_order.h"
#include "scheduling/sequence_policy.h"
#include "scheduling/sequence_table.h"
#include "scheduling/slot_batch.h"
#include "scheduling/turn_inputs.h"
#include "serving/request_check.h"

namespace braid {
namespace {

// As in ScheduledModel: how long a request waits when no instance runs, and how often it is handed to an
// instance that dies before it begins.
constexpr int64_t kLongestOutageNs = 30'000'000'000;
constexpr int kMostReturns = 3;
constexpr size_t kLongestId = 128;

// When the next request of a sequence may run.
enum class TurnEnd : unsigned char {
  kReturned,   // user code has returned from the one before
  kDelivered,  // and what it returned has arrived: the state is in it
  kAnswered,   // the one before has been answered for good, or been put back
};

enum class Why : unsigned char {
  kRefused,  // with a status of its own
  kCancelled,
  kIdle,
  kLost,
  kOutage,
  kReturned,
  kStopping
};

std::string IdText(const CorrelationId& id) {
  const auto* number = std::get_if<uint64_t>(&id);
  return number != nullptr ? std::to_string(*number) : std::get<std::string>(id);
}

bool NamesNone(const CorrelationId& id) {
  const auto* number = std::get_if<uint64_t>(&id);
  return number != nullptr ? *number == 0 : std::get<std::string>(id).empty();
}

TurnEnd TurnEndOf(const ServableInfo& info, const SequencePolicy& policy, const TurnInputs& inputs) {
  if (policy.iterative) return TurnEnd::kAnswered;
  if (!inputs.has_state()) return TurnEnd::kReturned;
  return info.decoupled ? TurnEnd::kDelivered : TurnEnd::kAnswered;
}

uint64_t FirstGeneratedId() {
  std::random_device random;
  return (uint64_t{random()} << 32) | random();
}

class Model final : public SequenceModel,
                    private ExecutionListener,
                    public std::enable_shared_from_this<Model> {
 public:
  Model(ServableInfo info, std::unique_ptr<BackendModel> backend, SequencePolicy policy, Timers& timers,
        Logger& log, const Options& options)
      : SequenceModel(std::move(info)),
        policy_(std::move(policy)),
        timers_(timers),
        log_(log),
        inputs_(info_),
        turn_end_(TurnEndOf(info_, policy_, inputs_)),
        delivery_(info_, statistics_, timers),
        order_(policy_.batching.preserve_ordering ? std::make_shared<ResponseOrder>() : nullptr),
        next_generated_id_(FirstGeneratedId()),
        outage_since_ns_(timers.NowNs()),
        backend_(std::move(backend)) {
    for (Instance* instance : backend_->instances()) {
      if (!instance->passive()) lanes_.emplace_back(instance, lanes_.size());
    }
    available_ = lanes_.size();
    table_ = std::make_unique<SequenceTable>(
        SequenceTable::Options{lanes_.size(), policy_.slots, policy_.idle_ns, options.max_queue_size});
  }

  ~Model() override {
    if (started_) Stop(timers_.NowNs());
  }

  Status StartInstances(const std::function<void(const std::string&)>& progress) {
    Status status = backend_->Start(*this, progress);
    started_ = status.ok();
    return status;
  }

  BufferAllocator& input_allocator() override { return backend_->input_allocator(); }
  void Infer(std::unique_ptr<InferenceRequest> request) override;
  Readiness readiness() const override { return backend_->readiness(); }
  void CheckReadiness(std::function<void(Readiness)> done) override {
    backend_->CheckReadiness(std::move(done));
  }
  int64_t pending_requests() const override {
    std::lock_guard lock(mutex_);
    return static_cast<int64_t>(table_->queued());
  }
  size_t sequence_count() const override {
    std::lock_guard lock(mutex_);
    return table_->size();
  }
  void Stop(int64_t deadline_ns) override;

 private:
  struct Turn {
    uint64_t sequence;
    uint32_t number;
  };
  using Turns = std::vector<Turn>;

  // An instance and what the scheduler knows of it.
  struct Lane {
    Lane(Instance* instance, size_t index) : instance(instance), index(index) {}

    Instance* const instance;
    const size_t index;
    // Guarded by mutex_.
    bool available = true;
    std::deque<Turns> inside;  // of each execution that is handed over and has not returned
    // Between OnExecuted and OnDelivered, when turns end by what comes in between; nothing is handed out
    // then, or sequences that could share a batch would run one by one.
    bool delivering = false;
    Turns returned;        // those of the execution that is delivered
    int64_t since_ns = 0;  // when the execution that runs now began, as far as can be told
    uint32_t life = 0;     // counts the changes of `available`
    bool sending = false;  // a thread calls Execute() without mutex_; others leave executions in the outbox
    std::deque<std::unique_ptr<Execution>> outbox;
  };

  struct Dispatch {
    Lane* lane;
    std::unique_ptr<Execution> execution;
  };
  struct Ending {
    std::unique_ptr<InferenceRequest> request;
    Why why;
    Status status = {};  // set for kRefused and kLost
  };
  // What was decided under mutex_ and is done without it.
  struct Work {
    boost::container::small_vector<Dispatch, 2> dispatches;
    std::vector<Ending> endings;
    SequenceTable::Drops drops;
  };

  void OnExecuted(Instance& instance, int64_t rows, size_t request_count,
                  const ExecutionTimes& times) override;
  void OnDelivered(Instance& instance) override;
  void OnResponse(Instance& instance, InferenceRequest& request, std::optional<InferenceResponse> response,
                  bool final, const ExecutionTimes& times) override;
  void OnRescheduled(Instance& instance, std::unique_ptr<InferenceRequest> request) override;
  void OnUnstarted(Instance& instance, std::vector<std::unique_ptr<Execution>> executions) override;
  void OnAvailability(Instance& instance, bool available) override;
  void OnTimer();

  // Null for a passive instance, which is never given anything.
  Lane* LaneOf(Instance& instance) {
    auto lane =
        std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& l) { return l.instance == &instance; });
    return lane == lanes_.end() ? nullptr : &*lane;
  }

  // Whether the request can be one of a sequence; sets what an iterative model's request needs.
  Status CheckSequence(InferenceRequest& request);
  void AdmitLocked(std::unique_ptr<InferenceRequest> request, Buffer id_bytes, int64_t now_ns, Work& work);
  // From here on the request leaves the queue at once when its client goes.
  void Listen(InferenceRequest& request);
  void OnCancelled(InferenceRequest& request);

  // Hands out what can run, and ends what must not wait any longer.
  void ScheduleLocked(int64_t now_ns, Work& work);
  // Hands out what can run on one instance; returns when to look again.
  int64_t ScheduleLaneLocked(Lane& lane, int64_t now_ns, Work& work);
  BatchDecision DecideSlotsLocked(const std::vector<Sequence*>& seats, int64_t now_ns);
  BatchDecision DecideOldestLocked(const std::vector<Sequence*>& seats, int64_t now_ns);
  bool HasRoomLocked(const Lane& lane, int64_t now_ns) const;
  void HandOverLocked(Lane& lane, int64_t now_ns, Work& work);
  void SetAvailableLocked(Lane& lane, bool available, int64_t now_ns, Work& work);
  void TakeBackLocked(std::deque<std::unique_ptr<Execution>> executions, int64_t now_ns, Work& work);
  void ArmLocked(int64_t deadline_ns);

  void Perform(Work& work);
  void Send(Lane& lane, std::unique_ptr<Execution> execution);
  void End(Ending ending);
  Status LostError(const CorrelationId& id, size_t instance) const;
  Status StatusOf(Why why, const InferenceRequest& request) const;

  // Constant.
  const SequencePolicy policy_;
  Timers& timers_;
  Logger& log_;
  const TurnInputs inputs_;
  const TurnEnd turn_end_;
  const ResponseDelivery delivery_;
  const std::shared_ptr<ResponseOrder> order_;  // null unless preserve_ordering; shared with its responses
  std::atomic<uint64_t> next_generated_id_;

  // Taken after a request's Cancellation and before the locks of the timers and of order_; not held across a
  // call to an instance, the backend, a sink or a Cancellation.
  mutable std::mutex mutex_;
  std::condition_variable sent_;  // told when a lane stops sending, once stopping_ is set
  // All guarded by mutex_.
  std::deque<Lane> lanes_;  // never changes; a lane's members do
  std::unique_ptr<SequenceTable> table_;
  size_t available_ = 0;  // how many lanes are
  int64_t outage_since_ns_;
  int64_t execute_ns_ = 0;          // UpdateExecuteTime()
  SequenceTable::Drops cancelled_;  // left the table; the timers' thread ends them
  std::vector<SlotView> views_;     // scratch
  std::vector<WaitingRequest> waiting_;
  std::vector<Sequence*> chosen_;  // by slot; null is one that is padded
  TimerId timer_;
  int64_t timer_deadline_ns_ = kNeverNs;
  bool stopping_ = false;

  bool started_ = false;  // by Start() and Stop() alone
  // The last member: its instances call back until it has stopped.
  std::unique_ptr<BackendModel> backend_;
};

// --- Requests in
// -----------------------------------------------------------------------------------------------------

Status Model::CheckSequence(InferenceRequest& request) {
  if (policy_.iterative) {
    if (NamesNone(request.correlation_id)) {
      do {
        request.correlation_id = next_generated_id_.fetch_add(1, std::memory_order_relaxed);
      } while (NamesNone(request.correlation_id));
    }
    request.sequence_start = true;
    request.sequence_end = false;
  }
  if (NamesNone(request.correlation_id)) {
    return InvalidArgumentError("inference request to model '" + info_.name +
                                "' must specify a non-zero or non-empty correlation ID");
  }
  const auto* text = std::get_if<std::string>(&request.correlation_id);
  if (text != nullptr && text->size() > kLongestId) {
    return InvalidArgumentError("string correlation ID cannot be longer than " + std::to_string(kLongestId) +
                                " characters");
  }
  if (info_.max_batch_size > 0 && request.batch_size != 1) {
    return InvalidArgumentError("inference request to model '" + info_.name +
                                "' must specify batch-size 1 due to requirements of sequence batcher");
  }
  return OkStatus();
}

void Model::Infer(std::unique_ptr<InferenceRequest> request) {
  Status status = CheckRequest(info_, *request);
  if (status.ok()) status = CheckSequence(*request);
  Result<Buffer> id_bytes = status.ok() ? inputs_.EncodeId(request->correlation_id) : Result<Buffer>(status);
  if (!id_bytes.ok()) {
    request->Fail(id_bytes.status());
    return;
  }
  // The request may have ended, and the model with it, before the last lines of this function.
  const std::shared_ptr<Model> self = shared_from_this();
  const int64_t now_ns = timers_.NowNs();
  request->queue_start_ns = now_ns;
  request->scheduling = {};
  Listen(*request);

  Work work;
  {
    std::lock_guard lock(mutex_);
    if (stopping_) {
      work.endings.push_back({std::move(request), Why::kStopping});
    } else {
      AdmitLocked(std::move(request), std::move(*id_bytes), now_ns, work);
      ScheduleLocked(now_ns, work);
    }
  }
  Perform(work);
}

void Model::AdmitLocked(std::unique_ptr<InferenceRequest> request, Buffer id_bytes, int64_t now_ns,
                        Work& work) {
  InferenceRequest& entered = *request;
  const auto refuse = [&](Status status) {
    work.endings.push_back({std::move(request), Why::kRefused, std::move(status)});
  };
  // What is over already must not be taken for one that goes on.
  table_->Expire(now_ns, work.drops);
  const SequenceTable::Admission admission =
      table_->Admit(request, policy_.iterative || entered.sequence_end, now_ns);
  switch (admission.answer) {
    case SequenceTable::Answer::kNeedsStart:
      return refuse(InvalidArgumentError(
          "inference request for sequence " + IdText(entered.correlation_id) + " to model '" + info_.name +
          "' must specify the START flag on the first request of the sequence"));
    case SequenceTable::Answer::kLost:
      return refuse(LostError(entered.correlation_id, admission.instance));
    case SequenceTable::Answer::kFull:
      return refuse(UnavailableError(RequestPrefix(entered) + "Exceeds maximum queue size"));
    case SequenceTable::Answer::kQueued:
      break;
  }
  if (entered.sequence_start) admission.sequence->id_bytes = std::move(id_bytes);
  if (admission.cut_short) {
    BRAID_LOG_WARNING(log_,
                      "sequence {} of model '{}' begins anew before it has ended; the earlier sequence is "
                      "ended early",
                      IdText(entered.correlation_id), info_.name);
  }
  if (order_ != nullptr) order_->Enter(entered);
  if (entered.cancelled()) table_->Cancel(entered, now_ns, work.drops);
}

void Model::Listen(InferenceRequest& request) {
  if (request.cancellation == nullptr) return;
  // The listener is cleared before the request leaves the scheduler, so both pointers hold while it can be
  // called.
  request.cancellation->SetListener([this, entered = &request] { OnCancelled(*entered); });
}

void Model::OnCancelled(InferenceRequest& request) {
  std::lock_guard lock(mutex_);
  // One that is not queued yet sees its cancellation when it is; one that is no longer queued runs.
  if (!request.scheduling.queued) return;
  const int64_t now_ns = timers_.NowNs();
  // This is called from within the Cancellation, so the request cannot end here.
  table_->Cancel(request, now_ns, cancelled_);
  ArmLocked(now_ns);
}

// --- What runs next
// --------------------------------------------------------------------------------------------------

void Model::ScheduleLocked(int64_t now_ns, Work& work) {
  if (stopping_) return;
  table_->Expire(now_ns, work.drops);
  table_->Assign(now_ns);
  int64_t look_again_ns = kNeverNs;
  for (Lane& lane : lanes_) look_again_ns = std::min(look_again_ns, ScheduleLaneLocked(lane, now_ns, work));
  if (available_ == 0 && table_->queued() > 0) {
    look_again_ns = outage_since_ns_ + kLongestOutageNs;
    if (look_again_ns <= now_ns) {
      SequenceTable::Drops drops;
      table_->DropAll(now_ns, drops);
      for (auto& drop : drops) work.endings.push_back({std::move(drop.request), Why::kOutage});
    }
  }
  ArmLocked(std::min(look_again_ns, table_->next_deadline_ns()));
}

bool Model::HasRoomLocked(const Lane& lane, int64_t now_ns) const {
  if (!lane.available || lane.delivering) return false;
  if (lane.inside.empty()) return true;
  // The places of a batch are filled anew each time, so nothing is given ahead.
  if (policy_.strategy == SequenceStrategy::kDirect || turn_end_ != TurnEnd::kReturned) return false;
  const int depth = PipelineDepth(execute_ns_, now_ns - lane.since_ns, true);
  return lane.inside.size() < static_cast<size_t>(depth);
}

int64_t Model::ScheduleLaneLocked(Lane& lane, int64_t now_ns, Work& work) {
  const bool direct = policy_.strategy == SequenceStrategy::kDirect;
  while (HasRoomLocked(lane, now_ns)) {
    const std::vector<Sequence*>& seats = table_->seats(lane.index);
    const BatchDecision decision =
        direct ? DecideSlotsLocked(seats, now_ns) : DecideOldestLocked(seats, now_ns);
    if (decision.count == 0) return decision.wait_until_ns;
    chosen_.resize(decision.count);
    HandOverLocked(lane, now_ns, work);
  }
  return kNeverNs;
}

BatchDecision Model::DecideSlotsLocked(const std::vector<Sequence*>& seats, int64_t now_ns) {
  const auto arrived = [](const Sequence* s) { return s->queue.front()->queue_start_ns; };
  const Sequence* oldest = nullptr;
  for (const Sequence* sequence : seats) {
    if (sequence == nullptr || !SequenceTable::Ready(*sequence)) continue;
    if (oldest == nullptr || arrived(sequence) < arrived(oldest)) oldest = sequence;
  }
  if (oldest == nullptr) return {};
  views_.clear();
  chosen_.clear();
  for (Sequence* sequence : seats) {
    const bool ready =
        sequence != nullptr && SequenceTable::Ready(*sequence) &&
        (sequence == oldest || CanShareBatch(info_, *oldest->queue.front(), *sequence->queue.front()));
    views_.push_back(
        {.taken = sequence != nullptr, .ready = ready, .arrived_ns = ready ? arrived(sequence) : 0});
    chosen_.push_back(ready ? sequence : nullptr);
  }
  return DecideSlots(policy_, views_, now_ns);
}

BatchDecision Model::DecideOldestLocked(const std::vector<Sequence*>& seats, int64_t now_ns) {
  chosen_.clear();
  for (Sequence* sequence : seats) {
    if (sequence != nullptr && SequenceTable::Ready(*sequence)) chosen_.push_back(sequence);
  }
  if (chosen_.empty()) return {};
  std::sort(chosen_.begin(), chosen_.end(), [](const Sequence* a, const Sequence* b) {
    const int64_t a_ns = a->queue.front()->queue_start_ns;
    const int64_t b_ns = b->queue.front()->queue_start_ns;
    return a_ns != b_ns ? a_ns < b_ns : a->number < b->number;
  });
  const InferenceRequest& first = *chosen_.front()->queue.front();
  // No sequence waits for another, so that one whose request does not fit in lets others pass.
  std::erase_if(chosen_, [&](const Sequence* sequence) {
    return sequence->queue.front().get() != &first && !CanShareBatch(info_, first, *sequence->queue.front());
  });
  waiting_.clear();
  for (const Sequence* sequence : chosen_) {
    waiting_.push_back({.rows = 1, .arrived_ns = sequence->queue.front()->queue_start_ns});
  }
  return DecideBatch(policy_.batching, waiting_, now_ns);
}

void Model::HandOverLocked(Lane& lane, int64_t now_ns, Work& work) {
  auto execution = std::make_unique<Execution>();
  Turns turns;
  for (Sequence* sequence : chosen_) {
    if (sequence == nullptr) {
      execution->requests.push_back(inputs_.MakePadding());
      continue;
    }
    auto request = table_->Begin(*sequence, now_ns);
    inputs_.Add(*sequence, *request);
    turns.push_back({request->scheduling.sequence, request->scheduling.turn});
    execution->requests.push_back(std::move(request));
  }
  execution->rows = static_cast<int64_t>(execution->requests.size());
  execution->compute_start_ns = now_ns;
  execution->life = lane.life;
  if (lane.inside.empty()) lane.since_ns = now_ns;
  lane.inside.push_back(std::move(turns));
  if (lane.sending) {
    lane.outbox.push_back(std::move(execution));
  } else {
    lane.sending = true;
    work.dispatches.push_back({&lane, std::move(execution)});
  }
}

void Model::ArmLocked(int64_t deadline_ns) {
  // A timer that fires too early only looks again, so the present one stays unless it would be too late.
  if (deadline_ns >= timer_deadline_ns_ || stopping_) return;
  timers_.Withdraw(timer_);
  timer_deadline_ns_ = deadline_ns;
  timer_ = timers_.At(deadline_ns, [weak = weak_from_this()] {
    if (std::shared_ptr<Model> self = weak.lock()) self->OnTimer();
  });
}

void Model::OnTimer() {
  const int64_t now_ns = timers_.NowNs();
  Work work;
  {
    std::lock_guard lock(mutex_);
    timer_ = {};
    timer_deadline_ns_ = kNeverNs;
    std::move(cancelled_.begin(), cancelled_.end(), std::back_inserter(work.drops));
    cancelled_.clear();
    ScheduleLocked(now_ns, work);
  }
  Perform(work);
}

// --- What is done without the lock
// -----------------------------------------------------------------------------------

void Model::Perform(Work& work) {
  // An instance that stands still costs more than a client that hears of an error a little later.
  for (Dispatch& dispatch : work.dispatches) Send(*dispatch.lane, std::move(dispatch.execution));
  for (Ending& ending : work.endings) End(std::move(ending));
  for (SequenceTable::Dropped& drop : work.drops) {
    switch (drop.why) {
      case SequenceTable::Why::kCancelled:
        End({std::move(drop.request), Why::kCancelled});
        break;
      case SequenceTable::Why::kIdle:
        End({std::move(drop.request), Why::kIdle});
        break;
      case SequenceTable::Why::kLost: {
        Status status = LostError(drop.request->correlation_id, drop.instance);
        End({std::move(drop.request), Why::kLost, std::move(status)});
        break;
      }
      case SequenceTable::Why::kAll:
        End({std::move(drop.request), Why::kStopping});
        break;
    }
  }
}

void Model::Send(Lane& lane, std::unique_ptr<Execution> execution) {
  for (;;) {
    for (const auto& request : execution->requests) {
      if (request->cancellation != nullptr) request->cancellation->ClearListener();
    }
    inputs_.Complete(*execution, backend_->input_allocator());
    lane.instance->Execute(std::move(execution));
    std::lock_guard lock(mutex_);
    if (lane.outbox.empty()) {
      lane.sending = false;
      if (stopping_) sent_.notify_all();
      return;
    }
    execution = std::move(lane.outbox.front());
    lane.outbox.pop_front();
  }
}

void Model::End(Ending ending) {
  InferenceRequest& request = *ending.request;
  if (request.cancellation != nullptr) request.cancellation->ClearListener();
  FailureReason reason = FailureReason::kOther;
  if (ending.why == Why::kCancelled) reason = FailureReason::kCanceled;
  if (ending.why == Why::kRefused || ending.why == Why::kIdle) reason = FailureReason::kRejected;
  Status status = ending.status.ok() ? StatusOf(ending.why, request) : std::move(ending.status);
  delivery_.Fail(request, reason, std::move(status));
}

Status Model::LostError(const CorrelationId& id, size_t instance) const {
  return UnavailableError("sequence " + IdText(id) + " of model '" + info_.name +
                          "' was lost when instance '" + lanes_[instance].instance->name() +
                          "' ended; begin it again with the START flag");
}

Status Model::StatusOf(Why why, const InferenceRequest& request) const {
  const std::string sequence =
      "sequence " + IdText(request.correlation_id) + " of model '" + info_.name + "'";
  switch (why) {
    case Why::kCancelled:
      return CancelledError("Request cancelled while it waited for model '" + info_.name + "'");
    case Why::kIdle:
      return UnavailableError(sequence +
                              " has waited for a slot for longer than max_sequence_idle_microseconds (" +
                              std::to_string(policy_.idle_ns / 1000) + ")");
    case Why::kOutage: {
      const std::string reason = backend_->readiness().reason;
      return UnavailableError("no instance of model '" + info_.name + "' has run for " +
                              std::to_string(kLongestOutageNs / 1'000'000'000) +
                              " seconds: " + (reason.empty() ? "they are being restarted" : reason));
    }
    case Why::kReturned:
      return UnavailableError("instances of model '" + info_.name + "' ended " +
                              std::to_string(kMostReturns) + " times before they began with " + sequence);
    case Why::kStopping:
      return UnavailableError("Server exiting or model '" + info_.name +
                              "' being unloaded: the request did not run in time");
    case Why::kRefused:
    case Why::kLost:
      break;
  }
  return InternalError("request to model '" + info_.name + "' was refused");
}

// --- What instances say
// ----------------------------------------------------------------------------------------------

void Model::OnExecuted(Instance& instance, int64_t rows, size_t, const ExecutionTimes& times) {
  Work work;
  {
    const int64_t now_ns = timers_.NowNs();
    std::lock_guard lock(mutex_);
    if (Lane* lane = LaneOf(instance); lane != nullptr && !lane->inside.empty()) {
      Turns turns = std::move(lane->inside.front());
      lane->inside.pop_front();
      lane->since_ns = now_ns;
      execute_ns_ = UpdateExecuteTime(execute_ns_, times.infer_end_ns - times.input_end_ns);
      if (turn_end_ == TurnEnd::kReturned) {
        for (const Turn& turn : turns) table_->End(turn.sequence, turn.number, now_ns, work.drops);
        ScheduleLocked(now_ns, work);
      } else {
        lane->delivering = true;
        lane->returned = std::move(turns);
      }
    }
  }
  // First of all the instance gets its next execution.
  Perform(work);
  statistics_.RecordExecution(rows, times);
}

void Model::OnDelivered(Instance& instance) {
  if (turn_end_ == TurnEnd::kReturned) return;
  Work work;
  {
    const int64_t now_ns = timers_.NowNs();
    std::lock_guard lock(mutex_);
    Lane* lane = LaneOf(instance);
    if (lane == nullptr) return;
    lane->delivering = false;
    if (turn_end_ == TurnEnd::kDelivered) {
      for (const Turn& turn : lane->returned) table_->End(turn.sequence, turn.number, now_ns, work.drops);
    }
    lane->returned.clear();
    ScheduleLocked(now_ns, work);
  }
  Perform(work);
}

void Model::OnResponse(Instance& instance, InferenceRequest& request,
                       std::optional<InferenceResponse> response, bool final, const ExecutionTimes& times) {
  if (inputs_.IsPadding(request)) return;
  Work work;
  {
    const int64_t now_ns = timers_.NowNs();
    const SchedulerNotes& notes = request.scheduling;
    std::lock_guard lock(mutex_);
    Sequence* sequence = table_->Find(notes.sequence, notes.turn);
    if (sequence != nullptr && response && inputs_.has_state()) inputs_.TakeState(*sequence, *response);
    if (sequence != nullptr && final) {
      if (turn_end_ == TurnEnd::kAnswered) {
        table_->End(notes.sequence, notes.turn, now_ns, work.drops);
        Lane* lane = LaneOf(instance);
        if (lane != nullptr && !lane->delivering) ScheduleLocked(now_ns, work);
      } else {
        table_->Answered(notes.sequence, notes.turn, now_ns, work.drops);
      }
    }
  }
  Perform(work);
  request.requested_outputs.resize(request.scheduling.own_outputs);
  delivery_.Respond(request, std::move(response), final, times);
}

void Model::OnRescheduled(Instance& instance, std::unique_ptr<InferenceRequest> request) {
  if (inputs_.IsPadding(*request)) return;
  const int64_t now_ns = timers_.NowNs();
  const SchedulerNotes notes = request->scheduling;
  TurnInputs::Remove(*request);
  Work work;
  if (!policy_.iterative) {
    static constexpr char kText[] =
        "Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, while the model is not configured "
        "to handle such a flag.";
    BRAID_LOG_ERROR(log_, "instance '{}': {}", instance.name(), kText);
    {
      std::lock_guard lock(mutex_);
      table_->End(notes.sequence, notes.turn, now_ns, work.drops);
    }
    Perform(work);
    delivery_.Fail(*request, FailureReason::kBackend, InternalError(kText));
    return;
  }
  request->sequence_start = false;
  request->sequence_end = false;
  request->queue_start_ns = now_ns;
  Listen(*request);
  {
    std::lock_guard lock(mutex_);
    InferenceRequest& entered = *request;
    if (stopping_ || !table_->Continue(request, now_ns, work.drops)) {
      work.endings.push_back({std::move(request), Why::kStopping});
      table_->End(notes.sequence, notes.turn, now_ns, work.drops);
    } else if (entered.scheduling.queued && entered.cancelled()) {
      table_->Cancel(entered, now_ns, work.drops);
    }
  }
  Perform(work);
}

void Model::TakeBackLocked(std::deque<std::unique_ptr<Execution>> executions, int64_t now_ns, Work& work) {
  for (auto& execution : executions) {
    for (auto& request : execution->requests) {
      if (inputs_.IsPadding(*request)) continue;
      InferenceRequest& returned = *request;
      const SchedulerNotes notes = returned.scheduling;
      TurnInputs::Remove(returned);
      if (stopping_ || notes.returns >= kMostReturns) {
        table_->End(notes.sequence, notes.turn, now_ns, work.drops);
        work.endings.push_back({std::move(request), stopping_ ? Why::kStopping : Why::kReturned});
      } else if (!table_->Undo(request, now_ns, work.drops)) {
        work.endings.push_back({std::move(request), Why::kStopping});
      } else if (returned.scheduling.queued && returned.cancelled()) {
        table_->Cancel(returned, now_ns, work.drops);
      }
    }
  }
}

void Model::SetAvailableLocked(Lane& lane, bool available, int64_t now_ns, Work& work) {
  if (lane.available != available) {
    lane.available = available;
    available_ += available ? 1 : -1;
    if (available_ == 0) outage_since_ns_ = now_ns;
    table_->SetAvailable(lane.index, available, now_ns, work.drops);
  }
  // What it had inside belongs to the life before.
  ++lane.life;
  lane.inside.clear();
  lane.returned.clear();
  lane.delivering = false;
}

void Model::OnUnstarted(Instance& instance, std::vector<std::unique_ptr<Execution>> executions) {
  std::deque<std::unique_ptr<Execution>> back(std::make_move_iterator(executions.begin()),
                                              std::make_move_iterator(executions.end()));
  for (const auto& execution : back) {
    for (const auto& request : execution->requests) {
      ++request->scheduling.returns;
      Listen(*request);
    }
  }
  Work work;
  {
    const int64_t now_ns = timers_.NowNs();
    std::lock_guard lock(mutex_);
    Lane* lane = LaneOf(instance);
    // When it has not said yet that it is gone, it gets nothing more until it says how things are.
    const bool unannounced =
        lane != nullptr && lane->available &&
        std::any_of(back.begin(), back.end(), [lane](const auto& e) { return e->life == lane->life; });
    if (unannounced) {
      SetAvailableLocked(*lane, false, now_ns, work);
      TakeBackLocked(std::exchange(lane->outbox, {}), now_ns, work);
    }
    TakeBackLocked(std::move(back), now_ns, work);
    ScheduleLocked(now_ns, work);
  }
  Perform(work);
}

void Model::OnAvailability(Instance& instance, bool available) {
  Work work;
  {
    const int64_t now_ns = timers_.NowNs();
    std::lock_guard lock(mutex_);
    Lane* lane = LaneOf(instance);
    if (lane == nullptr || (lane->available && available)) return;
    SetAvailableLocked(*lane, available, now_ns, work);
    if (!available) TakeBackLocked(std::exchange(lane->outbox, {}), now_ns, work);
    ScheduleLocked(now_ns, work);
  }
  BRAID_LOG_VERBOSE(log_, "instance '{}' is {}", instance.name(), available ? "available" : "not available");
  Perform(work);
}

void Model::Stop(int64_t deadline_ns) {
  gate().WaitUntilEmpty(deadline_ns);
  Work work;
  {
    std::unique_lock lock(mutex_);
    const int64_t now_ns = timers_.NowNs();
    stopping_ = true;
    std::move(cancelled_.begin(), cancelled_.end(), std::back_inserter(work.drops));
    cancelled_.clear();
    table_->DropAll(now_ns, work.drops);
    for (Lane& lane : lanes_) TakeBackLocked(std::exchange(lane.outbox, {}), now_ns, work);
    timers_.Withdraw(timer_);
    // From here on nobody calls Execute().
    sent_.wait(lock, [this] {
      return std::none_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.sending; });
    });
  }
  if (const size_t left = work.endings.size() + work.drops.size(); left > 0) {
    BRAID_LOG_WARNING(log_, "model '{}' version {} stops with {} requests that did not run", info_.name,
                      info_.version, left);
  }
  Perform(work);
  backend_->Stop(deadline_ns);
  started_ = false;
}

}  // namespace

SequenceModel::~SequenceModel() = default;

Result<std::shared_ptr<SequenceModel>> SequenceModel::Start(
    ServableInfo info, std::unique_ptr<BackendModel> backend, Timers& timers, Logger& log,
    const std::function<void(const std::string&)>& progress, const Options& options) {
  BRAID_CHECK(info.config != nullptr);
  BRAID_ASSIGN_OR_RETURN(SequencePolicy policy, SequencePolicyFromConfig(*info.config));
  auto model =
      std::make_shared<Model>(std::move(info), std::move(backend), std::move(policy), timers, log, options);
  BRAID_RETURN_IF_ERROR(model->StartInstances(progress));
  return std::shared_ptr<SequenceModel>(std::move(model));
}

}  // namespace braid
