#include "backends/native/native_workers.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "isolation/worker_surroundings.h"
#include "workers/auto_complete.h"

namespace braid {

namespace fs = std::filesystem;

namespace {

std::string FolderOf(const std::string& file) { return fs::path(file).parent_path().string(); }

// A version may be a file, with its weights beside it.
std::string FolderOfVersion(const std::string& path) {
  std::error_code fault;
  return fs::is_regular_file(path, fault) ? FolderOf(path) : path;
}

}  // namespace

NativeWorkers::NativeWorkers(Options options) : options_(std::move(options)) {
  BRAID_CHECK(options_.services != nullptr);
}

NativeWorkers::~NativeWorkers() = default;

Result<NativeWorkers::Shared*> NativeWorkers::Get() {
  MutexLock lock(mutex_);
  if (shared_.spawner) return &shared_;
  BRAID_ASSIGN_OR_RETURN(shared_.support, options_.support());
  WorkerSpawner::Options spawner;
  spawner.program = options_.program;
  spawner.start = WorkerStart::kFresh;
  spawner.limits = options_.limits;
  spawner.segments = options_.segments;
  spawner.isolation = options_.isolation;
  if (options_.user_ids != nullptr) spawner.user_ids = options_.user_ids;
  spawner.temporary_directory = options_.temporary_directory;
  spawner.timeout_ns = options_.sign_in_timeout_ns;
  spawner.verbose_errors = options_.services->catalog->error_texts().verbose();
  shared_.spawner = std::make_unique<WorkerSpawner>(std::move(spawner), *shared_.support);
  return &shared_;
}

Result<WorkerFacts> NativeWorkers::Facts(const std::string& name, const NativeTask& task) const {
  WorkerFacts facts;
  facts.model_name = name;
  facts.model_config_json = EncodeTask(task);
  facts.model_version = std::to_string(task.version);
  facts.model_path = task.model_path;
  facts.version_path = task.version_path;
  facts.model_file = task.model_file;
  facts.arena_keep_bytes = options_.arena.keep_bytes;
  // A library of custom nodes is opened at one level, and all of its nodes run at that level.
  const std::string& whose = task.library_name.empty() ? name : task.library_name;
  const auto asked = task.triton_config.parameters().find("WORKER_ISOLATION");
  BRAID_ASSIGN_OR_RETURN(facts.isolation, IsolationOf(options_.isolation, whose,
                                                      asked == task.triton_config.parameters().end()
                                                          ? std::string()
                                                          : asked->second.string_value()));
  if (facts.isolation.level < IsolationLevel::kStrict) return facts;
  facts.isolation.files = ProgramPaths();
  // OpenVINO's device is known only after the model is compiled.
  facts.isolation.gpus = true;
  auto& files = facts.isolation.files;
  for (const std::string& folder :
       {task.model_path, FolderOfVersion(task.version_path), FolderOf(task.model_file)}) {
    if (folder.empty()) continue;
    const auto paths = FolderPaths(folder);
    files.insert(files.end(), paths.begin(), paths.end());
  }
  for (const std::string& library : {task.cpu_extension, task.library_path}) {
    if (const std::string folder = FolderOf(library); !folder.empty()) files.push_back({folder, false});
  }
  if (!task.cache_directory.empty()) {
    // OpenVINO would create the folder, but a worker is not allowed to.
    std::error_code fault;
    fs::create_directories(task.cache_directory, fault);
    facts.isolation.files.push_back({task.cache_directory, true});
  }
  return facts;
}

Result<NativeAnswer> NativeWorkers::Do(const std::string& name, const NativeTask& task) {
  BRAID_ASSIGN_OR_RETURN(Shared* const shared, Get());
  BRAID_ASSIGN_OR_RETURN(const WorkerFacts facts, Facts(name, task));
  BRAID_ASSIGN_OR_RETURN(const std::string text, AutoCompleteConfig(facts, *shared->spawner, 0, nullptr));
  BRAID_ASSIGN_OR_RETURN(NativeAnswer answer, DecodeAnswer(text));
  BRAID_RETURN_IF_ERROR(answer.status);
  return answer;
}

Result<std::unique_ptr<NativeModel>> NativeWorkers::MakeModel(const std::string& name, const NativeTask& task,
                                                              std::shared_ptr<const void> files) {
  BRAID_ASSIGN_OR_RETURN(Shared* const shared, Get());
  BRAID_ASSIGN_OR_RETURN(WorkerFacts facts, Facts(name, task));
  return std::make_unique<NativeModel>(std::move(facts), *options_.services, *shared->spawner, options_.arena,
                                       std::move(files));
}

}  // namespace braid
