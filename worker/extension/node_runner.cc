#include "worker/extension/node_runner.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "worker/extension/node_call.h"
#include "worker/extension/python_state.h"
#include "worker/extension/worker.h"

namespace braid {
namespace {

// Handlers that user code has installed for signals run on the main thread, at least this often.
constexpr int64_t kSignalsNs = 1'000'000'000;
// What user code may take to come back when the nodes are unloaded.
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

// Waits for WakeMain(); false when the time is over first.
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
  // User code may run when the last references go, while there is an interpreter for it.
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

// Before user code is run: another thread is to take what else there is to do, or to read. It brings the next
// one in turn, so there are no more than can have the GIL.
void NodeRunner::ProvideThreads() {
  Inbox& inbox = worker_.inbox();
  // Whoever neither runs user code nor waits is on the way, and takes what there is.
  if (threads_ - busy_ - static_cast<int>(inbox.awaiting()) > 0) return;
  if (!ready_.empty()) {
    if (!inbox.Summon(false) && !StartThread()) inbox.Summon(true);
  } else if (threads_ == busy_) {
    StartThread();
  }
}

void NodeRunner::RunThread() {
  while (!ended_) {
    // With all threads in user code nobody reads.
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
    // A child of user code that comes back here has nothing to do.
    if (worker_.forked()) return;
  }
  --threads_;
  WakeMain();
}

// Drops the objects that the server needs no more. User code may run then, and more may be dropped.
void NodeRunner::LetGo() {
  std::vector<Ref> dropped;
  dropped.swap(dropped_);
}

void NodeRunner::Idle() {
  Connection& connection = worker_.connection();
  connection.FlushReleases(true);
  // What user code lets go of from now on is given back at once.
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
  // The server may let go of objects with its next message.
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
  // It may have ended while this was on its way.
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
  // Ahead of all others, as it is short and somebody may wait for it. Its other place in the queue is
  // nobody's then.
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

// The server wants no more of anything.
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
