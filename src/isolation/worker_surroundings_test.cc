#include "isolation/worker_surroundings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/temporary_folder.h"

namespace braid {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

bool Has(const std::vector<LandlockPath>& paths, const std::string& path) {
  return std::any_of(paths.begin(), paths.end(),
                     [&](const LandlockPath& one) { return path.starts_with(one.path); });
}

TEST(WorkerSurroundingsTest, ServicesAndHomesAreNotAmongTheSystemsFiles) {
  const auto paths = SystemPaths();
  EXPECT_TRUE(Has(paths, "/usr/lib/x86_64-linux-gnu/libc.so.6"));
  for (const char* path :
       {"/etc/shadow", "/etc/braid/tokens", "/home/user", "/root", "/tmp", "/var/lib", "/dev/mem"})
    EXPECT_FALSE(Has(paths, path)) << path;
}

TEST(WorkerSurroundingsTest, LinksOfAFolderAreAmongItsPaths) {
  const auto folder = TemporaryFolder::Create("/tmp", "braid-test-").value();
  const std::string path = folder->path();
  for (const char* name : {"model", "blobs", "shared"}) fs::create_directory(path + "/" + name);
  fs::create_directory(path + "/model/1");
  std::ofstream(path + "/blobs/a") << "";
  fs::create_symlink("../../blobs/a", path + "/model/1/file");
  fs::create_symlink(path + "/shared", path + "/model/shared");
  fs::create_symlink("../blobs/a", path + "/shared/inner");
  fs::create_symlink(path + "/model", path + "/shared/back");
  std::vector<std::string> names;
  for (const LandlockPath& each : FolderPaths(path + "/model")) {
    EXPECT_FALSE(each.writable);
    names.push_back(each.path.substr(path.size()));
  }
  EXPECT_THAT(names, UnorderedElementsAre("/model", "/model/1/file", "/model/shared", "/model/shared/inner",
                                          "/model/shared/back"));
}

TEST(WorkerSurroundingsTest, GpusAreWhatTheirDriversOpen) {
  const auto folder = TemporaryFolder::Create("/tmp", "braid-test-").value();
  for (const char* name : {"nvidia0", "nvidiactl", "nvidia-uvm", "sda", "mem"})
    std::ofstream(folder->path() + "/" + name) << "";
  for (const char* name : {"dri", "nvidia-caps", "shm"}) fs::create_directory(folder->path() + "/" + name);
  std::vector<std::string> names;
  for (const LandlockPath& path : GpuPaths(folder->path())) {
    EXPECT_TRUE(path.writable);
    names.push_back(fs::path(path.path).filename());
  }
  EXPECT_THAT(names, UnorderedElementsAre("nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-caps", "dri"));
  for (const LandlockPath& path : SystemPaths()) EXPECT_FALSE(path.path.starts_with("/dev/nvidia"));
}

TEST(WorkerSurroundingsTest, AVirtualEnvironmentBringsWhatItWasMadeFrom) {
  const auto folder = TemporaryFolder::Create("/tmp", "braid-test-").value();
  const fs::path base = fs::path(folder->path()) / "base";
  const fs::path environment = fs::path(folder->path()) / "env";
  fs::create_directories(base / "bin");
  fs::create_directories(base / "lib/python3.11");
  fs::create_directories(environment / "bin");
  std::ofstream(base / "bin/python3.11") << "";
  std::ofstream(environment / "pyvenv.cfg") << "";
  fs::create_symlink(base / "bin/python3.11", environment / "bin/python3");
  const auto paths = InterpreterPaths(environment / "bin/python3");
  ASSERT_EQ(paths.size(), 2U);
  EXPECT_EQ(paths[0].path, environment);
  EXPECT_EQ(paths[1].path, base);
  EXPECT_FALSE(paths[0].writable);
}

TEST(WorkerSurroundingsTest, ALinkInAHomeBringsNotTheHome) {
  const auto folder = TemporaryFolder::Create("/tmp", "braid-test-").value();
  fs::create_directories(folder->path() + "/bin");
  fs::create_symlink("/usr/bin/env", folder->path() + "/bin/python3");
  EXPECT_TRUE(InterpreterPaths(folder->path() + "/bin/python3").empty());
}

TEST(WorkerSurroundingsTest, VariablesAreThoseOfTheListAndThoseThatAreNamed) {
  EXPECT_THAT(ShortEnvironment({"PATH=/bin", "AWS_SECRET=1", "LC_ALL=C", "HOME=/root", "OMP_NUM_THREADS=2",
                                "MINE=3", "PATHS=4"},
                               {"MINE"}, "/tmp/own"),
              UnorderedElementsAre("HOME=/tmp/own", "TMPDIR=/tmp/own", "PATH=/bin", "LC_ALL=C",
                                   "OMP_NUM_THREADS=2", "MINE=3"));
}

}  // namespace
}  // namespace braid
