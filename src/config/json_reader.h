// A reader for JSON that people write. It collects all faults with their paths, so that one error message has
// them all.
//
//   JsonFaults faults;
//   BRAID_ASSIGN_OR_RETURN(const Json json, ParseJsonText(text, faults));
//   JsonObject model(json, "", faults);
//   std::string name = model.RequiredText("name").value_or("");
//   std::optional<int64_t> nireq = model.Integer("nireq", 0, 1000);
//   model.Finish();                       // every key that was not read is a fault
//   if (!faults.empty()) return InvalidArgumentError(faults.Text());
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace braid {

// Keeps the order of keys.

struct JsonFault {
  std::string path;
  std::string what;
  // For an unknown key: the keys that its object may have.
  std::vector<std::string> keys = {};
};

class JsonFaults {
 public:
  void Add(std::string path, std::string what, std::vector<std::string> keys = {}) {
    faults_.push_back({std::move(path), std::move(what), std::move(keys)});
  }
  bool empty() const { return faults_.empty(); }
  // The faults in the order in which they were found.
  const std::vector<JsonFault>& all() const { return faults_; }
  // Returns "/a/0/b: expected a text; /c: unknown key" with at most a hundred faults.
  std::string Text() const;

 private:
  std::vector<JsonFault> faults_;
};

// Parses JSON text; repeated keys become faults. Errors: INVALID_ARGUMENT with line and column if the text is
// not JSON or is nested too deep.
Result<Json> ParseJsonText(std::string_view text, JsonFaults& faults);

// Appends one part to `path`, as in a JSON pointer.
std::string JsonPath(const std::string& path, std::string_view key);
std::string JsonPath(const std::string& path, size_t index);

// Read one value. If it has another type or is out of range, they add a fault and return nullopt.
std::optional<std::string> ReadJsonText(const Json& value, const std::string& path, JsonFaults& faults);
std::optional<int64_t> ReadJsonInteger(const Json& value, int64_t min, int64_t max, const std::string& path,
                                       JsonFaults& faults);

// Reads one object key by key. A value that is not an object is one fault and has no keys.
class JsonObject {
 public:
  // `value` and `faults` outlive the object.
  JsonObject(const Json& value, std::string path, JsonFaults& faults);

  // Returns null if the key is missing.
  const Json* Get(std::string_view key);
  // Like Get(), but a missing key is a fault.
  const Json* Require(std::string_view key);

  std::optional<std::string> Text(std::string_view key);
  // A missing or empty text is a fault.
  std::optional<std::string> RequiredText(std::string_view key);
  std::optional<bool> Bool(std::string_view key);
  std::optional<int64_t> Integer(std::string_view key, int64_t min, int64_t max);
  // Calls read(element, path) for each element of a list.
  template <class Read>
  void List(const Json* list, std::string_view key, Read read) {
    if (list == nullptr || !ExpectList(*list, key)) return;
    for (size_t i = 0; i < list->size(); ++i) read((*list)[i], JsonPath(PathOf(key), i));
  }

  const std::string& path() const { return path_; }
  std::string PathOf(std::string_view key) const { return JsonPath(path_, key); }
  void Fault(std::string_view key, std::string what) { faults_.Add(PathOf(key), std::move(what)); }
  // Adds a fault for each key that was not read. Called last.
  void Finish();

 private:
  bool ExpectList(const Json& value, std::string_view key);

  const Json* object_;  // null if the value is not an object
  const std::string path_;
  JsonFaults& faults_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace braid
