#include "serving/compensation.h"

#include <algorithm>
#include <random>
#include <span>
#include <string>
#include <utility>

#include "serving/sequence_inputs.h"

namespace braid {

uint64_t RandomSequenceId() {
  std::random_device source;
  for (;;) {
    const uint64_t high = source();
    const uint64_t id = (high << 32 | source()) >> 1;
    if (id != 0) return id;
  }
}

Tensor SequenceIdOutput(uint64_t id) {
  Tensor output;
  output.name = std::string(kSequenceIdInput);
  output.type = DataType::kUint64;
  output.shape = {1};
  output.data = CopyToHeap(std::as_bytes(std::span(&id, 1)));
  return output;
}

size_t Compensation::Add(std::weak_ptr<Servable> servable) {
  MutexLock lock(mutex_);
  parts_.emplace_back().servable = std::move(servable);
  return parts_.size() - 1;
}

void Compensation::Asked(size_t part) {
  std::shared_ptr<Servable> to_mark;
  {
    MutexLock lock(mutex_);
    BRAID_CHECK(part < parts_.size() && !failed_);
    ++open_;
    if (!std::exchange(parts_[part].asked, true) && in_the_middle()) to_mark = parts_[part].servable.lock();
  }
  if (to_mark == nullptr) return;
  std::vector<TakeBackSteps> marks;
  to_mark->MarkSequence(id_, marks);
  MutexLock lock(mutex_);
  parts_[part].marks = std::move(marks);
}

void Compensation::Answered(size_t part, const Status& status) {
  std::function<void()> then;
  std::vector<Part> parts;
  bool client_gone = false;
  {
    MutexLock lock(mutex_);
    client_gone = client_gone_;
    if (status.ok()) ++parts_[part].steps;
    if (end_ && status.code() == StatusCode::kCancelled) parts_[part].ended = true;
    if (--open_ > 0 || !failed_) return;
    then = std::move(then_);
    parts = std::move(parts_);
  }
  TakeBack(parts, client_gone);
  then();
}

void Compensation::ClientGone() {
  MutexLock lock(mutex_);
  client_gone_ = true;
}

void Compensation::Fail(std::function<void()> then) {
  std::vector<Part> parts;
  bool client_gone = false;
  {
    MutexLock lock(mutex_);
    client_gone = client_gone_;
    failed_ = true;
    if (open_ > 0) {
      then_ = std::move(then);
      return;
    }
    parts = std::move(parts_);
  }
  TakeBack(parts, client_gone);
  then();
}

void Compensation::TakeBack(const std::vector<Part>& parts, bool client_gone) const {
  // A sequence of a single request leaves no state, whether the request succeeded or failed.
  if (start_ && end_) return;
  const auto done = [](const Part& part) { return part.steps > 0 || part.ended; };
  const bool ended = end_ && (client_gone || std::any_of(parts.begin(), parts.end(), done));
  for (const Part& part : parts) {
    if (in_the_middle()) {
      if (part.steps == 0) continue;
      for (const TakeBackSteps& take_back : part.marks) take_back(part.steps);
    } else if (start_ ? done(part) : ended && !done(part)) {
      if (const auto servable = part.servable.lock()) servable->DropSequence(id_);
    }
  }
}

}  // namespace braid
