#include "base/machine_paths.h"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>

namespace braid {
namespace {

// Blanks, quotes and the like delimit paths in texts. Within a known root they may be part of a name.
bool IsPathChar(char c) {
  constexpr std::string_view kOthers = "/._-~%@+#$";
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || static_cast<unsigned char>(c) >= 0x80 ||
         kOthers.find(c) != std::string_view::npos;
}

bool StartsPath(std::string_view text, size_t at) {
  return text[at] == '/' && (at == 0 || !IsPathChar(text[at - 1]));
}

std::string_view WithoutSlashes(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  return path;
}

// Returns the length of the root and the slashes after it if `path` lies in it; 0 otherwise.
size_t LengthOfRoot(std::string_view path, std::string_view root) {
  root = WithoutSlashes(root);
  if (root.empty() || !path.starts_with(root) || path.size() == root.size() || path[root.size()] != '/')
    return 0;
  const size_t end = std::min(path.find_first_not_of('/', root.size()), path.size());
  return end < path.size() && IsPathChar(path[end]) ? end : 0;
}

bool IsOfThisMachine(std::string_view path) {
  const size_t begin = path.find_first_not_of('/');
  if (begin == std::string_view::npos) return false;
  std::string first("/");
  first.append(path.substr(begin, path.find('/', begin) - begin));
  struct stat info {};
  return ::lstat(first.c_str(), &info) == 0;
}

}  // namespace

std::string WithoutMachinePaths(std::string_view text, std::span<const std::string> roots) {
  std::string told;
  told.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    if (!StartsPath(text, at)) {
      told.push_back(text[at++]);
      continue;
    }
    const std::string_view rest = text.substr(at);
    size_t skipped = 0;
    for (const std::string& root : roots) {
      if ((skipped = LengthOfRoot(rest, root)) != 0) break;
    }
    const auto end =
        std::find_if_not(rest.begin() + static_cast<std::ptrdiff_t>(skipped), rest.end(), IsPathChar);
    std::string_view path(rest.begin() + static_cast<std::ptrdiff_t>(skipped), end);
    at += skipped + path.size();
    if (skipped == 0 && IsOfThisMachine(path)) {
      path = WithoutSlashes(path);
      path.remove_prefix(path.rfind('/') + 1);
    }
    told.append(path);
  }
  return told;
}

}  // namespace braid
