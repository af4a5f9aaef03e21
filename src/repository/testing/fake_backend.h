// Fakes for tests of the repository: a backend whose models are objects in this process, and factories for
// its servables.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "model_config.pb.h"
#include "scheduling/backend.h"
#include "serving/catalog.h"
#include "serving/servable.h"

namespace braid::testing {

// A log of the fakes' actions, for all models together.
class Journal {
 public:
  void Add(std::string line) {
    std::lock_guard lock(mutex_);
    lines_.push_back(std::move(line));
  }
  int Count(const std::string& line) const {
    std::lock_guard lock(mutex_);
    int count = 0;
    for (const auto& one : lines_) count += one == line ? 1 : 0;
    return count;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;  // guarded by mutex_
};

class FakeModel : public BackendModel {
 public:
  explicit FakeModel(ModelLocation location) : location(std::move(location)) {}
  BufferAllocator& input_allocator() override { return allocator_; }
  std::vector<Instance*> instances() override { return {}; }
  Status Start(ExecutionListener&, const std::function<void(const std::string&)>&) override {
    return OkStatus();
  }
  void Stop(int64_t) override {}
  Readiness readiness() const override { return {}; }

  const ModelLocation location;

 private:
  HeapAllocator allocator_;
};

class FakeServable : public Servable {
 public:
  FakeServable(ServableInfo info, std::unique_ptr<BackendModel> model, Journal& journal)
      : Servable(std::move(info)), model_(std::move(model)), journal_(journal) {}
  BufferAllocator& input_allocator() override { return model_->input_allocator(); }
  void Infer(std::unique_ptr<InferenceRequest>) override {}
  Readiness readiness() const override { return {}; }
  void Stop(int64_t) override { journal_.Add("stop " + info_.name + ":" + std::to_string(info_.version)); }

  const ModelLocation& location() const { return static_cast<const FakeModel&>(*model_).location; }

 private:
  std::unique_ptr<BackendModel> model_;
  Journal& journal_;
};

class FakeBackend : public Backend {
 public:
  std::string_view name() const override { return "python"; }
  std::string HostedFile(std::string_view backend, const std::string& backend_directory) const override {
    std::string file = backend_directory + "/" + std::string(backend) + "/model.py";
    return std::filesystem::is_regular_file(file) ? file : std::string();
  }
  std::string DefaultFile(const inference::ModelConfig&, const std::string&) const override {
    return "model.py";
  }
  bool RunsUserCode() const override { return true; }
  Status Prepare(const inference::ModelConfig&, ModelLocation& location,
                 const std::function<void(const std::string&)>&) override {
    if (std::filesystem::is_regular_file(location.model_file)) return OkStatus();
    return InternalError("there is no '" + location.model_file + "'");
  }
  Status AutoComplete(const ModelLocation& location, inference::ModelConfig& config) override {
    return complete ? complete(location, config) : OkStatus();
  }
  Result<std::unique_ptr<BackendModel>> Create(const ModelLocation& location,
                                               std::shared_ptr<const inference::ModelConfig>) override {
    return std::unique_ptr<BackendModel>(std::make_unique<FakeModel>(location));
  }

  // Set before the repository starts.
  std::function<Status(const ModelLocation&, inference::ModelConfig&)> complete;
};

// Makes FakeServables. `before` is called first, and can refuse, wait, or report progress.
class FakeFactory {
 public:
  using Progress = std::function<void(const std::string&)>;

  Result<std::shared_ptr<Servable>> operator()(ServableInfo info, std::unique_ptr<BackendModel> model,
                                               const Progress& progress) {
    const std::string who = info.name + ":" + std::to_string(info.version);
    journal.Add("start " + who);
    std::function<Status(const ServableInfo&, const ModelLocation&, const Progress&)> ask;
    {
      std::lock_guard lock(mutex_);
      ask = before_;
    }
    if (ask) BRAID_RETURN_IF_ERROR(ask(info, static_cast<FakeModel&>(*model).location, progress));
    return std::shared_ptr<Servable>(
        std::make_shared<FakeServable>(std::move(info), std::move(model), journal));
  }

  // Makes an ensemble without a backend; all of its models must be in the catalog.
  Result<std::shared_ptr<Servable>> MakeEnsemble(
      ServableInfo info, const Catalog& catalog,
      const std::function<std::string(const std::string&)>& why_missing) {
    journal.Add("start " + info.name + ":" + std::to_string(info.version));
    for (const auto& step : info.config->ensemble_scheduling().step()) {
      if (!catalog.Find(step.model_name(), -1).ok()) {
        return InvalidArgumentError("ensemble '" + info.name + "' depends on '" + step.model_name() + "' " +
                                    why_missing(step.model_name()));
      }
    }
    return std::shared_ptr<Servable>(std::make_shared<FakeServable>(
        std::move(info), std::make_unique<FakeModel>(ModelLocation{}), journal));
  }

  void set_before(std::function<Status(const ServableInfo&, const ModelLocation&, const Progress&)> before) {
    std::lock_guard lock(mutex_);
    before_ = std::move(before);
  }

  Journal journal;

 private:
  std::mutex mutex_;
  std::function<Status(const ServableInfo&, const ModelLocation&, const Progress&)>
      before_;  // guarded by mutex_
};

}  // namespace braid::testing
