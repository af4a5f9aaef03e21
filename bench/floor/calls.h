// Calls in flight between the floor's connections and its Python worker.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared_memory.h"

namespace braid::floor {

// Waits for the answer of a call. Its answer comes by OnAnswer() on the loop's thread.
class Caller {
 public:
  virtual ~Caller() = default;
  virtual void OnAnswer(uint32_t slot) = 0;
};

// The worker's process, and the slots. Everything is used by the loop's thread alone.
class Calls {
 public:
  // Starts the worker; ends the program if that fails.
  Calls(const std::string& python, const std::string& script, const std::string& extension_folder,
        const std::string& model);
  ~Calls();
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  std::string_view model() const { return model_; }
  // Readable when an answer came while Sleep() held.
  int wake_up() const { return wake_up_; }
  Call& call(uint32_t slot) { return shared_->calls[slot]; }
  char* memory(uint32_t slot) { return shared_->Memory(slot); }

  // Takes the slot that was free for the shortest time; ends the program when there is none.
  uint32_t Take();
  void GiveBack(uint32_t slot) { free_.push_back(slot); }

  void Submit(uint32_t slot, Caller* caller);
  // The answer of a call whose caller is gone only frees its slot.
  void Forget(uint32_t slot) { callers_[slot] = nullptr; }

  // Delivers the answers that are there; returns whether there was one.
  bool Deliver();
  // Asks the worker to signal wake_up() from now on; returns false if an answer is there already.
  bool Sleep() { return shared_->answers.PrepareSleep(read_); }

 private:
  std::string model_;
  Shared* shared_ = nullptr;
  int wake_up_ = -1;
  pid_t worker_ = -1;
  uint32_t read_ = 0;
  std::vector<uint32_t> free_;
  std::vector<Caller*> callers_;
};

}  // namespace braid::floor
