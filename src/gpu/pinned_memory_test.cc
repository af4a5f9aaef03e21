#include "gpu/pinned_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <string>
#include <thread>
#include <vector>

#include "gpu/devices.h"
#include "gpu/testing/standin_gpus.h"
#include "tensor/shared_bytes.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr size_t kPages = 65536;

// A mapping with one buffer in it.
class Pages final : public BufferOwner, public SharedBytes, public SharedMapping {
 public:
  Pages()
      : SharedMapping(static_cast<std::byte*>(
                          mmap(nullptr, kPages, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
                      kPages) {}
  SharedMapping* mapping() const override { return const_cast<Pages*>(this); }
};

Buffer PageBuffer(size_t bytes) {
  auto* owner = new Pages();
  return {owner->base() + 100, bytes, owner};
}

bool IsMapped(std::byte* base) {
  unsigned char resident = 0;
  return mincore(base, 1, &resident) == 0;
}

class PinnedMemoryTest : public testing::Test {
 protected:
  void Pin(PinnedMemory& pinned, const Buffer& buffer) {
    pinned.Pin(buffer, context_, [this](std::function<void()> call) { later_.push_back(std::move(call)); });
  }
  void Later() {
    for (const auto& call : std::exchange(later_, {})) call();
  }
  std::vector<std::string> Calls() const {
    std::vector<std::string> calls;
    for (const std::string& call : gpus_.Calls()) {
      if (call.find("pin") != std::string::npos || call.starts_with("violation")) calls.push_back(call);
    }
    return calls;
  }

  const StandinGpus gpus_{"8.6 100000000 Stand-in"};
  const std::shared_ptr<const CudaDriver> driver_ = FindGpus(6.0).driver;
  std::shared_ptr<CudaContext> context_ = CudaContext::Create(driver_, 0).value();
  std::vector<std::function<void()>> later_;
};

TEST_F(PinnedMemoryTest, PinsWhatABufferLiesInUntilItIsUnmapped) {
  const auto pinned = std::make_shared<PinnedMemory>(2 * kPages);
  Buffer buffer = PageBuffer(10);
  std::byte* const base = buffer.mutable_data() - 100;
  Pin(*pinned, buffer);
  Pin(*pinned, buffer);
  EXPECT_EQ(pinned->used_bytes(), kPages);
  buffer = {};
  EXPECT_TRUE(IsMapped(base)) << "as long as it is pinned";
  Later();
  EXPECT_FALSE(IsMapped(base));
  EXPECT_EQ(pinned->used_bytes(), 0);
  EXPECT_THAT(Calls(), ElementsAre("pin 65536", "unpin 65536"));
}

TEST_F(PinnedMemoryTest, PinsNoMoreThanItMay) {
  const auto pinned = std::make_shared<PinnedMemory>(2 * kPages + 1);
  std::vector<Buffer> buffers;
  for (int i = 0; i < 3; ++i) {
    buffers.push_back(PageBuffer(10));
    Pin(*pinned, buffers.back());
  }
  EXPECT_EQ(pinned->used_bytes(), 2 * kPages);
  buffers.erase(buffers.begin());
  Pin(*pinned, buffers.back());
  EXPECT_THAT(Calls(), ElementsAre("pin 65536", "pin 65536", "pin 65536")) << "there is room now";
  buffers.clear();
  Later();
  const auto none = std::make_shared<PinnedMemory>(0);
  Pin(*none, PageBuffer(10));
  EXPECT_EQ(none->used_bytes(), 0);
}

TEST_F(PinnedMemoryTest, LeavesWhatIsNotBetweenProcessesAndWhatIsRefused) {
  const auto pinned = std::make_shared<PinnedMemory>(2 * kPages);
  Pin(*pinned, CopyToHeap(std::vector<std::byte>(10)));
  EXPECT_THAT(Calls(), IsEmpty());
  gpus_.Fail("cuMemHostRegister_v2 801");
  Buffer buffer = PageBuffer(10);
  std::byte* const base = buffer.mutable_data() - 100;
  Pin(*pinned, buffer);
  EXPECT_EQ(pinned->used_bytes(), 0);
  gpus_.Fail("");
  Pin(*pinned, buffer);
  EXPECT_THAT(Calls(), IsEmpty()) << "it was refused";
  buffer = {};
  EXPECT_FALSE(IsMapped(base));
  EXPECT_THAT(later_, IsEmpty());
}

TEST_F(PinnedMemoryTest, IsPinnedAnewWhenTheContextHasGone) {
  const auto pinned = std::make_shared<PinnedMemory>(kPages);
  const Buffer first = PageBuffer(10);
  Buffer second = PageBuffer(10);
  Pin(*pinned, first);
  context_.reset();
  EXPECT_EQ(pinned->used_bytes(), 0);
  context_ = CudaContext::Create(driver_, 0).value();
  Pin(*pinned, second);
  Pin(*pinned, first);
  EXPECT_EQ(pinned->used_bytes(), kPages) << "the second's";
  second = {};
  Later();
  Pin(*pinned, first);
  EXPECT_EQ(pinned->used_bytes(), kPages);
  EXPECT_THAT(Calls(), ElementsAre("pin 65536", "pin 65536", "unpin 65536", "pin 65536"));
}

// Mappings are unmapped on any thread while others pin.
TEST_F(PinnedMemoryTest, ManyThreads) {
  const auto pinned = std::make_shared<PinnedMemory>(3 * kPages);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        pinned->Pin(PageBuffer(1), context_, [](const std::function<void()>& call) { call(); });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pinned->used_bytes(), 0);
  const auto calls = Calls();
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "pin 65536"), std::ssize(calls) / 2);
}

}  // namespace
}  // namespace braid
