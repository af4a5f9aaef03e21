#include "server/server_control.h"

namespace braid {
namespace {

Status NoRepository() {
  return UnsupportedError(
      "models of a config.json are loaded and unloaded by changing the file; POST /v1/config/reload reads it "
      "at once");
}

}  // namespace

Status ServerControl::Load(const LoadRequest& request) {
  return models_ == nullptr ? NoRepository() : models_->Load(request);
}

Status ServerControl::Unload(const std::string& model_name, bool unload_dependents) {
  return models_ == nullptr ? NoRepository() : models_->Unload(model_name, unload_dependents);
}

bool ServerControl::serving() const {
  return serving_.load(std::memory_order_acquire) && (models_ == nullptr || models_->serving());
}

bool ServerControl::server_ready() const {
  return serving() && !draining() && (models_ == nullptr || models_->server_ready());
}

void ServerControl::CheckServerReady(std::function<void(bool)> done) {
  if (models_ == nullptr || !server_ready()) {
    done(server_ready());
  } else {
    models_->CheckServerReady(std::move(done));
  }
}

}  // namespace braid
