#include "serving/sequence_turn.h"

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

size_t SequenceTurn::Add(std::weak_ptr<Servable> servable) {
  std::lock_guard lock(mutex_);
  parts_.push_back({std::move(servable)});
  return parts_.size() - 1;
}

void SequenceTurn::Asked(size_t part) {
  std::lock_guard lock(mutex_);
  BRAID_CHECK(part < parts_.size() && !failed_);
  ++open_;
}

void SequenceTurn::Answered(size_t part, const Status& status) {
  std::function<void()> then;
  std::vector<Part> parts;
  bool client_gone = false;
  {
    std::lock_guard lock(mutex_);
    client_gone = client_gone_;
    // An end that was cancelled before it ran has ended the sequence all the same.
    const bool ended = end_ && status.code() == StatusCode::kCancelled;
    if (status.ok() || ended) parts_[part].done = true;
    if (--open_ > 0 || !failed_) return;
    then = std::move(then_);
    parts = std::move(parts_);
  }
  TakeBack(parts, client_gone);
  then();
}

void SequenceTurn::ClientGone() {
  std::lock_guard lock(mutex_);
  client_gone_ = true;
}

void SequenceTurn::Fail(std::function<void()> then) {
  std::vector<Part> parts;
  bool client_gone = false;
  {
    std::lock_guard lock(mutex_);
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

void SequenceTurn::TakeBack(const std::vector<Part>& parts, bool client_gone) const {
  // A sequence of one request has left nothing where that went well, and nothing where it did not.
  if (start_ == end_) return;
  const bool ended = end_ && (client_gone || std::any_of(parts.begin(), parts.end(),
                                                         [](const Part& one) { return one.done; }));
  for (const Part& part : parts) {
    if (!(start_ ? part.done : ended && !part.done)) continue;
    if (const auto servable = part.servable.lock()) servable->DropSequence(id_);
  }
}

}  // namespace braid
