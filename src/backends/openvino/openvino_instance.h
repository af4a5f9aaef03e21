// OpenVinoInstance: one infer request of a compiled model.
//
// It has no thread. A short inference runs on the thread that hands it over (see run_policy.h), others on
// OpenVINO's threads; responses leave on the thread on which the inference ended. What is handed over while
// the infer request is busy waits here, and begins before the responses of the one before it are sent.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <openvino/openvino.hpp>

#include "backends/openvino/compiled_facts.h"
#include "backends/openvino/input_binding.h"
#include "backends/openvino/output_binding.h"
#include "backends/openvino/run_policy.h"
#include "backends/openvino/state_pool.h"
#include "backends/openvino/variable_binding.h"
#include "scheduling/instance.h"

namespace braid {

class OpenVinoInstance final : public Instance {
 public:
  // `facts` and `pools` outlive the instance; there is one pool for each state.
  OpenVinoInstance(std::string name, bool passive, const CompiledFacts& facts,
                   const std::vector<std::shared_ptr<StatePool>>& pools);
  ~OpenVinoInstance() override;

  // Makes the infer request. Errors: what OpenVINO says.
  Status Start(ov::CompiledModel& model, ExecutionListener& listener);
  // Waits until nothing is inside any more; at `deadline_ns` what has not begun fails, and what runs is
  // cancelled. REQUIRES: nobody calls Execute() any more.
  void Stop(int64_t deadline_ns);

  const std::string& name() const override { return name_; }
  bool passive() const override { return passive_; }
  void Execute(std::unique_ptr<Execution> execution) override;

 private:
  // An execution that has ended, with what its requests are to hear.
  struct Done {
    std::unique_ptr<Execution> execution;
    ExecutionTimes times;
    std::vector<InferenceResponse> responses;
  };

  // Runs an execution, and those that have waited for it if it ends at once; at most `most_here` of them on
  // this thread, if they are short. REQUIRES: the caller has the infer request.
  void Run(std::unique_ptr<Execution> execution, int most_here);
  // What the infer request gets before an inference. Throws what OpenVINO throws.
  Status Bind();
  // Begins with an execution; returns true when it has ended already, with its result in `status`.
  bool Begin(std::unique_ptr<Execution> execution, bool here, Status& status);
  void OnCallback(std::exception_ptr exception);
  // Makes the responses of running_, and passes the infer request on: returns the next execution, which the
  // caller has to run, or null.
  std::unique_ptr<Execution> Finish(Status status);
  std::vector<InferenceResponse> MakeResponses(const Execution& execution, Status status);
  // Tells the listener of what has ended, unless another thread is about to.
  void Deliver();
  void Tell(Done& done);

  const std::string name_;
  const bool passive_;
  const CompiledFacts& facts_;
  const std::vector<std::shared_ptr<StatePool>>& pools_;
  ExecutionListener* listener_ = nullptr;  // constant after Start()

  // Owned by the thread that has the infer request: the one that has set busy_, or runs its callback.
  ov::InferRequest request_;
  std::unique_ptr<InputBinding> inputs_;
  std::unique_ptr<OutputBinding> outputs_;
  std::unique_ptr<VariableBinding> variables_;  // null for models that have none
  std::unique_ptr<Execution> running_;
  ExecutionTimes times_;
  size_t input_bytes_ = 0;
  bool asynchronous_ = false;  // running_ ends with a callback
  RunTimes run_times_;

  std::mutex mutex_;  // a leaf lock: nothing is called with it held
  // Guarded by mutex_.
  std::condition_variable changed_;  // told when the instance may have become quiet
  bool busy_ = false;                // somebody has the infer request
  bool delivering_ = false;          // somebody talks to the listener
  int callbacks_ = 0;                // inferences begun whose callback has not returned
  // Of OpenVINO, while it is in OnCallback(): what it is handed meanwhile waits until it has told of what has
  // ended, and runs on it if it is short, which spares another thread's being woken for each inference.
  std::thread::id callback_thread_;
  std::deque<std::unique_ptr<Execution>> waiting_;
  std::deque<Done> done_;
};

}  // namespace braid
