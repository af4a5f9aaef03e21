#include "load/generator.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace braid::load {
namespace {

constexpr int64_t kCheckEveryNs = 20'000'000;  // for timeouts and broken connections
constexpr int64_t kRedialPauseNs = 10'000'000;
constexpr int64_t kPauseNs = 1'000'000;
constexpr int64_t kStreamEndNs = 1'000'000'000;  // time for a server to end streams without requests
constexpr int kWaitMs = 20;
constexpr double kDialTimeoutS = 5;
constexpr int64_t kFarNs = std::numeric_limits<int64_t>::max();

class Generator;

// One request in flight, or none.
class Slot : public Exchange {
 public:
  Slot(Generator& generator, RequestSource& source, const Encoding& encoding)
      : generator_(generator), source_(source), decoder_(encoding) {}

  void OnMessage(const ReceivedMessage& message) override;
  void OnEnd(const Status& status) override;

 private:
  friend class Generator;

  Generator& generator_;
  RequestSource& source_;
  ResponseDecoder decoder_;
  struct Line* line_ = nullptr;           // the line that carries the request or stream
  const LoadRequest* request_ = nullptr;  // in flight; null: idle
  bool open_ = false;                     // the stream stays open between requests
  int64_t begin_ns_ = 0;
  std::vector<int64_t> response_ns_;
  uint64_t bytes_ = 0;
  int64_t tokens_ = 0;
  uint64_t count_ = 0;  // responses since the start of the request
  Status fault_;
};

// A connection and its entry in the thread's epoll set.
struct Line {
  std::unique_ptr<Connection> connection;
  size_t busy = 0;  // slots with a request or a stream on it
  int64_t dial_at_ns = 0;
  uint32_t watched = 0;  // epoll events
};

class Generator {
 public:
  Generator(const LoadPlan& plan, std::span<const std::unique_ptr<RequestSource>> sources, Budget& budget,
            const std::atomic<bool>& stop, LoadObserver& observer)
      : plan_(plan), budget_(budget), stop_(stop), observer_(observer), poll_(epoll_create1(EPOLL_CLOEXEC)) {
    for (const std::unique_ptr<RequestSource>& source : sources) {
      idle_.push_back(&slots_.emplace_back(*this, *source, plan.encoding));
    }
    const bool grpc = plan.encoding.protocol == Protocol::kGrpc;
    lines_.resize(grpc ? static_cast<size_t>(std::clamp(plan.connections, 1, std::max(1, plan.slots)))
                       : slots_.size());
  }

  int64_t Run() {
    std::optional<Arrivals> arrivals;
    if (plan_.rate > 0) {
      arrivals.emplace(plan_.distribution, plan_.rate, plan_.seed, SteadyNowNs() + plan_.delay_ns);
    }
    const UniqueFd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    epoll_event due{.events = EPOLLIN, .data = {.ptr = nullptr}};
    epoll_ctl(poll_.get(), EPOLL_CTL_ADD, timer.get(), &due);
    std::vector<epoll_event> events(std::min<size_t>(lines_.size() + 1, 256));
    int64_t give_up_ns = kFarNs;
    int64_t check_ns = 0;
    bool held_up = false;
    while (true) {
      stopping_ = stop_.load(std::memory_order_relaxed) || budget_.spent();
      int64_t now_ns = SteadyNowNs();
      if (stopping_) {
        if (give_up_ns == kFarNs) give_up_ns = now_ns + static_cast<int64_t>(plan_.timeout_s * 1e9);
        EndWhatWasBegun(now_ns);
        if (in_flight_ == 0) give_up_ns = std::min(give_up_ns, now_ns + kStreamEndNs);
        const bool quiet = std::ranges::all_of(lines_, [](const Line& line) { return line.busy == 0; });
        if (quiet || now_ns > give_up_ns) break;
      }
      if (now_ns >= check_ns) {
        CheckTimeouts(now_ns);
        check_ns = now_ns + kCheckEveryNs;
      }
      held_up = now_ns < pause_until_ns_;
      while (!stopping_ && !held_up && !idle_.empty() && (!arrivals || arrivals->next_ns() <= now_ns)) {
        if (!StartOne(arrivals ? arrivals->next_ns() : now_ns, now_ns)) {
          held_up = true;
          break;
        }
        if (arrivals) arrivals->Advance();
      }
      FlushAll();
      if (!arrivals && !held_up && lines_.size() == 1 && idle_.empty() && lines_[0].connection->alive() &&
          !lines_[0].connection->wants_to_write()) {
        lines_[0].connection->Receive(true);  // saves the system call of polling
        continue;
      }
      if (arrivals && !stopping_ && !idle_.empty() && !held_up) {
        const int64_t ns = arrivals->next_ns();
        const itimerspec at{{0, 0}, {ns / 1'000'000'000, ns % 1'000'000'000}};
        timerfd_settime(timer.get(), TFD_TIMER_ABSTIME, &at, nullptr);
      }
      const int ready =
          epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()), held_up ? 1 : kWaitMs);
      for (int i = 0; i < ready; ++i) {
        Line* line = static_cast<Line*>(events[static_cast<size_t>(i)].data.ptr);
        if (line == nullptr) {
          uint64_t times = 0;
          [[maybe_unused]] const ssize_t taken = ::read(timer.get(), &times, sizeof times);
        } else if (line->connection != nullptr) {
          line->connection->Receive(false);
        }
      }
    }
    // Requests still in flight have timed out.
    for (Slot& slot : slots_) {
      if (slot.request_ != nullptr) GiveUp(slot);
    }
    ending_ = true;
    for (Line& line : lines_) line.connection.reset();
    return arrivals ? arrivals->next_ns() : kFarNs;
  }

  void Answered(Slot& slot, const ReceivedMessage& message) {
    if (slot.request_ == nullptr) return;
    slot.response_ns_.push_back(SteadyNowNs());
    slot.bytes_ += PiecesSize(message.body);
    const Result<const InferResponse*> response = slot.decoder_.Decode(message);
    // A failed request on a stream gets an error as its only response.
    bool last = !plan_.encoding.stream;
    if (!response.ok()) {
      slot.fault_ = response.status();
      last = true;
    } else {
      // The last response of a stream may be only a mark. Events around a completion's text are not counted.
      const bool empty = (*response)->outputs.empty() && (plan_.encoding.chat || (*response)->final());
      slot.tokens_ = std::max(slot.tokens_, (*response)->tokens);
      if (empty) {
        slot.response_ns_.pop_back();
      } else if (slot.fault_.ok()) {
        slot.fault_ = observer_.OnResponse(*slot.request_, **response, slot.count_++);
      }
      if (plan_.encoding.stream) {
        last = plan_.responses == 0 ? (*response)->final() : slot.response_ns_.size() >= plan_.responses;
      }
    }
    if (!last || !plan_.encoding.stream) return;
    Finish(slot, Status(), false);
    if (!slot.open_) return;
    // The slot sends its next request at once, or becomes idle.
    if (plan_.rate > 0 || stop_.load(std::memory_order_relaxed) || !budget_.Take()) {
      idle_.push_back(&slot);
      return;
    }
    Send(slot, *slot.line_, slot.source_.Next(), SteadyNowNs());
  }

  void Ended(Slot& slot, const Status& status) {
    Line& line = *slot.line_;
    --line.busy;
    const bool was_open = std::exchange(slot.open_, false);
    slot.line_ = nullptr;
    if (slot.request_ == nullptr) {
      // The stream was closed between requests, so the slot is already idle.
      return;
    }
    const bool cut = was_open && status.ok();
    Finish(slot, cut ? UnavailableError("the server ended the stream") : status, false);
    if (ending_) return;
    idle_.push_back(&slot);
  }

 private:
  void Send(Slot& slot, Line& line, const LoadRequest& request, int64_t begin_ns) {
    slot.request_ = &request;
    slot.begin_ns_ = begin_ns;
    slot.response_ns_.clear();
    slot.bytes_ = 0;
    slot.tokens_ = 0;
    slot.fault_ = Status();
    ++in_flight_;
    if (slot.open_) {
      line.connection->Send(slot, request.message);
      return;
    }
    ++line.busy;
    slot.line_ = &line;
    slot.open_ = plan_.encoding.stream;
    line.connection->Start(slot, request.message, plan_.encoding.stream);
  }

  // Reports that the request in flight has ended.
  void Finish(Slot& slot, const Status& status, bool timed_out) {
    const LoadRequest& request = *std::exchange(slot.request_, nullptr);
    --in_flight_;
    const Status& why = status.ok() ? slot.fault_ : status;
    // A completion ends with its stream, not with its last text.
    const int64_t end_ns =
        slot.response_ns_.empty() || plan_.encoding.chat ? SteadyNowNs() : slot.response_ns_.back();
    if (why.ok()) {
      observer_.OnAnswered({request, slot.begin_ns_, end_ns, slot.response_ns_, slot.bytes_, slot.tokens_});
    } else {
      observer_.OnFailed(slot.begin_ns_, end_ns, why, timed_out);
      // Slows down if the server is unavailable, instead of retrying as fast as it refuses.
      if (why.code() == StatusCode::kUnavailable) pause_until_ns_ = end_ns + kPauseNs;
    }
  }

  // Sends the next request of an idle slot; false if no connection is available now.
  bool StartOne(int64_t begin_ns, int64_t now_ns) {
    Slot& slot = *idle_.back();
    Line* line = slot.open_ ? slot.line_ : FreeLine(now_ns);
    if (line == nullptr) return false;
    if (!budget_.Take()) {
      stopping_ = true;
      return false;
    }
    idle_.pop_back();
    Send(slot, *line, slot.source_.Next(), begin_ns);
    return true;
  }

  // Returns the connection with the fewest requests; opens it if necessary.
  Line* FreeLine(int64_t now_ns) {
    Line* best = nullptr;
    const size_t first = next_line_++ % lines_.size();
    for (size_t i = 0; i < lines_.size(); ++i) {
      Line& line = lines_[(first + i) % lines_.size()];
      const bool alive = line.connection != nullptr && line.connection->alive();
      if (alive && line.busy >= line.connection->capacity()) continue;
      if (!alive && (line.busy > 0 || line.dial_at_ns > now_ns)) continue;
      if (best == nullptr || line.busy < best->busy) best = &line;
      if (best->busy == 0) break;
    }
    if (best == nullptr) return nullptr;
    if (best->connection == nullptr || !best->connection->alive()) {
      best->connection.reset();
      Result<std::unique_ptr<Connection>> made =
          Connection::Open(plan_.encoding.protocol, *plan_.dialer, std::min(kDialTimeoutS, plan_.timeout_s),
                           plan_.encoding.headers);
      if (!made.ok()) {
        best->dial_at_ns = SteadyNowNs() + kRedialPauseNs;
        // Counts as a request, so that a load of a fixed number of requests ends without a server, too.
        if (!budget_.Take()) return nullptr;
        observer_.OnFailed(now_ns, SteadyNowNs(), made.status(), false);
        return nullptr;
      }
      best->connection = std::move(*made);
      best->watched = EPOLLIN;
      epoll_event event{.events = EPOLLIN, .data = {.ptr = best}};
      epoll_ctl(poll_.get(), EPOLL_CTL_ADD, best->connection->fd(), &event);
    }
    return best;
  }

  void FlushAll() {
    for (Line& line : lines_) {
      if (line.connection == nullptr || !line.connection->alive()) continue;
      line.connection->Flush();
      const uint32_t wanted = EPOLLIN | (line.connection->wants_to_write() ? EPOLLOUT : 0U);
      if (wanted == line.watched || !line.connection->alive()) continue;
      line.watched = wanted;
      epoll_event event{.events = wanted, .data = {.ptr = &line}};
      epoll_ctl(poll_.get(), EPOLL_CTL_MOD, line.connection->fd(), &event);
    }
  }

  // Sends the last request of each idle slot that has one; otherwise closes its stream.
  void EndWhatWasBegun(int64_t now_ns) {
    for (Slot& slot : slots_) {
      if (slot.request_ != nullptr) continue;
      if (const LoadRequest* last = slot.source_.Last()) {
        if (Line* line = slot.open_ ? slot.line_ : FreeLine(now_ns)) {
          std::erase(idle_, &slot);
          Send(slot, *line, *last, now_ns);
          continue;
        }
      }
      if (!slot.open_) continue;
      slot.open_ = false;
      slot.line_->connection->EndSending(slot);
    }
  }

  void CheckTimeouts(int64_t now_ns) {
    const auto limit_ns = static_cast<int64_t>(plan_.timeout_s * 1e9);
    for (Slot& slot : slots_) {
      if (slot.request_ != nullptr && now_ns - slot.begin_ns_ > limit_ns) {
        GiveUp(slot);
        idle_.push_back(&slot);
      }
    }
    // An unused broken connection is closed, so that it can be replaced.
    for (Line& line : lines_) {
      if (line.connection != nullptr && !line.connection->alive() && line.busy == 0) line.connection.reset();
    }
  }

  void GiveUp(Slot& slot) {
    slot.line_->connection->Cancel(slot);
    --slot.line_->busy;
    slot.line_ = nullptr;
    slot.open_ = false;
    slot.response_ns_.clear();
    Finish(slot, UnavailableError("a request was not answered in time"), true);
  }

  const LoadPlan& plan_;
  Budget& budget_;
  const std::atomic<bool>& stop_;
  LoadObserver& observer_;
  const UniqueFd poll_;
  std::deque<Slot> slots_;
  std::deque<Line> lines_;
  std::vector<Slot*> idle_;
  size_t in_flight_ = 0;
  size_t next_line_ = 0;
  bool stopping_ = false;
  bool ending_ = false;
  int64_t pause_until_ns_ = 0;  // no request is sent before this time
};

void Slot::OnMessage(const ReceivedMessage& message) { generator_.Answered(*this, message); }
void Slot::OnEnd(const Status& status) { generator_.Ended(*this, status); }

}  // namespace

int64_t GenerateLoad(const LoadPlan& plan, std::span<const std::unique_ptr<RequestSource>> sources,
                     Budget& budget, const std::atomic<bool>& stop, LoadObserver& observer) {
  return Generator(plan, sources, budget, stop, observer).Run();
}

}  // namespace braid::load
