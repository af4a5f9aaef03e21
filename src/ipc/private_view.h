// PrivateView: a range of a segment, mapped so that what is written to it stays in this process.
//
// Pages are shared with the segment until they are written to; then this process has its own copy of them. A
// page that was not written to shows later changes of the segment, as any mapping of it does.
//
// For memory that others see too. Reading costs the page faults (some 45 us for each MiB where memory is
// shared by small pages, about what a copy into warm memory costs with the reading), writing costs them and
// the copies of the pages (some 330 us for each MiB).
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
  // Errors: UNAVAILABLE when the system refuses. REQUIRES: segment.Contains(offset, size), size > 0.
  static Result<std::unique_ptr<PrivateView>> Map(const Segment& segment, uint64_t offset, size_t size);
  ~PrivateView();
  PrivateView(const PrivateView&) = delete;
  PrivateView& operator=(const PrivateView&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // Whether none of the pages in which `part` lies was ever written to here, so that it still is what the
  // segment holds. Asks the system, which knows it exactly; false when it does not tell. Costs some 3 us for
  // each MiB. REQUIRES: nobody writes meanwhile; `part` lies within the view.
  bool Unchanged(std::span<const std::byte> part) const;

 private:
  PrivateView(std::byte* mapping, size_t mapped, size_t skip, size_t size)
      : mapping_(mapping), mapped_(mapped), data_(mapping + skip), size_(size) {}

  std::byte* const mapping_;  // from the page in which the range begins
  const size_t mapped_;
  std::byte* const data_;
  const size_t size_;
};

}  // namespace braid
