// WorkerCgroup: a control group (cgroup v2) for one worker and its child processes, in a folder that was
// delegated to the server.
//
//   BRAID_RETURN_IF_ERROR(PrepareCgroups("/sys/fs/cgroup/braid", settings));
//   BRAID_ASSIGN_OR_RETURN(auto group, WorkerCgroup::Create("/sys/fs/cgroup/braid", settings));
//   BRAID_RETURN_IF_ERROR(group->Add(pid));
//
// See https://docs.kernel.org/admin-guide/cgroup-v2.html.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace braid {

// A value for one file of a group; the files limit memory, processes and processors.
struct CgroupSetting {
  std::string model = {};  // the model whose groups get it; empty: all models
  std::string file;        // "memory.max"
  std::string value;       // in the kernel's format: "2G"
};

// Parses "[MODEL=]FILE=VALUE". Errors: INVALID_ARGUMENT, with the list of files.
Result<CgroupSetting> ParseCgroupSetting(std::string_view text);

// Prepares `folder` for groups with these settings. If this process is in `folder` itself, it moves to a new
// group below. Enables the controllers for child groups, tries each setting, and removes groups of killed
// servers. Errors: FAILED_PRECONDITION: the missing controller, or the kernel's error for a setting.
Status PrepareCgroups(const std::string& folder, const std::vector<CgroupSetting>& settings);

class WorkerCgroup {
 public:
  // Creates a group and applies all of `settings` in order. Errors: FAILED_PRECONDITION: the kernel's error.
  static Result<std::shared_ptr<WorkerCgroup>> Create(const std::string& folder,
                                                      const std::vector<CgroupSetting>& settings);
  // Kills the processes left in the group, and removes it.
  ~WorkerCgroup();
  WorkerCgroup(const WorkerCgroup&) = delete;
  WorkerCgroup& operator=(const WorkerCgroup&) = delete;

  // Moves a process with all of its threads into the group. Its later child processes are in the group as
  // well.
  Status Add(pid_t pid);

 private:
  explicit WorkerCgroup(std::string path) : path_(std::move(path)) {}

  const std::string path_;
};

}  // namespace braid
