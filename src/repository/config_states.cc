#include "repository/config_states.h"

#include <vector>

#include "base/clock.h"
#include "serving/ovms_status.h"

namespace braid {
namespace {

Status Occupied(const std::string& name, ServableKind kind) {
  switch (kind) {
    case ServableKind::kPipeline:
      return OvmsError(OvmsCode::kPipelineNameOccupied, name);
    case ServableKind::kGraph:
      return AlreadyExistsError("Given mediapipe graph name is already occupied - " + name);
    case ServableKind::kModel:
    case ServableKind::kEnsemble:
      break;
  }
  return AlreadyExistsError("Given model name is already occupied - " + name);
}

// What a client is told of a load that failed.
StatusCode FailureOf(const Status& fault) {
  return fault.code() == StatusCode::kFailedPrecondition ? fault.code() : StatusCode::kUnknown;
}

}  // namespace

Status ConfigStates::Claim(const std::string& name, ServableKind kind) {
  std::vector<Leaving> leaving;
  {
    std::lock_guard lock(mutex_);
    const auto owner = owners_.find(name);
    if (owner == owners_.end()) {
      if (catalog_.Knows(name, -1)) return Occupied(name, kind);
    } else if (owner->second.kind == kind) {
      owner->second.wanted = true;
      return OkStatus();
    } else {
      if (owner->second.wanted) return Occupied(name, kind);
      for (auto it = serving_.lower_bound({name, 0}); it != serving_.end() && it->first.first == name;) {
        const Key key = (it++)->first;
        leaving.push_back(RetireLocked(key, owner->second.kind));
      }
      std::erase_if(tickets_, [&name](const auto& ticket) { return ticket.first.first == name; });
      catalog_.RemoveModel(name);
    }
    owners_[name] = {kind, true};
    catalog_.AddModel(name);
  }
  for (Leaving& one : leaving) Drain(std::move(one));
  return OkStatus();
}

void ConfigStates::Want(const std::set<std::pair<std::string, ServableKind>>& wanted) {
  std::lock_guard lock(mutex_);
  for (auto& [name, owner] : owners_) owner.wanted = wanted.contains({name, owner.kind});
}

void ConfigStates::SetLoading(const std::string& name, int64_t version, ServableKind kind) {
  std::lock_guard lock(mutex_);
  if (closed_) return;
  tickets_[{name, version}] = ++last_ticket_;
  catalog_.SetState(name, version, VersionState::kLoading, "", StatusCode::kOk, kind);
}

ConfigStates::Leaving ConfigStates::SetFailed(const std::string& name, int64_t version, ServableKind kind,
                                              const Status& fault) {
  std::lock_guard lock(mutex_);
  if (closed_) return {};
  const Key key(name, version);
  tickets_[key] = ++last_ticket_;
  Leaving leaving;
  if (const auto found = serving_.find(key); found != serving_.end()) {
    leaving.servable = std::move(found->second);
    serving_.erase(found);
  }
  catalog_.SetState(name, version, VersionState::kUnavailable,
                    catalog_.error_texts().ForClients(fault.message()), FailureOf(fault), kind);
  return leaving;
}

bool ConfigStates::Serve(std::shared_ptr<Servable> servable, Leaving& before) {
  std::lock_guard lock(mutex_);
  if (closed_) return false;
  const Key key(servable->info().name, servable->info().version);
  tickets_[key] = ++last_ticket_;
  serving_[key] = servable;
  before = {catalog_.Publish(std::move(servable)), 0};
  return true;
}

ConfigStates::Leaving ConfigStates::Retire(const std::string& name, int64_t version, ServableKind kind) {
  std::lock_guard lock(mutex_);
  const auto owner = owners_.find(name);
  if (closed_ || owner == owners_.end() || owner->second.kind != kind) return {};
  return RetireLocked({name, version}, kind);
}

ConfigStates::Leaving ConfigStates::RetireLocked(const Key& key, ServableKind kind) {
  const auto& [name, version] = key;
  const uint64_t ticket = ++last_ticket_;
  tickets_[key] = ticket;
  const auto found = serving_.find(key);
  if (found == serving_.end()) {
    catalog_.SetState(name, version, VersionState::kUnavailable, "unloaded", StatusCode::kOk, kind);
    return {};
  }
  catalog_.SetState(name, version, VersionState::kUnloading, "", StatusCode::kOk, kind);
  Leaving leaving{std::move(found->second), ticket};
  serving_.erase(found);
  return leaving;
}

void ConfigStates::Drain(Leaving leaving) {
  if (leaving.servable == nullptr) return;
  const ServableInfo& info = leaving.servable->info();
  drains_.Start(leaving.servable, [this, name = info.name, version = info.version, kind = info.kind,
                                   ticket = leaving.ticket, begin_ns = SteadyNowNs()] {
    BRAID_LOG_INFO(log_, "{} '{}' version {} after {} ms", ticket == 0 ? "replaced" : "retired", name,
                   version, (SteadyNowNs() - begin_ns) / 1000000);
    if (ticket != 0) ReportRetired(name, version, kind, ticket);
  });
}

void ConfigStates::ReportRetired(const std::string& name, int64_t version, ServableKind kind,
                                 uint64_t ticket) {
  std::lock_guard lock(mutex_);
  const auto last = tickets_.find({name, version});
  // Since then the version may have been loaded again, or the name may be another kind's.
  if (last == tickets_.end() || last->second != ticket) return;
  catalog_.SetState(name, version, VersionState::kUnavailable, "unloaded", StatusCode::kOk, kind);
}

void ConfigStates::Close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
}

bool ConfigStates::closed() const {
  std::lock_guard lock(mutex_);
  return closed_;
}

void ConfigStates::RetireAll() {
  std::vector<Leaving> models;
  std::vector<Leaving> pipelines;
  {
    std::lock_guard lock(mutex_);
    while (!serving_.empty()) {
      const Key key = serving_.begin()->first;
      const ServableKind kind = serving_.begin()->second->info().kind;
      (kind == ServableKind::kPipeline ? pipelines : models).push_back(RetireLocked(key, kind));
    }
  }
  for (auto* all : {&pipelines, &models}) {
    for (Leaving& one : *all) Drain(std::move(one));
  }
}

}  // namespace braid
