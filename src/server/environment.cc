#include "server/environment.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace braid {
namespace {

// Returns "" if the variable is not set.
std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Environment ReadEnvironment() {
  Environment environment;
  environment.path = Variable("PATH");
  environment.virtual_env = Variable("VIRTUAL_ENV");
  if (const std::string folder = Variable("TMPDIR"); !folder.empty()) {
    std::error_code fault;
    environment.temporary_directory = std::filesystem::absolute(folder, fault).string();
  }
  environment.graph_queues = Variable("OVMS_GRAPH_QUEUE_OFF") != "1";
  return environment;
}

}  // namespace braid
