// WorkerCgroup: a control group (cgroup v2) of one worker and all that it starts, in a folder that was delegated to the server.
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

// What is written into a file of a group: of those that hold back memory, processes and processors.
struct CgroupSetting {
  std::string model = {};  // whose groups have it; empty: all
  std::string file;        // "memory.max"
  std::string value;       // as the kernel takes it: "2G"
};

// "[MODEL=]FILE=VALUE". Errors: INVALID_ARGUMENT, which lists the files.
Result<CgroupSetting> ParseCgroupSetting(std::string_view text);

// Makes `folder` ready for groups with such settings: moves this process into a group of its own below it where it is in `folder`
// itself, hands the controllers on, tries each setting, and removes what servers that were killed have left. Errors:
// FAILED_PRECONDITION: what is missing, or what the kernel says to a setting.
Status PrepareCgroups(const std::string& folder, const std::vector<CgroupSetting>& settings);

class WorkerCgroup {
 public:
  // Those of `settings`, of any model, in their order. Errors: FAILED_PRECONDITION: what the kernel refused.
  static Result<std::shared_ptr<WorkerCgroup>> Create(const std::string& folder,
                                                      const std::vector<CgroupSetting>& settings);
  // Kills what is left in it.
  ~WorkerCgroup();
  WorkerCgroup(const WorkerCgroup&) = delete;
  WorkerCgroup& operator=(const WorkerCgroup&) = delete;

  // A process with all of its threads; what it starts from then on is in the group as well.
  Status Add(pid_t pid);

 private:
  explicit WorkerCgroup(std::string path) : path_(std::move(path)) {}

  const std::string path_;
};

}  // namespace braid
