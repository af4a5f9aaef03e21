#include "base/json.h"

#include <new>

#include "base/guard.h"
#include "base/json_lines.h"

braid::Json* std::allocator<braid::Json>::allocate(std::size_t count) {
  return static_cast<braid::Json*>(braid::AllocateForJson(count * sizeof(braid::Json)));
}

namespace braid {

void* AllocateForJson(std::size_t bytes) {
  const PatientAllocation patience;
  return ::operator new(bytes);
}

Json ParseJson(std::string_view text) { return Json::parse(text, nullptr, /*allow_exceptions=*/false); }

Result<Json> CheckedJson(std::string_view text) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    return InvalidArgumentError(error.what());
  }
}

bool ReadJson(std::string_view text, JsonEvents& events) { return Json::sax_parse(text, &events); }

std::string DumpJson(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string DumpJsonLines(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace braid
