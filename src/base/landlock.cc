#include "base/landlock.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/unique_fd.h"

namespace braid {
namespace {

// As in <linux/landlock.h> of the versions that define them; Debian's headers are those of version 2.
struct RulesetAttributes {
  uint64_t handled_access_fs = 0;
  uint64_t handled_access_net = 0;
  uint64_t scoped = 0;
};
constexpr uint64_t kTruncate = 1U << 14;     // version 3
constexpr uint64_t kIoctlDevice = 1U << 15;  // version 5
constexpr uint64_t kScopeAbstractSockets = 1U << 0;
constexpr uint64_t kScopeSignals = 1U << 1;

constexpr uint64_t kReadFile = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE;
constexpr uint64_t kRead = kReadFile | LANDLOCK_ACCESS_FS_READ_DIR;
// All rights of version 1.
constexpr uint64_t kFirstRights = (uint64_t{LANDLOCK_ACCESS_FS_MAKE_SYM} << 1) - 1;

uint64_t AllRights(int version) {
  uint64_t rights = kFirstRights;
  if (version >= 2) rights |= LANDLOCK_ACCESS_FS_REFER;
  if (version >= 3) rights |= kTruncate;
  if (version >= 5) rights |= kIoctlDevice;
  return rights;
}

size_t AttributesSize(int version) {
  if (version < 4) return offsetof(RulesetAttributes, handled_access_net);
  return version < kLandlockForSignals ? offsetof(RulesetAttributes, scoped) : sizeof(RulesetAttributes);
}

Status Allow(int ruleset, const LandlockPath& allowed, uint64_t handled) {
  const UniqueFd file(::open(allowed.path.c_str(), O_PATH | O_CLOEXEC));
  if (!file.valid()) {
    if (errno == ENOENT || errno == ENOTDIR || errno == EACCES) return OkStatus();
    return ErrnoError("cannot open '" + allowed.path + "'", errno);
  }
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return ErrnoError("cannot read '" + allowed.path + "'", errno);
  uint64_t rights = allowed.writable ? handled : kRead & handled;
  if (!S_ISDIR(info.st_mode)) {
    rights &= kReadFile | LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate | kIoctlDevice;
  }
  landlock_path_beneath_attr rule{};
  rule.allowed_access = rights;
  rule.parent_fd = file.get();
  if (::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0)
    return ErrnoError("landlock_add_rule of '" + allowed.path + "'", errno);
  return OkStatus();
}

Status Enter(RulesetAttributes attributes, std::span<const LandlockPath> paths, int version) {
  const UniqueFd ruleset(
      static_cast<int>(::syscall(SYS_landlock_create_ruleset, &attributes, AttributesSize(version), 0)));
  if (!ruleset.valid()) return ErrnoError("landlock_create_ruleset", errno);
  for (const LandlockPath& path : paths) {
    BRAID_RETURN_IF_ERROR(Allow(ruleset.get(), path, attributes.handled_access_fs));
  }
  // The kernel requires this of unprivileged threads.
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (::syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0)
    return ErrnoError("landlock_restrict_self", errno);
  return OkStatus();
}

}  // namespace

int LandlockVersion() {
  const auto version =
      ::syscall(SYS_landlock_create_ruleset, nullptr, size_t{0}, LANDLOCK_CREATE_RULESET_VERSION);
  return version < 0 ? 0 : static_cast<int>(version);
}

Status EnterLandlockDomain() {
  const int version = LandlockVersion();
  if (version < kLandlockForAllFiles)
    return UnavailableError("this kernel does not support Landlock version 2");
  RulesetAttributes attributes;
  if (version >= kLandlockForSignals) {
    attributes.scoped = kScopeSignals | kScopeAbstractSockets;
    return Enter(attributes, {}, version);
  }
  // A domain must restrict something. It restricts moves between folders, which the rule for the root allows
  // again.
  attributes.handled_access_fs = LANDLOCK_ACCESS_FS_REFER;
  const std::array<LandlockPath, 1> root = {{{"/", true}}};
  return Enter(attributes, root, version);
}

Status EnterLandlockDomain(const std::vector<LandlockPath>& paths) {
  const int version = LandlockVersion();
  if (version < 1) return UnavailableError("this kernel does not support Landlock");
  RulesetAttributes attributes;
  attributes.handled_access_fs = AllRights(version);
  if (version >= kLandlockForSignals) attributes.scoped = kScopeSignals | kScopeAbstractSockets;
  return Enter(attributes, paths, version);
}

}  // namespace braid
