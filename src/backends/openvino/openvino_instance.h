// OpenVinoInstance: one infer request of a compiled model.
//
// It has no thread. A short inference runs on the thread that hands it over (see run_policy.h), others on
// OpenVINO's threads; responses leave on the thread on which the inference ended. What is handed over while
// the infer request is busy waits here, and begins before the responses of the one before it are sent.
//
// Where an inference has failed, its infer request is thrown away, and maybe the compiled model with it (see
// RequestSource). What ran in that meanwhile, and what failed without its shapes being tried before, runs
// once more in the one that is made instead.
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
  // `facts` and `pools` outlive the instance; there is one pool for each state. `source` does until Stop().
  OpenVinoInstance(std::string name, bool passive, const CompiledFacts& facts,
                   const std::vector<std::shared_ptr<StatePool>>& pools, RequestSource& source);
  ~OpenVinoInstance() override;

  // Makes the infer request. Errors: what OpenVINO says.
  Status Start(ExecutionListener& listener);
  // Waits until nothing is inside any more; at `deadline_ns` what has not begun fails, and what runs is
  // cancelled. REQUIRES: nobody calls Execute() any more.
  void Stop(int64_t deadline_ns);

  const std::string& name() const override { return name_; }
  bool passive() const override { return passive_; }
  InstanceReport report() const override;
  void Execute(std::unique_ptr<Execution> execution) override;

  // Makes the infer request anew if it is not to be used any more and nobody uses it. By the source's thread.
  void RenewIfIdle();

 private:
  // An execution that has ended, with what its requests are to hear.
  struct Done {
    std::unique_ptr<Execution> execution;
    ExecutionTimes times;
    std::vector<InferenceResponse> responses;
  };

  enum class Step : unsigned char { kRuns, kEnded, kLater };
  // Where executions are run: on a thread that has something else to do, or on the source's.
  enum class Place : unsigned char { kAnywhere, kSource };

  // Makes the infer request and what binds tensors to it, in place of those that are there. REQUIRES: the
  // caller has the infer request, and is not within a callback of it.
  Status Make();
  bool IsUsable() const { return !failed_ && source_.IsCurrent(generation_); }
  // On the source's thread: makes the infer request anew, if need be, and goes on with what waits. REQUIRES:
  // the caller has the infer request.
  void Renew();

  // Runs an execution, and those that have waited for it if it ends at once; at most `most_here` of them on
  // this thread, if they are short. REQUIRES: the caller has the infer request.
  void Run(std::unique_ptr<Execution> execution, int most_here, Place place = Place::kAnywhere);
  // Has the source's thread go on with running_, and with the infer request.
  void Postpone();
  // Makes an execution running_.
  void Take(std::unique_ptr<Execution> execution);
  // The next execution that waits; null when there is none, and the infer request has been passed on.
  std::unique_ptr<Execution> Next() BRAID_REQUIRES(mutex_);
  // Nothing runs, and nobody talks to the listener.
  bool quiet() const BRAID_REQUIRES(mutex_) { return !busy_ && !delivery_.taken() && callbacks_ == 0; }
  // What the infer request gets before an inference. Throws what OpenVINO throws.
  Status Bind();
  // Tries the shapes of the inputs, if need be; false if that takes too long here.
  bool TryShapes(Place place, Status& status);
  // Begins with running_. When it has ended already, its result is in `status`; kLater: the source's thread
  // has to do something before.
  Step Begin(bool here, Place place, Status& status);
  void OnCallback(std::exception_ptr exception);
  // Makes the responses of running_, and passes the infer request on: returns the next execution, which the
  // caller has to run, or null. That is running_ itself when it is to run once more.
  std::unique_ptr<Execution> Finish(Status status);
  // Looks at how running_ has ended; returns whether that is to be believed.
  bool Judge();
  std::vector<InferenceResponse> MakeResponses(const Execution& execution, Status status);
  // Tells the listener of what has ended, unless another thread is about to.
  void Deliver();
  void Tell(Done& done);

  const std::string name_;
  const bool passive_;
  const CompiledFacts& facts_;
  const std::vector<std::shared_ptr<StatePool>>& pools_;
  RequestSource& source_;
  ExecutionListener* listener_ = nullptr;  // constant after Start()

  // Owned by the thread that has the infer request: the one that has set busy_, or runs its callback.
  ov::InferRequest request_;  // changed with mutex_ held, for Stop()
  uint64_t generation_ = 0;   // of the source's, which request_ is of
  bool failed_ = true;        // there is none, or what it was asked for has failed
  bool inferred_ = false;     // running_ has come as far as the device
  std::unique_ptr<InputBinding> inputs_;
  std::unique_ptr<OutputBinding> outputs_;
  std::unique_ptr<VariableBinding> variables_;  // null for models that have none
  std::unique_ptr<Execution> running_;
  ExecutionTimes times_;
  size_t input_bytes_ = 0;
  bool asynchronous_ = false;  // running_ ends with a callback
  RunTimes run_times_;

  std::atomic<uint64_t> executions_{0};  // that have ended

  Mutex mutex_;      // a leaf lock: nothing is called with it held
  CondVar changed_;  // told when the instance may have become quiet

  bool busy_ BRAID_GUARDED_BY(mutex_) = false;        // somebody has the infer request
  SerialDelivery delivery_ BRAID_GUARDED_BY(mutex_);  // to the listener
  bool stopped_ BRAID_GUARDED_BY(mutex_) = false;     // there is no infer request any more
  int callbacks_ BRAID_GUARDED_BY(mutex_) = 0;        // inferences begun whose callback has not returned
  // Of OpenVINO, while it is in OnCallback(): what it is handed meanwhile waits until it has told of what has
  // ended, and runs on it if it is short, which spares another thread's being woken for each inference.
  std::thread::id callback_thread_ BRAID_GUARDED_BY(mutex_);
  std::deque<std::unique_ptr<Execution>> waiting_ BRAID_GUARDED_BY(mutex_);
  std::deque<Done> done_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
