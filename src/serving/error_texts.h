// ErrorTexts: turns errors into the texts that clients get. They omit paths of this machine, which only the
// log has, unless the operator passes --verbose-errors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"

namespace braid {

class ErrorTexts {
 public:
  // Shows a path inside one of `roots` relative to the first root that contains it. Other paths lose their
  // folders.
  explicit ErrorTexts(std::vector<std::string> roots = {}, bool verbose = false)
      : verbose_(verbose), roots_(std::move(roots)) {}

  // Adds a root, such as the folder around a model that a configuration names. Any thread.
  void AddRoot(const std::string& folder);

  bool verbose() const { return verbose_; }
  // Returns the text without paths that clients must not see. Any thread.
  std::string ForClients(std::string_view text) const;

 private:
  const bool verbose_;
  mutable Mutex mutex_;
  std::vector<std::string> roots_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
