// A model repository for tests of the protocols. It records calls and returns set answers.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "serving/model_control.h"

namespace braid {

class FakeControl final : public ModelControl {
 public:
  Status Load(const LoadRequest& request) override {
    std::unique_lock lock(mutex_);
    loads_.push_back(request);
    changed_.notify_all();
    changed_.wait(lock, [&] { return !block_loads_; });
    return answer_;
  }
  Status Unload(const std::string& model_name, bool unload_dependents, const ModelRights&) override {
    std::lock_guard lock(mutex_);
    unloads_.emplace_back(model_name, unload_dependents);
    return answer_;
  }
  bool serving() const override { return serving_; }
  bool server_ready() const override { return ready_; }

  void set_serving(bool serving) { serving_ = serving; }
  void set_ready(bool ready) { ready_ = ready; }
  // Sets the result of Load() and Unload().
  void set_answer(Status answer) {
    std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
  }
  // Load() does not return while blocked.
  void BlockLoads(bool block) {
    std::lock_guard lock(mutex_);
    block_loads_ = block;
    changed_.notify_all();
  }
  // Blocks until Load() was called at least `count` times.
  void WaitForLoads(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return loads_.size() >= count; });
  }
  std::vector<LoadRequest> loads() const {
    std::lock_guard lock(mutex_);
    return loads_;
  }
  std::vector<std::pair<std::string, bool>> unloads() const {
    std::lock_guard lock(mutex_);
    return unloads_;
  }

 private:
  std::atomic<bool> serving_{true};
  std::atomic<bool> ready_{true};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Status answer_;                                      // guarded by mutex_
  bool block_loads_ = false;                           // guarded by mutex_
  std::vector<LoadRequest> loads_;                     // guarded by mutex_
  std::vector<std::pair<std::string, bool>> unloads_;  // guarded by mutex_
};

}  // namespace braid
