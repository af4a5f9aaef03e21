#include "base/json.h"

#include <new>
#include <string>

#include "base/guard.h"
#include "base/json_lines.h"

braid::Json* std::allocator<braid::Json>::allocate(std::size_t count) {
  return static_cast<braid::Json*>(braid::AllocateForJson(count * sizeof(braid::Json)));
}

namespace braid {

void* AllocateForJson(std::size_t bytes) {
  const RetryingAllocation retrying;
  return ::operator new(bytes);
}

namespace {

// Returns whether `text` is nested too deep. It does not check that `text` is JSON.
bool IsTooDeep(std::string_view text) {
  size_t depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char one = text[i];
    if (quoted) {
      if (one == '\\') ++i;
      quoted = one != '"';
    } else if (one == '"') {
      quoted = true;
    } else if (one == '[' || one == '{') {
      if (++depth > kMaxJsonNesting) return true;
    } else if ((one == ']' || one == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

}  // namespace

Json ParseJson(std::string_view text) {
  if (IsTooDeep(text)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

Result<Json> CheckedJson(std::string_view text) {
  if (IsTooDeep(text))
    return InvalidArgumentError("the JSON is nested more than " + std::to_string(kMaxJsonNesting) +
                                " levels deep");
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {  // also a number out of range
    return InvalidArgumentError(error.what());
  }
}

bool ReadJson(std::string_view text, JsonEvents& events) { return Json::sax_parse(text, &events); }

std::string DumpJson(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string DumpJsonLines(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace braid
