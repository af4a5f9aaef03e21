#include "workers/shared_arrays.h"

#include <algorithm>
#include <utility>

#include "base/guard.h"

namespace braid {
namespace {

const std::string* TextParameter(const InferenceRequest& request, std::string_view name) {
  for (const auto& [key, value] : request.parameters) {
    if (key == name) return std::get_if<std::string>(&value);
  }
  return nullptr;
}

bool HasParameter(const InferenceRequest& request, std::string_view name) {
  return std::ranges::any_of(request.parameters, [name](const auto& each) { return each.first == name; });
}

InferenceResponse Failure(Status status) {
  InferenceResponse response;
  response.status = std::move(status);
  return response;
}

InferenceResponse Loads() {
  InferenceResponse response;
  response.parameters.emplace_back(SharedArrays::kLoad, true);
  return response;
}

InferenceResponse Arrays(const std::vector<Tensor>& arrays, const std::string& structure) {
  InferenceResponse response;
  response.outputs = arrays;
  response.parameters.emplace_back(SharedArrays::kStructure, structure);
  return response;
}

}  // namespace

void SharedArrays::Call(User user, std::unique_ptr<InferenceRequest> request) {
  Answers answers;
  {
    RetryingLock lock(mutex_);
    if (const std::string* structure = TextParameter(*request, kStructure)) {
      FillLocked(user, std::move(request), *structure, answers);
    } else if (HasParameter(*request, kFailed)) {
      FailLocked(user, std::move(request), answers);
    } else {
      OpenLocked(user, std::move(request), answers);
    }
  }
  Send(answers);
}

void SharedArrays::OpenLocked(User user, std::unique_ptr<InferenceRequest> request, Answers& answers) {
  Entry& entry = entries_[request->id];
  if (!entry.loaded && entry.loader != nullptr && WaitsForLocked(entry.loader, user)) {
    Status fault = FailedPreconditionError("shared_arrays: the loader of '" + request->id +
                                           "' waits for arrays that this process loads");
    answers.emplace_back(std::move(request), Failure(std::move(fault)));
    return;
  }
  entry.users.insert(user);
  if (entry.loaded) {
    answers.emplace_back(std::move(request), Arrays(entry.arrays, entry.structure));
  } else if (entry.loader == nullptr) {
    entry.loader = user;
    answers.emplace_back(std::move(request), Loads());
  } else {
    entry.waiting.emplace_back(user, std::move(request));
  }
}

void SharedArrays::FillLocked(User user, std::unique_ptr<InferenceRequest> request,
                              const std::string& structure, Answers& answers) {
  const auto found = entries_.find(request->id);
  if (found == entries_.end() || found->second.loader != user) {
    answers.emplace_back(
        std::move(request),
        Failure(InvalidArgumentError("shared_arrays: this process does not load the arrays")));
    return;
  }
  Entry& entry = found->second;
  entry.loader = nullptr;
  entry.loaded = true;
  entry.structure = structure;
  entry.arrays = std::move(request->inputs);
  entry.waiting.emplace_back(user, std::move(request));
  for (auto& [waiter, call] : std::exchange(entry.waiting, {}))
    answers.emplace_back(std::move(call), Arrays(entry.arrays, entry.structure));
}

void SharedArrays::FailLocked(User user, std::unique_ptr<InferenceRequest> request, Answers& answers) {
  const auto found = entries_.find(request->id);
  if (found != entries_.end() && found->second.loader == user) {
    found->second.users.erase(user);
    PassOnLocked(found->second, answers);
    if (found->second.users.empty()) entries_.erase(found);
  }
  answers.emplace_back(std::move(request), InferenceResponse());
}

void SharedArrays::PassOnLocked(Entry& entry, Answers& answers) {
  entry.loader = nullptr;
  if (entry.waiting.empty()) return;
  auto [next, call] = std::move(entry.waiting.front());
  entry.waiting.erase(entry.waiting.begin());
  entry.loader = next;
  answers.emplace_back(std::move(call), Loads());
}

void SharedArrays::Leave(User user) {
  Answers answers;
  std::vector<Entry> freed;  // without the lock
  {
    RetryingLock lock(mutex_);
    for (auto it = entries_.begin(); it != entries_.end();) {
      Entry& entry = it->second;
      for (auto& [waiter, call] : entry.waiting) {
        if (waiter == user)
          answers.emplace_back(std::move(call), Failure(CancelledError("the worker ended")));
      }
      std::erase_if(entry.waiting, [user](const auto& each) { return each.first == user; });
      entry.users.erase(user);
      if (entry.loader == user) PassOnLocked(entry, answers);
      if (entry.users.empty()) {
        freed.push_back(std::move(entry));
        it = entries_.erase(it);
      } else {
        ++it;
      }
    }
  }
  Send(answers);
}

// The chain of waits ends, because no wait is begun that would close it.
bool SharedArrays::WaitsForLocked(User loader, User user) const {
  while (loader != nullptr && loader != user) {
    User next = nullptr;
    for (const auto& [key, entry] : entries_) {
      const bool waits =
          std::ranges::any_of(entry.waiting, [loader](const auto& each) { return each.first == loader; });
      if (waits) next = entry.loader;
    }
    loader = next;
  }
  return loader == user;
}

void SharedArrays::Send(Answers& answers) {
  for (auto& [request, response] : answers) request->Respond(std::move(response), true);
}

}  // namespace braid
