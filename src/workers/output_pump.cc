#include "workers/output_pump.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <chrono>
#include <string_view>
#include <vector>

#include "base/guard.h"
#include "base/thread.h"

namespace braid {
namespace {

// Longer lines are split, so that a worker that prints without line ends costs no memory.
constexpr size_t kMaxLine = 8192;
// The most chunks read of one pipe before other pipes have their turn: as much as a pipe holds. So a worker
// that prints without end neither starves other workers nor blocks the end of the pump.
constexpr int kMostChunks = 4;
constexpr size_t kChunk = 16384;

}  // namespace

std::string WorkerOutput::LastErrorLine(int64_t timeout_ns) {
  MutexLock lock(mutex_);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns);
  while (open_pipes_ > 0 && drained_.WaitUntil(mutex_, deadline)) {
  }
  return last_error_;
}

Result<std::unique_ptr<OutputPump>> OutputPump::Create(Logger& log) {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll.valid() || !wake.valid()) return ErrnoError("epoll of worker output", errno);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = -1;
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) != 0) return ErrnoError("epoll_ctl", errno);
  return std::unique_ptr<OutputPump>(new OutputPump(std::move(epoll), std::move(wake), log));
}

OutputPump::OutputPump(UniqueFd epoll, UniqueFd wake, Logger& log)
    : epoll_(std::move(epoll)),
      wake_(std::move(wake)),
      log_(log),
      thread_(StartThread("brd-out", [this] { Run(); })) {}

OutputPump::~OutputPump() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  const uint64_t one = 1;
  [[maybe_unused]] ssize_t written = ::write(wake_.get(), &one, sizeof(one));
  thread_.join();
}

Result<std::shared_ptr<WorkerOutput>> OutputPump::Add(const std::string& source, UniqueFd standard_output,
                                                      UniqueFd standard_error, std::string model) {
  auto output = std::make_shared<WorkerOutput>();
  MutexLock lock(mutex_);
  for (UniqueFd* fd : {&standard_output, &standard_error}) {
    if (fcntl(fd->get(), F_SETFL, O_NONBLOCK) != 0) return ErrnoError("O_NONBLOCK", errno);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd->get();
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd->get(), &event) != 0) return ErrnoError("epoll_ctl", errno);
    auto pipe = std::make_unique<Pipe>();
    pipe->source = source;
    pipe->model = model;
    pipe->is_error = fd == &standard_error;
    pipe->output = output;
    const int key = fd->get();
    pipe->fd = std::move(*fd);
    pipes_[key] = std::move(pipe);
  }
  return output;
}

void OutputPump::Emit(Pipe& pipe) {
  if (!pipe.line.empty() && pipe.line.back() == '\r') pipe.line.pop_back();
  if (pipe.is_error && !pipe.line.empty()) {
    MutexLock lock(pipe.output->mutex_);
    pipe.output->last_error_ = pipe.line;
  }
  log_.WriteOutput(pipe.source, pipe.line, pipe.model);
  pipe.line.clear();
}

bool OutputPump::Drain(Pipe& pipe) {
  bool more = true;
  GuardedOrReport("brd-out", [&] { more = ReadChunks(pipe); });
  return more;
}

bool OutputPump::ReadChunks(Pipe& pipe) {
  char chunk[kChunk];
  for (int i = 0; i < kMostChunks; ++i) {
    const ssize_t length = read(pipe.fd.get(), chunk, sizeof(chunk));
    if (length < 0 && errno == EINTR) continue;
    if (length < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    if (length == 0) return false;
    for (const char c : std::string_view(chunk, static_cast<size_t>(length))) {
      if (c == '\n') {
        Emit(pipe);
      } else {
        pipe.line += c;
        if (pipe.line.size() >= kMaxLine) Emit(pipe);
      }
    }
  }
  return true;  // there may be more
}

void OutputPump::Run() {
  while (true) {
    epoll_event events[16];
    const int count = epoll_wait(epoll_.get(), events, 16, -1);
    for (int i = 0; i < count; ++i) {
      if (events[i].data.fd < 0) continue;
      Pipe* pipe = nullptr;
      {
        MutexLock lock(mutex_);
        auto it = pipes_.find(events[i].data.fd);
        if (it == pipes_.end()) continue;
        pipe = it->second.get();
      }
      if (Drain(*pipe)) continue;
      GuardedOrReport("brd-out", [&] {
        if (!pipe->line.empty()) Emit(*pipe);
      });
      {
        MutexLock lock(pipe->output->mutex_);
        --pipe->output->open_pipes_;
        pipe->output->drained_.NotifyAll();
      }
      MutexLock lock(mutex_);
      pipes_.erase(events[i].data.fd);
    }
    MutexLock lock(mutex_);
    if (stopping_) break;
  }
  // The last output of workers may not have been among the last events.
  MutexLock lock(mutex_);
  for (auto& [fd, pipe] : pipes_) {
    Drain(*pipe);
    GuardedOrReport("brd-out", [&pipe = *pipe, this] {
      if (!pipe.line.empty()) Emit(pipe);
    });
  }
}

}  // namespace braid
