#include "worker/extension/node_runner.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "worker/extension/node_call.h"
#include "worker/extension/python_state.h"
#include "worker/extension/worker.h"

namespace braid {
namespace {

// Signal handlers of user code run on the main thread, at least this often.
constexpr int64_t kSignalsNs = 1'000'000'000;
// Time for user code to return when the nodes are unloaded.
constexpr int64_t kCloseNs = 5'000'000'000;
constexpr int64_t kLeaveNs = 1'000'000'000;
constexpr uint8_t kLogError = 2;

}  // namespace

NodeRunner::NodeRunner(Worker& worker) : worker_(worker) {}
NodeRunner::~NodeRunner() = default;

// --- The main thread

void NodeRunner::WakeMain() {
  std::lock_guard lock(main_mutex_);
  main_woken_ = true;
  main_wake_.notify_one();
}

// Waits for WakeMain(); false on timeout.
bool NodeRunner::WaitForMain(int64_t timeout_ns) {
  bool woken = false;
  Py_BEGIN_ALLOW_THREADS {
    std::unique_lock lock(main_mutex_);
    woken = main_wake_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), [this] { return main_woken_; });
    main_woken_ = false;
  }
  Py_END_ALLOW_THREADS if (PyErr_CheckSignals() != 0) PyErr_WriteUnraisable(nullptr);
  return woken;
}

bool NodeRunner::Serve() {
  if (!StartThread()) {
    PyErr_SetString(PyExc_RuntimeError, "no thread can be started for the nodes");
    return false;
  }
  while (!stopping_ && !ended_) WaitForMain(kSignalsNs);
  if (!ended_) {
    CloseAll();
    const int64_t deadline = SteadyNowNs() + kCloseNs;
    while (!ended_ && (busy_ != 0 || !calls_.empty() || !sessions_.empty())) {
      const int64_t left = deadline - SteadyNowNs();
      if (left <= 0) break;
      WaitForMain(std::min(left, kSignalsNs));
    }
  }
  if (stopping_) return true;
  RaiseBroken(worker_.inbox().why());
  return false;
}

void NodeRunner::Leave() {
  const int64_t deadline = SteadyNowNs() + kLeaveNs;
  while (threads_ > 0) {
    const int64_t left = deadline - SteadyNowNs();
    if (left <= 0) return;
    WaitForMain(left);
  }
  // The last references may run user code, so they are released while the interpreter still works.
  objects_.clear();
  nodes_.clear();
}

// --- Threads

bool NodeRunner::StartThread() {
  if (threads_ >= kMaxThreads) return false;
  ++threads_;
  Ref started = Ref::Steal(PyObject_CallMethod(worker_.host(), "start_node_thread", "i", ++started_));
  if (started) return true;
  PyErr_WriteUnraisable(worker_.host());
  --threads_;
  return false;
}

// Called before running user code: makes another thread take the remaining work, or read. That thread
// provides the next one in turn, so there are never more threads than can get the GIL.
void NodeRunner::ProvideThreads() {
  Inbox& inbox = worker_.inbox();
  // A thread that neither runs user code nor waits is about to take the work.
  if (threads_ - busy_ - static_cast<int>(inbox.awaiting()) > 0) return;
  if (!ready_.empty()) {
    if (!inbox.Summon(false) && !StartThread()) inbox.Summon(true);
  } else if (threads_ == busy_) {
    StartThread();
  }
}

void NodeRunner::RunThread() {
  while (!ended_) {
    // While all threads run user code, no thread reads.
    if (worker_.inbox().awaiting() == 0) worker_.inbox().Poll();
    worker_.DoChores();
    TakeMessages();
    LetGo();
    if (ready_.empty()) {
      Idle();
      continue;
    }
    const Work work = ready_.front();
    ready_.pop_front();
    ++busy_;
    worker_.connection().set_waiting(false);
    ProvideThreads();
    Run(work);
    --busy_;
    if (stopping_) WakeMain();
    // In a forked child there is nothing to do here.
    if (worker_.forked()) return;
  }
  --threads_;
  WakeMain();
}

// Releases the objects that the server no longer needs. This may run user code, which may cause further
// releases.
void NodeRunner::LetGo() {
  std::vector<Ref> dropped;
  dropped.swap(dropped_);
}

void NodeRunner::Idle() {
  Connection& connection = worker_.connection();
  connection.FlushReleases(true);
  // From now on, memory that user code releases is returned at once.
  connection.set_waiting(busy_ == 0);
  const int64_t wait_ns = connection.wait_ns();
  Inbox& inbox = worker_.inbox();
  Inbox::Outcome outcome = Inbox::Outcome::kReady;
  inbox.WillAwait();
  Py_BEGIN_ALLOW_THREADS outcome = inbox.Await(wait_ns);
  Py_END_ALLOW_THREADS if (outcome == Inbox::Outcome::kTimeout) connection.Trim();
  if (outcome != Inbox::Outcome::kEnded) return;
  ended_ = true;
  WakeMain();
}

// --- Messages

void NodeRunner::TakeMessages() {
  std::vector<std::byte> message;
  while (worker_.inbox().TakeMain(message)) {
    if (Enter(message)) continue;
    worker_.inbox().Break("a bad message to the nodes of a graph");
    return;
  }
}

bool NodeRunner::Enter(std::vector<std::byte>& message) {
  switch (TypeOf(message)) {
    case MessageType::kNodeExecute:
      return EnterExecute(message);
    case MessageType::kNodeResume:
      return EnterResume(message);
    case MessageType::kNodeClose:
      return EnterClose(message);
    case MessageType::kNodeSession:
      return EnterSession(message);
    case MessageType::kNodeDrop:
      return EnterDrop(message);
    case MessageType::kFinalize:
      stopping_ = true;
      WakeMain();
      return true;
    default:
      return false;
  }
}

bool NodeRunner::EnterExecute(std::vector<std::byte>& message) {
  auto call = std::make_shared<Call>();
  call->message = std::move(message);
  if (!Decode(call->message, call->execute)) return false;
  const NodeExecuteMessage& execute = call->execute;
  if (execute.call_id == 0 || execute.node >= nodes_.size() || calls_.contains(execute.call_id)) return false;
  call->credit = execute.credit;
  // The server may drop objects with its next message.
  call->objects.resize(execute.inputs.size());
  for (size_t i = 0; i < execute.inputs.size(); ++i) {
    if (execute.inputs[i].object == 0) continue;
    auto found = objects_.find(execute.inputs[i].object);
    if (found == objects_.end()) return false;
    call->objects[i] = found->second;
  }
  if (auto session = sessions_.find(execute.session); session != sessions_.end()) ++session->second->calls;
  ready_.push_back({.call = execute.call_id});
  calls_.emplace(execute.call_id, std::move(call));
  return true;
}

bool NodeRunner::EnterResume(const std::vector<std::byte>& message) {
  NodeResumeMessage resume;
  if (!Decode(message, resume)) return false;
  auto found = calls_.find(resume.call_id);
  // The call may have ended before the message arrived.
  if (found == calls_.end()) return true;
  Call& call = *found->second;
  call.credit += resume.credit;
  if (call.state != Call::State::kSuspended || resume.credit == 0) return true;
  call.state = Call::State::kQueued;
  ready_.push_back({.call = resume.call_id});
  return true;
}

bool NodeRunner::EnterClose(const std::vector<std::byte>& message) {
  NodeCloseMessage close;
  if (!Decode(message, close)) return false;
  auto found = calls_.find(close.call_id);
  if (found == calls_.end()) return true;
  Call& call = *found->second;
  call.closed = true;
  if (call.state == Call::State::kRunning) return true;
  // It goes to the front, because it is short and a request may wait for it. The call's other entry in the
  // queue is then ignored.
  call.state = Call::State::kQueued;
  ready_.push_front({.call = close.call_id});
  return true;
}

bool NodeRunner::EnterSession(const std::vector<std::byte>& message) {
  NodeSessionMessage session;
  if (!Decode(message, session) || session.session == 0) return false;
  auto found = sessions_.find(session.session);
  if (!session.end) {
    if (found != sessions_.end()) return false;
    auto made = std::make_unique<Session>();
    made->parameters_json = session.parameters_json;
    sessions_.emplace(session.session, std::move(made));
    return true;
  }
  if (found == sessions_.end() || found->second->ending) return false;
  found->second->ending = true;
  if (found->second->calls == 0) ready_.push_back({.session = session.session});
  return true;
}

bool NodeRunner::EnterDrop(const std::vector<std::byte>& message) {
  NodeDropMessage drop;
  if (!Decode(message, drop)) return false;
  for (uint64_t id : drop.objects) {
    auto found = objects_.find(id);
    if (found == objects_.end()) return false;
    dropped_.push_back(std::move(found->second));
    objects_.erase(found);
  }
  return true;
}

// Closes all calls and sessions, because the server is ending the nodes.
void NodeRunner::CloseAll() {
  for (auto& [id, call] : calls_) {
    call->closed = true;
    if (call->state != Call::State::kSuspended) continue;
    call->state = Call::State::kQueued;
    ready_.push_front({.call = id});
  }
  for (auto& [id, session] : sessions_) {
    if (session->ending) continue;
    session->ending = true;
    if (session->calls == 0) ready_.push_back({.session = id});
  }
  if (!ready_.empty()) ProvideThreads();
}

void NodeRunner::LogError(const NodeFacts& node, std::string_view error, uint32_t line) {
  worker_.SendLog(kLogError, node.file, line, "Python node '" + node.name + "': " + std::string(error));
}

}  // namespace braid
