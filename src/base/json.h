// JSON that is built or read as a value: configuration, documents about the server, messages of workers.
// Bodies of requests are read by simdjson instead.
//
//   const Json json = ParseJson(text);
//   if (json.is_discarded()) return InvalidArgumentError("not JSON");
//   std::string line = DumpJson(Json{{"name", name}});
//
// A value is nlohmann's. Its parser and writer are called only here, because each source that calls them has
// to compile them.
//
// nlohmann's destructor allocates memory to unravel nested values, and an exception in it ends the process.
// Json therefore retries failed allocations there (base/guard.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/status.h"

namespace braid {

// The allocator of values. It behaves as std::allocator and makes Json a distinct type.
template <class T>
class JsonAllocator {
 public:
  using value_type = T;
  JsonAllocator() = default;
  template <class Other>
  JsonAllocator(const JsonAllocator<Other>&) noexcept {}
  T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T))); }
  void deallocate(T* memory, std::size_t) noexcept { ::operator delete(memory); }
  bool operator==(const JsonAllocator&) const = default;
};

// Keeps the order of keys.
using Json = nlohmann::basic_json<nlohmann::ordered_map, std::vector, std::string, bool, int64_t, uint64_t,
                                  double, JsonAllocator>;

// A callback interface for reading a text in order without building a value (ReadJson()). A class overrides
// the events that it needs. A method that returns false ends the reading.
class JsonEvents : public nlohmann::json_sax<Json> {
 public:
  // A value other than an object or a list.
  virtual bool Scalar() { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(std::string&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }

  bool null() final { return Scalar(); }
  bool boolean(bool) final { return Scalar(); }
  bool number_integer(int64_t) final { return Scalar(); }
  bool number_unsigned(uint64_t) final { return Scalar(); }
  bool number_float(double, const std::string&) final { return Scalar(); }
  bool string(std::string&) final { return Scalar(); }
  bool binary(binary_t&) final { return Scalar(); }
};

// `operator new` with a RetryingAllocation.
void* AllocateForJson(std::size_t bytes);

}  // namespace braid

// The allocator of the list in nlohmann's destructor, a std::vector<Json>. No other part of a value uses it.
template <>
class std::allocator<braid::Json> {
 public:
  using value_type = braid::Json;
  using propagate_on_container_move_assignment = std::true_type;
  allocator() = default;
  template <class Other>
  allocator(const std::allocator<Other>&) noexcept {}
  braid::Json* allocate(std::size_t count);
  void deallocate(braid::Json* memory, std::size_t) noexcept { ::operator delete(memory); }
  bool operator==(const allocator&) const = default;
};

namespace braid {

// Deeper texts are refused. Values are copied, compared and written by recursion, and a text may come from a
// worker or another server.
inline constexpr size_t kMaxJsonNesting = 128;

// Returns the parsed value; one that is_discarded() if `text` is not JSON or is nested too deep.
Json ParseJson(std::string_view text);
// Like ParseJson(). Errors: INVALID_ARGUMENT, with the parser's message.
Result<Json> CheckedJson(std::string_view text);
// Calls `events` for each element of `text`. Returns false if one of its methods returned false.
bool ReadJson(std::string_view text, JsonEvents& events);

// Returns the value on one line, with U+FFFD in place of invalid UTF-8. The library's dump() would throw for
// such text, and no input may end in an exception.
std::string DumpJson(const Json& json);

}  // namespace braid
