// OpenVinoInstance: one infer request of a compiled model.
//
// The instance has no thread. A short inference runs on the calling thread (see run_policy.h), a longer one
// on OpenVINO's threads. Responses are sent by the thread on which the inference ended. Executions that
// arrive while the infer request is busy are queued; the next one begins before the responses of the previous
// one are sent.
//
// After a failed inference the infer request is discarded, and sometimes the compiled model too (see
// RequestSource). Executions that ran in the discarded model meanwhile then run once more, in the new
// infer request. So do those that failed with shapes that had not been tried before.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <openvino/openvino.hpp>

#include "backends/openvino/compiled_facts.h"
#include "backends/openvino/input_binding.h"
#include "backends/openvino/output_binding.h"
#include "backends/openvino/request_source.h"
#include "backends/openvino/run_policy.h"
#include "backends/openvino/state_pool.h"
#include "backends/openvino/variable_binding.h"
#include "base/mutex.h"
#include "base/serial_delivery.h"
#include "scheduling/instance.h"

namespace braid {

class OpenVinoInstance final : public Instance {
 public:
  // `facts` and `pools` outlive the instance; there is one pool for each state. `source` lives at least until
  // Stop().
  OpenVinoInstance(std::string name, bool passive, const CompiledFacts& facts,
                   const std::vector<std::shared_ptr<StatePool>>& pools, RequestSource& source);
  ~OpenVinoInstance() override;

  // Creates the infer request. Errors: INTERNAL with OpenVINO's text.
  Status Start(ExecutionListener& listener);
  // Waits until no execution is pending. At `deadline_ns` queued executions fail, and the running one is
  // cancelled. REQUIRES: no thread calls Execute() any more.
  void Stop(int64_t deadline_ns);

  const std::string& name() const override { return name_; }
  bool passive() const override { return passive_; }
  InstanceReport report() const override;
  void Execute(std::unique_ptr<Execution> execution) override;

  // Replaces the infer request if it is discarded and idle. Runs on the source's thread.
  void RenewIfIdle();

 private:
  // A finished execution, with the responses to its requests.
  struct Done {
    std::unique_ptr<Execution> execution;
    ExecutionTimes times;
    std::vector<InferenceResponse> responses;
  };

  enum class Step : unsigned char { kRuns, kEnded, kLater };
  // Where executions run: on a thread with other work to do, or on the source's thread.
  enum class Place : unsigned char { kAnywhere, kSource };

  // Creates the infer request and its bindings, in place of the present ones. REQUIRES: the caller owns the
  // infer request, and is not within a callback of it.
  Status Make();
  bool IsUsable() const { return !failed_ && source_.IsCurrent(generation_); }
  // On the source's thread: replaces the infer request if need be, and runs the queued executions. REQUIRES:
  // the caller owns the infer request.
  void Renew();

  // Runs an execution. If it ends at once, runs queued ones too. At most `most_here` run on this thread, and
  // only short ones. REQUIRES: the caller owns the infer request.
  void Run(std::unique_ptr<Execution> execution, int most_here, Place place = Place::kAnywhere);
  // Passes running_ and the infer request to the source's thread.
  void Postpone();
  // Makes an execution running_.
  void Take(std::unique_ptr<Execution> execution);
  // Returns the next queued execution. Null if there is none; the infer request is then released.
  std::unique_ptr<Execution> Next() BRAID_REQUIRES(mutex_);
  // Whether no execution runs and no thread is calling the listener.
  bool quiet() const BRAID_REQUIRES(mutex_) { return !busy_ && !delivery_.taken() && callbacks_ == 0; }
  // Binds inputs, states and outputs before an inference. Throws OpenVINO's exceptions.
  Status Bind();
  // Tries the shapes of the inputs, if need be; returns false if that would take too long on this thread.
  bool TryShapes(Place place, Status& status);
  // Begins running_. kEnded: it has ended already, with the result in `status`. kLater: the source's thread
  // has work to do first.
  Step Begin(bool here, Place place, Status& status);
  void OnCallback(std::exception_ptr exception);
  // Makes the responses of running_. Returns the next execution, which the caller must run, or null if the
  // infer request was released. Returns running_ itself if it must run once more.
  std::unique_ptr<Execution> Finish(Status status);
  // Checks how running_ has ended; returns whether the result can be trusted.
  bool Judge();
  std::vector<InferenceResponse> MakeResponses(const Execution& execution, Status status);
  // Reports finished executions to the listener, unless another thread is doing so.
  void Deliver();
  void Tell(Done& done);

  const std::string name_;
  const bool passive_;
  const CompiledFacts& facts_;
  const std::vector<std::shared_ptr<StatePool>>& pools_;
  RequestSource& source_;
  ExecutionListener* listener_ = nullptr;  // constant after Start()

  // Owned by the thread that owns the infer request: the thread that set busy_, or that runs its callback.
  ov::InferRequest request_;  // changed with mutex_ held, for Stop()
  uint64_t generation_ = 0;   // the source's generation that request_ belongs to
  bool failed_ = true;        // request_ is missing or must not be used again
  bool inferred_ = false;     // the device has begun running_
  std::unique_ptr<InputBinding> inputs_;
  std::unique_ptr<OutputBinding> outputs_;
  std::unique_ptr<VariableBinding> variables_;  // null for models without variables
  std::unique_ptr<Execution> running_;
  ExecutionTimes times_;
  size_t input_bytes_ = 0;
  bool asynchronous_ = false;  // running_ ends with a callback
  RunTimes run_times_;

  std::atomic<uint64_t> executions_{0};  // finished ones

  Mutex mutex_;      // a leaf lock: held for no calls
  CondVar changed_;  // notified when the instance may have become quiet

  bool busy_ BRAID_GUARDED_BY(mutex_) = false;        // a thread owns the infer request
  SerialDelivery delivery_ BRAID_GUARDED_BY(mutex_);  // to the listener
  bool stopped_ BRAID_GUARDED_BY(mutex_) = false;     // the infer request is destroyed
  int callbacks_ BRAID_GUARDED_BY(mutex_) = 0;        // inferences begun whose callback has not returned
  // OpenVINO's thread during OnCallback(). Executions that this thread hands over are queued until the
  // finished ones are reported. Short ones then run on this thread, which saves waking another thread for
  // each inference.
  std::thread::id callback_thread_ BRAID_GUARDED_BY(mutex_);
  std::deque<std::unique_ptr<Execution>> waiting_ BRAID_GUARDED_BY(mutex_);
  std::deque<Done> done_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
