// PrivateView: a copy-on-write mapping of a range of a segment.
//
// Pages are shared with the segment until they are written; then this process has a private copy of them.
// Pages that were not written show later changes of the segment, like any mapping of it.
//
// It is for memory that others see too. Reading costs the page faults, some 45 us per MiB with small pages.
// That is about the cost of copying into warm memory, including the read. Writing costs the faults and the
// page copies (some 330 us per MiB).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "ipc/segment.h"

namespace braid {

class PrivateView {
 public:
  // Maps a range. Errors: UNAVAILABLE if the system refuses. REQUIRES: segment.Contains(offset, size), size >
  // 0.
  static Result<std::unique_ptr<PrivateView>> Map(const Segment& segment, uint64_t offset, size_t size);
  ~PrivateView();
  PrivateView(const PrivateView&) = delete;
  PrivateView& operator=(const PrivateView&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // Returns whether no page of `part` was written through this view, so that `part` still equals the segment.
  // The system tracks this exactly; returns false if the system does not say. Costs some 3 us per MiB.
  // REQUIRES: no thread writes meanwhile; `part` lies within the view.
  bool Unchanged(std::span<const std::byte> part) const;

 private:
  PrivateView(std::byte* mapping, size_t mapped, size_t skip, size_t size)
      : mapping_(mapping), mapped_(mapped), data_(mapping + skip), size_(size) {}

  std::byte* const mapping_;  // begins at the page in which the range begins
  const size_t mapped_;
  std::byte* const data_;
  const size_t size_;
};

}  // namespace braid
