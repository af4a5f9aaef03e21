// What protocols may ask of the model repository. Implemented by repository/, wired in server/.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "serving/catalog.h"

namespace braid {

// Whether the sender of a request has the rights that it needs to a model beside the one that the request names; with the
// error for a client. Empty: to every model.
using ModelRights = std::function<Status(const std::string& model)>;

// The parameters of a load request.
struct LoadRequest {
  std::string model_name;
  // JSON text of a whole ModelConfig, in place of the file's.
  std::optional<std::string> config_json;
  // Files in place of the folder's: path relative to the model's folder ("1/model.py") to contents. With any
  // of these, config_json is required and the folder on disk is not looked at.
  std::map<std::string, std::string> files;
  // Asked while the load is planned, of each model that this one uses, directly or not.
  ModelRights rights = {};
};

class ModelControl {
 public:
  virtual ~ModelControl() = default;

  // Loads, or reloads if something changed; blocks until done, so it must not be called on a network thread.
  // Errors: texts and codes of the contract, e.g. UNAVAILABLE outside explicit mode; those of request.rights.
  virtual Status Load(const LoadRequest& request) = 0;
  // Starts to unload; returns at once. Unknown models are no error. Errors: as Load(); those of `rights`, which is asked of each
  // dependent.
  virtual Status Unload(const std::string& model_name, bool unload_dependents, const ModelRights& rights) = 0;
  // Whether requests are answered, each model's by its own state: from the moment the server knows its models, before they are
  // loaded, until it exits.
  virtual bool serving() const = 0;
  // Whether what is there is served on before the server exits, while nothing new is to come: it serves, and
  // is not ready.
  virtual bool draining() const { return false; }
  // Whether every load of the start has ended, nothing is to end, and (in strict mode) every version is ready.
  virtual bool server_ready() const = 0;
  // As server_ready(), and asks user code that has a say in it, as Servable::CheckReadiness() does.
  virtual void CheckServerReady(std::function<void(bool)> done) { done(server_ready()); }
};

}  // namespace braid
