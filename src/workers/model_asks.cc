#include "workers/model_asks.h"

#include <charconv>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "base/guard.h"
#include "base/json.h"
#include "base/thread.h"

namespace braid {
namespace {

// The object in a question; the worker's extension writes its fields.
class Fields {
 public:
  explicit Fields(std::string_view text) : object_(ParseJson(text)) {}
  std::string Text(const char* name) const {
    auto field = object_.is_object() ? object_.find(name) : object_.end();
    return field != object_.end() && field->is_string() ? field->get<std::string>() : "";
  }
  bool Flag(const char* name) const {
    auto field = object_.is_object() ? object_.find(name) : object_.end();
    return field != object_.end() && field->is_boolean() && field->get<bool>();
  }

 private:
  const Json object_;
};

}  // namespace

Result<int64_t> VersionFromText(const std::string& text) {
  if (text.empty()) return int64_t{-1};
  const std::string error = "failed to get model version from specified version string '" + text + "'";
  int64_t version = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), version);
  if (code != std::errc() || end == text.data()) {
    return InternalError(error + " (details: stol), version should be an integral value > 0");
  }
  if (version <= 0) return InternalError(error + ", version should be an integral value > 0");
  return version;
}

ModelAsks::~ModelAsks() {
  MutexLock lock(mutex_);
  while (running_ > 0) ended_.Wait(mutex_);
}

void ModelAsks::AddTo(WorkerServices& services) {
  services.asks[AskTopic::kLoadModel] = [this](const AskMessage& ask, AskAnswer answer) {
    Load(ask, std::move(answer));
  };
  services.asks[AskTopic::kUnloadModel] = [this](const AskMessage& ask, AskAnswer answer) {
    Unload(ask, std::move(answer));
  };
  services.asks[AskTopic::kIsModelReady] = [this](const AskMessage& ask, AskAnswer answer) {
    IsReady(ask, std::move(answer));
  };
  services.asks[AskTopic::kTakesDeviceInputs] = [this](const AskMessage& ask, const AskAnswer& answer) {
    TakesDeviceInputs(ask, answer);
  };
}

void ModelAsks::RunApart(std::function<Result<std::string>()> task, AskAnswer answer) {
  bool refused = false;
  {
    MutexLock lock(mutex_);
    refused = running_ >= kMostRunning;
    if (!refused) ++running_;
  }
  if (refused) {
    answer(UnavailableError("the limit of " + std::to_string(kMostRunning) +
                            " loads and unloads by models is reached"));
    return;
  }
  const auto end = [this] {
    MutexLock lock(mutex_);
    --running_;
    ended_.NotifyAll();  // notified with the lock held, since this may be destroyed right after
  };
  try {
    StartThread("brd-py-ask", [task = std::move(task), answer, end] {
      Result<std::string> done = OutOfMemory();
      const Status status = Guarded([&] { done = task(); });
      GuardedOrReport("brd-py-ask", [&] { answer(status.ok() ? std::move(done) : status); });
      end();
    }).detach();
  } catch (const std::system_error& error) {
    answer(UnavailableError(std::string("cannot start a thread: ") + error.what()));
    end();
  } catch (const std::bad_alloc&) {
    answer(OutOfMemory());
    end();
  }
}

void ModelAsks::Load(const AskMessage& ask, AskAnswer answer) {
  const Fields fields(ask.text);
  LoadRequest request;
  request.model_name = fields.Text("model_name");
  if (std::string config = fields.Text("config"); !config.empty()) request.config_json = std::move(config);
  for (const AskMessage::Attachment& file : ask.attachments) {
    constexpr std::string_view kFile = "file:";
    if (!file.name.starts_with(kFile)) {
      answer(InvalidArgumentError("Unrecognized load parameter '" + std::string(file.name) +
                                  "' with type 'BYTES'"));
      return;
    }
    request.files.emplace(file.name.substr(kFile.size()),
                          std::string(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()));
  }
  RunApart(
      [this, request = std::move(request)]() -> Result<std::string> {
        BRAID_RETURN_IF_ERROR(control_.Load(request));
        return std::string();
      },
      std::move(answer));
}

void ModelAsks::Unload(const AskMessage& ask, AskAnswer answer) {
  const Fields fields(ask.text);
  RunApart(
      [this, name = fields.Text("model_name"),
       dependents = fields.Flag("unload_dependents")]() -> Result<std::string> {
        BRAID_RETURN_IF_ERROR(control_.Unload(name, dependents, {}));
        return std::string();
      },
      std::move(answer));
}

void ModelAsks::TakesDeviceInputs(const AskMessage& ask, const AskAnswer& answer) {
  const size_t colon = ask.text.find(':');
  int64_t version = 0;
  const auto [end, code] = std::from_chars(ask.text.data(), ask.text.data() + ask.text.size(), version);
  if (colon == std::string_view::npos || code != std::errc() || end != ask.text.data() + colon)
    return answer(InternalError("malformed question about a model"));
  auto servable = CatalogReader(catalog_).Find(std::string(ask.text.substr(colon + 1)), version);
  // The call itself reports a bad name.
  answer(std::string(servable.ok() && (*servable)->get().info().device_inputs ? "true" : "false"));
}

void ModelAsks::IsReady(const AskMessage& ask, AskAnswer answer) {
  const Fields fields(ask.text);
  auto version = VersionFromText(fields.Text("model_version"));
  if (!version.ok()) {
    answer(version.status());
    return;
  }
  if (!control_.serving()) {
    answer(UnavailableError("Server not ready"));
    return;
  }
  const std::string name = fields.Text("model_name");
  auto servable = CatalogReader(catalog_).Find(name, *version);
  if (!servable.ok()) {
    answer(std::string(catalog_.IsReadyOnDemand(name, *version) ? "true" : "false"));
    return;
  }
  (*servable)->get().CheckReadiness([answer = std::move(answer)](const Readiness& readiness) {
    answer(std::string(readiness.ready ? "true" : "false"));
  });
}

}  // namespace braid
