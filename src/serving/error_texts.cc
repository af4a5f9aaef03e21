#include "serving/error_texts.h"

#include <algorithm>

#include "base/machine_paths.h"

namespace braid {

void ErrorTexts::AddRoot(const std::string& folder) {
  MutexLock lock(mutex_);
  if (std::find(roots_.begin(), roots_.end(), folder) == roots_.end()) roots_.push_back(folder);
}

std::string ErrorTexts::ForClients(std::string_view text) const {
  if (verbose_) return std::string(text);
  MutexLock lock(mutex_);
  return WithoutMachinePaths(text, roots_);
}

}  // namespace braid
