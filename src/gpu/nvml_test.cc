#include "gpu/nvml.h"

#include <gtest/gtest.h>

#include "gpu/testing/standin_gpus.h"

namespace braid {
namespace {

constexpr char kSecond[] = "GPU-5ca1ab1e-0000-4000-8000-000000000001";

TEST(Nvml, TellsOfADeviceByItsUuid) {
  const StandinGpus gpus("8.6 1048576 A\n8.6 2097152 B");
  Nvml nvml;
  EXPECT_EQ(nvml.Memory(kSecond)->total_bytes, 2097152);
  EXPECT_EQ(nvml.Memory(kSecond)->used_bytes, 0);
  EXPECT_DOUBLE_EQ(*nvml.Utilization(kSecond), 0.26);
  EXPECT_DOUBLE_EQ(*nvml.PowerWatts(kSecond), 61.5);
  EXPECT_DOUBLE_EQ(*nvml.PowerLimitWatts(kSecond), 300);
  const double before = *nvml.EnergyJoules(kSecond);
  EXPECT_DOUBLE_EQ(*nvml.EnergyJoules(kSecond), before + 0.25);
  EXPECT_EQ(nvml.Memory("GPU-none").status().message(), "nvmlDeviceGetHandleByUUID: Not Found");
}

TEST(Nvml, SaysWhatFailedEachTime) {
  const StandinGpus gpus("8.6 1048576 A\n8.6 2097152 B");
  Nvml nvml;
  gpus.Fail("nvmlDeviceGetPowerUsage 15");
  EXPECT_EQ(nvml.PowerWatts(kSecond).status().message(), "nvmlDeviceGetPowerUsage: GPU is lost");
  gpus.Fail("");
  EXPECT_TRUE(nvml.PowerWatts(kSecond).ok());
  Nvml unstarted;
  gpus.Fail("nvmlInit_v2 9");
  EXPECT_EQ(unstarted.Memory(kSecond).status().message(), "nvmlInit: Unknown Error");
  gpus.Fail("");
  EXPECT_EQ(unstarted.Utilization(kSecond).status().message(), "nvmlInit: Unknown Error");
}

}  // namespace
}  // namespace braid
