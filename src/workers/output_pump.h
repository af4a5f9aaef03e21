// OutputPump: brings what workers print into the server's log, line by line, with the name of the instance.
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

// What one worker has printed. Shared by the pump, which fills it, and the instance, which asks when the
// worker has died.
class WorkerOutput {
 public:
  // The last line on standard error that is not empty; waits up to `timeout_ns` for both pipes to be drained.
  std::string LastErrorLine(int64_t timeout_ns);

 private:
  friend class OutputPump;
  Mutex mutex_;
  CondVar drained_;
  int open_pipes_ BRAID_GUARDED_BY(mutex_) = 2;  // those of its two that have not ended
  std::string last_error_ BRAID_GUARDED_BY(mutex_);
};

class OutputPump {
 public:
  static Result<std::unique_ptr<OutputPump>> Create(Logger& log);
  ~OutputPump();

  // Reads both pipes until their writers are gone. `source` stands in front of each line; `model` is whose code they are
  // of, empty for none.
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
  // Reads what is there, up to a bound. False at the end of the pipe. A fault costs what was read.
  bool Drain(Pipe& pipe);
  bool ReadChunks(Pipe& pipe);
  void Emit(Pipe& pipe);

  const UniqueFd epoll_;
  const UniqueFd wake_;
  Logger& log_;
  Mutex mutex_;
  // The pipes themselves are the thread's.
  std::map<int, std::unique_ptr<Pipe>> pipes_ BRAID_GUARDED_BY(mutex_);
  bool stopping_ BRAID_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace braid
