#include "protocols/access/access_files.h"

#include <algorithm>
#include <cerrno>
#include <fstream>

namespace braid {

Result<std::string> ReadAccessFile(std::string_view what, const std::string& path) {
  constexpr size_t kMostBytes = size_t{16} << 20;
  const std::string named = "the " + std::string(what) + " '" + path + "'";
  std::ifstream in(path, std::ios::binary);
  if (!in) return InvalidArgumentError(ErrnoError("cannot open " + named, errno).message());
  std::string text;
  for (char block[4096]; in.read(block, sizeof(block)), in.gcount() > 0;) {
    text.append(block, static_cast<size_t>(in.gcount()));
    if (text.size() > kMostBytes) return InvalidArgumentError(named + " has more than 16 MiB");
  }
  if (!in.eof()) return InvalidArgumentError("cannot read " + named);
  return text;
}

Status ForEachLine(std::string_view text, const std::function<Status(std::string_view line)>& read) {
  constexpr std::string_view kSpace = " \t\r";
  for (size_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line.remove_prefix(std::min(line.find_first_not_of(kSpace), line.size()));
    line = line.substr(0, line.find_last_not_of(kSpace) + 1);
    if (line.empty() || line.starts_with('#')) continue;
    if (Status status = read(line); !status.ok())
      return status.WithPrefix("line " + std::to_string(number) + ": ");
  }
  return OkStatus();
}

}  // namespace braid
