// OutputPump: copies the output of workers to the server's log, line by line, with the name of the instance.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace braid {

// The output of one worker. Shared by the pump, which fills it, and the instance, which reads it after the
// worker's death.
class WorkerOutput {
 public:
  // Returns the last non-empty line on standard error; waits up to `timeout_ns` until both pipes are drained.
  std::string LastErrorLine(int64_t timeout_ns);

 private:
  friend class OutputPump;
  Mutex mutex_;
  CondVar drained_;
  int open_pipes_ BRAID_GUARDED_BY(mutex_) = 2;  // pipes, of the two, that have not ended
  std::string last_error_ BRAID_GUARDED_BY(mutex_);
};

class OutputPump {
 public:
  static Result<std::unique_ptr<OutputPump>> Create(Logger& log);
  ~OutputPump();

  // Reads both pipes until their writers are gone. Each line in the log begins with `source`. The code that
  // prints belongs to `model`; empty: to no model.
  Result<std::shared_ptr<WorkerOutput>> Add(const std::string& source, UniqueFd standard_output,
                                            UniqueFd standard_error, std::string model = {});

 private:
  struct Pipe {
    UniqueFd fd;
    std::string source;
    std::string model;
    bool is_error = false;
    std::string line;
    std::shared_ptr<WorkerOutput> output;  // shared with the instance
  };
  OutputPump(UniqueFd epoll, UniqueFd wake, Logger& log);
  void Run();
  // Reads the available output, up to a bound. Returns false at the end of the pipe. If it fails, the output
  // read is lost.
  bool Drain(Pipe& pipe);
  bool ReadChunks(Pipe& pipe);
  void Emit(Pipe& pipe);

  const UniqueFd epoll_;
  const UniqueFd wake_;
  Logger& log_;
  Mutex mutex_;
  // The thread owns the pipes themselves.
  std::map<int, std::unique_ptr<Pipe>> pipes_ BRAID_GUARDED_BY(mutex_);
  bool stopping_ BRAID_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace braid
