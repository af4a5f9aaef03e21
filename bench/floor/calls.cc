#include "calls.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace braid::floor {
namespace {

[[noreturn]] void Fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

}  // namespace

Calls::Calls(const std::string& python, const std::string& script, const std::string& extension_folder,
             const std::string& model)
    : model_(model), callers_(kSlots) {
  const int memory_file = memfd_create("floor", 0);
  if (memory_file < 0 || ftruncate(memory_file, static_cast<off_t>(kSharedBytes)) != 0) Fail("memory");
  void* mapped = mmap(nullptr, kSharedBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_file, 0);
  if (mapped == MAP_FAILED) Fail("memory");
  shared_ = static_cast<Shared*>(mapped);
  for (uint32_t slot = kSlots; slot-- > 0;) free_.push_back(slot);
  wake_up_ = eventfd(0, EFD_NONBLOCK);
  worker_ = fork();
  if (worker_ < 0) Fail("fork");
  if (worker_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const std::string memory_text = std::to_string(memory_file);
    const std::string wake_up_text = std::to_string(wake_up_);
    execlp(python.c_str(), python.c_str(), script.c_str(), extension_folder.c_str(), memory_text.c_str(),
           wake_up_text.c_str(), model.c_str(), nullptr);
    Fail(python.c_str());
  }
  close(memory_file);
}

Calls::~Calls() {
  kill(worker_, SIGKILL);
  waitpid(worker_, nullptr, 0);
  munmap(shared_, kSharedBytes);
  close(wake_up_);
}

uint32_t Calls::Take() {
  if (free_.empty()) Fail("more calls in flight than slots");
  const uint32_t slot = free_.back();
  free_.pop_back();
  return slot;
}

void Calls::Submit(uint32_t slot, Caller* caller) {
  callers_[slot] = caller;
  if (shared_->requests.Push(slot)) shared_->requests.WakeFutex();
}

bool Calls::Deliver() {
  const uint32_t written = shared_->answers.written.load(std::memory_order_acquire);
  const bool any = read_ != written;
  while (read_ != written) {
    const uint32_t slot = shared_->answers.slots[read_++ % kSlots];
    if (callers_[slot] != nullptr) {
      callers_[slot]->OnAnswer(slot);
    } else {
      GiveBack(slot);
    }
  }
  return any;
}

}  // namespace braid::floor
