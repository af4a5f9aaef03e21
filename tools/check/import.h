// Importing a Python model in a process of its own, as its worker would, without a server behind it.
//
// The process has no network where the system lets it be taken away, no core file, limits for memory and files, and a time
// limit. It ends, with all that it has started, before a function returns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace braid::check {

struct ImportOptions {
  bool enabled = false;
  // The interpreter of models without their own environment, and the folder of the workers' files.
  std::string python;
  std::string worker_directory;
  int64_t timeout_seconds = 60;
  // Of the memory that a process may have; 0: no limit.
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
  // Of a Triton model: it is asked to complete it. Empty: it is not asked.
  std::string config_json;
  // The folder of the environment that it names; empty: none.
  std::string environment;
  // Of a Triton model: what it keeps of its sequences is asked for, if it can give that; and whether it is decoupled.
  bool keeps_sequences = false;
  bool decoupled = false;
};

struct Imported {
  // OK: the class is there, with `execute`. Else why not; the traceback's innermost line of the user's own files.
  Status status;
  std::optional<CodePlace> place;
  // Its code asks the server while it is imported (for a metric, say), so that it was not looked at further.
  bool asks_server = false;
  // As JSON, where the model has completed it.
  std::string completed_config;
};

// Blocks until the process has ended. What is wrong with the model is told in Imported::status.
Imported ImportModel(const ImportOptions& options, const ImportRequest& request);

}  // namespace braid::check
