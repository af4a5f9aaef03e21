// ServerControl: the manager's interface for protocols, between the server's start and its stop.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <utility>

#include "serving/model_control.h"

namespace braid {

class ServerControl final : public ModelControl {
 public:
  // `manager` outlives this.
  explicit ServerControl(ModelControl& manager) : manager_(manager) {}

  // Called when the startup loads have ended: the server may report ready.
  void EndStart() { started_.store(true, std::memory_order_release); }

  // Stops serving.
  void BeginExit() { exiting_.store(true, std::memory_order_release); }

  // Starts the drain: the server still serves, but reports not ready, so that no new work arrives.
  void BeginDrain() { draining_.store(true, std::memory_order_release); }

  Status Load(const LoadRequest& request) override { return manager_.Load(request); }
  Status Unload(const std::string& model_name, bool unload_dependents, const ModelRights& rights) override {
    return manager_.Unload(model_name, unload_dependents, rights);
  }
  bool serving() const override { return !exiting_.load(std::memory_order_acquire) && manager_.serving(); }
  bool draining() const override { return draining_.load(std::memory_order_acquire); }
  bool server_ready() const override {
    return started_.load(std::memory_order_acquire) && serving() && !draining() && manager_.server_ready();
  }
  void CheckServerReady(std::function<void(bool)> done) override {
    if (server_ready()) {
      manager_.CheckServerReady(std::move(done));
    } else {
      done(false);
    }
  }

 private:
  ModelControl& manager_;
  std::atomic<bool> started_{false};
  std::atomic<bool> exiting_{false};
  std::atomic<bool> draining_{false};
};

}  // namespace braid
