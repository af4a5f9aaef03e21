#include "ipc/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>

namespace braid {
namespace {

constexpr size_t kPage = 4096;

size_t OpenDescriptors() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

UniqueFd MakeMemfd(size_t size, int seals) {
  UniqueFd fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(size)), 0);
  EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

void ExpectRefused(UniqueFd fd, size_t size) {
  auto segment = Segment::Import(1, std::move(fd), size);
  ASSERT_FALSE(segment.ok());
  EXPECT_EQ(segment.status().code(), StatusCode::kInvalidArgument) << segment.status();
}

TEST(Segment, HasWholeZeroedPagesAndAnId) {
  auto segment = Segment::Create(7, 5000);
  ASSERT_TRUE(segment.ok()) << segment.status();
  EXPECT_EQ((*segment)->id(), 7u);
  EXPECT_EQ((*segment)->size(), 2 * kPage);
  const std::byte* base = (*segment)->base();
  EXPECT_TRUE(std::all_of(base, base + 2 * kPage, [](std::byte b) { return b == std::byte{0}; }));
}

TEST(Segment, NobodyCanChangeItsSizeOrItsSeals) {
  auto segment = Segment::Create(1, kPage).value();
  EXPECT_NE(ftruncate(segment->fd(), 0), 0);
  EXPECT_NE(ftruncate(segment->fd(), 2 * kPage), 0);
  EXPECT_NE(fcntl(segment->fd(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
  EXPECT_EQ(fcntl(segment->fd(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST(Segment, RefusesSizesThatCannotBe) {
  for (size_t size : {size_t{0}, std::numeric_limits<size_t>::max(), std::numeric_limits<size_t>::max() / 2,
                      std::numeric_limits<size_t>::max() / 2 - 1, size_t{1} << 62}) {
    EXPECT_FALSE(Segment::Create(1, size).ok()) << size;
  }
}

TEST(Segment, ImportSharesTheBytes) {
  auto ours = Segment::Create(3, kPage).value();
  auto theirs = Segment::Import(9, UniqueFd(dup(ours->fd())), ours->size());
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  EXPECT_EQ((*theirs)->id(), 9u);
  EXPECT_NE((*theirs)->base(), ours->base());
  std::memcpy(ours->base() + 100, "hello", 5);
  EXPECT_EQ(std::memcmp((*theirs)->base() + 100, "hello", 5), 0);
  ours.reset();
  EXPECT_EQ(std::memcmp((*theirs)->base() + 100, "hello", 5), 0);
}

TEST(Segment, ImportOfAPartNeedsNoWholePages) {
  auto ours = Segment::Create(3, 3 * kPage).value();
  auto theirs = Segment::Import(3, UniqueFd(dup(ours->fd())), kPage + 1).value();
  EXPECT_EQ(theirs->size(), kPage + 1);
  EXPECT_TRUE(theirs->Contains(kPage, 1));
  EXPECT_FALSE(theirs->Contains(kPage, 2));
}

TEST(Segment, ImportRefusesMemoryThatCanShrink) {
  ExpectRefused(MakeMemfd(kPage, 0), kPage);
  ExpectRefused(MakeMemfd(kPage, F_SEAL_GROW | F_SEAL_SEAL), kPage);
}

TEST(Segment, ImportRefusesMemoryThatCanStillBeSealedAgainstOthers) {
  ExpectRefused(MakeMemfd(kPage, F_SEAL_SHRINK | F_SEAL_GROW), kPage);
}

TEST(Segment, ImportRefusesMemoryShorterThanAnnounced) {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  ExpectRefused(MakeMemfd(kPage, kSeals), kPage + 1);
  ExpectRefused(MakeMemfd(kPage, kSeals), std::numeric_limits<size_t>::max());
  ExpectRefused(MakeMemfd(0, kSeals), 1);
  ExpectRefused(MakeMemfd(kPage, kSeals), 0);
}

TEST(Segment, ImportRefusesWhatIsNoMemfd) {
  ExpectRefused(UniqueFd(), kPage);
  ExpectRefused(UniqueFd(open("/dev/zero", O_RDWR | O_CLOEXEC)), kPage);
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  UniqueFd write_end(ends[1]);
  ExpectRefused(UniqueFd(ends[0]), kPage);
}

TEST(Segment, ImportRefusesHugePages) {
  UniqueFd fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  if (!fd.valid()) GTEST_SKIP() << "no huge pages here";
  ASSERT_EQ(ftruncate(fd.get(), 2 << 20), 0);
  ASSERT_EQ(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  ExpectRefused(std::move(fd), kPage);
}

TEST(Segment, ImportOfReadOnlyMemoryFailsAndLeavesNoDescriptor) {
  const size_t before = OpenDescriptors();
  auto segment =
      Segment::Import(1, MakeMemfd(kPage, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL), kPage);
  EXPECT_FALSE(segment.ok());
  EXPECT_EQ(OpenDescriptors(), before);
}

TEST(Segment, ContainsDoesNotOverflow) {
  auto segment = Segment::Create(1, kPage).value();
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  EXPECT_TRUE(segment->Contains(0, kPage));
  EXPECT_TRUE(segment->Contains(kPage, 0));
  EXPECT_FALSE(segment->Contains(kPage, 1));
  EXPECT_FALSE(segment->Contains(kPage + 1, 0));
  EXPECT_FALSE(segment->Contains(1, kMax));
  EXPECT_FALSE(segment->Contains(kMax, 1));
  EXPECT_FALSE(segment->Contains(kMax, kMax));
}

}  // namespace
}  // namespace braid
