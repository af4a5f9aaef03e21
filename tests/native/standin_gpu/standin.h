// Shared code of the two stand-in libraries for NVIDIA's driver. A folder stands for the machine's GPUs.
//
// CUDA_STANDIN names the folder; without it there is no device. It contains:
//
//   devices   a line for each device: "CAPABILITY BYTES NAME", e.g. "8.6 1073741824 Stand-in A"
//   fail      optional; lines "FUNCTION RESULT": calls of the function fail from then on. "* RESULT" stands
//             for all functions, as after the loss of a device
//   hang      optional; lines "FUNCTION": calls of it do not return until the line is removed
//   delay     optional; delay of all work of streams, in milliseconds
//   calls     written here: the calls so far, one line each: "PID FUNCTION DETAILS"
//   mem.*     written here: the memory of the devices; each file is locked by its users
//
// The mem.* files disappear with their users. A killed process leaves unlocked files, and the next call that
// checks removes them.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace standin {

struct Device {
  int number = 0;  // in the file
  int major = 0;
  int minor = 0;
  uint64_t bytes = 0;
  std::string name;
  // A UUID that ends with the number.
  std::string uuid() const {
    char text[64];
    snprintf(text, sizeof(text), "GPU-5ca1ab1e-0000-4000-8000-%012d", number);
    return text;
  }
};

inline std::string Folder() {
  const char* folder = getenv("CUDA_STANDIN");
  return folder == nullptr ? "" : folder;
}

inline std::vector<Device> AllDevices() {
  std::vector<Device> devices;
  std::ifstream file(Folder() + "/devices");
  for (std::string line; std::getline(file, line);) {
    Device device;
    char dot = 0;
    std::istringstream words(line);
    if (!(words >> device.major >> dot >> device.minor >> device.bytes)) continue;
    std::getline(words >> std::ws, device.name);
    device.number = static_cast<int>(devices.size());
    devices.push_back(device);
  }
  return devices;
}

inline void Note(const std::string& text) {
  const std::string line = std::to_string(getpid()) + " " + text + "\n";
  const int file = open((Folder() + "/calls").c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) return;
  if (write(file, line.data(), line.size()) < 0) abort();
  close(file);
}

inline bool Hangs(const std::string& function) {
  std::ifstream file(Folder() + "/hang");
  for (std::string name; file >> name;) {
    if (name == function) return true;
  }
  return false;
}

// Returns the result for a call that must fail; 0: the call continues. Delays the call, or never returns, if
// the folder says so.
inline int Failure(const std::string& function) {
  while (Hangs(function)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::ifstream file(Folder() + "/fail");
  std::string name;
  for (int result = 0; file >> name >> result;) {
    if (name == function || name == "*") return result;
  }
  return 0;
}

inline int DelayMs() {
  int delay = 0;
  std::ifstream(Folder() + "/delay") >> delay;
  return delay;
}

// Returns the bytes of a device that processes use. Removes files without users.
inline uint64_t UsedBytes(int device) {
  uint64_t used = 0;
  std::error_code fault;
  const std::string prefix = "mem." + std::to_string(device) + ".";
  for (const auto& entry : std::filesystem::directory_iterator(Folder(), fault)) {
    if (!entry.path().filename().string().starts_with(prefix)) continue;
    const int file = open(entry.path().c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) continue;
    if (flock(file, LOCK_EX | LOCK_NB) == 0) {
      unlink(entry.path().c_str());
    } else {
      used += static_cast<uint64_t>(std::max<off_t>(lseek(file, 0, SEEK_END), 0));
    }
    close(file);
  }
  return used;
}

}  // namespace standin
