// Fuzzes the file in which sequences outlast the server. The checksum is corrected, since the reader would
// otherwise refuse every input.
#include "sequences/sequence_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <xxhash.h>

#include <filesystem>

#include "base/check.h"
#include "base/temporary_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace braid;
  static const auto place = *TemporaryFolder::Create(std::filesystem::temp_directory_path(), "braid-fuzz-");
  static const UniqueFd folder(::open(place->path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  XXH128_canonical_t checksum;
  XXH128_canonicalFromHash(&checksum, XXH3_128bits(data, size));
  const UniqueFd file(::openat(folder.get(), "one", O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600));
  BRAID_CHECK(::write(file.get(), data, size) == static_cast<ssize_t>(size));
  BRAID_CHECK(::write(file.get(), &checksum, sizeof(checksum)) == ssize_t{sizeof(checksum)});
  (void)ReadSequenceFile(folder, "one");
  return 0;
}
