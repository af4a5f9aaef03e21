#include "config/folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <set>
#include <string>

#include "config/servable_info.h"
#include "config/testing/scratch_folder.h"

namespace braid {
namespace {

using testing::ScratchFolder;

TEST(Folder, ReadsFilesAndFoldersBeneath) {
  ScratchFolder scratch;
  scratch.Write("a/b/file", "text");
  auto folder = Folder::Open(scratch.path());
  ASSERT_TRUE(folder.ok());
  EXPECT_EQ(*folder->ReadFile("a/b/file", 4), "text");
  EXPECT_TRUE(folder->HasFile("a/b/file"));
  EXPECT_FALSE(folder->HasFile("a/b"));
  auto inner = folder->OpenFolder("a");
  ASSERT_TRUE(inner.ok());
  EXPECT_EQ(*inner->ReadFile("b/file", 100), "text");
  EXPECT_EQ(inner->path(), scratch / "a");
}

TEST(Folder, FollowsLinksAndNoPathsThatLeave) {
  ScratchFolder scratch;
  scratch.Write("secret", "s");
  scratch.Write("in/file", "f");
  ::symlink("../secret", (scratch / "in/link").c_str());
  ::symlink((scratch / "in/file").c_str(), (scratch / "in/absolute").c_str());
  ::symlink("file", (scratch / "in/inner").c_str());
  ::symlink("..", (scratch / "in/up").c_str());
  auto folder = Folder::Open(scratch / "in");
  ASSERT_TRUE(folder.ok());
  ::symlink("none", (scratch / "in/zero").c_str());
  ::symlink("loop", (scratch / "in/loop").c_str());
  for (const char* path : {"../secret", "up/../secret", "in/../../secret", "/etc/passwd"}) {
    EXPECT_FALSE(folder->ReadFile(path, 100).ok()) << path;
  }
  for (const char* path : {"link", "absolute", "inner", "up/secret"}) {
    EXPECT_TRUE(folder->ReadFile(path, 100).ok()) << path;
  }
  EXPECT_TRUE(folder->OpenFolder("up").ok());
  EXPECT_EQ(folder->ReadFile("zero", 100).status(),
            InternalError("failed to open " + (scratch / "in/zero") + ": it is a dangling symbolic link"));
  auto entries = folder->List(10);
  ASSERT_TRUE(entries.ok());
  std::map<std::string, Folder::Kind> kinds;
  std::set<std::string> faults;
  for (const auto& entry : *entries) {
    kinds[entry.name] = entry.kind;
    if (!entry.fault.ok()) faults.insert(entry.name);
  }
  using Kind = Folder::Kind;
  EXPECT_EQ(kinds, (std::map<std::string, Kind>{{"absolute", Kind::kFile},
                                                {"file", Kind::kFile},
                                                {"inner", Kind::kFile},
                                                {"link", Kind::kFile},
                                                {"loop", Kind::kOther},
                                                {"up", Kind::kFolder},
                                                {"zero", Kind::kOther}}));
  EXPECT_EQ(faults, (std::set<std::string>{"loop", "zero"}));
}

TEST(Folder, RefusesPipesLargeFilesAndLongLists) {
  ScratchFolder scratch;
  scratch.Write("five", "12345");
  ::mkfifo((scratch / "pipe").c_str(), 0600);
  auto folder = Folder::Open(scratch.path());
  ASSERT_TRUE(folder.ok());
  EXPECT_FALSE(folder->ReadFile("five", 4).ok());
  EXPECT_FALSE(folder->ReadFile("pipe", 4).ok());
  EXPECT_FALSE(folder->List(1).ok());
  EXPECT_EQ(folder->ReadFile("none", 4).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(folder->ReadFile(std::string(100000, 'a'), 4).status().code(), StatusCode::kNotFound);
}

TEST(Folder, CreatesFilesAndOverwritesNothing) {
  ScratchFolder scratch;
  auto folder = Folder::Open(scratch.path());
  ASSERT_TRUE(folder.ok());
  EXPECT_TRUE(folder->CreateFile("m/1/model.py", "x").ok());
  EXPECT_TRUE(folder->CreateFile("m/1/data", "y").ok());
  EXPECT_FALSE(folder->CreateFile("m/1/model.py", "z").ok());
  EXPECT_FALSE(folder->CreateFile("m/1/model.py/below", "z").ok());
  EXPECT_EQ(*folder->ReadFile("m/1/model.py", 10), "x");
  ::symlink("/tmp", (scratch / "out").c_str());
  EXPECT_FALSE(folder->CreateFile("out/braid-escape", "z").ok());
}

TEST(IsPlainRelativePath, AcceptsNamesAlone) {
  for (std::string_view path : {"a", "1/model.py", "a b/c-d_e"})
    EXPECT_TRUE(IsPlainRelativePath(path)) << path;
  for (std::string_view path : {"", "/a", "a/", "a//b", "..", "a/../b", "./a", "a\\b", "a\nb"}) {
    EXPECT_FALSE(IsPlainRelativePath(path)) << path;
  }
  EXPECT_FALSE(IsPlainRelativePath(std::string(256, 'a')));
  EXPECT_FALSE(IsPlainRelativePath(std::string_view("a\0b", 3)));
}

class MakeServableInfoTest : public ::testing::Test {
 protected:
  MakeServableInfoTest() {
    config_.set_name("m");
    config_.set_backend("python");
    auto& input = *config_.add_input();
    input.set_name("IN");
    input.set_data_type(inference::TYPE_STRING);
    input.add_dims(3);
    input.set_optional(true);
    auto& output = *config_.add_output();
    output.set_name("OUT");
    output.set_data_type(inference::TYPE_FP32);
    output.add_dims(-1);
    auto& group = *config_.add_instance_group();
    group.set_name("m");
    group.set_count(3);
    (*config_.mutable_metric_tags())["team"] = "a";
  }
  Result<ServableInfo> Make() {
    auto folder = Folder::Open(scratch_.path());
    return MakeServableInfo(std::make_shared<inference::ModelConfig>(config_), 7, *folder);
  }

  ScratchFolder scratch_;
  inference::ModelConfig config_;
};

TEST_F(MakeServableInfoTest, PutsTheBatchDimensionInFront) {
  config_.set_max_batch_size(4);
  auto info = Make();
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->version, 7);
  EXPECT_EQ(info->platform, "python");
  EXPECT_EQ(info->instance_count, 3);
  ASSERT_NE(info->FindInput("IN"), nullptr);
  EXPECT_EQ(ShapeToString(info->FindInput("IN")->shape), "[-1,3]");
  EXPECT_EQ(info->FindInput("IN")->type, DataType::kBytes);
  EXPECT_TRUE(info->FindInput("IN")->optional);
  EXPECT_EQ(ShapeToString(info->FindOutput("OUT")->shape), "[-1,-1]");
  EXPECT_EQ(info->metric_tags.size(), 1u);
}

TEST_F(MakeServableInfoTest, ReadsLabels) {
  scratch_.Write("labels.txt", "cat\r\ndog\n\nbird");
  config_.mutable_output(0)->set_label_filename("labels.txt");
  auto info = Make();
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(ShapeToString(info->FindInput("IN")->shape), "[3]");
  EXPECT_EQ(info->FindOutput("OUT")->labels, (std::vector<std::string>{"cat", "dog", "", "bird"}));
}

TEST_F(MakeServableInfoTest, RefusesLabelFilesThatAreMissingOrElsewhere) {
  config_.mutable_output(0)->set_label_filename("none.txt");
  EXPECT_EQ(Make().status().message(),
            "failed to open text file for read " + (scratch_ / "none.txt") + ": No such file or directory");
  config_.mutable_output(0)->set_label_filename("../labels.txt");
  EXPECT_FALSE(Make().ok());
  config_.mutable_output(0)->set_label_filename("/etc/passwd");
  EXPECT_FALSE(Make().ok());
}

}  // namespace
}  // namespace braid
