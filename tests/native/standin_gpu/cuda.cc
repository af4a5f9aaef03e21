// libcuda.so.1 with the functions that Braid and its tests call, on the folder that standin.h describes.
//
// It is stricter than the real library. Memory of a device cannot be accessed through its address. Work of a
// stream runs on the stream's thread, after the folder's delay, and reads host memory only then. A stream
// waits for no other stream unless it is told to. `calls` reports memory freed while another process has it
// open as a violation.
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>

#include "standin.h"

namespace {

using Pointer = unsigned long long;

enum Result : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kInvalidHandle = 400,
  kIllegalAddress = 700,
  kAlreadyRegistered = 712,
  kNotRegistered = 713,
};

struct Context {
  int device = 0;
  int holders = 0;
  std::map<char*, size_t> registered;  // pages of the host
};

// A range of inaccessible addresses that stands for memory of a device. The bytes are in the file.
struct Memory {
  int device = 0;
  int file = -1;
  Pointer base = 0;
  size_t bytes = 0;
  std::string name;       // of the file
  bool imported = false;  // opened through a handle
  int opens = 0;
  bool mapped = false;     // physical memory with a separate handle
  bool accessible = true;  // set by cuMemSetAccess() for mapped memory
};

// Physical memory: a file that lives, and is locked, while any process has a descriptor of it. A descriptor
// for another process is the same file description, so all of them share one lock.
struct Physical {
  int device = 0;
  int file = -1;
  size_t bytes = 0;
  std::string name;
};
constexpr size_t kGranularity = size_t{2} << 20;
constexpr size_t kNameBytes = 64;  // after the bytes, so that a descriptor has the file's name

struct Location {
  int type;
  int id;
};
struct Properties {
  int type;
  int handle_types;
  Location location;
  void* unused;
  unsigned char flags[8];
};
struct Access {
  Location location;
  int flags;
};

struct IpcHandle {
  char name[64];
};

struct Uuid {
  unsigned char bytes[16];
};

// Runs its work in order, on its own thread.
class Stream {
 public:
  explicit Stream(bool blocking) : blocking_(blocking), thread_([this] { Run(); }) {}
  ~Stream() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  bool blocking() const { return blocking_; }
  void Add(std::function<void()> task) {
    {
      std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
      ++added_;
    }
    changed_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    const uint64_t until = added_;
    changed_.wait(lock, [&] { return done_ >= until; });
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      auto task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::milliseconds(standin::DelayMs()));
      task();
      lock.lock();
      ++done_;
      changed_.notify_all();
    }
  }

  const bool blocking_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  uint64_t added_ = 0;
  uint64_t done_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

// The position in a stream where the event was last recorded.
struct Event {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t recorded = 0;
  uint64_t reached = 0;
  void WaitFor(uint64_t place) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return reached >= place; });
  }
};

struct Driver {
  std::mutex mutex;
  std::vector<standin::Device> devices;
  std::vector<std::unique_ptr<Context>> contexts;
  std::map<Pointer, Memory> memory;
  std::map<void*, std::shared_ptr<Stream>>
      streams;  // shared with waiting calls, because another call may destroy a stream
  std::map<void*, std::shared_ptr<Event>> events;
  std::map<void*, size_t> pinned;
  std::map<Pointer, size_t> reserved;
  std::map<unsigned long long, Physical> physical;
  uint64_t last_memory = 0;
};

// Never destroyed: threads of streams may outlive main().
Driver& D() {
  static Driver& driver = *new Driver();
  return driver;
}

std::atomic<bool> initialized{false};
std::atomic<bool> forked{false};
std::atomic<int> broken{0};  // the result of a failed asynchronous operation; all calls return it
thread_local std::vector<Context*> current;

// The devices that CUDA_VISIBLE_DEVICES makes visible, in its order: numbers or prefixes of UUIDs. The first
// invalid entry ends the list.
std::vector<standin::Device> VisibleDevices() {
  std::vector<standin::Device> all = standin::AllDevices();
  const char* visible = getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return all;
  std::vector<standin::Device> seen;
  std::istringstream words(visible);
  for (std::string word; std::getline(words, word, ',');) {
    const auto wanted = std::find_if(all.begin(), all.end(), [&](const standin::Device& device) {
      return word == std::to_string(device.number) ||
             (word.starts_with("GPU-") && device.uuid().starts_with(word));
    });
    if (wanted == all.end()) break;
    seen.push_back(*wanted);
  }
  return seen;
}

int Ready(const char* function) {
  if (forked || !initialized) return kNotInitialized;
  if (broken != 0) return broken;
  return standin::Failure(function);
}

bool IsDevice(int ordinal) { return ordinal >= 0 && static_cast<size_t>(ordinal) < D().devices.size(); }

// Returns the memory that contains an address.
Memory* MemoryAt(Pointer address) {
  auto above = D().memory.upper_bound(address);
  if (above == D().memory.begin()) return nullptr;
  Memory& found = std::prev(above)->second;
  return address - found.base < found.bytes ? &found : nullptr;
}

struct Place {
  int file = -1;
  off_t offset = 0;
};
bool Locate(Pointer address, size_t bytes, Place& place) {
  const std::lock_guard lock(D().mutex);
  const Memory* memory = MemoryAt(address);
  if (memory == nullptr || !memory->accessible || bytes > memory->bytes - (address - memory->base))
    return false;
  place = {memory->file, static_cast<off_t>(address - memory->base)};
  return true;
}

void ToDevice(Pointer to, const void* from, size_t bytes) {
  Place place;
  if (!Locate(to, bytes, place) ||
      pwrite(place.file, from, bytes, place.offset) != static_cast<ssize_t>(bytes))
    broken = kIllegalAddress;
}
void FromDevice(void* to, Pointer from, size_t bytes) {
  Place place;
  if (!Locate(from, bytes, place) ||
      pread(place.file, to, bytes, place.offset) != static_cast<ssize_t>(bytes))
    broken = kIllegalAddress;
}
void OnDevice(Pointer to, Pointer from, size_t bytes) {
  std::vector<char> copy(bytes);
  FromDevice(copy.data(), from, bytes);
  ToDevice(to, copy.data(), bytes);
}

std::shared_ptr<Stream> StreamOf(void* handle) {
  const std::lock_guard lock(D().mutex);
  auto found = D().streams.find(handle);
  return found == D().streams.end() ? nullptr : found->second;
}
std::shared_ptr<Event> EventOf(void* handle) {
  const std::lock_guard lock(D().mutex);
  auto found = D().events.find(handle);
  return found == D().events.end() ? nullptr : found->second;
}

// Waits for the streams that block the default stream (0, 1), whose work runs immediately.
void WaitForBlockingStreams() {
  std::vector<std::shared_ptr<Stream>> all;
  {
    const std::lock_guard lock(D().mutex);
    for (auto& [handle, stream] : D().streams) {
      if (stream->blocking()) all.push_back(stream);
    }
  }
  for (const auto& stream : all) stream->Wait();
}
bool IsDefault(void* stream) { return stream == nullptr || stream == reinterpret_cast<void*>(1); }

// Returns " pinned" if a context of this process has registered all of a copy's host memory.
std::string Pinned(const void* host, size_t bytes) {
  const char* const begin = static_cast<const char*>(host);
  const std::lock_guard lock(D().mutex);
  for (const auto& context : D().contexts) {
    for (const auto& [base, size] : context->registered) {
      if (begin >= base && begin + bytes <= base + size) return " pinned";
    }
  }
  return "";
}

int Give(void* handle, std::function<void()> task) {
  if (IsDefault(handle)) {
    WaitForBlockingStreams();
    task();
    return broken;
  }
  const std::shared_ptr<Stream> stream = StreamOf(handle);
  if (stream == nullptr) return kInvalidHandle;
  stream->Add(std::move(task));
  return kSuccess;
}

std::string NewName(int device) {
  return "mem." + std::to_string(device) + "." + std::to_string(getpid()) + "." +
         std::to_string(++D().last_memory);
}

// Creates a file of zeroes followed by `behind`. Locks it before it gets its name, so that no process removes
// it.
int NewFile(const std::string& name, size_t bytes, const std::string& behind) {
  const std::string path = standin::Folder() + "/" + name;
  const std::string unnamed = standin::Folder() + "/new." + name;
  const int file = open(unnamed.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) return -1;
  if (flock(file, LOCK_SH) == 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0 &&
      pwrite(file, behind.data(), behind.size(), static_cast<off_t>(bytes)) ==
          static_cast<ssize_t>(behind.size()) &&
      rename(unnamed.c_str(), path.c_str()) == 0)
    return file;
  close(file);
  return -1;
}

// Reserves addresses for a file's bytes.
Pointer Reserve(size_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return address == MAP_FAILED ? 0 : reinterpret_cast<Pointer>(address);
}

}  // namespace

#define BEGIN(name) \
  if (const int failure = Ready(#name); failure != kSuccess) return failure
#define NEED_CONTEXT \
  if (current.empty() || current.back() == nullptr) return kInvalidContext

extern "C" {

int cuInit(unsigned) {
  if (forked) return kNotInitialized;
  standin::Note("cuInit");
  if (const int failure = standin::Failure("cuInit"); failure != 0) return failure;
  const std::lock_guard lock(D().mutex);
  if (D().memory.empty()) {
    D().devices = VisibleDevices();
    D().contexts.clear();
    for (size_t i = 0; i < D().devices.size(); ++i) {
      D().contexts.push_back(std::make_unique<Context>(Context{static_cast<int>(i), 0, {}}));
    }
  }
  if (D().devices.empty()) return kNoDevice;
  if (!initialized.exchange(true)) pthread_atfork(nullptr, nullptr, [] { forked = true; });
  return kSuccess;
}

int cuGetErrorName(int result, const char** name) {
  static const std::map<int, const char*> kNames = {{kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
                                                    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                    {kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED"},
                                                    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
                                                    {kNoDevice, "CUDA_ERROR_NO_DEVICE"},
                                                    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE"},
                                                    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
                                                    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
                                                    {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                                                    {719, "CUDA_ERROR_LAUNCH_FAILED"}};
  const auto found = kNames.find(result);
  if (found == kNames.end()) return kInvalidValue;
  *name = found->second;
  return kSuccess;
}

int cuGetErrorString(int result, const char** text) {
  static const std::map<int, const char*> kTexts = {
      {kInvalidValue, "invalid argument"},
      {kOutOfMemory, "out of memory"},
      {kNotInitialized, "initialization error"},
      {46, "CUDA-capable device(s) is/are busy or unavailable"},
      {kNoDevice, "no CUDA-capable device is detected"},
      {kInvalidDevice, "invalid device ordinal"},
      {kInvalidContext, "invalid device context"},
      {kInvalidHandle, "invalid resource handle"},
      {kIllegalAddress, "an illegal memory access was encountered"},
      {719, "unspecified launch failure"}};
  const auto found = kTexts.find(result);
  if (found == kTexts.end()) return kInvalidValue;
  *text = found->second;
  return kSuccess;
}

// --- Devices -------------------------------------------------------------------------------------

int cuDeviceGetCount(int* count) {
  BEGIN(cuDeviceGetCount);
  *count = static_cast<int>(D().devices.size());
  return kSuccess;
}
int cuDeviceGet(int* device, int ordinal) {
  BEGIN(cuDeviceGet);
  if (!IsDevice(ordinal)) return kInvalidDevice;
  *device = ordinal;
  return kSuccess;
}
int cuDeviceGetName(char* name, int size, int device) {
  BEGIN(cuDeviceGetName);
  if (!IsDevice(device)) return kInvalidDevice;
  snprintf(name, static_cast<size_t>(size), "%s", D().devices[device].name.c_str());
  return kSuccess;
}
int cuDeviceGetUuid(Uuid* uuid, int device) {
  BEGIN(cuDeviceGetUuid);
  if (!IsDevice(device)) return kInvalidDevice;
  std::string digits;
  for (const char c : D().devices[device].uuid().substr(4)) {
    if (c != '-') digits += c;
  }
  for (size_t i = 0; i < 16; ++i)
    uuid->bytes[i] = static_cast<unsigned char>(std::stoi(digits.substr(2 * i, 2), nullptr, 16));
  return kSuccess;
}
int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  BEGIN(cuDeviceTotalMem_v2);
  if (!IsDevice(device)) return kInvalidDevice;
  *bytes = D().devices[device].bytes;
  return kSuccess;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  BEGIN(cuDeviceGetAttribute);
  if (!IsDevice(device)) return kInvalidDevice;
  if (attribute != 75 && attribute != 76) return kInvalidValue;
  *value = attribute == 75 ? D().devices[device].major : D().devices[device].minor;
  return kSuccess;
}

// --- Contexts ------------------------------------------------------------------------------------

int cuDevicePrimaryCtxRetain(Context** context, int device) {
  BEGIN(cuDevicePrimaryCtxRetain);
  if (!IsDevice(device)) return kInvalidDevice;
  const std::lock_guard lock(D().mutex);
  Context& primary = *D().contexts[device];
  if (++primary.holders == 1) standin::Note("context " + std::to_string(device));
  *context = &primary;
  return kSuccess;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
  BEGIN(cuDevicePrimaryCtxRelease_v2);
  if (!IsDevice(device)) return kInvalidDevice;
  const std::lock_guard lock(D().mutex);
  Context& primary = *D().contexts[device];
  if (primary.holders == 0) return kInvalidContext;
  if (--primary.holders == 0) {
    primary.registered.clear();
    standin::Note("no-context " + std::to_string(device));
  }
  return kSuccess;
}
int cuCtxPushCurrent_v2(Context* context) {
  BEGIN(cuCtxPushCurrent_v2);
  current.push_back(context);
  return kSuccess;
}
int cuCtxPopCurrent_v2(Context** context) {
  BEGIN(cuCtxPopCurrent_v2);
  if (current.empty()) return kInvalidContext;
  if (context != nullptr) *context = current.back();
  current.pop_back();
  return kSuccess;
}
int cuCtxSetCurrent(Context* context) {
  BEGIN(cuCtxSetCurrent);
  if (current.empty()) current.push_back(nullptr);
  current.back() = context;
  return kSuccess;
}
int cuCtxGetCurrent(Context** context) {
  BEGIN(cuCtxGetCurrent);
  *context = current.empty() ? nullptr : current.back();
  return kSuccess;
}
int cuCtxGetDevice(int* device) {
  BEGIN(cuCtxGetDevice);
  NEED_CONTEXT;
  *device = current.back()->device;
  return kSuccess;
}

// --- Memory --------------------------------------------------------------------------------------

int cuMemAlloc_v2(Pointer* address, size_t bytes) {
  BEGIN(cuMemAlloc_v2);
  NEED_CONTEXT;
  if (bytes == 0) return kInvalidValue;
  const std::lock_guard lock(D().mutex);
  const standin::Device& device = D().devices[current.back()->device];
  if (standin::UsedBytes(device.number) + bytes > device.bytes) return kOutOfMemory;
  Memory memory;
  memory.device = current.back()->device;
  memory.bytes = bytes;
  memory.name = NewName(device.number);
  memory.file = NewFile(memory.name, bytes, "");
  if (memory.file < 0) return kOutOfMemory;
  memory.base = Reserve(bytes);
  if (memory.base == 0) return kOutOfMemory;
  *address = memory.base;
  standin::Note("alloc " + memory.name + " " + std::to_string(bytes));
  D().memory.emplace(memory.base, memory);
  return kSuccess;
}
int cuMemFree_v2(Pointer address) {
  BEGIN(cuMemFree_v2);
  WaitForBlockingStreams();
  const std::lock_guard lock(D().mutex);
  const auto found = D().memory.find(address);
  if (found == D().memory.end() || found->second.imported || found->second.mapped) return kInvalidValue;
  const Memory& memory = found->second;
  standin::Note("free " + memory.name);
  if (flock(memory.file, LOCK_EX | LOCK_NB) != 0)
    standin::Note("violation: " + memory.name + " is freed while another process has it open");
  // Later accesses by other processes fail.
  if (ftruncate(memory.file, 0) != 0) abort();
  unlink((standin::Folder() + "/" + memory.name).c_str());
  close(memory.file);
  munmap(reinterpret_cast<void*>(memory.base), memory.bytes);
  D().memory.erase(found);
  return kSuccess;
}
int cuMemGetInfo_v2(size_t* free, size_t* total) {
  BEGIN(cuMemGetInfo_v2);
  NEED_CONTEXT;
  const standin::Device& device = D().devices[current.back()->device];
  *total = device.bytes;
  *free = device.bytes - standin::UsedBytes(device.number);
  return kSuccess;
}
int cuMemGetAddressRange_v2(Pointer* base, size_t* bytes, Pointer address) {
  BEGIN(cuMemGetAddressRange_v2);
  const std::lock_guard lock(D().mutex);
  const Memory* memory = MemoryAt(address);
  if (memory == nullptr) return kInvalidValue;
  if (base != nullptr) *base = memory->base;
  if (bytes != nullptr) *bytes = memory->bytes;
  return kSuccess;
}
int cuPointerGetAttribute(void* value, int attribute, Pointer address) {
  BEGIN(cuPointerGetAttribute);
  const std::lock_guard lock(D().mutex);
  const Memory* memory = MemoryAt(address);
  if (attribute != 9 || memory == nullptr) return kInvalidValue;
  *static_cast<int*>(value) = memory->device;
  return kSuccess;
}
int cuMemHostAlloc(void** address, size_t bytes, unsigned) {
  BEGIN(cuMemHostAlloc);
  NEED_CONTEXT;
  void* host = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (host == MAP_FAILED) return kOutOfMemory;
  const std::lock_guard lock(D().mutex);
  D().pinned[host] = bytes;
  *address = host;
  return kSuccess;
}
int cuMemFreeHost(void* address) {
  BEGIN(cuMemFreeHost);
  const std::lock_guard lock(D().mutex);
  const auto found = D().pinned.find(address);
  if (found == D().pinned.end()) return kInvalidValue;
  munmap(address, found->second);
  D().pinned.erase(found);
  return kSuccess;
}

int cuMemHostRegister_v2(void* address, size_t bytes, unsigned) {
  BEGIN(cuMemHostRegister_v2);
  NEED_CONTEXT;
  char* const base = static_cast<char*>(address);
  const std::lock_guard lock(D().mutex);
  for (const auto& context : D().contexts) {
    for (const auto& [other, size] : context->registered) {
      if (base < other + size && other < base + bytes) return kAlreadyRegistered;
    }
  }
  current.back()->registered.emplace(base, bytes);
  standin::Note("pin " + std::to_string(bytes));
  return kSuccess;
}
int cuMemHostUnregister(void* address) {
  BEGIN(cuMemHostUnregister);
  NEED_CONTEXT;
  const std::lock_guard lock(D().mutex);
  auto& registered = current.back()->registered;
  const auto found = registered.find(static_cast<char*>(address));
  if (found == registered.end()) return kNotRegistered;
  unsigned char resident = 0;
  if (mincore(address, 1, &resident) != 0)
    standin::Note("violation: pages are unmapped that a device has pinned");
  standin::Note("unpin " + std::to_string(found->second));
  registered.erase(found);
  return kSuccess;
}

// --- Physical memory, mapped and handed on -------------------------------------------------------

int cuMemGetAllocationGranularity(size_t* bytes, const Properties*, int) {
  BEGIN(cuMemGetAllocationGranularity);
  *bytes = kGranularity;
  return kSuccess;
}
int cuMemCreate(unsigned long long* handle, size_t bytes, const Properties* properties, unsigned long long) {
  BEGIN(cuMemCreate);
  if (bytes == 0 || bytes % kGranularity != 0 || properties->type != 1 || properties->handle_types != 1 ||
      properties->location.type != 1)
    return kInvalidValue;
  if (!IsDevice(properties->location.id)) return kInvalidDevice;
  const std::lock_guard lock(D().mutex);
  const standin::Device& device = D().devices[properties->location.id];
  if (standin::UsedBytes(device.number) + bytes > device.bytes) return kOutOfMemory;
  Physical made;
  made.device = properties->location.id;
  made.bytes = bytes;
  made.name = NewName(device.number);
  std::string trailer = made.name;
  trailer.resize(kNameBytes);
  made.file = NewFile(made.name, bytes, trailer);
  if (made.file < 0) return kOutOfMemory;
  standin::Note("create " + made.name + " " + std::to_string(bytes));
  *handle = ++D().last_memory;
  D().physical.emplace(*handle, made);
  return kSuccess;
}
int cuMemRelease(unsigned long long handle) {
  BEGIN(cuMemRelease);
  const std::lock_guard lock(D().mutex);
  const auto found = D().physical.find(handle);
  if (found == D().physical.end()) return kInvalidValue;
  standin::Note("release " + found->second.name);
  close(found->second.file);
  D().physical.erase(found);
  return kSuccess;
}
int cuMemAddressReserve(Pointer* address, size_t bytes, size_t, Pointer, unsigned long long) {
  BEGIN(cuMemAddressReserve);
  if (bytes == 0 || bytes % kGranularity != 0) return kInvalidValue;
  *address = Reserve(bytes);
  if (*address == 0) return kOutOfMemory;
  const std::lock_guard lock(D().mutex);
  D().reserved.emplace(*address, bytes);
  return kSuccess;
}
int cuMemAddressFree(Pointer address, size_t bytes) {
  BEGIN(cuMemAddressFree);
  const std::lock_guard lock(D().mutex);
  const auto found = D().reserved.find(address);
  if (found == D().reserved.end() || found->second != bytes || D().memory.contains(address))
    return kInvalidValue;
  munmap(reinterpret_cast<void*>(address), bytes);
  D().reserved.erase(found);
  return kSuccess;
}
int cuMemMap(Pointer address, size_t bytes, size_t offset, unsigned long long handle, unsigned long long) {
  BEGIN(cuMemMap);
  const std::lock_guard lock(D().mutex);
  const auto place = D().reserved.find(address);
  const auto found = D().physical.find(handle);
  if (place == D().reserved.end() || place->second != bytes || found == D().physical.end() || offset != 0 ||
      bytes > found->second.bytes || D().memory.contains(address))
    return kInvalidValue;
  Memory memory;
  memory.device = found->second.device;
  memory.file = fcntl(found->second.file, F_DUPFD_CLOEXEC, 0);
  memory.base = address;
  memory.bytes = bytes;
  memory.name = found->second.name;
  memory.mapped = true;
  memory.accessible = false;
  if (memory.file < 0) return kOutOfMemory;
  D().memory.emplace(address, memory);
  return kSuccess;
}
int cuMemUnmap(Pointer address, size_t bytes) {
  BEGIN(cuMemUnmap);
  const std::lock_guard lock(D().mutex);
  const auto found = D().memory.find(address);
  if (found == D().memory.end() || !found->second.mapped || found->second.bytes != bytes)
    return kInvalidValue;
  standin::Note("unmap " + found->second.name);
  close(found->second.file);
  D().memory.erase(found);
  return kSuccess;
}
int cuMemSetAccess(Pointer address, size_t bytes, const Access* access, size_t count) {
  BEGIN(cuMemSetAccess);
  const std::lock_guard lock(D().mutex);
  const auto found = D().memory.find(address);
  if (found == D().memory.end() || !found->second.mapped || found->second.bytes != bytes || count != 1 ||
      access->flags != 3)
    return kInvalidValue;
  if (access->location.id != found->second.device) return kInvalidDevice;
  found->second.accessible = true;
  return kSuccess;
}
int cuMemExportToShareableHandle(void* descriptor, unsigned long long handle, int type, unsigned long long) {
  BEGIN(cuMemExportToShareableHandle);
  const std::lock_guard lock(D().mutex);
  const auto found = D().physical.find(handle);
  if (found == D().physical.end() || type != 1) return kInvalidValue;
  const int file = fcntl(found->second.file, F_DUPFD_CLOEXEC, 0);
  if (file < 0) return kOutOfMemory;
  standin::Note("export " + found->second.name);
  *static_cast<int*>(descriptor) = file;
  return kSuccess;
}
int cuMemImportFromShareableHandle(unsigned long long* handle, void* descriptor, int type) {
  BEGIN(cuMemImportFromShareableHandle);
  const int given = static_cast<int>(reinterpret_cast<intptr_t>(descriptor));
  struct stat status {};
  std::string name(kNameBytes, '\0');
  if (type != 1 || fstat(given, &status) != 0 ||
      pread(given, name.data(), name.size(), status.st_size - static_cast<off_t>(kNameBytes)) !=
          static_cast<ssize_t>(kNameBytes) ||
      !name.starts_with("mem."))
    return kInvalidValue;
  name.resize(strlen(name.c_str()));
  const std::lock_guard lock(D().mutex);
  Physical made;
  made.name = name;
  made.bytes = static_cast<size_t>(status.st_size) - kNameBytes;
  const auto device = std::find_if(D().devices.begin(), D().devices.end(), [&](const standin::Device& each) {
    return name.starts_with("mem." + std::to_string(each.number) + ".");
  });
  if (device == D().devices.end()) return kInvalidDevice;
  made.device = static_cast<int>(device - D().devices.begin());
  made.file = fcntl(given, F_DUPFD_CLOEXEC, 0);
  if (made.file < 0) return kOutOfMemory;
  standin::Note("import " + made.name);
  *handle = ++D().last_memory;
  D().physical.emplace(*handle, made);
  return kSuccess;
}

// --- Copies --------------------------------------------------------------------------------------

int cuMemcpyHtoDAsync_v2(Pointer to, const void* from, size_t bytes, void* stream) {
  BEGIN(cuMemcpyHtoDAsync_v2);
  NEED_CONTEXT;
  standin::Note("to-device " + std::to_string(bytes) + Pinned(from, bytes));
  return Give(stream, [=] { ToDevice(to, from, bytes); });
}
int cuMemcpyDtoHAsync_v2(void* to, Pointer from, size_t bytes, void* stream) {
  BEGIN(cuMemcpyDtoHAsync_v2);
  NEED_CONTEXT;
  standin::Note("from-device " + std::to_string(bytes) + Pinned(to, bytes));
  return Give(stream, [=] { FromDevice(to, from, bytes); });
}
int cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, size_t bytes, void* stream) {
  BEGIN(cuMemcpyDtoDAsync_v2);
  NEED_CONTEXT;
  standin::Note("on-device " + std::to_string(bytes));
  return Give(stream, [=] { OnDevice(to, from, bytes); });
}
int cuMemcpyHtoD_v2(Pointer to, const void* from, size_t bytes) {
  BEGIN(cuMemcpyHtoD_v2);
  NEED_CONTEXT;
  standin::Note("to-device " + std::to_string(bytes) + Pinned(from, bytes));
  return Give(nullptr, [=] { ToDevice(to, from, bytes); });
}
int cuMemcpyDtoH_v2(void* to, Pointer from, size_t bytes) {
  BEGIN(cuMemcpyDtoH_v2);
  NEED_CONTEXT;
  standin::Note("from-device " + std::to_string(bytes) + Pinned(to, bytes));
  return Give(nullptr, [=] { FromDevice(to, from, bytes); });
}

// --- Streams and events --------------------------------------------------------------------------

int cuMemsetD8Async(Pointer to, unsigned char value, size_t bytes, void* stream) {
  BEGIN(cuMemsetD8Async);
  NEED_CONTEXT;
  return Give(stream, [=] {
    const std::vector<unsigned char> content(bytes, value);
    ToDevice(to, content.data(), bytes);
  });
}
int cuCtxSynchronize() {
  BEGIN(cuCtxSynchronize);
  NEED_CONTEXT;
  std::vector<std::shared_ptr<Stream>> all;
  {
    const std::lock_guard lock(D().mutex);
    for (auto& [handle, stream] : D().streams) all.push_back(stream);
  }
  for (const auto& stream : all) stream->Wait();
  standin::Note("synchronize");
  return broken;
}

int cuStreamCreate(void** stream, unsigned flags) {
  BEGIN(cuStreamCreate);
  NEED_CONTEXT;
  auto made = std::make_shared<Stream>((flags & 1) == 0);
  const std::lock_guard lock(D().mutex);
  *stream = made.get();
  D().streams.emplace(made.get(), std::move(made));
  return kSuccess;
}
// Even a failing call waits first: after it, no work of the stream is pending.
int cuStreamSynchronize(void* handle) {
  if (!initialized || forked) return kNotInitialized;
  NEED_CONTEXT;
  if (IsDefault(handle)) {
    WaitForBlockingStreams();
  } else {
    const std::shared_ptr<Stream> stream = StreamOf(handle);
    if (stream == nullptr) return kInvalidHandle;
    stream->Wait();
  }
  BEGIN(cuStreamSynchronize);
  return kSuccess;
}
int cuStreamDestroy_v2(void* handle) {
  BEGIN(cuStreamDestroy_v2);
  std::shared_ptr<Stream> gone;
  {
    const std::lock_guard lock(D().mutex);
    const auto found = D().streams.find(handle);
    if (found == D().streams.end()) return kInvalidHandle;
    gone = std::move(found->second);
    D().streams.erase(found);
  }
  return kSuccess;
}
int cuStreamWaitEvent(void* stream, void* handle, unsigned) {
  BEGIN(cuStreamWaitEvent);
  const std::shared_ptr<Event> event = EventOf(handle);
  if (event == nullptr) return kInvalidHandle;
  uint64_t place = 0;
  {
    const std::lock_guard lock(event->mutex);
    place = event->recorded;
  }
  return Give(stream, [event, place] { event->WaitFor(place); });
}
int cuEventCreate(void** handle, unsigned) {
  BEGIN(cuEventCreate);
  NEED_CONTEXT;
  auto event = std::make_shared<Event>();
  const std::lock_guard lock(D().mutex);
  *handle = event.get();
  D().events.emplace(event.get(), event);
  return kSuccess;
}
int cuEventRecord(void* handle, void* stream) {
  BEGIN(cuEventRecord);
  const std::shared_ptr<Event> event = EventOf(handle);
  if (event == nullptr) return kInvalidHandle;
  uint64_t place = 0;
  {
    const std::lock_guard lock(event->mutex);
    place = ++event->recorded;
  }
  return Give(stream, [event, place] {
    const std::lock_guard lock(event->mutex);
    event->reached = std::max(event->reached, place);
    event->changed.notify_all();
  });
}
int cuEventSynchronize(void* handle) {
  BEGIN(cuEventSynchronize);
  const std::shared_ptr<Event> event = EventOf(handle);
  if (event == nullptr) return kInvalidHandle;
  uint64_t place = 0;
  {
    const std::lock_guard lock(event->mutex);
    place = event->recorded;
  }
  event->WaitFor(place);
  return broken;
}
int cuEventDestroy_v2(void* handle) {
  BEGIN(cuEventDestroy_v2);
  const std::lock_guard lock(D().mutex);
  return D().events.erase(handle) == 1 ? kSuccess : kInvalidHandle;
}

// --- Between processes ---------------------------------------------------------------------------

int cuIpcGetMemHandle(IpcHandle* handle, Pointer address) {
  BEGIN(cuIpcGetMemHandle);
  const std::lock_guard lock(D().mutex);
  const auto found = D().memory.find(address);
  if (found == D().memory.end() || found->second.imported || found->second.mapped) return kInvalidValue;
  *handle = {};
  snprintf(handle->name, sizeof(handle->name), "%s", found->second.name.c_str());
  return kSuccess;
}
int cuIpcOpenMemHandle_v2(Pointer* address, IpcHandle handle, unsigned) {
  BEGIN(cuIpcOpenMemHandle_v2);
  NEED_CONTEXT;
  const std::string name(handle.name, strnlen(handle.name, sizeof(handle.name)));
  const std::lock_guard lock(D().mutex);
  const standin::Device& device = D().devices[current.back()->device];
  if (!name.starts_with("mem." + std::to_string(device.number) + ".") || name.find('/') != std::string::npos)
    return kInvalidValue;
  for (auto& [base, memory] : D().memory) {
    if (memory.name != name) continue;
    if (!memory.imported) return kInvalidContext;  // exported by this process itself
    ++memory.opens;
    *address = base;
    return kSuccess;
  }
  Memory memory;
  memory.device = current.back()->device;
  memory.name = name;
  memory.imported = true;
  memory.opens = 1;
  memory.file = open((standin::Folder() + "/" + name).c_str(), O_RDWR | O_CLOEXEC);
  struct stat status {};
  // A file without a lock belongs to a dead process.
  if (memory.file < 0 || flock(memory.file, LOCK_SH) != 0 || fstat(memory.file, &status) != 0 ||
      status.st_size == 0) {
    if (memory.file >= 0) close(memory.file);
    return kInvalidValue;
  }
  memory.bytes = static_cast<size_t>(status.st_size);
  memory.base = Reserve(memory.bytes);
  *address = memory.base;
  standin::Note("open " + name);
  D().memory.emplace(memory.base, memory);
  return kSuccess;
}
int cuIpcCloseMemHandle(Pointer address) {
  BEGIN(cuIpcCloseMemHandle);
  const std::lock_guard lock(D().mutex);
  const auto found = D().memory.find(address);
  if (found == D().memory.end() || !found->second.imported) return kInvalidValue;
  Memory& memory = found->second;
  if (--memory.opens > 0) return kSuccess;
  standin::Note("close " + memory.name);
  close(memory.file);
  munmap(reinterpret_cast<void*>(memory.base), memory.bytes);
  D().memory.erase(found);
  return kSuccess;
}

}  // extern "C"
