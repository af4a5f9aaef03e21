#include "mediapipe_graph/graph_sequences.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <variant>

namespace braid {
namespace {

constexpr std::string_view kIdParameter = "sequence_id";
constexpr std::string_view kStartParameter = "sequence_start";
constexpr std::string_view kEndParameter = "sequence_end";

bool IsNone(const CorrelationId& id) {
  const auto* number = std::get_if<uint64_t>(&id);
  return number != nullptr ? *number == 0 : std::get<std::string>(id).empty();
}

struct Naming {
  CorrelationId id;
  bool start = false;
  bool end = false;

  bool none() const { return IsNone(id) && !start && !end; }
};

Status WrongType(std::string_view name, std::string_view expected) {
  return InvalidArgumentError(
      std::string("parameter '")
          .append(name)
          .append("' names the sequence for the stateful models of the graph: expected ")
          .append(expected));
}

Status ReadParameter(std::string_view name, const ParameterValue& value, Naming& naming) {
  if (name == kIdParameter) {
    CorrelationId id;
    if (const auto* number = std::get_if<int64_t>(&value)) {
      id = static_cast<uint64_t>(*number);
    } else if (const auto* large = std::get_if<uint64_t>(&value)) {
      id = *large;
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      id = *text;
    } else {
      return WrongType(name, "a number or a text");
    }
    if (IsNone(naming.id)) naming.id = std::move(id);
    return OkStatus();
  }
  const auto* flag = std::get_if<bool>(&value);
  if (flag == nullptr) return WrongType(name, "true or false");
  bool& to = name == kStartParameter ? naming.start : naming.end;
  to = to || *flag;
  return OkStatus();
}

// Reads all valid parameters; returns the first fault of the others.
Status ReadNaming(const InferenceRequest& message, Naming& naming) {
  naming = {message.correlation_id, message.sequence_start, message.sequence_end};
  Status fault;
  for (const auto& [name, value] : message.parameters) {
    if (!IsSequenceParameter(name)) continue;
    if (Status status = ReadParameter(name, value, naming); fault.ok()) fault = std::move(status);
  }
  return fault;
}

}  // namespace

GraphSequence::GraphSequence(CorrelationId id, bool start, bool end,
                             const std::vector<std::shared_ptr<Servable>>& all)
    : id_(id), start_(start), end_(end), tells_(!all.empty()), compensation_(std::move(id), start, end) {
  for (const auto& servable : all) parts_.push_back({servable, compensation_.Add(servable)});
}

Result<GraphSequence::Ask> GraphSequence::Begin(const std::shared_ptr<Servable>& servable) {
  // The schedulers of other models apply their own rules to these flags.
  if (!servable->has_sequences()) return Ask{start_, end_, std::nullopt};
  MutexLock lock(mutex_);
  auto part = std::find_if(parts_.begin(), parts_.end(), [&servable](const Part& one) {
    return !one.servable.owner_before(servable) && !servable.owner_before(one.servable);
  });
  // A servable that has replaced another one since the message came.
  if (part == parts_.end()) part = parts_.insert(parts_.end(), {servable, compensation_.Add(servable)});
  const bool first = !std::exchange(part->asked, true);
  if (!first && end_) {
    return FailedPreconditionError(std::string("the message ends its sequence but calls '")
                                       .append(servable->info().name)
                                       .append("' more than once. End the sequence with a message that calls "
                                               "it once, or at the model itself"));
  }
  // Later requests of a start belong to a sequence that would be dropped as a whole.
  if (!first && start_) return Ask();
  ++open_;
  compensation_.Asked(part->in_compensation);
  return Ask{start_, end_, part->in_compensation};
}

void GraphSequence::End(const Ask& ask, const Status& status) {
  if (!ask.part) return;
  compensation_.Answered(*ask.part, status);
  MutexLock lock(mutex_);
  --open_;
  ++answers_;
}

std::optional<uint64_t> GraphSequence::told() const {
  const auto* number = std::get_if<uint64_t>(&id_);
  return tells_ && number != nullptr && *number != 0 ? std::optional(*number) : std::nullopt;
}

bool GraphSequence::answered() const {
  MutexLock lock(mutex_);
  return answers_ > 0 && (open_ == 0 || !begins_or_ends());
}

void GraphSequence::TakeBack() {
  compensation_.Fail([] {});
}

Status GraphSequences::Add(graph::Timestamp at, const InferenceRequest& message) {
  Naming naming;
  const Status fault = ReadNaming(message, naming);
  std::shared_ptr<GraphSequence> sequence;  // shared with the nodes
  if (!fault.ok() || !naming.none()) {
    const auto all = servables_->WithSequences();
    if (!all.empty()) BRAID_RETURN_IF_ERROR(fault);
    if (IsNone(naming.id) && naming.start && !all.empty()) naming.id = RandomSequenceId();
    sequence = std::make_shared<GraphSequence>(std::move(naming.id), naming.start, naming.end, all);
  }
  MutexLock lock(mutex_);
  if (sequence == nullptr && messages_.empty()) return OkStatus();
  messages_.insert_or_assign(at, sequence);
  if (messages_.size() > kMost) messages_.erase(messages_.begin());
  if (sequence == nullptr || !sequence->leaves_something()) return OkStatus();
  unanswered_.insert_or_assign(at, std::move(sequence));
  if (unanswered_.size() > kMost) unanswered_.erase(unanswered_.begin());
  return OkStatus();
}

std::shared_ptr<GraphSequence> GraphSequences::Find(graph::Timestamp at) const {
  MutexLock lock(mutex_);
  const auto after = messages_.upper_bound(at);
  return after == messages_.begin() ? nullptr : std::prev(after)->second;
}

void GraphSequences::Responded(graph::Timestamp at) {
  MutexLock lock(mutex_);
  const auto after = unanswered_.upper_bound(at);
  for (auto it = unanswered_.begin(); it != after;)
    it = it->second->answered() ? unanswered_.erase(it) : ++it;
}

void GraphSequences::TakeBack() {
  std::map<graph::Timestamp, std::shared_ptr<GraphSequence>> unanswered;
  {
    MutexLock lock(mutex_);
    unanswered.swap(unanswered_);
  }
  // In reverse order, so that each step of a sequence finds the state that it left.
  for (auto at = unanswered.rbegin(); at != unanswered.rend(); ++at) at->second->TakeBack();
}

bool IsSequenceParameter(std::string_view name) {
  return name == kIdParameter || name == kStartParameter || name == kEndParameter;
}

void TellSequence(const GraphSequence* sequence, InferenceResponse& response) {
  const auto id = sequence != nullptr ? sequence->told() : std::nullopt;
  if (!id) return;
  // Most clients read a signed number; larger ids stay unsigned.
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  ParameterValue value = *id;
  if (*id <= kMost) value = static_cast<int64_t>(*id);
  // A node that answers messages may have passed on the client's own.
  std::erase_if(response.parameters, [](const auto& parameter) { return parameter.first == kIdParameter; });
  response.parameters.emplace_back(kIdParameter, std::move(value));
}

}  // namespace braid
