#include "backends/python/node_calls.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <utility>

#include "base/clock.h"
#include "base/guard.h"
#include "serving/parameters.h"

namespace braid {
namespace {

// A sleeping worker learns of dropped objects with its next execution. It is woken for this many bytes.
constexpr uint64_t kWakeForBytes = uint64_t{8} << 20;

// Whether only the packet with input `index` and this call own its bytes, with one reference each. Other
// nodes that get the packet run in the same worker, where tensors are read-only.
bool IsSolePacket(const std::vector<NodeTensor>& inputs, size_t index) {
  const BufferOwner* owner = inputs[index].tensor.data.owner();
  if (owner == nullptr) return false;
  const auto ours = std::count_if(inputs.begin(), inputs.end(), [owner](const NodeTensor& input) {
    return input.tensor.data.owner() == owner;
  });
  return ours == 1 && owner->references() <= 2;
}

}  // namespace

// One life of the worker, for its calls and objects, which may outlive the worker.
class NodeCalls::Life {
 public:
  Life(WorkerLink link, bool wants_sessions) : link_(std::move(link)), wants_sessions_(wants_sessions) {}

  WorkerMemory& memory() { return *link_.memory; }
  bool wants_sessions() const { return wants_sessions_; }
  void End() { over_ = true; }

  template <class Message>
  Status Send(const Message& message, bool quietly = false) {
    if (over_) return UnavailableError("the worker is gone");
    thread_local std::vector<std::byte> encoded;
    Encode(encoded, message);
    return link_.channel->Send(encoded, quietly);
  }

  // Releases an object in the worker.
  void Drop(uint64_t object, uint64_t bytes) {
    const uint64_t waiting = quietly_dropped_.fetch_add(bytes) + bytes;
    const bool wake = waiting >= kWakeForBytes;
    if (wake) quietly_dropped_ = 0;
    // If the message cannot be sent, the worker is about to be ended, with its objects.
    (void)Send(NodeDropMessage{{object}}, !wake);
  }

 private:
  const WorkerLink link_;
  const bool wants_sessions_;
  std::atomic<bool> over_{false};
  // Bytes of dropped objects in messages for which the worker was not woken.
  std::atomic<uint64_t> quietly_dropped_{0};
};

class NodeCalls::Object final : public NodeObject {
 public:
  Object(std::shared_ptr<Life> life, uint64_t number, uint64_t bytes)
      : life_(std::move(life)), number_(number), bytes_(bytes) {}
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  ~Object() override { life_->Drop(number_, bytes_); }

  const Life* life() const { return life_.get(); }
  uint64_t number() const { return number_; }

 private:
  const std::shared_ptr<Life> life_;
  const uint64_t number_;
  const uint64_t bytes_;
};

NodeCalls::NodeCalls() = default;
NodeCalls::~NodeCalls() = default;

// --- The worker's life
// -----------------------------------------------------------------------------------------------

void NodeCalls::Open(const WorkerLink& link, bool wants_sessions) {
  receiving_ = std::make_shared<Life>(link, wants_sessions);
  MutexLock lock(mutex_);
  life_ = receiving_;
  reason_.clear();
  if (wants_sessions) {
    for (const auto& [session, parameters] : new_sessions_) SendSession(session, false, parameters);
  }
  new_sessions_.clear();
}

void NodeCalls::Refuse(const std::string& reason) {
  MutexLock lock(mutex_);
  life_.reset();
  reason_ = reason;
}

void NodeCalls::Forget() {
  if (receiving_) receiving_->End();
  receiving_.reset();
  MutexLock lock(mutex_);
  sessions_.clear();
  given_up_.clear();
}

int64_t NodeCalls::Expire(int64_t now_ns) {
  int64_t next_ns = now_ns + limit_ns_;  // for calls that begin from now on
  std::vector<std::pair<uint64_t, std::shared_ptr<Call>>> overdue;
  {
    MutexLock lock(mutex_);
    for (const auto& [id, call] : calls_) {
      // A generator without credit waits for its listener, not for user code.
      if (call->ended || call->credit == 0) continue;
      if (call->since_ns + limit_ns_ > now_ns) {
        next_ns = std::min(next_ns, call->since_ns + limit_ns_);
      } else {
        overdue.emplace_back(id, call);
      }
    }
    for (const auto& [id, call] : overdue) {
      given_up_.insert(id);
      call->ended = true;
      call->ahead.push_back({NodeStep::Kind::kError, UnavailableError(overdue_text_), {}});
      if (call->closed && !call->awaited) calls_.erase(id);
    }
  }
  for (const auto& [id, call] : overdue) Deliver(id, call);
  return next_ns;
}

bool NodeCalls::stuck() const {
  MutexLock lock(mutex_);
  return !given_up_.empty();
}

void NodeCalls::Fail(const std::string& reason) {
  std::vector<std::pair<uint64_t, std::shared_ptr<Call>>> calls;  // destroyed after the lock is released
  {
    MutexLock lock(mutex_);
    calls.assign(calls_.begin(), calls_.end());
    for (const auto& [id, call] : calls) {
      if (call->ended) continue;
      call->ended = true;
      call->ahead.push_back({NodeStep::Kind::kError, InternalError(reason), {}});
      if (call->closed && !call->awaited) calls_.erase(id);
    }
  }
  for (const auto& [id, call] : calls) Deliver(id, call);
}

void NodeCalls::SendSession(uint64_t session, bool end, const std::string& parameters_json) {
  // If the message cannot be sent, the worker is about to be ended.
  (void)life_->Send(NodeSessionMessage{session, end, parameters_json});
  if (end) {
    sessions_.erase(session);
  } else {
    sessions_.insert(session);
  }
}

uint64_t NodeCalls::BeginSession(const Parameters& parameters, std::shared_ptr<const CallChain> chain) {
  MutexLock lock(mutex_);
  const uint64_t session = next_session_++;
  if (chain != nullptr) chains_.emplace(session, std::move(chain));
  if (life_ == nullptr) {
    new_sessions_.emplace(session, ParametersToJson(parameters));
  } else if (life_->wants_sessions()) {
    SendSession(session, false, ParametersToJson(parameters));
  }
  return session;
}

void NodeCalls::EndSession(uint64_t session) {
  MutexLock lock(mutex_);
  new_sessions_.erase(session);
  chains_.erase(session);
  if (!sessions_.contains(session)) return;
  if (life_ != nullptr) {
    SendSession(session, true, "");
  } else {
    sessions_.erase(session);
  }
}

std::shared_ptr<const CallChain> NodeCalls::ChainOf(uint64_t call) const {
  MutexLock lock(mutex_);
  const auto found = calls_.find(call);
  return found == calls_.end() ? nullptr : found->second->chain;
}

Readiness NodeCalls::readiness() const {
  MutexLock lock(mutex_);
  if (life_ != nullptr) return {};
  return {false, reason_};
}

size_t NodeCalls::pending() const {
  MutexLock lock(mutex_);
  return calls_.size();
}

// --- Executions
// ------------------------------------------------------------------------------------------------------

Status NodeCalls::SendExecute(const std::shared_ptr<Life>& life, uint64_t call, size_t node, uint64_t session,
                              const std::vector<NodeTensor>& inputs) {
  NodeExecuteMessage message;
  message.call_id = call;
  message.node = static_cast<uint32_t>(node);
  message.session = session;
  message.credit = kWindow;
  message.inputs.reserve(inputs.size());
  WorkerMemory::Loan loan(life->memory());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const NodeTensor& input = inputs[i];
    NodeTensorMessage& sent = message.inputs.emplace_back();
    sent.tensor.name = input.tensor.name;
    sent.tensor.type = input.tensor.type;
    sent.tensor.custom_type = input.tensor.custom_type;
    sent.tensor.shape = input.tensor.shape;
    const auto* object = dynamic_cast<const Object*>(input.object.get());
    if (object != nullptr && object->life() == life.get()) {
      sent.object = object->number();
      sent.has_bytes = false;
      continue;
    }
    if (!input.has_bytes) {
      return InternalError(std::string("the worker that held tensor '")
                               .append(input.tensor.name)
                               .append("' for the next node has ended"));
    }
    BRAID_RETURN_IF_ERROR(loan.Lend(input.tensor.data, IsSolePacket(inputs, i), sent.tensor));
  }
  BRAID_RETURN_IF_ERROR(life->Send(message));
  loan.Keep();
  return OkStatus();
}

uint64_t NodeCalls::Execute(size_t node, uint64_t session, std::vector<NodeTensor> inputs,
                            std::shared_ptr<NodeCallListener> listener) {
  std::shared_ptr<Life> life;
  uint64_t id = 0;
  Status refused;
  {
    MutexLock lock(mutex_);
    id = next_call_++;
    life = life_;
    if (life == nullptr) {
      refused = UnavailableError(reason_);
    } else if (life->wants_sessions() && session != 0 && !sessions_.contains(session)) {
      refused = InternalError("the Python nodes were restarted; their state of this graph run is lost");
    } else {
      auto call = std::make_shared<Call>();
      call->listener = listener;
      call->life = life;
      if (limit_ns_ > 0) call->since_ns = SteadyNowNs();
      if (const auto chain = chains_.find(session); chain != chains_.end()) call->chain = chain->second;
      calls_.emplace(id, std::move(call));
    }
  }
  if (refused.ok()) {
    refused = Guarded([&] { return SendExecute(life, id, node, session, inputs); });
    if (refused.ok()) return id;
    MutexLock lock(mutex_);
    // The worker may have died meanwhile, and Fail() has notified the listener.
    if (calls_.erase(id) == 0) return id;
  }
  listener->OnStep(id, {NodeStep::Kind::kError, std::move(refused), {}});
  return id;
}

bool NodeCalls::Resume(uint64_t id) {
  std::shared_ptr<Call> call;
  uint32_t credit = 0;
  {
    MutexLock lock(mutex_);
    auto it = calls_.find(id);
    if (it == calls_.end()) return false;
    call = it->second;
    call->awaited = true;
    if (++call->consumed >= kWindow / 2 && !call->ended) {
      credit = std::exchange(call->consumed, 0);
      if (limit_ns_ > 0 && call->credit == 0) call->since_ns = SteadyNowNs();
      call->credit += credit;
    }
  }
  if (credit != 0) {
    const RetryingAllocation retrying;  // a generator without credit would stall
    (void)call->life->Send(NodeResumeMessage{id, credit});
  }
  Deliver(id, call);
  return true;
}

void NodeCalls::Close(uint64_t id) {
  // The caller waits for the end of the call, and so for the worker to get this message.
  const RetryingAllocation retrying;
  std::shared_ptr<Call> call;
  std::deque<NodeStep> dropped;  // destroyed after the lock is released
  bool tell = false;
  {
    MutexLock lock(mutex_);
    auto it = calls_.find(id);
    if (it == calls_.end() || it->second->closed) return;
    call = it->second;
    call->closed = true;
    dropped.swap(call->ahead);
    tell = !call->ended;
    if (call->ended && call->awaited && !dropped.empty()) {
      // A delivering thread is about to take the last step.
      call->ahead.push_back({dropped.back().kind, dropped.back().status, {}});
    } else if (call->ended) {
      calls_.erase(it);
    }
  }
  if (tell) (void)call->life->Send(NodeCloseMessage{id});
}

// --- Steps
// -----------------------------------------------------------------------------------------------------------

Result<NodeStep> NodeCalls::MakeStep(const NodeStepMessage& message, const std::shared_ptr<Life>& life) {
  NodeStep step;
  switch (message.kind) {
    case NodeStepMessage::Kind::kList:
      step.kind = NodeStep::Kind::kList;
      break;
    case NodeStepMessage::Kind::kItem:
      step.kind = NodeStep::Kind::kItem;
      break;
    case NodeStepMessage::Kind::kEnd:
      step.kind = NodeStep::Kind::kEnd;
      break;
    case NodeStepMessage::Kind::kError:
      step.kind = NodeStep::Kind::kError;
      step.status = InternalError(std::string(message.error));
      break;
  }
  WorkerMemory::Returned returned;
  step.outputs.reserve(message.outputs.size());
  for (const NodeTensorMessage& output : message.outputs) {
    if (output.tensor.type == DataType::kInvalid || (!output.has_bytes && output.object == 0))
      return InvalidArgumentError("the worker sent a tensor without a type or without bytes");
    NodeTensor& tensor = step.outputs.emplace_back();
    tensor.tensor.name = output.tensor.name;
    tensor.tensor.type = output.tensor.type;
    tensor.tensor.custom_type = output.tensor.custom_type;
    tensor.tensor.shape = output.tensor.shape;
    tensor.has_bytes = output.has_bytes;
    if (output.has_bytes) {
      BRAID_ASSIGN_OR_RETURN(tensor.tensor.data, life->memory().Take(output.tensor, returned));
    }
    if (output.object != 0) {
      const uint64_t bytes = output.has_bytes
                                 ? tensor.tensor.data.size()
                                 : static_cast<uint64_t>(std::max<int64_t>(
                                       0, ByteSize(output.tensor.type, output.tensor.shape).value_or(0)));
      tensor.object = std::make_shared<Object>(life, output.object, bytes);
    }
  }
  return step;
}

Status NodeCalls::OnStep(const NodeStepMessage& message) {
  if (!receiving_) return InvalidArgumentError("the worker answered before it loaded its nodes");
  // Decoded first, so that memory lent by the worker returns even if the step is dropped.
  BRAID_ASSIGN_OR_RETURN(NodeStep step, MakeStep(message, receiving_));
  std::shared_ptr<Call> call;
  {
    MutexLock lock(mutex_);
    if (given_up_.contains(message.call_id)) {
      if (step.kind != NodeStep::Kind::kItem) given_up_.erase(message.call_id);
      return OkStatus();
    }
    auto it = calls_.find(message.call_id);
    if (it == calls_.end() || it->second->ended || it->second->life != receiving_)
      return InvalidArgumentError("the worker answered an unknown execution");
    call = it->second;
    if (step.kind == NodeStep::Kind::kItem) {
      if (call->credit == 0)
        return InvalidArgumentError("the worker sent more generator items than requested");
      --call->credit;
      if (limit_ns_ > 0) call->since_ns = SteadyNowNs();
      if (!call->closed) call->ahead.push_back(std::move(step));
    } else {
      call->ended = true;
      if (call->closed && !call->awaited) {
        calls_.erase(it);
        return OkStatus();
      }
      if (call->closed && step.kind == NodeStep::Kind::kList) step.kind = NodeStep::Kind::kEnd;
      if (call->closed) {
        call->ahead.push_back({step.kind, std::move(step.status), {}});
      } else {
        call->ahead.push_back(std::move(step));
      }
    }
  }
  Deliver(message.call_id, call);
  return OkStatus();
}

void NodeCalls::Deliver(uint64_t id, const std::shared_ptr<Call>& call) {
  MutexLock lock(mutex_);
  const SerialDelivery::Turn turn(call->delivery);
  if (!turn) return;
  while (call->awaited && !call->ahead.empty()) {
    NodeStep step = std::move(call->ahead.front());
    call->ahead.pop_front();
    call->awaited = false;
    if (step.kind != NodeStep::Kind::kItem) calls_.erase(id);
    const MutexUnlock unlock(mutex_);
    // If the listener throws, only its call is lost, not the worker.
    GuardedOrReport("a step of a Python node", [&] { call->listener->OnStep(id, std::move(step)); });
  }
}

}  // namespace braid
