#include "backends/openvino/openvino_instance.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "backends/openvino/openvino_errors.h"
#include "base/clock.h"
#include "base/guard.h"

namespace braid {
namespace {

// The most short inferences in a row on a thread with other work to do, and on OpenVINO's thread after an
// inference. Then other work that waits for the thread has its turn.
constexpr int kMostOnCallersThread = 4;
constexpr int kMostOnCallbackThread = 8;

}  // namespace

OpenVinoInstance::OpenVinoInstance(std::string name, bool passive, const CompiledFacts& facts,
                                   const std::vector<std::shared_ptr<StatePool>>& pools,
                                   RequestSource& source)
    : name_(std::move(name)), passive_(passive), facts_(facts), pools_(pools), source_(source) {}

OpenVinoInstance::~OpenVinoInstance() = default;

Status OpenVinoInstance::Start(ExecutionListener& listener) {
  listener_ = &listener;
  return Make();
}

Status OpenVinoInstance::Make() {
  const auto failed = [this](const std::string& text) {
    return InternalError("instance '" + name_ + "' could not be created: " + text);
  };
  failed_ = true;
  variables_ = nullptr;
  outputs_ = nullptr;
  inputs_ = nullptr;
  auto made = source_.Make();
  if (!made.ok()) return failed(made.status().message());
  ov::InferRequest old = std::move(made->request);
  {
    MutexLock lock(mutex_);
    std::swap(request_, old);
  }
  // Waits until OpenVINO has finished its callback.
  old = {};
  Status found;
  BRAID_RETURN_IF_ERROR(Guarded(
      [&] {
        inputs_ = std::make_unique<InputBinding>(facts_, request_);
        outputs_ = std::make_unique<OutputBinding>(facts_, pools_, request_);
        if (facts_.variables.empty()) return;
        variables_ = std::make_unique<VariableBinding>(facts_, pools_, request_);
        found = variables_->Find();
      },
      failed));
  BRAID_RETURN_IF_ERROR(std::move(found));
  generation_ = made->generation;
  failed_ = false;
  return OkStatus();
}

void OpenVinoInstance::Stop(int64_t deadline_ns) {
  MutexLock lock(mutex_);
  // SteadyNowNs() reads steady_clock.
  const std::chrono::steady_clock::time_point deadline{std::chrono::nanoseconds(deadline_ns)};
  while (!quiet() && changed_.WaitUntil(mutex_, deadline)) {
  }
  if (!quiet()) {
    const int64_t now = SteadyNowNs();
    for (auto& execution : std::exchange(waiting_, {})) {
      Done done{std::move(execution), {}, {}};
      done.times = {done.execution->compute_start_ns, now, now, now};
      done.responses.resize(done.execution->requests.size());
      for (InferenceResponse& response : done.responses) {
        response.status = UnavailableError("model '" + facts_.model_name +
                                           "' is stopping: the request did not run in time");
      }
      done_.push_back(std::move(done));
    }
    ov::InferRequest request = request_;
    lock.Unlock();
    Deliver();
    // A device checks this between two operations of the model, so the inference ends soon.
    (void)Guarded([&] { request.cancel(); }, [](const std::string& text) { return InternalError(text); });
    lock.Lock();
    while (!quiet()) changed_.Wait(mutex_);
  }
  stopped_ = true;
  lock.Unlock();
  variables_ = nullptr;
  outputs_ = nullptr;
  inputs_ = nullptr;
  // Waits until OpenVINO has finished its callback.
  request_ = {};
}

void OpenVinoInstance::Execute(std::unique_ptr<Execution> execution) {
  {
    RetryingLock lock(mutex_);
    if (busy_ || callback_thread_ == std::this_thread::get_id()) {
      waiting_.push_back(std::move(execution));
      return;
    }
    busy_ = true;
  }
  const int most = execution->on_callers_thread ? kMostOnCallersThread : 0;
  Run(std::move(execution), most);
}

void OpenVinoInstance::RenewIfIdle() {
  {
    MutexLock lock(mutex_);
    if (busy_ || stopped_) return;
    busy_ = true;
  }
  Renew();
}

void OpenVinoInstance::Renew() {
  Status made = IsUsable() ? OkStatus() : Guarded([this] { return Make(); });
  std::unique_ptr<Execution> next;
  {
    MutexLock lock(mutex_);
    next = Next();
  }
  for (; !made.ok() && next != nullptr; next = Finish(made)) Take(std::move(next));
  Run(std::move(next), 0, Place::kSource);
}

void OpenVinoInstance::Take(std::unique_ptr<Execution> execution) {
  running_ = std::move(execution);
  times_ = {};
  times_.compute_start_ns = running_->compute_start_ns;
  input_bytes_ = InputBinding::InputBytes(*running_);
  inferred_ = false;
}

std::unique_ptr<Execution> OpenVinoInstance::Next() {
  if (waiting_.empty()) {
    busy_ = false;
    return nullptr;
  }
  std::unique_ptr<Execution> next = std::move(waiting_.front());
  waiting_.pop_front();
  return next;
}

void OpenVinoInstance::Postpone() {
  const RetryingAllocation retrying;
  {
    MutexLock lock(mutex_);
    waiting_.push_front(std::move(running_));
  }
  source_.Run([this] { Renew(); });
}

void OpenVinoInstance::Run(std::unique_ptr<Execution> execution, int most_here, Place place) {
  for (int run = 0; execution != nullptr; ++run) {
    const bool here = run < most_here && RunsOnCaller(run_times_, InputBinding::InputBytes(*execution));
    Take(std::move(execution));
    Status status;
    const Step step = Begin(here, place, status);
    if (step == Step::kLater) Postpone();
    if (step != Step::kEnded) break;
    execution = Finish(std::move(status));
  }
  Deliver();
}

Status OpenVinoInstance::Bind() {
  BRAID_RETURN_IF_ERROR(inputs_->Bind(*running_));
  if (variables_ != nullptr) BRAID_RETURN_IF_ERROR(variables_->Prepare(*running_));
  return outputs_->Prepare();
}

bool OpenVinoInstance::TryShapes(Place place, Status& status) {
  if (!source_.is_careful() || !inputs_->reshaped()) return true;
  const std::vector<ov::Shape> shapes = inputs_->Shapes();
  if (!source_.Knows(shapes)) {
    if (place != Place::kSource) return false;
    if (const auto fault = source_.Try(shapes)) {
      status = ShapesError(facts_, shapes, *fault);
      return true;
    }
  }
  inputs_->Accept();
  return true;
}

OpenVinoInstance::Step OpenVinoInstance::Begin(bool here, Place place, Status& status) {
  const bool unwanted = std::all_of(running_->requests.begin(), running_->requests.end(),
                                    [](const auto& request) { return request->cancelled(); });
  if (unwanted) {
    const RetryingAllocation retrying;
    status = CancelledError("Request cancelled before model '" + facts_.model_name + "' ran it");
    return Step::kEnded;
  }
  if (!IsUsable()) return Step::kLater;
  bool begun = false;
  const auto failed = [this](const std::string& text) {
    return InferenceError(facts_, inputs_->Shapes(), text);
  };
  Status bound;
  bool tried = true;
  status = Guarded(
      [&] {
        bound = Bind();
        if (bound.ok()) tried = TryShapes(place, bound);
        times_.input_end_ns = std::max(SteadyNowNs(), times_.compute_start_ns);
        if (!bound.ok() || !tried) return;
        asynchronous_ = !here;
        inferred_ = true;
        if (here) {
          request_.infer();
          return;
        }
        // OpenVINO takes the callback out for the call and puts it back afterwards. By then the next
        // inference may have begun, or even ended, so the callback is set each time.
        request_.set_callback([this](std::exception_ptr exception) { OnCallback(std::move(exception)); });
        {
          MutexLock lock(mutex_);
          ++callbacks_;
        }
        begun = true;
        request_.start_async();
      },
      failed);
  if (!status.ok()) failed_ = true;
  if (!tried) return Step::kLater;
  if (status.ok() && begun) return Step::kRuns;
  if (begun) {
    MutexLock lock(mutex_);
    --callbacks_;
  }
  if (!bound.ok()) status = std::move(bound);
  return Step::kEnded;
}

void OpenVinoInstance::OnCallback(std::exception_ptr exception) {
  // For the reason in Begin(), OpenVINO may call this at the end of an inference on a caller's thread.
  if (!asynchronous_) return;
  Status status;
  if (exception != nullptr) {
    status =
        Guarded([&] { std::rethrow_exception(exception); },
                [this](const std::string& text) { return InferenceError(facts_, inputs_->Shapes(), text); });
    failed_ = true;
  }
  MutexLock lock(mutex_);
  const std::thread::id me = std::this_thread::get_id();
  callback_thread_ = me;
  lock.Unlock();
  Run(Finish(std::move(status)), kMostOnCallbackThread);
  lock.Lock();
  for (int rounds = 1; !busy_ && !waiting_.empty(); ++rounds) {
    std::unique_ptr<Execution> next = std::move(waiting_.front());
    waiting_.pop_front();
    busy_ = true;
    lock.Unlock();
    Run(std::move(next), rounds < kMostOnCallbackThread ? 1 : 0);
    lock.Lock();
  }
  if (callback_thread_ == me) callback_thread_ = {};
  --callbacks_;
  changed_.NotifyAll();
}

bool OpenVinoInstance::Judge() {
  if (!inferred_) return true;
  if (!failed_) return source_.IsCurrent(generation_);
  // Untried shapes may be valid: the inference may have failed because of another one beside it.
  const bool tried = !source_.has_dynamic_inputs() || !inputs_->reshaped();
  return source_.Discard(generation_) && tried;
}

std::unique_ptr<Execution> OpenVinoInstance::Finish(Status status) {
  {
    const RetryingAllocation retrying;
    if (!Judge()) return std::move(running_);
  }
  Done done;
  done.execution = std::move(running_);
  if (times_.input_end_ns == 0) times_.input_end_ns = std::max(SteadyNowNs(), times_.compute_start_ns);
  times_.infer_end_ns = std::max(SteadyNowNs(), times_.input_end_ns);
  if (status.ok()) {
    run_times_ = UpdateRunTimes(run_times_, times_.infer_end_ns - times_.input_end_ns, input_bytes_);
  }
  done.responses = MakeResponses(*done.execution, std::move(status));
  times_.output_end_ns = std::max(SteadyNowNs(), times_.infer_end_ns);
  done.times = times_;
  const bool usable = IsUsable();
  std::unique_ptr<Execution> next;
  {
    RetryingLock lock(mutex_);
    done_.push_back(std::move(done));
    next = Next();
  }
  // Frees a discarded infer request at once, instead of at the next execution.
  if (!usable) {
    const RetryingAllocation retrying;
    source_.Run([this] { RenewIfIdle(); });
  }
  return next;
}

std::vector<InferenceResponse> OpenVinoInstance::MakeResponses(const Execution& execution, Status status) {
  std::vector<InferenceResponse> responses;
  {
    const RetryingAllocation retrying;
    responses.resize(execution.requests.size());
  }
  if (status.ok()) {
    Status collected;
    status = Guarded(
        [&] {
          auto outputs = outputs_->Collect(execution);
          collected = outputs.status();
          if (!outputs.ok()) return;
          if (variables_ != nullptr) variables_->Collect(outputs->front());
          for (size_t i = 0; i < responses.size(); ++i) responses[i].outputs = std::move((*outputs)[i]);
        },
        [this](const std::string& text) { return InferenceError(facts_, inputs_->Shapes(), text); });
    if (!status.ok()) failed_ = true;
    if (status.ok()) status = std::move(collected);
  }
  if (!status.ok()) {
    const RetryingAllocation retrying;
    for (InferenceResponse& response : responses) response.status = status;
  }
  return responses;
}

void OpenVinoInstance::Deliver() {
  MutexLock lock(mutex_);
  const SerialDelivery::Turn turn(delivery_);
  if (!turn) return;
  while (!done_.empty()) {
    Done done = std::move(done_.front());
    done_.pop_front();
    const MutexUnlock unlock(mutex_);
    Tell(done);
  }
  changed_.NotifyAll();  // a waiting thread has the mutex after the turn's end
}

InstanceReport OpenVinoInstance::report() const {
  InstanceReport report;
  report.name = name_;
  report.executions = executions_.load(std::memory_order_relaxed);
  return report;
}

// If reporting fails, only that request is lost; the others are still reported.
void OpenVinoInstance::Tell(Done& done) {
  Execution& execution = *done.execution;
  executions_.fetch_add(1, std::memory_order_relaxed);
  GuardedOrReport(
      name_, [&] { listener_->OnExecuted(*this, execution.rows, execution.requests.size(), done.times); });
  for (size_t i = 0; i < execution.requests.size(); ++i) {
    GuardedOrReport(name_, [&] {
      const auto request = std::move(execution.requests[i]);
      listener_->OnResponse(*this, *request, std::move(done.responses[i]), true, done.times);
    });
  }
  GuardedOrReport(name_, [&] { listener_->OnDelivered(*this); });
}

}  // namespace braid
