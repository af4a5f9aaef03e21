// Environment: the variables of the process environment, read once.
#pragma once

#include <string>

namespace braid {

struct Environment {
  std::string path;                          // PATH
  std::string virtual_env;                   // VIRTUAL_ENV
  std::string temporary_directory = "/tmp";  // TMPDIR, made absolute
  bool graph_queues = true;                  // unless OVMS_GRAPH_QUEUE_OFF=1
};

// Reads the environment. REQUIRES: no thread has been started.
Environment ReadEnvironment();

}  // namespace braid
