// Imports a Python model in a separate process, as a worker would, without a server behind it.
//
// The process has no network if the system allows that, no core file, a limit on memory and on file size, and
// a time limit. It and all its descendants have ended when ImportModel() returns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace braid::check {

struct ImportOptions {
  bool enabled = false;
  // The default interpreter, for models without their own environment, and the folder of the workers' files.
  std::string python;
  std::string worker_directory;
  int64_t timeout_seconds = 60;
  // Limit on the memory of one process; 0: no limit.
  uint64_t memory_bytes = uint64_t{16} << 30;
};

// A line of a Python file.
struct CodePlace {
  std::string file;
  int line = 0;
};

struct ImportRequest {
  // "TritonPythonModel" or "OvmsPythonModel".
  std::string class_name;
  std::string file;
  std::string module_name;
  std::string version_path;
  // The configuration that a Triton model is asked to complete; empty: it is not asked.
  std::string config_json;
  // The folder of the model's environment; empty: none.
  std::string environment;
  // Of a Triton model. `keeps_sequences`: the server would save its sequences, so save_sequence and
  // load_sequence are checked if it has them.
  bool keeps_sequences = false;
  bool decoupled = false;
};

struct Imported {
  // OK: the class exists and has `execute`. Otherwise the reason; `place` is then the traceback's innermost
  // line in the user's own files.
  Status status;
  std::optional<CodePlace> place;
  // The model calls the server during its import, for a metric say, so the check stopped there.
  bool asks_server = false;
  // The completed configuration as JSON; empty if the model completed none.
  std::string completed_config;
};

// Imports a model. Blocks until the process has ended. Faults of the model are in Imported::status.
Imported ImportModel(const ImportOptions& options, const ImportRequest& request);

}  // namespace braid::check
