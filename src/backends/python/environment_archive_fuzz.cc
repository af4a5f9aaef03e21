// Unpacks arbitrary bytes as a packed Python environment: nothing may be written outside its folder.
#include "backends/python/environment_archive.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>

#include "base/check.h"
#include "base/temporary_folder.h"
#include "base/unique_fd.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace braid;
  static const auto place = *TemporaryFolder::Create(std::filesystem::temp_directory_path(), "braid-fuzz-");
  const std::filesystem::path folder = std::filesystem::path(place->path()) / "into";
  std::filesystem::create_directory(folder);
  const UniqueFd archive(::memfd_create("archive", MFD_CLOEXEC));
  BRAID_CHECK(::write(archive.get(), data, size) == static_cast<ssize_t>(size));
  BRAID_CHECK(::lseek(archive.get(), 0, SEEK_SET) == 0);
  (void)UnpackArchive(archive.get(), folder,
                      {.max_bytes = 1 << 20, .max_bytes_option = {}, .max_entries = 100},
                      [](const UnpackProgress&) { return OkStatus(); });
  size_t entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(place->path()))
    entries += entry.exists() ? 1 : 0;
  BRAID_CHECK(entries == 1);
  // Unpacked folders may not be readable.
  for (auto entry = std::filesystem::recursive_directory_iterator(
           folder, std::filesystem::directory_options::skip_permission_denied);
       entry != std::filesystem::recursive_directory_iterator(); ++entry) {
    if (entry->is_directory() && !entry->is_symlink())
      std::filesystem::permissions(entry->path(), std::filesystem::perms::owner_all);
  }
  std::filesystem::remove_all(folder);
  return 0;
}
