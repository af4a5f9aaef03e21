// TraceFile: writes traces as JSON, in the format of Triton's trace files. A file is an array of objects,
// each with one fact about the trace "id".
//
//   [{"id":1,"model_name":"m","model_version":1,"request_id":"r"},
//    {"id":1,"timestamps":[{"name":"REQUEST_START","ns":12},{"name":"QUEUE_START","ns":15}, ...]},
//    {"id":1,"activity":"TENSOR_QUEUE_INPUT","tensor":{"name":"IN","data":"1,2","shape":"2","dtype":"FP32"}},
//    {"id":2,"parent_id":1, ...
//
// With a log_frequency of N, traces go to {file}.0, {file}.1, ..., N in each. Others go to {file}, which is a
// complete array after each trace.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/unique_fd.h"
#include "tracing/trace_queue.h"

namespace braid {

// Returns the objects of one trace, separated by commas.
std::string TraceAsJson(const FinishedTrace& trace);

class TraceFile final : public TraceOutput {
 public:
  // `log` outlives the object. Opens no file yet.
  TraceFile(std::string path, Logger& log) : path_(std::move(path)), log_(log) {}

  void Write(std::vector<FinishedTrace> traces) override;
  void Flush(uint64_t scope) override;
  void OnDropped(uint64_t count) override;

 private:
  // Traces that wait for an indexed file.
  struct Waiting {
    std::string text;
    uint32_t count = 0;
  };

  void Append(const std::string& text);
  void WriteIndexed(Waiting& waiting);
  void Complain(const std::string& path, int error);

  const std::string path_;
  Logger& log_;
  UniqueFd file_;
  int64_t end_ = 0;  // for file_: the position of its closing bracket
  bool failed_ = false;
  std::map<uint64_t, Waiting> waiting_;  // by scope
  uint64_t next_index_ = 0;
};

}  // namespace braid
