#include "backends/python/environment_archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "config/testing/scratch_folder.h"

namespace braid {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

struct Entry {
  std::string name;
  std::string data;
  unsigned type = AE_IFREG;
  std::string link;  // target of a symbolic link, or of a hard link when `hard`
  bool hard = false;
  unsigned perm = 0644;
  int64_t size = -1;  // in the header; -1: the size of the data
};

Entry File(std::string name, std::string data, unsigned perm = 0644) {
  return {std::move(name), std::move(data), AE_IFREG, "", false, perm, -1};
}
Entry Folder(std::string name) { return {std::move(name), "", AE_IFDIR, "", false, 0755, -1}; }
Entry Link(std::string name, std::string target) {
  return {std::move(name), "", AE_IFLNK, std::move(target), false, 0777, -1};
}
Entry HardLink(std::string name, std::string target) {
  return {std::move(name), "", AE_IFREG, std::move(target), true, 0644, -1};
}

enum class Packing { kTar, kTarGzip, kTarBzip2, kTarXz, kTarZstd, kZip };

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class EnvironmentArchive : public ::testing::Test {
 protected:
  EnvironmentArchive() { fs::create_directory(target_); }

  void Pack(const std::vector<Entry>& entries, Packing packing = Packing::kTar) const {
    archive* a = archive_write_new();
    if (packing == Packing::kTarGzip) archive_write_add_filter_gzip(a);
    if (packing == Packing::kTarBzip2) archive_write_add_filter_bzip2(a);
    if (packing == Packing::kTarXz) archive_write_add_filter_xz(a);
    if (packing == Packing::kTarZstd) archive_write_add_filter_zstd(a);
    if (packing == Packing::kZip) {
      archive_write_set_format_zip(a);
    } else {
      archive_write_set_format_gnutar(a);
    }
    ASSERT_EQ(archive_write_open_filename(a, packed_.c_str()), ARCHIVE_OK) << archive_error_string(a);
    for (const Entry& entry : entries) {
      archive_entry* e = archive_entry_new();
      archive_entry_set_pathname(e, entry.name.c_str());
      archive_entry_set_filetype(e, entry.type);
      archive_entry_set_perm(e, entry.perm);
      archive_entry_set_mtime(e, 1'600'000'000, 0);
      archive_entry_set_size(e, entry.size >= 0 ? entry.size : static_cast<int64_t>(entry.data.size()));
      if (entry.hard) archive_entry_set_hardlink(e, entry.link.c_str());
      if (entry.type == AE_IFLNK) archive_entry_set_symlink(e, entry.link.c_str());
      ASSERT_EQ(archive_write_header(a, e), ARCHIVE_OK) << archive_error_string(a);
      if (!entry.data.empty()) archive_write_data(a, entry.data.data(), entry.data.size());
      archive_entry_free(e);
    }
    archive_write_close(a);
    archive_write_free(a);
  }

  Result<UnpackProgress> Unpack(const UnpackLimits& limits = {}) const {
    const UniqueFd file(::open(packed_.c_str(), O_RDONLY | O_CLOEXEC));
    return UnpackArchive(file.get(), target_, limits, [](const UnpackProgress&) { return OkStatus(); });
  }

  std::string Refusal(const std::vector<Entry>& entries, const UnpackLimits& limits = {}) const {
    Pack(entries);
    auto done = Unpack(limits);
    return done.ok() ? "no error" : done.status().message();
  }

  testing::ScratchFolder scratch_;
  const std::string packed_ = scratch_ / "packed";
  const std::string target_ = scratch_ / "target";
};

TEST_F(EnvironmentArchive, UnpacksEveryKind) {
  for (Packing packing : {Packing::kTar, Packing::kTarGzip, Packing::kTarBzip2, Packing::kTarXz,
                          Packing::kTarZstd, Packing::kZip}) {
    fs::remove_all(target_);
    fs::create_directory(target_);
    const std::string big(300'000, 'b');
    Pack({File("bin/activate", "#"), File("./bin/tool", big, 0755), Link("bin/python", "/usr/bin/python3"),
          Folder("empty/"), File("n\xc3\xa4me", "x")},
         packing);
    auto done = Unpack();
    ASSERT_TRUE(done.ok()) << done.status().message() << static_cast<int>(packing);
    EXPECT_EQ(Read(target_ + "/bin/activate"), "#");
    EXPECT_EQ(Read(target_ + "/bin/tool"), big);
    EXPECT_EQ(Read(target_ + "/n\xc3\xa4me"), "x");
    EXPECT_EQ(fs::read_symlink(target_ + "/bin/python"), "/usr/bin/python3");
    EXPECT_TRUE(fs::is_directory(target_ + "/empty"));
    struct stat info = {};
    ASSERT_EQ(::stat((target_ + "/bin/tool").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0755u);
    EXPECT_EQ(info.st_mtim.tv_sec, 1'600'000'000);
    EXPECT_EQ(done->bytes, big.size() + 2);
    EXPECT_EQ(done->entries, 6u);  // bin too
    EXPECT_GT(done->archive_bytes, 0u);
  }
}

TEST_F(EnvironmentArchive, NamesStayInTheFolder) {
  const std::string outside = scratch_ / "outside";
  for (const char* name : {"../outside", "a/../../outside", "a/..", ".."}) {
    EXPECT_THAT(Refusal({File(name, "x")}),
                HasSubstr("entry '" + std::string(name) + "': its name contains '..'"));
  }
  EXPECT_THAT(Refusal({File(outside, "x")}), HasSubstr("its name is an absolute path"));
  EXPECT_THAT(Refusal({Folder("../outside")}), HasSubstr("its name contains '..'"));
  EXPECT_THAT(Refusal({Link("../outside", "x")}), HasSubstr("its name contains '..'"));
  EXPECT_FALSE(fs::exists(fs::symlink_status(outside)));
}

TEST_F(EnvironmentArchive, NothingIsWrittenThroughLinks) {
  scratch_.Write("outside/file", "mine");
  const std::string outside = scratch_ / "outside";
  EXPECT_THAT(Refusal({Link("a", outside), File("a/new", "x")}),
              HasSubstr("entry 'a/new': its parent 'a' is a symbolic link or a file"));
  EXPECT_THAT(Refusal({Link("b", outside), Folder("b/new")}), HasSubstr("symbolic link"));
  EXPECT_THAT(Refusal({Link("c", outside), Folder("c")}), HasSubstr("symbolic link"));
  EXPECT_THAT(Refusal({Folder("d"), Link("d", outside)}), HasSubstr("cannot replace the existing entry"));
  // A later file of the same name replaces a link.
  Pack({Link("e", outside + "/file"), File("e", "theirs")});
  EXPECT_TRUE(Unpack().ok());
  EXPECT_EQ(Read(target_ + "/e"), "theirs");
  EXPECT_FALSE(fs::is_symlink(target_ + "/e"));
  EXPECT_EQ(Read(outside + "/file"), "mine");
  EXPECT_EQ(std::distance(fs::directory_iterator(outside), {}), 1);
}

TEST_F(EnvironmentArchive, HardLinksStayInTheFolder) {
  scratch_.Write("outside", "mine");
  EXPECT_THAT(Refusal({HardLink("a", "../outside")}), HasSubstr("outside the archive"));
  EXPECT_THAT(Refusal({HardLink("a", scratch_ / "outside")}), HasSubstr("outside the archive"));
  EXPECT_THAT(Refusal({Link("l", scratch_.path()), HardLink("a", "l/outside")}),
              HasSubstr("not an earlier file of the archive"));
  EXPECT_THAT(Refusal({HardLink("a", "later")}), HasSubstr("not an earlier file of the archive"));
  Pack({File("one", "1"), HardLink("two", "one"), File("deep/x", "x"), HardLink("three", "./one"),
        File("two", "2")});
  auto done = Unpack();
  ASSERT_TRUE(done.ok()) << done.status().message();
  EXPECT_EQ(Read(target_ + "/one"), "1");
  EXPECT_EQ(Read(target_ + "/two"), "2");
  EXPECT_EQ(Read(target_ + "/three"), "1");
  EXPECT_EQ(Read(scratch_ / "outside"), "mine");
}

TEST_F(EnvironmentArchive, DevicesAreRefusedAndSpecialBitsDropped) {
  for (unsigned type : {AE_IFIFO, AE_IFCHR, AE_IFBLK}) {
    EXPECT_THAT(Refusal({{"dev", "", type, "", false, 0666, 0}}),
                HasSubstr("entry 'dev': it is not a file, folder or link"));
  }
  Pack({File("tool", "x", 06777), File("secret", "x", 0)});
  ASSERT_TRUE(Unpack().ok());
  EXPECT_EQ(fs::status(target_ + "/tool").permissions(), static_cast<fs::perms>(0755));
  EXPECT_EQ(fs::status(target_ + "/secret").permissions(), static_cast<fs::perms>(0600));
}

TEST_F(EnvironmentArchive, IsBounded) {
  const UnpackLimits bytes{.max_bytes = 1000, .max_bytes_option = "--max"};
  const std::string too_big = "the files in the archive exceed 1000 bytes; --max sets the limit";
  EXPECT_THAT(Refusal({File("a", std::string(1001, 'x'))}, bytes), HasSubstr(too_big));
  EXPECT_THAT(Refusal({File("a", std::string(600, 'x')), File("b", std::string(600, 'x'))}, bytes),
              HasSubstr("entry 'b': " + too_big));
  EXPECT_EQ(Refusal({File("a", std::string(600, 'x')), File("b", std::string(400, 'x'))}, bytes), "no error");
  const UnpackLimits entries{.max_entries = 3};
  EXPECT_THAT(Refusal({File("x/y/a", ""), File("b", "")}, entries), HasSubstr("more than 3 entries"));
  EXPECT_THAT(Refusal({File("v/w/x/y", "")}, entries), HasSubstr("more than 3 entries"));
}

TEST_F(EnvironmentArchive, BrokenArchivesAreErrors) {
  scratch_.Write("packed", "this is no archive, but it is a text of some length");
  EXPECT_FALSE(Unpack().ok());
  Pack({File("a", std::string(100'000, 'x')), File("b", std::string(100'000, 'y'))}, Packing::kTarGzip);
  fs::resize_file(packed_, fs::file_size(packed_) / 2);
  EXPECT_THAT(Unpack().status().message(), HasSubstr("truncated"));
}

TEST_F(EnvironmentArchive, AReportCanGiveUp) {
  std::vector<Entry> entries;
  for (int i = 0; i < 1000; ++i) entries.push_back(File("file" + std::to_string(i), "x"));
  Pack(entries);
  const UniqueFd file(::open(packed_.c_str(), O_RDONLY | O_CLOEXEC));
  auto done = UnpackArchive(file.get(), target_, {}, [](const UnpackProgress& so_far) -> Status {
    EXPECT_GE(so_far.entries, 1u);
    return UnavailableError("stop");
  });
  EXPECT_EQ(done.status().message(), "stop");
  EXPECT_LT(std::distance(fs::directory_iterator(target_), {}), 1000);
}

}  // namespace
}  // namespace braid
