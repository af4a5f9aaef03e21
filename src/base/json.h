// JSON that is built or read as a value: configuration, documents about the server, what workers say. (Bodies of requests are read by simdjson.)
//
//   const Json json = ParseJson(text);
//   if (json.is_discarded()) return InvalidArgumentError("not JSON");
//   std::string line = DumpJson(Json{{"name", name}});
//
// A value is nlohmann's; its parser and its writer are called here alone, because each source that does has to compile them.
//
// nlohmann's destructor asks for memory, to unravel what is nested, and an exception in it ends the process. Json asks for it patiently
// (base/guard.h), wherever a value is destroyed.
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

// What values are made with: as std::allocator. It makes Json a type of its own.
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

// What a text holds, told in its order when nothing is to be built of it (ReadJson()): a class says what it wants to know. A method that
// returns false ends the reading.
class JsonEvents : public nlohmann::json_sax<Json> {
 public:
  // A value that is no object and no list.
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

// The destructor's own list, which is a std::vector<Json>, and nothing else of a value.
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

// No deeper text is read: values are copied, compared and written by recursion, and a text may come from a worker or another server.
inline constexpr size_t kMaxJsonNesting = 128;

// The value that is_discarded() where `text` is not JSON, or too deep.
Json ParseJson(std::string_view text);
// The same, with the parser's words about what is wrong: INVALID_ARGUMENT.
Result<Json> CheckedJson(std::string_view text);
// Calls `events` for what `text` holds. False when one of its methods returned false.
bool ReadJson(std::string_view text, JsonEvents& events);

// One line, with U+FFFD for what is no UTF-8: dump() throws for such text, and nothing that a client, a worker or a file can say may end in
// an exception.
std::string DumpJson(const Json& json);

}  // namespace braid
