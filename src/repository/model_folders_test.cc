#include "repository/model_folders.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <string>
#include <vector>

#include <filesystem>

#include "config/testing/scratch_folder.h"
#include "repository/version_policy.h"

namespace braid {
namespace {

using testing::ScratchFolder;

TEST(ParseVersion, TakesPlainPositiveNumbers) {
  EXPECT_EQ(ParseVersion("1"), 1);
  EXPECT_EQ(ParseVersion("9223372036854775807"), std::numeric_limits<int64_t>::max());
  for (const char* name : {"", "0", "01", "-1", "+1", "1a", "a", " 1", "9223372036854775808"}) {
    EXPECT_EQ(ParseVersion(name), std::nullopt) << name;
  }
}

TEST(ChooseVersions, FollowsThePolicy) {
  const std::vector<int64_t> available = {1, 3, 5};
  inference::ModelVersionPolicy policy;
  EXPECT_EQ(ChooseVersions(policy, available), std::vector<int64_t>({5}));
  policy.mutable_latest()->set_num_versions(2);
  EXPECT_EQ(ChooseVersions(policy, available), std::vector<int64_t>({3, 5}));
  policy.mutable_latest()->set_num_versions(4000000000u);
  EXPECT_EQ(ChooseVersions(policy, available), available);
  policy.mutable_latest()->set_num_versions(0);
  EXPECT_TRUE(ChooseVersions(policy, available).empty());
  policy.mutable_all();
  EXPECT_EQ(ChooseVersions(policy, available), available);
  for (int64_t version : {5, 1, 9, 1}) policy.mutable_specific()->add_versions(version);
  EXPECT_EQ(ChooseVersions(policy, available), std::vector<int64_t>({1, 5}));
}

TEST(FingerprintOf, TellsWhichPartChanged) {
  ScratchFolder scratch;
  scratch.Write("config.pbtxt", "a");
  scratch.Write("labels.txt", "a");
  scratch.Write("1/model.py", "a");
  scratch.Write("2/deep/er/file", "a");
  auto folder = Folder::Open(scratch.path());
  ASSERT_TRUE(folder.ok());
  const Fingerprint first = FingerprintOf(*folder);
  EXPECT_EQ(first.versions.size(), 2u);

  scratch.Write("1/__pycache__/x.pyc", "a");
  scratch.Write("1/.hidden", "a");
  EXPECT_EQ(FingerprintOf(*folder).whole, first.whole);

  scratch.Write("2/deep/er/file", "ab");
  const Fingerprint second = FingerprintOf(*folder);
  EXPECT_NE(second.whole, first.whole);
  EXPECT_EQ(second.common, first.common);
  EXPECT_EQ(second.versions.at(1), first.versions.at(1));
  EXPECT_NE(second.versions.at(2), first.versions.at(2));

  scratch.Write("config.pbtxt", "ab");
  const Fingerprint third = FingerprintOf(*folder);
  EXPECT_NE(third.whole, second.whole);
  EXPECT_EQ(third.common, second.common);

  scratch.Write("labels.txt", "ab");
  EXPECT_NE(FingerprintOf(*folder).common, third.common);
}

TEST(FingerprintOf, CountsOnlyFilesWithTheSuffix) {
  ScratchFolder scratch;
  scratch.Write("a/handler.py", "a");
  auto folder = Folder::Open(scratch.path());
  ASSERT_TRUE(folder.ok());
  const uint64_t first = FingerprintOf(*folder, ".py").whole;
  scratch.Write("a/labels.txt", "a");
  EXPECT_EQ(FingerprintOf(*folder, ".py").whole, first);
  scratch.Write("a/handler.py", "ab");
  EXPECT_NE(FingerprintOf(*folder, ".py").whole, first);
}

TEST(IsIgnored, KnowsWhatPythonAndEditorsWrite) {
  for (const char* name : {".model.py.swp", ".git", "__pycache__", "model.pyc", "model.py~", "#model.py#",
                           ".#model.py", "model.py.swp", "model.py___jb_tmp___", "model.py___jb_old___"}) {
    EXPECT_TRUE(IsIgnored(name)) << name;
  }
  for (const char* name : {"model.py", "config.pbtxt", "1", "weights.bin", "#", "model.py.new", "pycache"}) {
    EXPECT_FALSE(IsIgnored(name)) << name;
  }
}

TEST(ListVersions, IgnoresOtherNames) {
  ScratchFolder scratch;
  for (const char* file : {"1/x", "10/x", "2/x", "007/x", "0/x", "v3/x", "abc/x", "3"}) {
    scratch.Write(file, "");
  }
  ::symlink("10", (scratch / "11").c_str());
  ::symlink("none", (scratch / "12").c_str());
  auto folder = Folder::Open(scratch.path());
  std::map<std::string, std::string> ignored;
  EXPECT_EQ(*ListVersions(*folder, ignored), std::vector<int64_t>({1, 2, 10, 11}));
  const std::string number = "versions are integers from 1, without leading zeros";
  EXPECT_EQ(ignored, (std::map<std::string, std::string>{
                         {"0", number},
                         {"007", number},
                         {"12", "failed to open " + (scratch / "12") + ": it is a dangling symbolic link"},
                         {"v3", number}}));
}

TEST(ModelFolders, SaysWhatIsNoRepository) {
  ScratchFolder scratch;
  scratch.Write("m/config.pbtxt", "");
  scratch.Write("m/1/model.py", "");
  scratch.Write("plain/1/model.onnx", "");
  scratch.Write("ovms/model/1/model.xml", "");
  scratch.Write("ovms/config.json", "{}");
  scratch.Write("empty/.hidden/x", "");
  const auto misgivings = [&](const std::string& folder) {
    const auto found = ModelFolders({scratch / folder}).Misgivings();
    return found.empty() ? std::string() : found.front();
  };
  EXPECT_EQ(misgivings(""), "");
  for (const char* model : {"m", "plain"}) {
    EXPECT_EQ(
        misgivings(model),
        "'" + (scratch / model) +
            "' looks like the folder of a model; serve the model repository that contains it: braid serve " +
            scratch.path());
  }
  EXPECT_EQ(misgivings("ovms"), "'" + (scratch / "ovms") +
                                    "' has a config.json, which a model repository does not use; to serve "
                                    "it: braid serve --config_path " +
                                    (scratch / "ovms/config.json"));
  EXPECT_EQ(misgivings("empty"), "'" + (scratch / "empty") +
                                     "' has no model folder; expected MODEL/config.pbtxt and MODEL/1/ in it");
}

}  // namespace
}  // namespace braid
