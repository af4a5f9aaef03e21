// ConfigStates: what of a catalog belongs to a config.json, and how it comes and goes there.
//
// A name belongs to whoever has brought it first: to a model, a pipeline or a graph of this configuration, or
// to another repository of the same catalog.
//
//   BRAID_RETURN_IF_ERROR(states.Claim("resnet", ServableKind::kModel));
//   states.SetLoading("resnet", 1, ServableKind::kModel);
//   ConfigStates::Leaving before;
//   if (!states.Serve(servable, before)) ...          // the server exits
//   states.Drain(std::move(before));
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "repository/drains.h"
#include "serving/catalog.h"
#include "serving/servable.h"

namespace braid {

// All methods may be called from any thread.
class ConfigStates {
 public:
  // Requests no longer find it; it still has to be drained. Without a servable there is nothing to do.
  struct Leaving {
    std::shared_ptr<Servable> servable;
    uint64_t ticket = 0;  // of a version that is retired; 0 for one that another has replaced
  };

  // All outlive it.
  ConfigStates(Catalog& catalog, Drains& drains, Logger& log)
      : catalog_(catalog), drains_(drains), log_(log) {}

  // Makes the name known as one of this kind. Errors: ALREADY_EXISTS when it is somebody else's.
  Status Claim(const std::string& name, ServableKind kind);
  // What the configuration has now: other names stay known, and another kind may claim them.
  void Want(const std::set<std::pair<std::string, ServableKind>>& wanted);

  // States of a version that does not serve.
  void SetLoading(const std::string& name, int64_t version, ServableKind kind);
  // Whatever served it has to leave.
  Leaving SetFailed(const std::string& name, int64_t version, ServableKind kind, const Status& fault);
  // The version serves from now on; `before` is what it replaces. False when Close() was called: then nothing
  // has changed.
  bool Serve(std::shared_ptr<Servable> servable, Leaving& before);
  // The version is taken away. One that does not serve is retired at once.
  Leaving Retire(const std::string& name, int64_t version, ServableKind kind);
  // Closes its gate; when the last request has left it is stopped, and a retired version is reported as such.
  void Drain(Leaving leaving);

  // Nothing serves from now on but what does already.
  void Close();
  bool closed() const;
  // Retires and drains everything, pipelines before models. REQUIRES: closed()
  void RetireAll();

 private:
  using Key = std::pair<std::string, int64_t>;
  struct Owner {
    ServableKind kind = ServableKind::kModel;
    bool wanted = true;
  };

  Leaving RetireLocked(const Key& key, ServableKind kind);
  void ReportRetired(const std::string& name, int64_t version, ServableKind kind, uint64_t ticket);

  Catalog& catalog_;
  Drains& drains_;
  Logger& log_;

  mutable std::mutex mutex_;  // held while the catalog is written, so that both agree
  // All guarded by mutex_.
  bool closed_ = false;
  std::map<std::string, Owner> owners_;
  std::map<Key, std::shared_ptr<Servable>> serving_;  // shared with the catalog and with requests
  // The last change of each version: what comes late is known by it.
  std::map<Key, uint64_t> tickets_;
  uint64_t last_ticket_ = 0;
};

}  // namespace braid
