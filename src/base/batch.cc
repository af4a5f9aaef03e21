#include "base/batch.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace braid {
namespace {

thread_local Batch* current = nullptr;

}  // namespace

Batch::Batch() {
  BRAID_CHECK(current == nullptr);
  current = this;
}

Batch::~Batch() {
  End();
  current = nullptr;
}

bool Batch::Defer(const std::shared_ptr<Work>& work) noexcept {
  if (current == nullptr) return false;
  const auto begin = current->works_.begin();
  const auto end = begin + static_cast<std::ptrdiff_t>(current->count_);
  if (std::find(begin, end, work) != end) return true;
  if (current->count_ == current->works_.size()) return false;
  current->works_[current->count_++] = work;
  return true;
}

void Batch::End() noexcept {
  current = nullptr;  // what ends is not deferred once more
  while (count_ > 0) std::exchange(works_[--count_], nullptr)->AtEnd();
  current = this;
}

}  // namespace braid
