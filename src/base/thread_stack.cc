#include "base/thread_stack.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <link.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>

#include <spdlog/fmt/fmt.h>

#include "base/mutex.h"

namespace braid {
namespace {

// Added to SIGRTMIN. Workers use the signal before it.
constexpr int kSignal = 7;
constexpr int kMostFrames = 64;
// The frame of the handler itself, and the frame through which the kernel returns.
constexpr int kHandlersFrames = 2;
constexpr int64_t kAnswerMs = 200;

// A signal handler can only reach globals.
struct Capture {
  std::atomic<pid_t> wanted{0};  // the interrupted thread; 0: none
  std::array<void*, kMostFrames> frames;
  std::atomic<int> count{0};
  sem_t done;
};
Capture capture;

void OnSignal(int) {
  const int error = errno;
  // A late signal, whose caller no longer waits, is ignored.
  pid_t self = ThreadId();
  if (capture.wanted.compare_exchange_strong(self, 0, std::memory_order_acq_rel)) {
    capture.count.store(::backtrace(capture.frames.data(), kMostFrames), std::memory_order_release);
    ::sem_post(&capture.done);
  }
  errno = error;
}

// Installs the handler. The first call of backtrace() loads a library, which a handler must not do.
bool Prepare() {
  ::sem_init(&capture.done, 0, 0);
  static_cast<void>(::backtrace(capture.frames.data(), kMostFrames));
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  return ::sigaction(SIGRTMIN + kSignal, &action, nullptr) == 0;
}

// Functions of the program that dladdr() does not find, read from the program's file. Empty if the file is
// stripped.
class OwnSymbols {
 public:
  OwnSymbols() {
    std::ifstream file("/proc/self/exe", std::ios::binary | std::ios::ate);
    if (!file) return;
    bytes_.resize(static_cast<size_t>(file.tellg()));
    file.seekg(0);
    if (!file.read(bytes_.data(), static_cast<std::streamsize>(bytes_.size()))) bytes_.clear();
    const auto* head = At<Elf64_Ehdr>(0);
    if (head == nullptr || std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0) return;
    for (uint64_t i = 0; i < head->e_shnum; ++i) {
      const auto* section = At<Elf64_Shdr>(head->e_shoff + i * sizeof(Elf64_Shdr));
      if (section == nullptr || section->sh_type != SHT_SYMTAB) continue;
      const auto* names = At<Elf64_Shdr>(head->e_shoff + section->sh_link * sizeof(Elf64_Shdr));
      if (names == nullptr) return;
      for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= section->sh_size; at += sizeof(Elf64_Sym)) {
        const auto* symbol = At<Elf64_Sym>(section->sh_offset + at);
        if (symbol == nullptr) return;
        if (ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_value != 0)
          functions_.push_back({symbol->st_value, symbol->st_size, names->sh_offset + symbol->st_name});
      }
    }
    std::sort(functions_.begin(), functions_.end(),
              [](const Function& a, const Function& b) { return a.begin < b.begin; });
  }

  struct Found {
    std::string name;  // mangled
    uint64_t begin = 0;
  };
  // `address` is an offset in the file, not an address in memory.
  std::optional<Found> Find(uint64_t address) const {
    auto after = std::upper_bound(functions_.begin(), functions_.end(), address,
                                  [](uint64_t at, const Function& function) { return at < function.begin; });
    if (after == functions_.begin()) return std::nullopt;
    const Function& function = *std::prev(after);
    if (address - function.begin >= std::max<uint64_t>(function.size, 1) || function.name >= bytes_.size())
      return std::nullopt;
    const char* name = bytes_.data() + function.name;
    return Found{std::string(name, ::strnlen(name, bytes_.size() - function.name)), function.begin};
  }

 private:
  struct Function {
    uint64_t begin;
    uint64_t size;
    uint64_t name;  // its offset in the file
  };
  template <class T>
  const T* At(uint64_t offset) const {
    if (bytes_.size() < sizeof(T) || offset > bytes_.size() - sizeof(T)) return nullptr;
    return reinterpret_cast<const T*>(bytes_.data() + offset);
  }

  std::string bytes_;
  std::vector<Function> functions_;
};

std::string Demangled(const std::string& name) {
  int fault = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &fault), std::free);
  return fault == 0 ? std::string(text.get()) : name;
}

std::string Describe(void* address, const OwnSymbols& own) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  Dl_info info{};
  link_map* map = nullptr;
  if (::dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0)
    return fmt::format("{:#x}", at);
  const std::string_view path = info.dli_fname;
  const std::string_view file = path.substr(path.rfind('/') + 1);
  if (info.dli_sname != nullptr) {
    return fmt::format("{} + {:#x} ({})", Demangled(info.dli_sname),
                       at - reinterpret_cast<uintptr_t>(info.dli_saddr), file);
  }
  const uint64_t offset = at - map->l_addr;
  // The first map is the program.
  if (map->l_prev == nullptr) {
    if (const auto found = own.Find(offset))
      return fmt::format("{} + {:#x} ({})", Demangled(found->name), offset - found->begin, file);
  }
  return fmt::format("{} + {:#x}", file, offset);
}

}  // namespace

pid_t ThreadId() { return static_cast<pid_t>(::syscall(SYS_gettid)); }

Result<std::vector<std::string>> StackOf(pid_t thread) {
  static Mutex mutex;
  const MutexLock lock(mutex);
  static const bool ready = Prepare();
  if (!ready) return UnavailableError("thread stacks are not available");
  while (::sem_trywait(&capture.done) == 0) {
  }
  capture.wanted.store(thread, std::memory_order_release);
  if (::syscall(SYS_tgkill, ::getpid(), thread, SIGRTMIN + kSignal) != 0) {
    capture.wanted.store(0, std::memory_order_release);
    return ErrnoError("cannot read the stack of thread " + std::to_string(thread), errno);
  }
  timespec until{};
  ::clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += kAnswerMs * 1'000'000;
  until.tv_sec += until.tv_nsec / 1'000'000'000;
  until.tv_nsec %= 1'000'000'000;
  int waited = 0;
  while ((waited = ::sem_timedwait(&capture.done, &until)) != 0 && errno == EINTR) {
  }
  if (waited != 0) {
    // If the handler has begun meanwhile, it ends soon.
    pid_t asked = thread;
    if (!capture.wanted.compare_exchange_strong(asked, 0, std::memory_order_acq_rel))
      ::sem_wait(&capture.done);
    return UnavailableError("thread " + std::to_string(thread) + " does not handle signals");
  }
  const int count = capture.count.load(std::memory_order_acquire);
  const OwnSymbols own;
  std::vector<std::string> lines;
  for (int i = kHandlersFrames; i < count; ++i) {
    lines.push_back(Describe(capture.frames[static_cast<size_t>(i)], own));
  }
  return lines;
}

}  // namespace braid
