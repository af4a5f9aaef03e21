#include "repository/version_policy.h"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace braid {

std::optional<int64_t> ParseVersion(std::string_view folder_name) {
  if (folder_name.empty() || folder_name.front() < '1' || folder_name.front() > '9') return std::nullopt;
  int64_t version = 0;
  const char* end = folder_name.data() + folder_name.size();
  auto [stop, fault] = std::from_chars(folder_name.data(), end, version);
  if (fault != std::errc() || stop != end) return std::nullopt;
  return version;
}

std::vector<int64_t> ChooseVersions(const inference::ModelVersionPolicy& policy,
                                    const std::vector<int64_t>& available) {
  if (policy.has_all()) return available;
  std::vector<int64_t> chosen;
  if (policy.has_specific()) {
    const auto& wanted = policy.specific().versions();
    std::copy_if(available.begin(), available.end(), std::back_inserter(chosen), [&](int64_t version) {
      return std::find(wanted.begin(), wanted.end(), version) != wanted.end();
    });
    return chosen;
  }
  const size_t count = policy.has_latest() ? policy.latest().num_versions() : 1;
  chosen.assign(available.end() - static_cast<std::ptrdiff_t>(std::min(count, available.size())),
                available.end());
  return chosen;
}

}  // namespace braid
