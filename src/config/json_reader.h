// Reads JSON that people write: what is wrong is collected, each fault with its path, so that all of it can
// be told at once.
//
//   JsonFaults faults;
//   BRAID_ASSIGN_OR_RETURN(const Json json, ParseJsonText(text, faults));
//   JsonObject model(json, "", faults);
//   std::string name = model.RequiredText("name").value_or("");
//   std::optional<int64_t> nireq = model.Integer("nireq", 0, 1000);
//   model.Finish();                       // every key that was not asked for is a fault
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
  // Of a key that there is not: those that there are.
  std::vector<std::string> keys = {};
};

class JsonFaults {
 public:
  void Add(std::string path, std::string what, std::vector<std::string> keys = {}) {
    faults_.push_back({std::move(path), std::move(what), std::move(keys)});
  }
  bool empty() const { return faults_.empty(); }
  // In the order in which they were found.
  const std::vector<JsonFault>& all() const { return faults_; }
  // "/a/0/b: expected a text; /c: there is no such key"; the first hundred.
  std::string Text() const;

 private:
  std::vector<JsonFault> faults_;
};

// Keys that are given twice become faults. Errors: INVALID_ARGUMENT with line and column where the text is no
// JSON or is nested deeper than a configuration can be.
Result<Json> ParseJsonText(std::string_view text, JsonFaults& faults);

// `path` with one more part, as JSON pointers are written.
std::string JsonPath(const std::string& path, std::string_view key);
std::string JsonPath(const std::string& path, size_t index);

// Nothing, and a fault, when the value is of another type or out of range.
std::optional<std::string> ReadJsonText(const Json& value, const std::string& path, JsonFaults& faults);
std::optional<int64_t> ReadJsonInteger(const Json& value, int64_t min, int64_t max, const std::string& path,
                                       JsonFaults& faults);

// One object, read key by key. A value that is no object is one fault and has no keys.
class JsonObject {
 public:
  // `value` and `faults` outlive it.
  JsonObject(const Json& value, std::string path, JsonFaults& faults);

  // Null when the key is not there.
  const Json* Get(std::string_view key);
  // The same, and that is a fault.
  const Json* Require(std::string_view key);

  std::optional<std::string> Text(std::string_view key);
  // Must be there and not be empty.
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
  // Makes a fault of each key that nobody has asked for. Called last.
  void Finish();

 private:
  bool ExpectList(const Json& value, std::string_view key);

  const Json* object_;  // null when the value is none
  const std::string path_;
  JsonFaults& faults_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace braid
