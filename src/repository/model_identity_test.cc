#include "repository/model_identity.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "config/testing/scratch_folder.h"

namespace braid {
namespace {

using testing::ScratchFolder;

class ModelIdentityTest : public ::testing::Test {
 protected:
  ModelIdentityTest() {
    Logger::Options options;
    options.file = logs_ / "log";
    log_ = std::move(*Logger::Create(options));
    model_.Write("model.xml", "net");
    model_.Write("model.bin", "weights");
  }
  std::string Identity(std::string_view states = "states") {
    return IdentityOfModel(model_.path(), states, "'m' version 1", *log_);
  }
  std::string Log() {
    log_->Flush();
    std::ifstream file(logs_ / "log");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  ScratchFolder logs_;
  ScratchFolder model_;
  std::unique_ptr<Logger> log_;
};

TEST_F(ModelIdentityTest, IsThatOfNamesAndBytes) {
  const std::string first = Identity();
  EXPECT_EQ(first.size(), 32u);
  EXPECT_EQ(Identity(), first);
  EXPECT_NE(Identity("other"), first);

  model_.Write("model.bin", "Weights");
  EXPECT_NE(Identity(), first);
  model_.Write("model.bin", "weights");
  EXPECT_EQ(Identity(), first);
  model_.Write("deep/er/file", "x");
  const std::string deep = Identity();
  EXPECT_NE(deep, first);
  model_.Write("deep/er/file", "y");
  EXPECT_NE(Identity(), deep);
  model_.Remove("deep");
  EXPECT_EQ(Identity(), first);
  std::filesystem::rename(model_ / "model.bin", model_ / "model.bim");
  EXPECT_NE(Identity(), first);
}

TEST_F(ModelIdentityTest, AVersionThatIsAFileHasTheFilesOfItsName) {
  const auto identity = [&] {
    return IdentityOfModel(model_ / "model.xml", "states", "'m' version 1", *log_);
  };
  const std::string first = identity();
  EXPECT_EQ(first, Identity());
  model_.Write("other.bin", "weights");
  model_.Write("model/1/model.bin", "weights");
  EXPECT_EQ(identity(), first);
  model_.Write("model.bin", "Weights");
  EXPECT_NE(identity(), first);
}

TEST_F(ModelIdentityTest, BytesDoNotMoveFromOneFileToTheNext) {
  model_.Write("a", "12");
  model_.Write("b", "3");
  const std::string first = Identity();
  model_.Write("a", "1");
  model_.Write("b", "23");
  EXPECT_NE(Identity(), first);
}

TEST_F(ModelIdentityTest, FollowsLinksAndLeavesOutWhatIsNotTheModel) {
  const std::string first = Identity();
  model_.Write("__pycache__/model.pyc", "x");
  model_.Write("model.pyc", "x");
  model_.Write(".swp", "x");
  EXPECT_EQ(Identity(), first);
  logs_.Write("elsewhere", "weights");
  model_.Remove("model.bin");
  std::filesystem::create_symlink(logs_ / "elsewhere", model_ / "model.bin");
  EXPECT_EQ(Identity(), first);
  logs_.Write("elsewhere", "others");
  EXPECT_NE(Identity(), first);
}

TEST_F(ModelIdentityTest, ALinkThatLeadsInACircleEndsInAnError) {
  std::filesystem::create_directory_symlink(model_.path(), model_ / "again");
  EXPECT_EQ(Identity(), "");
  EXPECT_NE(Log().find("'m' version 1: its sequences will not be kept: failed to read"), std::string::npos);
}

TEST_F(ModelIdentityTest, ALinkToNothingIsItsName) {
  const std::string first = Identity();
  std::filesystem::create_symlink("nowhere", model_ / "link");
  EXPECT_NE(Identity(), first);
  EXPECT_EQ(Identity().size(), 32u);
}

TEST_F(ModelIdentityTest, StatesAreDescribedByNameTypeAndShape) {
  StatefulSpec spec;
  spec.states = {{"h", DataType::kFp32, {1, -1}}, {"c", DataType::kFp32, {1, 4}}};
  const std::string first = DescribeStates(spec);
  spec.max_sequences = 3;
  EXPECT_EQ(DescribeStates(spec), first);
  spec.states[0].shape = {1, 8};
  EXPECT_NE(DescribeStates(spec), first);
  spec.states[0] = {"h2", DataType::kFp32, {1, -1}};
  EXPECT_NE(DescribeStates(spec), first);
}

TEST_F(ModelIdentityTest, HowAModelIsScheduledIsNoPartOfIt) {
  inference::ModelConfig config;
  config.set_backend("python");
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    (*config.mutable_parameters())[name].set_string_value("1");
  }
  auto* state = config.mutable_sequence_batching()->add_state();
  state->set_input_name("IN");
  state->add_dims(4);
  const std::string first = DescribeStates(config);
  config.add_instance_group()->set_count(4);
  config.mutable_sequence_batching()->set_max_sequence_idle_microseconds(5);
  config.mutable_sequence_batching()->mutable_oldest();
  EXPECT_EQ(DescribeStates(config), first);
  (*config.mutable_parameters())["a"].set_string_value("2");
  EXPECT_NE(DescribeStates(config), first);
  (*config.mutable_parameters())["a"].set_string_value("1");
  EXPECT_EQ(DescribeStates(config), first);
  config.mutable_sequence_batching()->mutable_state(0)->set_dims(0, 5);
  EXPECT_NE(DescribeStates(config), first);
}

}  // namespace
}  // namespace braid
