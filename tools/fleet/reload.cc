#include "fleet/reload.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "base/clock.h"
#include "load/messages.h"

namespace braid::fleet {
namespace {

constexpr auto kLookEach = std::chrono::milliseconds(250);

std::vector<std::string> ReadyVersions(const ModelView& model) {
  std::vector<std::string> versions;
  for (const VersionView& each : model.versions) {
    if (each.state == "READY") versions.push_back(each.version);
  }
  std::ranges::sort(versions);
  return versions;
}

std::string VersionText(const ModelView& model) {
  return fmt::format("{}", fmt::join(ReadyVersions(model), ","));
}

int64_t FromNow(double seconds) { return SteadyNowNs() + static_cast<int64_t>(seconds * 1e9); }

Outcomes OutcomesOf(const ModelView& model) { return {model.requests, model.failures}; }

// A replica and its state before and after the load.
struct Place {
  Endpoint endpoint;
  ModelView before;
  ModelView after;
};

class Reload {
 public:
  Reload(const Asking& asking, const ReloadOptions& options,
         const std::function<void(const std::string&)>& say)
      : asking_(asking), options_(options), say_(say) {}

  Status Run(const std::vector<Endpoint>& endpoints) {
    BRAID_RETURN_IF_ERROR(LookFirst(endpoints));
    for (Place& place : places_) {
      if (const Status status = Renew(place); !status.ok()) {
        Say(place, status.message());
        GoBack();
        return UnavailableError(
            fmt::format("model {} was not reloaded: {}", options_.model, status.message()));
      }
    }
    return OkStatus();
  }

 private:
  void Say(const Place& place, const std::string& what) const {
    say_(fmt::format("{}: {}", place.endpoint.name(), what));
  }

  // Loads nothing unless all replicas serve the model.
  Status LookFirst(const std::vector<Endpoint>& endpoints) {
    for (const Replica& replica : LookAtAll(endpoints, asking_)) {
      const std::string name = replica.endpoint.name();
      if (!replica.answer.ok())
        return InvalidArgumentError(name + " does not answer: " + replica.answer.message());
      const ModelView* const model = replica.Find(options_.model);
      if (model == nullptr || !model->ready() || !replica.ready)
        return InvalidArgumentError(
            fmt::format("{} does not serve model {}, or is not ready", name, options_.model));
      before_.succeeded += model->requests;
      before_.failed += model->failures;
      places_.push_back({replica.endpoint, *model, {}});
    }
    return OkStatus();
  }

  static Result<ModelView> Judge(const Replica& replica, const std::string& name) {
    if (!replica.answer.ok()) return replica.answer.WithPrefix("it does not answer: ");
    const ModelView* const model = replica.Find(name);
    if (model == nullptr || !model->ready()) return UnavailableError("the model is no longer ready");
    if (!replica.ready) return UnavailableError("it is no longer ready");
    return *model;
  }

  Result<ModelView> Look(const Place& place) const {
    return Judge(LookAt(place.endpoint, asking_), options_.model);
  }

  // Looks at the replica once earlier versions are unloaded; until then it is not ready.
  Result<ModelView> LookWhenSettled(const Place& place) const {
    const int64_t deadline_ns = FromNow(options_.load_s);
    for (bool once_more = true;;) {
      const Replica replica = LookAt(place.endpoint, asking_);
      Result<ModelView> model = Judge(replica, options_.model);
      const bool moving = Moves(replica);
      // Index and readiness are separate requests: the last version may have ended between them.
      if (!moving && (model.ok() || !replica.answer.ok() || !std::exchange(once_more, false))) return model;
      if (SteadyNowNs() > deadline_ns) return model;
      std::this_thread::sleep_for(kLookEach);
    }
  }

  bool Moves(const Replica& replica) const {
    const ModelView* const model = replica.Find(options_.model);
    return model != nullptr && std::ranges::any_of(model->versions, [](const VersionView& each) {
             return each.state == "UNLOADING" || each.state == "LOADING";
           });
  }

  Status Load(const Place& place, const std::string& body) const {
    Asking patient = asking_;
    patient.timeout_s = options_.load_s;
    BRAID_ASSIGN_OR_RETURN(load::Client client, ClientOf(place.endpoint, place.endpoint.http, patient));
    // The part of the model's path behind "/v2/models".
    const std::string name =
        load::ModelPath(options_.model, "").substr(std::string_view("/v2/models").size());
    return client.AskHttp("POST", "/v2/repository/models" + name + "/load", body).status();
  }

  Status Renew(Place& place) {
    const int64_t late_ns = FromNow(options_.load_s);
    if (const Status status = Load(place, "{}"); !status.ok()) {
      if (SteadyNowNs() >= late_ns && EndsLate(place)) loaded_.push_back(&place);
      return status.WithPrefix("the load failed: ");
    }
    loaded_.push_back(&place);
    BRAID_ASSIGN_OR_RETURN(place.after, LookWhenSettled(place));
    Say(place, fmt::format("loaded {}: version {}, was {}", options_.model, VersionText(place.after),
                           VersionText(place.before)));
    return Watch(place);
  }

  // Whether a load that timed out, but still runs, ends within the same time again.
  bool EndsLate(Place& place) const {
    Say(place, fmt::format("no answer to the load after {:g} s; waiting as long again", options_.load_s));
    const int64_t deadline_ns = FromNow(options_.load_s);
    for (;;) {
      Result<ModelView> now = LookWhenSettled(place);
      if (now.ok() && WayBackOf(place.before, *now) != WayBack::kNone) {
        place.after = *std::move(now);
        return true;
      }
      if (SteadyNowNs() > deadline_ns) return false;
      std::this_thread::sleep_for(kLookEach);
    }
  }

  // The counters of the replaced version may be reset or kept, so failures are counted from the first look
  // after the load.
  Status Watch(const Place& place) {
    const Outcomes first = OutcomesOf(place.after);
    const int64_t end_ns = FromNow(options_.watch_s);
    Outcomes since;
    do {
      std::this_thread::sleep_for(kLookEach);
      BRAID_ASSIGN_OR_RETURN(const ModelView now, Look(place));
      const Outcomes all = OutcomesOf(now);
      since = {all.succeeded - std::min(all.succeeded, first.succeeded),
               all.failed - std::min(all.failed, first.failed)};
      if (!ErrorsHold(before_, since, options_.more_errors)) {
        return UnavailableError(fmt::format("{} of {} requests have failed since the load; before, {} of {}",
                                            since.failed, since.all(), before_.failed, before_.all()));
      }
    } while (SteadyNowNs() < end_ns);
    Say(place, fmt::format("{} requests since the load, {} failed", since.all(), since.failed));
    return OkStatus();
  }

  // Rolls back, the last replica first.
  void GoBack() {
    while (!loaded_.empty()) {
      Place& place = *loaded_.back();
      loaded_.pop_back();
      // A replica that died after its load has no view of the loaded model.
      if (place.after.versions.empty()) {
        const Result<ModelView> now = LookWhenSettled(place);
        if (now.ok()) place.after = *now;
      }
      const WayBack way = WayBackOf(place.before, place.after);
      if (way == WayBack::kNone) {
        Say(place, fmt::format("cannot go back: version {} and its configuration are unchanged, so its files "
                               "were replaced; put the old files back and reload",
                               VersionText(place.before)));
        continue;
      }
      Status status = Load(place, LoadBody(place.before, way));
      if (status.ok()) status = CheckBack(place);
      Say(place, status.ok() ? fmt::format("went back to version {} by a configuration in the load; the next "
                                           "load uses the files on disk again",
                                           VersionText(place.before))
                             : "failed to go back: " + status.message());
      if (status.ok() && way == WayBack::kConfig) {
        Say(place, "its previous configuration is restored; replaced files of that version are not");
      }
    }
  }

  Status CheckBack(const Place& place) const {
    BRAID_ASSIGN_OR_RETURN(const ModelView now, LookWhenSettled(place));
    if (ReadyVersions(now) == ReadyVersions(place.before)) return OkStatus();
    return UnavailableError("it serves version " + VersionText(now));
  }

  const Asking& asking_;
  const ReloadOptions& options_;
  const std::function<void(const std::string&)>& say_;
  std::vector<Place> places_;
  std::vector<Place*> loaded_;
  Outcomes before_;
};

}  // namespace

bool ErrorsHold(const Outcomes& before, const Outcomes& since, double more_errors) {
  const double usual =
      before.all() == 0 ? 0 : static_cast<double>(before.failed) / static_cast<double>(before.all());
  const double allowed = (usual + more_errors / 100) * static_cast<double>(since.all());
  return static_cast<double>(since.failed) <= std::max(allowed, more_errors > 0 ? 1.0 : 0.0);
}

WayBack WayBackOf(const ModelView& before, const ModelView& after) {
  if (!before.config.is_object()) return WayBack::kNone;
  if (ReadyVersions(before) != ReadyVersions(after)) return WayBack::kVersions;
  return after.config.is_object() && before.config == after.config ? WayBack::kNone : WayBack::kConfig;
}

std::string LoadBody(const ModelView& before, WayBack way) {
  Json config = before.config;
  if (way == WayBack::kVersions) {
    Json versions = Json::array();
    for (const std::string& version : ReadyVersions(before)) versions.push_back(ParseJson(version));
    config["version_policy"] = {{"specific", {{"versions", std::move(versions)}}}};
  }
  return DumpJson(Json{{"parameters", {{"config", DumpJson(config)}}}});
}

Status RollingReload(const std::vector<Endpoint>& endpoints, const Asking& asking,
                     const ReloadOptions& options, const std::function<void(const std::string&)>& say) {
  return Reload(asking, options, say).Run(endpoints);
}

}  // namespace braid::fleet
