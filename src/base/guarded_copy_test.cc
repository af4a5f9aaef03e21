#include "base/guarded_copy.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <thread>
#include <vector>

#include "base/unique_fd.h"

namespace braid {
namespace {

constexpr size_t kSize = size_t{1} << 20;

class GuardedCopyTest : public testing::Test {
 protected:
  GuardedCopyTest() : file_(memfd_create("test", MFD_CLOEXEC)), local_(kSize, 1) {
    SetSize(kSize);
    shared_ = static_cast<char*>(mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0));
  }
  ~GuardedCopyTest() override { munmap(shared_, kSize); }
  void SetSize(size_t size) { EXPECT_EQ(ftruncate(file_.get(), static_cast<off_t>(size)), 0); }

  UniqueFd file_;
  char* shared_ = nullptr;
  std::vector<char> local_;
};

TEST_F(GuardedCopyTest, Copies) {
  std::memset(shared_, 7, kSize);
  EXPECT_TRUE(CopyFromShared(local_.data(), shared_, kSize));
  EXPECT_EQ(local_, std::vector<char>(kSize, 7));
  local_.assign(kSize, 9);
  EXPECT_TRUE(CopyToShared(shared_, local_.data(), kSize));
  EXPECT_EQ(shared_[kSize - 1], 9);
}

TEST_F(GuardedCopyTest, StopsWhereTheFileEnds) {
  std::memset(shared_, 7, kSize);
  SetSize(kSize / 2);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(CopyFromShared(local_.data(), shared_, kSize));
    EXPECT_FALSE(CopyToShared(shared_, local_.data(), kSize));
    EXPECT_TRUE(CopyFromShared(local_.data(), shared_, kSize / 2));
  }
}

TEST_F(GuardedCopyTest, SurvivesAFileThatIsCutMeanwhile) {
  std::atomic<bool> stop{false};
  std::thread cutter([&] {
    while (!stop) {
      SetSize(4096);
      SetSize(kSize);
    }
  });
  std::vector<std::thread> copiers;
  for (int t = 0; t < 2; ++t) {
    copiers.emplace_back([this] {
      std::vector<char> mine(kSize);
      for (int i = 0; i < 300; ++i) {
        CopyFromShared(mine.data(), shared_, kSize);
        CopyToShared(shared_, mine.data(), kSize);
      }
    });
  }
  for (std::thread& copier : copiers) copier.join();
  stop = true;
  cutter.join();
}

using GuardedCopyDeathTest = GuardedCopyTest;

TEST_F(GuardedCopyDeathTest, OtherFaultsStillEndTheProcess) {
  EXPECT_TRUE(CopyFromShared(local_.data(), shared_, kSize));
  SetSize(4096);
  const volatile char* gone = shared_ + kSize / 2;
  EXPECT_EXIT(static_cast<void>(*gone), testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace braid
