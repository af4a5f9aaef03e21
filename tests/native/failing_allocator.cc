// An `operator new` that fails at random, preloaded into a server under test (LD_PRELOAD).
//
// It fails for allocations of the server's own code, on average once in BRAID_FAIL_ONE_IN times, between the
// signals SIGUSR1 and SIGUSR2. Allocations of libraries do not fail, because gRPC and others end the process
// then. As in the standard, a failed allocation calls the new handler, which throws or lets the allocation be
// retried.
//
// Each failure that throws adds a line to the file named by BRAID_FAIL_LOG. The line has the monotonic clock
// in seconds, the thread's id, and the program's functions on the stack. These are offsets from the load
// address, for `addr2line -Cfe build/braid`.
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>

namespace {

std::atomic<bool> failing{false};
uint32_t one_in = 0;
uintptr_t text_begin = 0;  // of the program itself
uintptr_t text_end = 0;
uintptr_t load_address = 0;
int log_fd = -1;

uint32_t Random() {
  // xorshift, seeded by the address of the thread's variable.
  thread_local uint32_t state = 0;
  if (state == 0) state = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(&state) >> 4) | 1u;
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return state;
}

// Whether libraries also call this code: they use the program's instances of std templates.
bool IsShared(const void* caller) {
  Dl_info info{};
  return dladdr(caller, &info) != 0 && info.dli_sname != nullptr &&
         std::strncmp(info.dli_sname, "_ZNS", 4) == 0;
}

// The first object is the program.
int FindText(dl_phdr_info* info, size_t, void*) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0) continue;
    text_begin = info->dlpi_addr + header.p_vaddr;
    text_end = text_begin + header.p_memsz;
    load_address = info->dlpi_addr;
  }
  return 1;
}

__attribute__((constructor)) void Prepare() {
  const char* text = std::getenv("BRAID_FAIL_ONE_IN");
  one_in = text == nullptr ? 0 : static_cast<uint32_t>(std::atoi(text));
  if (one_in == 0) return;
  dl_iterate_phdr(&FindText, nullptr);
  if (const char* log = std::getenv("BRAID_FAIL_LOG"); log != nullptr) {
    log_fd = ::open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    void* first = nullptr;
    ::backtrace(&first, 1);  // the first call allocates
  }
  std::signal(SIGUSR1, [](int) { failing.store(true); });
  std::signal(SIGUSR2, [](int) { failing.store(false); });
}

void LogStack() {
  void* stack[64];
  const int depth = ::backtrace(stack, 64);
  char line[2048];
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  int size = std::snprintf(line, sizeof(line), "%lld.%06ld %d", static_cast<long long>(now.tv_sec),
                           now.tv_nsec / 1000, static_cast<int>(::gettid()));
  for (int i = 0; i < depth && size < static_cast<int>(sizeof(line)) - 24; ++i) {
    const auto place = reinterpret_cast<uintptr_t>(stack[i]);
    if (place < text_begin || place >= text_end) continue;
    // A return address may already belong to the next function.
    size += std::snprintf(line + size, sizeof(line) - static_cast<size_t>(size), " %lx",
                          place - load_address - 1);
  }
  line[size++] = '\n';
  [[maybe_unused]] const ssize_t written = ::write(log_fd, line, static_cast<size_t>(size));
}

void* Allocate(std::size_t size, const void* caller) {
  for (;;) {
    const auto from = reinterpret_cast<uintptr_t>(caller);
    const bool fails = failing.load(std::memory_order_relaxed) && from >= text_begin && from < text_end &&
                       Random() % one_in == 0 && !IsShared(caller);
    void* memory = fails ? nullptr : std::malloc(size == 0 ? 1 : size);
    if (memory != nullptr) return memory;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    try {
      handler();
    } catch (const std::bad_alloc&) {
      if (log_fd >= 0) LogStack();
      throw;
    }
  }
}

}  // namespace

void* operator new(std::size_t size) { return Allocate(size, __builtin_return_address(0)); }
void* operator new[](std::size_t size) { return Allocate(size, __builtin_return_address(0)); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
