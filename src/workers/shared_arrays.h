// SharedArrays: arrays that user code shares by a key (pb_utils.shared_arrays()). They exist once per server,
// in the memory of the worker that has loaded them, and are lent to every worker that asks.
//
// A worker asks by a call to the name kModelName, with the key as its request's id:
//   without inputs      The answer has the arrays as outputs, and the parameter kStructure. Without arrays,
//                       one worker is asked to load them (parameter kLoad), and the others wait.
//   with kStructure     The worker has loaded the arrays: the inputs. The answer has them too.
//   with kFailed        Its loader has failed. Another worker is asked to load them.
//
// The arrays are freed when the last worker that has asked for them has ended.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "serving/request.h"
#include "tensor/tensor.h"

namespace braid {

// Thread-safe.
class SharedArrays {
 public:
  static constexpr std::string_view kModelName = "\x01shared_arrays";
  static constexpr std::string_view kLoad = "load";
  static constexpr std::string_view kStructure = "structure";
  static constexpr std::string_view kFailed = "failed";

  // Identifies a worker; only compared.
  using User = const void*;

  // Handles a call. Its sink gets one response, perhaps later on any thread. Errors go to the sink too:
  // INVALID_ARGUMENT for a call that is out of turn; FAILED_PRECONDITION if the wait would never end, because
  // loaders wait for each other's keys.
  void Call(User user, std::unique_ptr<InferenceRequest> request);
  // A worker has ended.
  void Leave(User user);

 private:
  struct Entry {
    std::set<User> users;
    User loader = nullptr;  // loads the arrays now
    bool loaded = false;
    std::vector<Tensor> arrays;
    std::string structure;
    std::vector<std::pair<User, std::unique_ptr<InferenceRequest>>> waiting;
  };
  using Entries = std::map<std::string, Entry>;
  // Answers to send without the lock.
  using Answers = std::vector<std::pair<std::unique_ptr<InferenceRequest>, InferenceResponse>>;

  void OpenLocked(User user, std::unique_ptr<InferenceRequest> request, Answers& answers)
      BRAID_REQUIRES(mutex_);
  void FillLocked(User user, std::unique_ptr<InferenceRequest> request, const std::string& structure,
                  Answers& answers) BRAID_REQUIRES(mutex_);
  void FailLocked(User user, std::unique_ptr<InferenceRequest> request, Answers& answers)
      BRAID_REQUIRES(mutex_);
  // Asks the next waiting worker to load the arrays. REQUIRES: the loader is gone.
  void PassOnLocked(Entry& entry, Answers& answers) BRAID_REQUIRES(mutex_);
  // Whether a wait of `user` for this loader would never end.
  bool WaitsForLocked(User loader, User user) const BRAID_REQUIRES(mutex_);
  static void Send(Answers& answers);

  Mutex mutex_;
  Entries entries_ BRAID_GUARDED_BY(mutex_);  // by key
};

}  // namespace braid
