#include "backends/python/environment_store.h"

#include <archive.h>
#include <archive_entry.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "config/testing/scratch_folder.h"

namespace braid {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Environments are made without starting their interpreter: the first worker starts it.
class EnvironmentStoreTest : public ::testing::Test {
 protected:
  EnvironmentStoreTest() {
    fs::create_directory(temporary_);
    fs::create_directory(scratch_ / "braid-env-of-others");
    scratch_.Write("tmp/braid-env-dead/file", "x");
    scratch_.Write("env/bin/activate", "");
    scratch_.Write("env/bin/python3", "#!/bin/sh\n");
    fs::permissions(scratch_ / "env/bin/python3", fs::perms::owner_all);
    EnvironmentStore::Options options;
    options.temporary_directory = temporary_;
    options.max_bytes = 1000;
    options.max_bytes_option = "--max";
    store_ = std::make_unique<EnvironmentStore>(options, *support_);
  }

  // Packs without a tar process: the reaper would take its exit status away.
  std::string Pack() const {
    const std::string packed = scratch_ / "env.tar.gz";
    const fs::path folder = scratch_ / "env";
    archive* writer = archive_write_new();
    archive_write_add_filter_gzip(writer);
    archive_write_set_format_gnutar(writer);
    EXPECT_EQ(archive_write_open_filename(writer, packed.c_str()), ARCHIVE_OK);
    for (const auto& file : fs::recursive_directory_iterator(folder)) {
      if (!file.is_regular_file()) continue;
      std::ifstream stream(file.path(), std::ios::binary);
      const std::string data{std::istreambuf_iterator<char>(stream), {}};
      archive_entry* entry = archive_entry_new();
      archive_entry_set_pathname(entry, fs::relative(file.path(), folder).c_str());
      archive_entry_set_filetype(entry, AE_IFREG);
      archive_entry_set_perm(entry, 0755);
      archive_entry_set_size(entry, static_cast<int64_t>(data.size()));
      EXPECT_EQ(archive_write_header(writer, entry), ARCHIVE_OK);
      archive_write_data(writer, data.data(), data.size());
      archive_entry_free(entry);
    }
    archive_write_close(writer);
    archive_write_free(writer);
    return packed;
  }
  Result<std::shared_ptr<PythonEnvironment>> Get(const std::string& path) {
    return store_->Get(path, [](const std::string&) {});
  }
  ptrdiff_t Unpacked() const { return std::distance(fs::directory_iterator(temporary_), {}); }

  testing::ScratchFolder scratch_;
  const std::string temporary_ = scratch_ / "tmp";
  Logger log_;
  std::shared_ptr<WorkerSupport> support_ = WorkerSupport::Create(log_).value();
  std::unique_ptr<EnvironmentStore> store_;
};

TEST_F(EnvironmentStoreTest, RemovesAtItsStartWhatKilledServersLeft) { EXPECT_EQ(Unpacked(), 0); }

TEST_F(EnvironmentStoreTest, SharesAFolderUntilItChanges) {
  auto first = Get(scratch_ / "env");
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ(*Get(scratch_ / "env"), *first);
  scratch_.Write("env/lib/python3.11/site-packages/new.py", "");
  auto changed = Get(scratch_ / "env");
  ASSERT_TRUE(changed.ok());
  EXPECT_NE(*changed, *first);
  EXPECT_EQ(*Get(scratch_ / "env"), *changed);
}

TEST_F(EnvironmentStoreTest, UnpacksAnArchiveOnceAndRemovesItWithItsLastUser) {
  const std::string archive = Pack();
  auto first = Get(archive);
  ASSERT_TRUE(first.ok()) << first.status().message();
  fs::create_symlink(archive, scratch_ / "link");
  auto second = Get(scratch_ / "link");
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(Unpacked(), 1);
  fs::last_write_time(archive, fs::last_write_time(archive) - std::chrono::seconds(5));
  auto third = Get(archive);
  ASSERT_TRUE(third.ok());
  EXPECT_NE(*third, *first);
  EXPECT_EQ(Unpacked(), 2);
  first->reset();
  EXPECT_EQ(Unpacked(), 2);
  second->reset();
  EXPECT_EQ(Unpacked(), 1);
  third->reset();
  EXPECT_EQ(Unpacked(), 0);
}

TEST_F(EnvironmentStoreTest, NothingIsLeftOfWhatFails) {
  EXPECT_THAT(Get(scratch_ / "none").status().message(), HasSubstr("No such file or directory"));
  EXPECT_THAT(Get("/dev/null").status().message(), HasSubstr("neither a folder nor an archive"));
  scratch_.Write("env/big", std::string(2000, 'x'));
  EXPECT_THAT(Get(Pack()).status().message(), HasSubstr("--max sets the limit"));
  scratch_.Remove("env/big");
  scratch_.Remove("env/bin/activate");
  EXPECT_THAT(Get(Pack()).status().message(), HasSubstr("'activate' script. (unpacked from '"));
  EXPECT_EQ(Unpacked(), 0);
}

TEST_F(EnvironmentStoreTest, UnpacksNothingMoreWhenTheServerStops) {
  const std::string archive = Pack();
  store_->BeginShutdown();
  EXPECT_EQ(Get(archive).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(Unpacked(), 0);
}

}  // namespace
}  // namespace braid
