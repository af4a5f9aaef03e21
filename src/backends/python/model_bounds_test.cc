#include "backends/python/model_bounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "model_config.pb.h"

namespace braid {
namespace {

using ::testing::HasSubstr;

inference::ModelConfig With(const std::string& parameter, const std::string& value) {
  inference::ModelConfig config;
  config.set_name("m");
  (*config.mutable_parameters())[parameter].set_string_value(value);
  return config;
}

constexpr ModelBounds kOptions = {
    .execute_timeout_ms = 1, .initialize_timeout_ms = 2, .finalize_timeout_ms = 3, .memory_max_bytes = 4};

ModelBounds Read(const std::string& parameter, const std::string& value) {
  ModelBounds bounds = kOptions;
  EXPECT_TRUE(ReadBounds(With(parameter, value), bounds).ok());
  return bounds;
}

TEST(ModelBounds, AreTheOptionsUnlessTheConfigurationSaysOtherwise) {
  const ModelBounds plain = Read("THRESHOLD", "x");
  EXPECT_EQ(plain.execute_timeout_ms, 1);
  EXPECT_EQ(plain.initialize_timeout_ms, 2);
  EXPECT_EQ(plain.finalize_timeout_ms, 3);
  EXPECT_EQ(plain.memory_max_bytes, 4U);
  EXPECT_EQ(Read("EXECUTE_TIMEOUT_MS", "2500").execute_timeout_ms, 2500);
  EXPECT_EQ(Read("INITIALIZE_TIMEOUT_MS", "2500").initialize_timeout_ms, 2500);
  EXPECT_EQ(Read("FINALIZE_TIMEOUT_MS", "0").finalize_timeout_ms, 0);
  EXPECT_EQ(Read("WORKER_MEMORY_MAX_BYTES", "8000000000").memory_max_bytes, 8'000'000'000U);
}

TEST(ModelBounds, SayWhetherInstancesShare) {
  EXPECT_EQ(Read("THRESHOLD", "x").share_instances, ShareInstances::kOff);
  EXPECT_EQ(Read("SHARE_INSTANCES", "auto").share_instances, ShareInstances::kAuto);
  EXPECT_EQ(Read("SHARE_INSTANCES", "on").share_instances, ShareInstances::kOn);
  ModelBounds bounds{.share_instances = ShareInstances::kOn};
  EXPECT_TRUE(ReadBounds(With("SHARE_INSTANCES", "off"), bounds).ok());
  EXPECT_EQ(bounds.share_instances, ShareInstances::kOff);
  const FieldFault fault = ReadBounds(With("SHARE_INSTANCES", "yes"), bounds);
  EXPECT_EQ(fault.status, InvalidArgumentError(
                              "parameter SHARE_INSTANCES of model 'm' is 'yes'; expected off, auto or on"));
  EXPECT_EQ(fault.field, "parameters[SHARE_INSTANCES].value.string_value");
}

TEST(ModelBounds, RefuseWhatIsNoSuchNumber) {
  ModelBounds bounds = kOptions;
  for (const char* bad : {"", "1s", "-1", "1.5", " 1", "1000000001"}) {
    const FieldFault fault = ReadBounds(With("EXECUTE_TIMEOUT_MS", bad), bounds);
    EXPECT_EQ(fault.status.code(), StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(fault.status.message(), HasSubstr("parameter EXECUTE_TIMEOUT_MS of model 'm' is '"));
    EXPECT_EQ(fault.field, "parameters[EXECUTE_TIMEOUT_MS].value.string_value");
  }
  EXPECT_EQ(bounds.execute_timeout_ms, 1);
  EXPECT_THAT(ReadBounds(With("WORKER_MEMORY_MAX_BYTES", "1G"), bounds).status.message(),
              HasSubstr("is '1G'; expected a whole number from 0 (no limit) to"));
}

}  // namespace
}  // namespace braid
