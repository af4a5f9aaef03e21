#include "ipc/private_view.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/unique_fd.h"

namespace braid {
namespace {

// Bits of an entry in /proc/self/pagemap: the page is in memory; it is swapped out; it belongs to a file, not
// to this process.
constexpr uint64_t kPresent = uint64_t{1} << 63;
constexpr uint64_t kSwapped = uint64_t{1} << 62;
constexpr uint64_t kOfFile = uint64_t{1} << 61;

size_t PageSize() {
  static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

}  // namespace

Result<std::unique_ptr<PrivateView>> PrivateView::Map(const Segment& segment, uint64_t offset, size_t size) {
  const size_t skip = offset % PageSize();
  const size_t mapped = size + skip;
  void* mapping = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE, segment.fd(),
                       static_cast<off_t>(offset - skip));
  if (mapping == MAP_FAILED) {
    return UnavailableError("cannot map " + std::to_string(size) +
                            " bytes of shared memory: " + ErrnoError("mmap", errno).message());
  }
  return std::unique_ptr<PrivateView>(new PrivateView(static_cast<std::byte*>(mapping), mapped, skip, size));
}

PrivateView::~PrivateView() { munmap(mapping_, mapped_); }

bool PrivateView::Unchanged(std::span<const std::byte> part) const {
  if (part.empty()) return true;
  const UniqueFd pages(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  if (!pages.valid()) return false;
  const auto start = reinterpret_cast<uintptr_t>(part.data());
  size_t page = start / PageSize();
  const size_t end = (start + part.size() - 1) / PageSize() + 1;
  std::array<uint64_t, 512> entries;
  while (page < end) {
    const size_t count = std::min(entries.size(), end - page);
    const auto bytes = static_cast<ssize_t>(count * sizeof(uint64_t));
    if (pread(pages.get(), entries.data(), static_cast<size_t>(bytes),
              static_cast<off_t>(page * sizeof(uint64_t))) != bytes)
      return false;
    for (size_t i = 0; i < count; ++i) {
      // A page that was never touched is neither present nor swapped out.
      if ((entries[i] & (kPresent | kSwapped)) != 0 && (entries[i] & kOfFile) == 0) return false;
    }
    page += count;
  }
  return true;
}

}  // namespace braid
