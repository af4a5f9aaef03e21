#include "gpu/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/testing/standin_gpus.h"

namespace braid {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kTwo[] = "8.6 1073741824 Stand-in A\n10.0 2147483648 Stand-in B";

TEST(FindGpus, DescribesThemAndMakesNoContext) {
  const StandinGpus gpus(kTwo);
  const GpuDevices found = FindGpus(6.0);
  ASSERT_EQ(found.devices.size(), 2);
  EXPECT_NE(found.driver, nullptr);
  EXPECT_THAT(found.notes, IsEmpty());
  const GpuDevice& second = found.devices[1];
  EXPECT_EQ(second.id, 1);
  EXPECT_EQ(second.name, "Stand-in B");
  EXPECT_EQ(second.uuid, "GPU-5ca1ab1e-0000-4000-8000-000000000001");
  EXPECT_EQ(second.memory_bytes, 2147483648);
  EXPECT_EQ(second.capability_major, 10);
  EXPECT_EQ(second.capability_minor, 0);
  EXPECT_THAT(gpus.Calls(), ElementsAre("cuInit"));
}

TEST(FindGpus, LeavesOutWhatIsTooOldAndSaysSo) {
  const StandinGpus gpus("5.2 1048576 Old\n9.0 1048576 New\n10.0 1048576 Newer");
  const GpuDevices found = FindGpus(6.0);
  ASSERT_EQ(found.devices.size(), 2);
  EXPECT_EQ(found.devices[0].id, 1);
  EXPECT_EQ(found.devices[1].id, 2);
  EXPECT_THAT(found.notes, ElementsAre("GPU 0 (Old) is not used: its compute capability is 5.2, and "
                                       "--min-supported-compute-capability is 6.0"));
  // Compared as versions, not as decimals.
  EXPECT_EQ(FindGpus(9.5).devices.size(), 1);
  EXPECT_EQ(FindGpus(9.0).devices.size(), 2);
  EXPECT_EQ(FindGpus(11.0).driver, nullptr);
}

TEST(FindGpus, TakesTheDriversWordForWhatIsVisible) {
  const StandinGpus gpus(kTwo);
  setenv("CUDA_VISIBLE_DEVICES", "1", 1);
  const GpuDevices found = FindGpus(6.0);
  unsetenv("CUDA_VISIBLE_DEVICES");
  ASSERT_EQ(found.devices.size(), 1);
  EXPECT_EQ(found.devices[0].id, 0);
  EXPECT_EQ(found.devices[0].name, "Stand-in B");
}

TEST(FindGpus, HasNoneWhereTheDriverFails) {
  const StandinGpus gpus(kTwo);
  gpus.Fail("cuInit 100");
  EXPECT_THAT(
      FindGpus(6.0).notes,
      ElementsAre("GPUs are not used: cuInit: CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)"));
  gpus.Fail("cuDeviceGetName 719");
  const GpuDevices found = FindGpus(6.0);
  EXPECT_EQ(found.driver, nullptr);
  EXPECT_THAT(found.devices, IsEmpty());
  EXPECT_THAT(found.notes, ElementsAre("GPUs are not used: cuDeviceGetName: CUDA_ERROR_LAUNCH_FAILED "
                                       "(unspecified launch failure)"));
  gpus.Fail("cuDeviceTotalMem_v2 9999");
  EXPECT_THAT(FindGpus(6.0).notes, ElementsAre("GPUs are not used: cuDeviceTotalMem: CUDA error 9999"));
}

// This is why neither the server's children nor those of the warm interpreter may inherit an open driver.
TEST(CudaDriver, CannotBeUsedInAForkedChild) {
  const StandinGpus gpus(kTwo);
  ASSERT_EQ(FindGpus(6.0).devices.size(), 2);
  const pid_t child = fork();
  if (child == 0) {
    const GpuDevices found = FindGpus(6.0);
    const bool refused = found.devices.empty() && found.notes.size() == 1 &&
                         found.notes[0].find("CUDA_ERROR_NOT_INITIALIZED") != std::string::npos;
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace braid
