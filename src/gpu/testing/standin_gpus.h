// StandinGpus: the GPUs of tests, as a folder for the stand-in driver (tests/native/standin_gpu). A test
// program loads that driver if its CMakeLists.txt calls braid_standin_gpus().
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace braid {

// Only one may exist at a time.
class StandinGpus {
 public:
  // Each line of `devices` is "CAPABILITY BYTES NAME".
  explicit StandinGpus(const std::string& devices) {
    char folder[] = "/tmp/braid-standin-XXXXXX";
    folder_ = mkdtemp(folder);
    Write("devices", devices);
    setenv("CUDA_STANDIN", folder_.c_str(), 1);
  }
  ~StandinGpus() {
    unsetenv("CUDA_STANDIN");
    std::filesystem::remove_all(folder_);
  }
  StandinGpus(const StandinGpus&) = delete;
  StandinGpus& operator=(const StandinGpus&) = delete;

  // Makes calls of a function fail from now on: "FUNCTION RESULT". An empty line ends that.
  void Fail(const std::string& line) const { Write("fail", line); }
  // Makes calls of the function block until Hang() is called again. An empty name ends that.
  void Hang(const std::string& function) const { Write("hang", function); }
  // Delays the work of streams by this much from now on.
  void Delay(int milliseconds) const { Write("delay", std::to_string(milliseconds)); }

  // Returns the calls without process ids: "cuInit", "context 0", "alloc mem.0.123.1 4096".
  std::vector<std::string> Calls() const {
    std::vector<std::string> calls;
    std::ifstream file(folder_ + "/calls");
    for (std::string line; std::getline(file, line);) calls.push_back(line.substr(line.find(' ') + 1));
    return calls;
  }

 private:
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name) << text << '\n';
  }

  std::string folder_;
};

}  // namespace braid
