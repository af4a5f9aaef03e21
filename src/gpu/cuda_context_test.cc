#include "gpu/cuda_context.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "gpu/devices.h"
#include "gpu/shared_library.h"
#include "gpu/testing/standin_gpus.h"

namespace braid {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kOne[] = "8.6 1048576 Stand-in";

// The other process's part, which is a test that is not run otherwise: it fills memory with 0, 1, 2, ..., hands its handle out,
// waits, and says by its end whether the numbers are still there.
constexpr size_t kBytes = 1000;
constexpr int kFrom = 3;
constexpr int kTo = 4;
TEST(MakerOfMemory, DISABLED_Run) {
  const SharedLibrary library = SharedLibrary::Open("libcuda.so.1").value();
  int (*alloc)(CudaAddress*, size_t) = nullptr;
  int (*free)(CudaAddress) = nullptr;
  int (*get_handle)(CudaIpcHandle*, CudaAddress) = nullptr;
  ASSERT_TRUE(library.Find("cuMemAlloc_v2", alloc).ok());
  ASSERT_TRUE(library.Find("cuMemFree_v2", free).ok());
  ASSERT_TRUE(library.Find("cuIpcGetMemHandle", get_handle).ok());
  const auto driver = CudaDriver::Open().value();
  const auto context = CudaContext::Create(driver, 0).value();
  CudaContextHandle raw = nullptr;
  ASSERT_EQ(driver->device_primary_ctx_retain(&raw, 0), 0);
  ASSERT_EQ(driver->ctx_push_current(raw), 0);
  CudaAddress address = 0;
  ASSERT_EQ(alloc(&address, kBytes), 0);
  std::vector<std::byte> numbers(kBytes);
  for (size_t i = 0; i < kBytes; ++i) numbers[i] = static_cast<std::byte>(i);
  ASSERT_TRUE(context->CopyTo(address, numbers).ok());
  CudaIpcHandle handle{};
  ASSERT_EQ(get_handle(&handle, address), 0);
  ASSERT_EQ(write(kTo, &handle, sizeof(handle)), 64);
  char go = 0;
  ASSERT_EQ(read(kFrom, &go, 1), 1);
  std::vector<std::byte> now(kBytes);
  ASSERT_TRUE(context->CopyFrom(address, now).ok());
  EXPECT_EQ(free(address), 0);
  EXPECT_EQ(now, numbers);
}

// Another process with memory on the device: a driver that this one has opened cannot be used in a fork of it.
class Maker {
 public:
  Maker() {
    int to[2];
    int from[2];
    EXPECT_EQ(pipe2(to, O_CLOEXEC) + pipe2(from, O_CLOEXEC), 0);
    child_ = fork();
    if (child_ == 0) {
      dup2(to[0], kFrom + 20);
      dup2(from[1], kTo + 20);
      dup2(kFrom + 20, kFrom);
      dup2(kTo + 20, kTo);
      execl("/proc/self/exe", "maker", "--gtest_filter=MakerOfMemory.DISABLED_Run",
            "--gtest_also_run_disabled_tests", nullptr);
      _exit(127);
    }
    to_ = to[1];
    close(to[0]);
    close(from[1]);
    EXPECT_EQ(read(from[0], handle.bytes.data(), handle.bytes.size()), 64);
    close(from[0]);
  }
  // It frees its memory, and says whether it was as it had made it.
  bool Free() const {
    EXPECT_EQ(write(to_, "x", 1), 1);
    int status = -1;
    EXPECT_EQ(waitpid(child_, &status, 0), child_);
    close(to_);
    return status == 0;
  }

  CudaIpcHandle handle{};

 private:
  pid_t child_ = -1;
  int to_ = -1;
};

TEST(CudaContexts, AreMadeWhenTheyAreNeededAndGoWithTheLast) {
  const StandinGpus gpus("8.6 1048576 A\n8.6 1048576 B");
  CudaContexts contexts(FindGpus(6.0).driver);
  {
    const auto first = contexts.Get(1).value();
    EXPECT_EQ(contexts.Get(1).value(), first);
    EXPECT_NE(contexts.Get(0).value(), first);
  }
  EXPECT_THAT(gpus.Calls(), ElementsAre("cuInit", "context 1", "context 0", "no-context 0", "no-context 1"));
  EXPECT_THAT(contexts.Get(7).status().message(), HasSubstr("CUDA_ERROR_INVALID_DEVICE"));
  EXPECT_EQ(CudaContexts(nullptr).Get(0).status().message(), "there is no GPU");
}

TEST(CudaMemory, IsReadAndWrittenWhereAnotherProcessHasIt) {
  const StandinGpus gpus(kOne);
  Maker maker;
  gpus.Delay(20);
  {
    CudaContexts contexts(FindGpus(6.0).driver);
    auto memory = CudaMemory::Open(contexts.Get(0).value(), maker.handle);
    ASSERT_TRUE(memory.ok()) << memory.status();
    EXPECT_EQ((*memory)->size(), 1000);
    std::vector<std::byte> part(3);
    ASSERT_TRUE((*memory)->Read(250, part).ok());
    EXPECT_THAT(part, ElementsAre(std::byte{250}, std::byte{251}, std::byte{252}));
    ASSERT_TRUE((*memory)->Write(0, part).ok());
    std::vector<std::byte> begin(4);
    ASSERT_TRUE((*memory)->Read(0, begin).ok());
    EXPECT_THAT(begin, ElementsAre(std::byte{250}, std::byte{251}, std::byte{252}, std::byte{3}));
  }
  EXPECT_FALSE(maker.Free());  // it has seen what was written
  EXPECT_THAT(gpus.Calls(), Not(Contains(HasSubstr("violation"))));
}

TEST(CudaMemory, FailsWithWhatTheDriverSays) {
  const StandinGpus gpus(kOne);
  Maker maker;
  CudaContexts contexts(FindGpus(6.0).driver);
  CudaIpcHandle wrong{};
  EXPECT_EQ(CudaMemory::Open(contexts.Get(0).value(), wrong).status().message(),
            "cuIpcOpenMemHandle: CUDA_ERROR_INVALID_VALUE (invalid argument)");
  auto memory = CudaMemory::Open(contexts.Get(0).value(), maker.handle).value();
  gpus.Fail("cuStreamSynchronize 719");
  std::vector<std::byte> bytes(16);
  EXPECT_EQ(memory->Read(0, bytes).message(),
            "cuStreamSynchronize: CUDA_ERROR_LAUNCH_FAILED (unspecified launch failure)");
  gpus.Fail("* 719");
  EXPECT_THAT(memory->Write(0, bytes).message(), HasSubstr("CUDA_ERROR_LAUNCH_FAILED"));
  gpus.Fail("");
  memory.reset();
  EXPECT_TRUE(maker.Free());
}

}  // namespace
}  // namespace braid
