// ErrorTexts: errors as clients are told of them: without the paths of this machine, which the log has,
// unless the operator wants them to be told everything (--verbose-errors).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"

namespace braid {

class ErrorTexts {
 public:
  // Paths within `roots` are named relative to the first that they lie in, others by their last part.
  explicit ErrorTexts(std::vector<std::string> roots = {}, bool verbose = false)
      : verbose_(verbose), roots_(std::move(roots)) {}

  // One more, such as the folder around a model that a configuration names. Any thread.
  void AddRoot(const std::string& folder);

  bool verbose() const { return verbose_; }
  // What of the text clients may see. Any thread.
  std::string ForClients(std::string_view text) const;

 private:
  const bool verbose_;
  mutable Mutex mutex_;
  std::vector<std::string> roots_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
