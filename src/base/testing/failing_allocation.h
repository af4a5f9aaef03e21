// An `operator new` that fails when a test asks for it. It replaces the whole program's. Each file that
// includes this defines it as a weak symbol.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#include "base/guard.h"

extern "C" char __executable_start;
extern "C" char etext;

namespace braid {

// While one exists, allocations of the program's own code fail, in all threads: after the first `before` of
// them, the next `count`. Allocations by libraries do not fail. A test that tries all values of `before`
// until no allocation fails covers every place:
//
//   for (int before = 0, failed = 1; failed > 0; ++before) {
//     FailingAllocation failing(before, 1);
//     ... the code under test, prepared beforehand ...
//     failed = failing.Stop();
//   }
class FailingAllocation {
 public:
  FailingAllocation(int before, int count) {
    InstallAllocationHandler();
    failed_.store(0);
    last_.store(before + count);
    first_.store(before);
    made_.store(0);
  }
  ~FailingAllocation() { Stop(); }
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;

  // Ends the failures. Returns their number.
  int Stop() {
    made_.store(kOff);
    return failed_.load();
  }

  static void* Allocate(std::size_t size, const void* caller) {
    while (Fails(caller)) {
      const std::new_handler handler = std::get_new_handler();
      if (handler == nullptr) throw std::bad_alloc();
      handler();
    }
    void* memory = std::malloc(size == 0 ? 1 : size);
    if (memory == nullptr) std::abort();
    return memory;
  }

 private:
  static constexpr int64_t kOff = std::numeric_limits<int64_t>::min();

  static bool Fails(const void* caller) {
    if (made_.load(std::memory_order_relaxed) < 0) return false;
    const auto* place = static_cast<const char*>(caller);
    if (place < &__executable_start || place >= &etext || IsShared(caller)) return false;
    const int64_t number = made_.fetch_add(1);
    if (number < first_.load() || number >= last_.load()) return false;
    failed_.fetch_add(1);
    return true;
  }

  // Templates of the standard library, which other libraries use as well.
  static bool IsShared(const void* caller) {
    Dl_info info{};
    return dladdr(caller, &info) != 0 && info.dli_sname != nullptr &&
           std::strncmp(info.dli_sname, "_ZNS", 4) == 0;
  }

  static inline std::atomic<int64_t> made_{kOff};
  static inline std::atomic<int64_t> first_{0};
  static inline std::atomic<int64_t> last_{0};
  static inline std::atomic<int> failed_{0};
};

}  // namespace braid

[[gnu::weak]] void* operator new(std::size_t size) {
  return braid::FailingAllocation::Allocate(size, __builtin_return_address(0));
}
[[gnu::weak]] void* operator new[](std::size_t size) {
  return braid::FailingAllocation::Allocate(size, __builtin_return_address(0));
}
// Nothrow allocations never fail. They are defined here to match the deallocation functions below.
[[gnu::weak]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return std::malloc(size == 0 ? 1 : size);
}
[[gnu::weak]] void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return std::malloc(size == 0 ? 1 : size);
}
[[gnu::weak]] void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
[[gnu::weak]] void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
[[gnu::weak]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::weak]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::weak]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::weak]] void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
