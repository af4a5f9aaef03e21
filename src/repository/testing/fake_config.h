// Fakes for tests of a config.json: models, libraries and pipelines that are objects in this process.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "config/config_file.h"
#include "pipeline/pipeline.h"
#include "repository/config_plan.h"
#include "repository/manager_options.h"
#include "repository/testing/fake_backend.h"
#include "sequences/testing/fake_sequences.h"
#include "serving/faults.h"

namespace braid::testing {

class FakeLibrary : public CustomNodeLibrary {
 public:
  explicit FakeLibrary(std::string name) : name_(std::move(name)) {}
  const std::string& name() const override { return name_; }
  Result<std::shared_ptr<const CustomNodeCode>> CodeFor(
      std::string, std::vector<std::pair<std::string, std::string>>) const override {
    return UnsupportedError("a fake has no code");
  }

 private:
  const std::string name_;
};

// Needs all servables that its nodes name, and remembers the ones it was made from.
class FakePipeline : public Servable {
 public:
  static Result<std::shared_ptr<Servable>> Create(const OvmsPipelineConfig& config, const Catalog& catalog,
                                                  const CustomNodeLibraries& libraries, Journal& journal) {
    journal.Add("start " + config.name);
    std::vector<std::weak_ptr<Servable>> uses;
    for (const OvmsNodeConfig& node : config.nodes) {
      if (node.type == OvmsNodeConfig::Type::kCustom) {
        const auto library = libraries.find(node.library_name);
        if (library == libraries.end() || !library->second.ok()) {
          return FaultError(Fault::kPipelineInvalidNodeLibrary, node.library_name);
        }
        continue;
      }
      auto found = catalog.Find(node.model_name, node.version.value_or(-1));
      if (!found.ok()) return FaultError(Fault::kPipelineMissingModel, node.model_name);
      uses.push_back(*found);
    }
    ServableInfo info;
    info.name = config.name;
    info.kind = ServableKind::kPipeline;
    info.dialect = Dialect::kOvms;
    return std::shared_ptr<Servable>(
        std::make_shared<FakePipeline>(std::move(info), config, catalog, std::move(uses), journal));
  }

  FakePipeline(ServableInfo info, OvmsPipelineConfig config, const Catalog& catalog,
               std::vector<std::weak_ptr<Servable>> uses, Journal& journal)
      : Servable(std::move(info)),
        config_(std::move(config)),
        catalog_(catalog),
        uses_(std::move(uses)),
        journal_(journal) {}

  BufferAllocator& input_allocator() override { return allocator_; }
  void Infer(std::unique_ptr<InferenceRequest>) override {}
  Readiness readiness() const override { return {}; }
  void Stop(int64_t) override { journal_.Add("stop " + info_.name); }
  // Whether its model nodes still resolve to the servables that it was made from.
  bool UpToDate() const {
    size_t i = 0;
    for (const OvmsNodeConfig& node : config_.nodes) {
      if (node.type == OvmsNodeConfig::Type::kCustom) continue;
      auto found = catalog_.Find(node.model_name, node.version.value_or(-1));
      if (!found.ok() || *found != uses_[i++].lock()) return false;
    }
    return true;
  }
  std::vector<ServableUse> uses() const override { return UsesOfPipeline(config_); }
  // Whether the servables behind its model nodes are still open to requests.
  bool CanRun() const {
    for (const auto& one : uses_) {
      const auto servable = one.lock();
      if (servable == nullptr || servable->gate().closed()) return false;
    }
    return true;
  }

 private:
  const OvmsPipelineConfig config_;
  const Catalog& catalog_;
  const std::vector<std::weak_ptr<Servable>> uses_;
  Journal& journal_;
  HeapAllocator allocator_;
};

// Loads every version folder as a FakeServable, or as a FakeStateful if its entry says so. `before` is called
// first, and can refuse or wait.
class FakeConfigMakers {
 public:
  using Before = std::function<Status(const OvmsModelConfig& config, int64_t version)>;

  explicit FakeConfigMakers(const Catalog& catalog) : catalog_(catalog) {}

  ConfigMakers Makers() {
    ConfigMakers makers;
    makers.load_model = [this](const OvmsModelConfig& config, int64_t version,
                               const std::string& path) -> Result<OpenVinoBackend::LoadedModel> {
      journal.Add("start " + config.name + ":" + std::to_string(version));
      Before before;
      {
        std::lock_guard lock(mutex_);
        before = before_;
      }
      if (before) BRAID_RETURN_IF_ERROR(before(config, version));
      OpenVinoBackend::LoadedModel loaded;
      loaded.info.dialect = Dialect::kOvms;
      loaded.info.platform = "OpenVINO";
      if (config.stateful) {
        loaded.info.stateful.emplace();
        loaded.info.stateful->states = {{"sum", DataType::kInt32, {1}}};
      }
      ModelLocation location;
      location.version_path = path;
      loaded.model = std::make_unique<FakeModel>(location);
      return loaded;
    };
    makers.make_servable = [this](ServableInfo info,
                                  std::unique_ptr<BackendModel> model) -> Result<std::shared_ptr<Servable>> {
      if (info.stateful) {
        return std::shared_ptr<Servable>(
            std::make_shared<FakeStateful>(std::move(info), std::move(model), journal));
      }
      return std::shared_ptr<Servable>(
          std::make_shared<FakeServable>(std::move(info), std::move(model), journal));
    };
    makers.open_library =
        [this](const OvmsCustomNodeLibrary& library) -> Result<std::shared_ptr<const CustomNodeLibrary>> {
      journal.Add("open " + library.name);
      if (library.base_path.ends_with("missing.so"))
        return FaultError(Fault::kNodeLibraryLoadFailedOpen, library.base_path);
      return std::shared_ptr<const CustomNodeLibrary>(std::make_shared<FakeLibrary>(library.name));
    };
    makers.make_pipeline = [this](const OvmsPipelineConfig& config, const CustomNodeLibraries& libraries) {
      return FakePipeline::Create(config, catalog_, libraries, journal);
    };
    makers.make_graph =
        [this](const OvmsGraphConfig& config,
               const std::function<void(const std::string&)>& reads) -> Result<std::shared_ptr<Servable>> {
      journal.Add("start " + config.name);
      auto text = ReadConfigFile(config.graph_path);
      if (!text.ok()) return text.status();
      if (*text == "broken") return FaultError(Fault::kGraphConfigFileInvalid);
      reads(config.base_path + "model.py");
      ServableInfo info;
      info.name = config.name;
      info.kind = ServableKind::kGraph;
      info.dialect = Dialect::kOvms;
      return std::shared_ptr<Servable>(std::make_shared<FakeServable>(
          std::move(info), std::make_unique<FakeModel>(ModelLocation()), journal));
    };
    return makers;
  }

  void set_before(Before before) {
    std::lock_guard lock(mutex_);
    before_ = std::move(before);
  }

  Journal journal;

 private:
  const Catalog& catalog_;
  std::mutex mutex_;
  Before before_;  // guarded by mutex_
};

}  // namespace braid::testing
