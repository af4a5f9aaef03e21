#include "gpu/cuda_context.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "gpu/client_gpus.h"
#include "gpu/device_memory.h"
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

// The other process, as a test that only runs on request. It fills memory with 0, 1, 2, ..., passes its
// handle on and waits. It succeeds if the numbers are still there.
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

// Another process with memory on the device. It is not a plain fork, because a fork cannot use a driver that
// this process has opened.
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
  // Makes it free its memory; returns false if the memory has changed.
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

std::vector<std::string> CallsOf(const StandinGpus& gpus, const std::string& beginning) {
  std::vector<std::string> calls;
  for (const std::string& call : gpus.Calls()) {
    if (call.starts_with(beginning)) calls.push_back(call);
  }
  return calls;
}

TEST(CudaMemory, IsReadAndWrittenWhereAnotherProcessHasIt) {
  const StandinGpus gpus(kOne);
  Maker maker;
  gpus.Delay(20);
  {
    auto memory = CudaMemory::Open(CudaContext::Create(FindGpus(6.0).driver, 0).value(), maker.handle);
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
  EXPECT_FALSE(maker.Free());  // it has seen the written data
  EXPECT_THAT(gpus.Calls(), Not(Contains(HasSubstr("violation"))));
}

TEST(CudaMemory, FailsWithWhatTheDriverSays) {
  const StandinGpus gpus(kOne);
  Maker maker;
  const auto context = CudaContext::Create(FindGpus(6.0).driver, 0).value();
  CudaIpcHandle wrong{};
  EXPECT_EQ(CudaMemory::Open(context, wrong).status().message(),
            "cuIpcOpenMemHandle: CUDA_ERROR_INVALID_VALUE (invalid argument)");
  auto memory = CudaMemory::Open(context, maker.handle).value();
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

// Memory of DeviceMemory::Create() in another process, imported by its descriptor.
TEST(DeviceMemory, LivesAsLongAsSomebodyHasIt) {
  const StandinGpus gpus("8.6 9000000 Stand-in");
  const auto context = CudaContext::Create(FindGpus(6.0).driver, 0).value();
  std::vector<std::byte> sent(3000, std::byte{7});
  auto made = DeviceMemory::Create(context, sent.size()).value();
  EXPECT_EQ(made->size(), size_t{2} << 20);
  UniqueFd descriptor = made->Export().value();
  ASSERT_TRUE(context->CopyTo(made->address(), sent).ok());
  auto taken = DeviceMemory::Import(context, descriptor.get(), made->size()).value();
  EXPECT_NE(taken->address(), made->address());
  made.reset();
  descriptor = {};
  std::vector<std::byte> got(sent.size());
  ASSERT_TRUE(context->CopyFrom(taken->address(), got).ok());
  EXPECT_EQ(got, sent);
  // The device has room for four such pieces, and they are in use.
  std::vector<std::unique_ptr<DeviceMemory>> others;
  for (int i = 0; i < 3; ++i) others.push_back(DeviceMemory::Create(context, 1).value());
  EXPECT_EQ(DeviceMemory::Create(context, size_t{2} << 20).status().code(), StatusCode::kResourceExhausted);
  taken.reset();
  EXPECT_TRUE(DeviceMemory::Create(context, 1).ok());
}

TEST(DeviceMemory, FailsWithWhatTheDriverSays) {
  const StandinGpus gpus("8.6 8388608 Stand-in");
  const auto context = CudaContext::Create(FindGpus(6.0).driver, 0).value();
  const UniqueFd none(open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_THAT(DeviceMemory::Import(context, none.get(), size_t{2} << 20).status().message(),
              HasSubstr("cuMemImportFromShareableHandle: CUDA_ERROR_INVALID_VALUE"));
  EXPECT_EQ(DeviceMemory::Create(context, 0).status().code(), StatusCode::kInvalidArgument);
  const auto made = DeviceMemory::Create(context, 1).value();
  const UniqueFd descriptor = made->Export().value();
  // More than the memory's size.
  EXPECT_THAT(DeviceMemory::Import(context, descriptor.get(), size_t{4} << 20).status().message(),
              HasSubstr("cuMemMap: CUDA_ERROR_INVALID_VALUE"));
  gpus.Fail("cuMemSetAccess 719");
  EXPECT_THAT(DeviceMemory::Create(context, 1).status().message(), HasSubstr("cuMemSetAccess"));
  gpus.Fail("");
  EXPECT_EQ(CallsOf(gpus, "create").size() + CallsOf(gpus, "import").size(),
            CallsOf(gpus, "release").size() + 1)
      << "all but the one that is there is gone";
}

TEST(CudaContext, CopiesToTheDeviceAndWithinAndZeroesWhatWasBehind) {
  const StandinGpus gpus("8.6 8388608 Stand-in");
  gpus.Delay(10);
  const auto context = CudaContext::Create(FindGpus(6.0).driver, 0).value();
  const auto from = DeviceMemory::Create(context, 8).value();
  const auto to = DeviceMemory::Create(context, 8).value();
  std::vector<std::byte> bytes(8, std::byte{1});
  ASSERT_TRUE(context->CopyTo(from->address(), bytes).ok());
  std::fill(bytes.begin(), bytes.end(), std::byte{9});
  ASSERT_TRUE(context->CopyTo(to->address(), bytes).ok());
  ASSERT_TRUE(context->CopyWithin(to->address(), from->address(), 3, 6).ok());
  ASSERT_TRUE(context->CopyFrom(to->address(), bytes).ok());
  EXPECT_THAT(bytes, ElementsAre(std::byte{1}, std::byte{1}, std::byte{1}, std::byte{0}, std::byte{0},
                                 std::byte{0}, std::byte{9}, std::byte{9}));
  const std::vector<std::byte> from_host(1, std::byte{5});
  ASSERT_TRUE(context->CopyTo(to->address(), from_host, 2).ok());
  ASSERT_TRUE(context->CopyFrom(to->address(), bytes).ok());
  EXPECT_THAT(bytes, ElementsAre(std::byte{5}, std::byte{0}, std::byte{1}, std::byte{0}, std::byte{0},
                                 std::byte{0}, std::byte{9}, std::byte{9}));
}

// Waits until the device answers again; its thread has to notice that.
void AwaitAnswer(ClientGpus::Memory& memory) {
  const Buffer byte = CopyToHeap(std::vector<std::byte>(1));
  for (int i = 0; i < 2000 && !memory.Read(0, byte).ok(); ++i) usleep(5000);
}

TEST(ClientGpus, MakeAContextForTheFirstMemoryAndEndItWithTheLast) {
  const StandinGpus gpus(kOne);
  Maker maker;
  {
    ClientGpus clients(FindGpus(6.0).driver, {0}, {});
    EXPECT_TRUE(clients.Has(0));
    EXPECT_FALSE(clients.Has(1));
    const size_t before = CallsOf(gpus, "context").size();
    {
      const auto first = clients.Open(0, maker.handle).value();
      const auto second = clients.Open(0, maker.handle).value();
      EXPECT_EQ(CallsOf(gpus, "context").size(), before + 1);
      const Buffer part = CopyToHeap(std::vector<std::byte>(2));
      ASSERT_TRUE(second->Read(7, part).ok());
      EXPECT_EQ(part.text(), "\7\10");
      ASSERT_TRUE(second->Write(7, part).ok());
      EXPECT_TRUE(part.owner()->unique());
    }
    EXPECT_THAT(clients.Open(0, CudaIpcHandle{}).status().message(), HasSubstr("CUDA_ERROR_INVALID_VALUE"));
  }
  EXPECT_EQ(CallsOf(gpus, "no-context").size(), 2);  // one of them for the invalid handle
  EXPECT_TRUE(maker.Free());
}

TEST(ClientGpus, DoNotWaitForADeviceThatHangs) {
  const StandinGpus gpus(kOne);
  Maker maker;
  {
    ClientGpus clients(FindGpus(6.0).driver, {0}, {.limit_ns = 50'000'000});
    const auto memory = clients.Open(0, maker.handle).value();
    gpus.Hang("cuMemcpyDtoHAsync_v2");
    const Buffer bytes = CopyToHeap(std::vector<std::byte>(16, std::byte{99}));
    const std::string hangs = "GPU 0 has not answered for 50 ms (--gpu-timeout-ms)";
    EXPECT_EQ(memory->Read(0, bytes), UnavailableError(hangs));
    EXPECT_FALSE(bytes.owner()->unique()) << "the copy may come yet";
    // Further calls of any kind fail at once.
    EXPECT_EQ(memory->Write(0, bytes), UnavailableError(hangs));
    EXPECT_EQ(clients.Open(0, maker.handle).status(), UnavailableError(hangs));
    EXPECT_EQ(clients.Stalls().at(0), 1);
    gpus.Hang("");
    AwaitAnswer(*memory);
    EXPECT_TRUE(bytes.owner()->unique());
    EXPECT_EQ(bytes.text()[1], 1) << "straight, though late";
    ASSERT_TRUE(memory->Read(1, bytes).ok());
    EXPECT_EQ(bytes.text()[1], 2);
    EXPECT_EQ(clients.Stalls().at(0), 1);
  }
  EXPECT_TRUE(maker.Free());
}

}  // namespace
}  // namespace braid
