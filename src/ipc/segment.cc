#include "ipc/segment.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

namespace braid {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

Result<std::byte*> Map(int fd, size_t size) {
  void* base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) {
    return UnavailableError("cannot map " + std::to_string(size) +
                            " bytes of shared memory: " + ErrnoError("mmap", errno).message());
  }
  // Only advice: without effect where huge pages for shared memory are off.
  if (size >= kHugePage) madvise(base, size, MADV_HUGEPAGE);
  return static_cast<std::byte*>(base);
}

}  // namespace

Segment::Segment(uint32_t id, UniqueFd fd, std::byte* base, size_t size)
    : SharedMapping(base, size), id_(id), fd_(std::move(fd)) {}

Segment::~Segment() {
  if (budget_) budget_->Return(on_device() ? 0 : size());
}

Result<std::shared_ptr<Segment>> Segment::OfDevice(uint32_t id, UniqueFd fd, size_t size, const GpuUuid& gpu,
                                                   std::shared_ptr<SegmentBudget> budget) {
  if (size == 0) return InvalidArgumentError("a peer's GPU memory is empty");
  if (budget) BRAID_RETURN_IF_ERROR(budget->Take(0));
  std::shared_ptr<Segment> segment(new Segment(id, std::move(fd), nullptr, size));
  segment->gpu_ = gpu;
  segment->budget_ = std::move(budget);
  return segment;
}

Result<std::shared_ptr<Segment>> Segment::Create(uint32_t id, size_t size) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  if (size == 0 || size > SIZE_MAX / 2)
    return InvalidArgumentError("a segment cannot have " + std::to_string(size) + " bytes");
  size = (size + page - 1) / page * page;
  UniqueFd fd(memfd_create("braid", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return UnavailableError(ErrnoError("memfd_create", errno).message());
  if (ftruncate(fd.get(), static_cast<off_t>(size)) != 0) {
    return UnavailableError("cannot create a segment of " + std::to_string(size) +
                            " bytes: " + ErrnoError("ftruncate", errno).message());
  }
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return ErrnoError("F_ADD_SEALS", errno);
  BRAID_ASSIGN_OR_RETURN(std::byte * base, Map(fd.get(), size));
  return std::shared_ptr<Segment>(new Segment(id, std::move(fd), base, size));
}

Result<std::shared_ptr<Segment>> Segment::Import(uint32_t id, UniqueFd fd, size_t size,
                                                 std::shared_ptr<SegmentBudget> budget) {
  // The last seal forbids further seals, which would keep other processes from mapping the segment.
  constexpr int kNeeded = F_SEAL_SHRINK | F_SEAL_SEAL;
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kNeeded) != kNeeded)
    return InvalidArgumentError("a peer's segment is not sealed against shrinking");
  // Memory of huge pages can have these seals too, but cannot be mapped or unmapped by ordinary pages.
  struct statfs kind {};
  if (fstatfs(fd.get(), &kind) != 0) return ErrnoError("fstatfs", errno);
  if (kind.f_type != TMPFS_MAGIC) return InvalidArgumentError("a peer's segment is not an ordinary memfd");
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return ErrnoError("fstat", errno);
  if (size == 0 || info.st_size < 0 || static_cast<size_t>(info.st_size) < size) {
    return InvalidArgumentError("a peer's segment is smaller than announced");
  }
  if (budget) BRAID_RETURN_IF_ERROR(budget->Take(size));
  auto base = Map(fd.get(), size);
  if (!base.ok()) {
    if (budget) budget->Return(size);
    return base.status();
  }
  std::shared_ptr<Segment> segment(new Segment(id, std::move(fd), *base, size));
  segment->budget_ = std::move(budget);
  return segment;
}

}  // namespace braid
