#include "commands/data_folder.h"

#include <fstream>
#include <iterator>
#include <system_error>

#include "base/guard.h"
#include "base/program_files.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

std::string Replace(std::string text, std::string_view what, const std::string& by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

Status CopyFile(const fs::path& from, const fs::path& to, const std::string& name) {
  std::ifstream input(from, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(input), {}};
  if (input.bad() || !input.is_open()) return UnavailableError("cannot read '" + from.string() + "'");
  if (!name.empty()) content = Replace(std::move(content), "@NAME@", name);
  std::ofstream output(to, std::ios::binary);
  output << content;
  output.close();
  return output ? OkStatus() : UnavailableError("cannot write '" + to.string() + "'");
}

Status Copy(const fs::path& from, const fs::path& to, const std::string& name) {
  std::error_code error;
  if (fs::exists(to, error) && !(fs::is_directory(to, error) && fs::is_empty(to, error)))
    return AlreadyExistsError("'" + to.string() + "' exists already");
  fs::create_directories(to, error);
  if (error) return UnavailableError("cannot make '" + to.string() + "': " + error.message());
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(from)) {
    fs::path target = to;
    for (const fs::path& part : entry.path().lexically_relative(from))
      target /= name.empty() ? part.string() : Replace(part.string(), "NAME", name);
    if (entry.is_directory()) {
      fs::create_directories(target, error);
      if (error) return UnavailableError("cannot make '" + target.string() + "': " + error.message());
    } else if (entry.is_regular_file()) {
      BRAID_RETURN_IF_ERROR(CopyFile(entry.path(), target, name));
    }
  }
  return OkStatus();
}

}  // namespace

Result<fs::path> FindDataFolder(std::string_view name, std::string_view in_source) {
  BRAID_ASSIGN_OR_RETURN(const std::string program, FindProgram());
  const fs::path folder = fs::path(program).parent_path();
  std::error_code error;
  for (const fs::path& place : {folder / "../share/braid" / name, folder / ".." / in_source}) {
    if (fs::is_directory(place, error)) return fs::weakly_canonical(place, error);
  }
  return NotFoundError("the folder '" + std::string(name) + "' is missing in '" +
                       (folder / "../share/braid").lexically_normal().string() + "'");
}

Status CopyDataFolder(const fs::path& from, const fs::path& to, const std::string& name) {
  // std::filesystem throws when a folder cannot be read.
  return Guarded([&] { return Copy(from, to, name); });
}

}  // namespace braid
