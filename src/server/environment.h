// What the environment of the process says, read once.
#pragma once

#include <string>

namespace braid {

struct Environment {
  std::string path;                          // PATH
  std::string virtual_env;                   // VIRTUAL_ENV
  std::string temporary_directory = "/tmp";  // TMPDIR, made absolute
  bool graph_queues = true;                  // unless OVMS_GRAPH_QUEUE_OFF=1
};

// Before any thread is started.
Environment ReadEnvironment();

}  // namespace braid
