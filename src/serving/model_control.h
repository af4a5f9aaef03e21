// ModelControl: the operations on the model repository that protocols may call. Implemented by repository/,
// wired in server/.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "serving/catalog.h"

namespace braid {

// Returns whether the sender of a request has the rights it needs on a further model; the error is for the
// client. Empty: all rights.
using ModelRights = std::function<Status(const std::string& model)>;

// The parameters of a load request.
struct LoadRequest {
  std::string model_name;
  // JSON text of a whole ModelConfig, which replaces the file's.
  std::optional<std::string> config_json;
  // Files that replace the folder's, by path relative to the model's folder ("1/model.py"). With any file,
  // config_json is required and the folder on disk is not read.
  std::map<std::string, std::string> files;
  // Checked while the load is planned, for each direct and indirect dependency of the model.
  ModelRights rights = {};
};

class ModelControl {
 public:
  virtual ~ModelControl() = default;

  // Loads the model, or reloads it if something changed. Blocks until done, so it must not be called on a
  // network thread. Errors: texts and codes of the contract, e.g. UNAVAILABLE outside explicit mode; those of
  // request.rights.
  virtual Status Load(const LoadRequest& request) = 0;
  // Starts to unload and returns at once. An unknown model is not an error. Errors: as Load(); those of
  // `rights`, which is checked for each dependent.
  virtual Status Unload(const std::string& model_name, bool unload_dependents, const ModelRights& rights) = 0;
  // Whether the server answers requests, each by its model's own state. True from the moment the server knows
  // its models, before they are loaded, until it exits.
  virtual bool serving() const = 0;
  // Whether the server still serves before it exits but accepts no new work: serving() is true and
  // server_ready() false.
  virtual bool draining() const { return false; }
  // Whether every load of the start has ended, no shutdown has begun, and (in strict mode) every version is
  // ready.
  virtual bool server_ready() const = 0;
  // As server_ready(), and also asks user code with a readiness check, as Servable::CheckReadiness() does.
  virtual void CheckServerReady(std::function<void(bool)> done) { done(server_ready()); }
};

}  // namespace braid
