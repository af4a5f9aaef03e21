#include "backends/openvino/openvino_instance.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "backends/openvino/openvino_errors.h"
#include "base/clock.h"

namespace braid {
namespace {

// So many short inferences run one after the other on a thread that has something else to do, and on one of
// OpenVINO's at the end of an inference; then others that wait for the thread have their turn.
constexpr int kMostOnCallersThread = 4;
constexpr int kMostOnCallbackThread = 8;

}  // namespace

OpenVinoInstance::OpenVinoInstance(std::string name, bool passive, const CompiledFacts& facts,
                                   const std::vector<std::shared_ptr<StatePool>>& pools)
    : name_(std::move(name)), passive_(passive), facts_(facts), pools_(pools) {}

OpenVinoInstance::~OpenVinoInstance() = default;

Status OpenVinoInstance::Start(ov::CompiledModel& model, ExecutionListener& listener) {
  listener_ = &listener;
  Status found;
  BRAID_RETURN_IF_ERROR(Guarded(
      [&] {
        request_ = model.create_infer_request();
        inputs_ = std::make_unique<InputBinding>(facts_, request_);
        outputs_ = std::make_unique<OutputBinding>(facts_, pools_, request_);
        if (facts_.variables.empty()) return;
        variables_ = std::make_unique<VariableBinding>(facts_, pools_, request_);
        found = variables_->Find();
      },
      [this](const std::string& text) {
        return InternalError("instance '" + name_ + "' could not be made: " + text);
      }));
  return found;
}

void OpenVinoInstance::Stop(int64_t deadline_ns) {
  std::unique_lock lock(mutex_);
  const auto quiet = [this] { return !busy_ && !delivering_ && callbacks_ == 0; };
  const int64_t left_ns = std::max<int64_t>(deadline_ns - SteadyNowNs(), 0);
  if (!changed_.wait_for(lock, std::chrono::nanoseconds(left_ns), quiet)) {
    const int64_t now = SteadyNowNs();
    for (auto& execution : std::exchange(waiting_, {})) {
      Done done{std::move(execution), {}, {}};
      done.times = {done.execution->compute_start_ns, now, now, now};
      done.responses.resize(done.execution->requests.size());
      for (InferenceResponse& response : done.responses) {
        response.status =
            UnavailableError("model '" + facts_.model_name + "' stops: the request did not run in time");
      }
      done_.push_back(std::move(done));
    }
    lock.unlock();
    Deliver();
    // A device looks at this between two operations of the model, so what runs ends soon.
    (void)Guarded([this] { request_.cancel(); }, [](const std::string& text) { return InternalError(text); });
    lock.lock();
    changed_.wait(lock, quiet);
  }
  lock.unlock();
  variables_ = nullptr;
  outputs_ = nullptr;
  inputs_ = nullptr;
  // Waits for what OpenVINO does after a callback.
  request_ = {};
}

void OpenVinoInstance::Execute(std::unique_ptr<Execution> execution) {
  {
    std::lock_guard lock(mutex_);
    if (busy_ || callback_thread_ == std::this_thread::get_id()) {
      waiting_.push_back(std::move(execution));
      return;
    }
    busy_ = true;
  }
  const int most = execution->on_callers_thread ? kMostOnCallersThread : 0;
  Run(std::move(execution), most);
}

void OpenVinoInstance::Run(std::unique_ptr<Execution> execution, int most_here) {
  for (int run = 0; execution != nullptr; ++run) {
    const bool here = run < most_here && RunsOnCaller(run_times_, InputBinding::InputBytes(*execution));
    Status status;
    if (!Begin(std::move(execution), here, status)) break;
    execution = Finish(std::move(status));
  }
  Deliver();
}

Status OpenVinoInstance::Bind() {
  BRAID_RETURN_IF_ERROR(inputs_->Bind(*running_));
  if (variables_ != nullptr) BRAID_RETURN_IF_ERROR(variables_->Prepare(*running_));
  return outputs_->Prepare();
}

bool OpenVinoInstance::Begin(std::unique_ptr<Execution> execution, bool here, Status& status) {
  running_ = std::move(execution);
  times_ = {};
  times_.compute_start_ns = running_->compute_start_ns;
  input_bytes_ = InputBinding::InputBytes(*running_);
  const bool unwanted = std::all_of(running_->requests.begin(), running_->requests.end(),
                                    [](const auto& request) { return request->cancelled(); });
  if (unwanted) {
    status = CancelledError("Request cancelled before model '" + facts_.model_name + "' ran it");
    return true;
  }
  bool begun = false;
  const auto failed = [this](const std::string& text) { return InferenceError(facts_, text); };
  Status bound;
  status = Guarded(
      [&] {
        bound = Bind();
        times_.input_end_ns = std::max(SteadyNowNs(), times_.compute_start_ns);
        if (!bound.ok()) return;
        asynchronous_ = !here;
        if (here) {
          request_.infer();
          return;
        }
        // OpenVINO takes the callback out while it calls it and puts it back afterwards, when the next
        // inference may have begun and even ended. So it is set each time.
        request_.set_callback([this](std::exception_ptr exception) { OnCallback(std::move(exception)); });
        {
          std::lock_guard lock(mutex_);
          ++callbacks_;
        }
        begun = true;
        request_.start_async();
      },
      failed);
  if (status.ok() && begun) return false;
  if (begun) {
    std::lock_guard lock(mutex_);
    --callbacks_;
  }
  if (!bound.ok()) status = std::move(bound);
  return true;
}

void OpenVinoInstance::OnCallback(std::exception_ptr exception) {
  // For the same reason it may be called at the end of an inference on a caller's thread.
  if (!asynchronous_) return;
  Status status;
  if (exception != nullptr) {
    status = Guarded([&] { std::rethrow_exception(exception); },
                     [this](const std::string& text) { return InferenceError(facts_, text); });
  }
  std::unique_lock lock(mutex_);
  const std::thread::id me = std::this_thread::get_id();
  callback_thread_ = me;
  lock.unlock();
  Run(Finish(std::move(status)), kMostOnCallbackThread);
  lock.lock();
  for (int rounds = 1; !busy_ && !waiting_.empty(); ++rounds) {
    std::unique_ptr<Execution> next = std::move(waiting_.front());
    waiting_.pop_front();
    busy_ = true;
    lock.unlock();
    Run(std::move(next), rounds < kMostOnCallbackThread ? 1 : 0);
    lock.lock();
  }
  if (callback_thread_ == me) callback_thread_ = {};
  --callbacks_;
  changed_.notify_all();
}

std::unique_ptr<Execution> OpenVinoInstance::Finish(Status status) {
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

  std::unique_ptr<Execution> next;
  std::lock_guard lock(mutex_);
  done_.push_back(std::move(done));
  if (waiting_.empty()) {
    busy_ = false;
  } else {
    next = std::move(waiting_.front());
    waiting_.pop_front();
  }
  return next;
}

std::vector<InferenceResponse> OpenVinoInstance::MakeResponses(const Execution& execution, Status status) {
  std::vector<InferenceResponse> responses(execution.requests.size());
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
        [this](const std::string& text) { return InferenceError(facts_, text); });
    if (status.ok()) status = std::move(collected);
  }
  if (!status.ok()) {
    for (InferenceResponse& response : responses) response.status = status;
  }
  return responses;
}

void OpenVinoInstance::Deliver() {
  std::unique_lock lock(mutex_);
  if (delivering_) return;
  delivering_ = true;
  while (!done_.empty()) {
    Done done = std::move(done_.front());
    done_.pop_front();
    lock.unlock();
    Tell(done);
    lock.lock();
  }
  delivering_ = false;
  changed_.notify_all();
}

void OpenVinoInstance::Tell(Done& done) {
  Execution& execution = *done.execution;
  listener_->OnExecuted(*this, execution.rows, execution.requests.size(), done.times);
  for (size_t i = 0; i < execution.requests.size(); ++i) {
    listener_->OnResponse(*this, *execution.requests[i], std::move(done.responses[i]), true, done.times);
    execution.requests[i] = nullptr;
  }
  listener_->OnDelivered(*this);
}

}  // namespace braid
