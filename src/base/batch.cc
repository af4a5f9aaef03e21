#include "base/batch.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace braid {
namespace {

thread_local Batch* batch_of_thread = nullptr;

}  // namespace

Batch::Batch() {
  BRAID_CHECK(batch_of_thread == nullptr);
  batch_of_thread = this;
}

Batch::~Batch() {
  batch_of_thread = nullptr;  // AtEnd() must not defer again
  for (size_t i = 0; i < count_; ++i) std::exchange(works_[i], nullptr)->AtEnd();
}

bool Batch::Defer(const std::shared_ptr<Work>& work) noexcept {
  if (batch_of_thread == nullptr) return false;
  const auto begin = batch_of_thread->works_.begin();
  const auto end = begin + static_cast<std::ptrdiff_t>(batch_of_thread->count_);
  if (std::find(begin, end, work) != end) return true;
  if (batch_of_thread->count_ == batch_of_thread->works_.size()) return false;
  batch_of_thread->works_[batch_of_thread->count_++] = work;
  return true;
}

}  // namespace braid
