// ServerControl: one ModelControl over everything that the server loads: the models of model repositories,
// and what a config.json names. Either may be missing.
#pragma once

#include <atomic>

#include "repository/model_repository.h"
#include "serving/model_control.h"

namespace braid {

class ServerControl final : public ModelControl {
 public:
  // `models` is null when there is no model repository; it outlives this.
  explicit ServerControl(ModelRepository* models) : models_(models) {}

  // Between the end of the loads at start, and the beginning of the stop.
  void set_serving(bool serving) { serving_.store(serving, std::memory_order_release); }

  // From here on the server serves, but says that it is not ready: nothing new is to come.
  void BeginDrain() { draining_.store(true, std::memory_order_release); }

  // Errors: UNSUPPORTED without a model repository: a config.json is changed in its file.
  Status Load(const LoadRequest& request) override;
  Status Unload(const std::string& model_name, bool unload_dependents) override;
  bool serving() const override;
  bool draining() const override { return draining_.load(std::memory_order_acquire); }
  // --strict-readiness of model repositories looks at everything that is served; a server with a config.json
  // alone is ready when its first loads have ended, however they ended.
  bool server_ready() const override;
  void CheckServerReady(std::function<void(bool)> done) override;

 private:
  ModelRepository* const models_;
  std::atomic<bool> serving_{false};
  std::atomic<bool> draining_{false};
};

}  // namespace braid
