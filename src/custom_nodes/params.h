// The params of a built-in node, read as OpenVINO Model Server's nodes read them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "include/custom_node_interface.h"

namespace braid::custom_nodes {

// A number is the longest beginning of the text that is one: "12px" is 12. A value that cannot be read counts
// as not given. The first entry of a key wins. Errors are std::invalid_argument, and name the param, the
// expected value and the given one.
class Params {
 public:
  Params(const CustomNodeParam* params, int count);

  // Return the default `otherwise` if the param is not given; without a default it is required.
  int32_t Int(const std::string& key, int32_t least, std::optional<int32_t> otherwise = std::nullopt);
  float Float(const std::string& key, float least, float most, std::optional<float> otherwise = std::nullopt);
  // Returns one of `choices`; without a default the param is required.
  std::string Choice(const std::string& key, std::initializer_list<const char*> choices,
                     const char* otherwise = nullptr);
  // Only "true" is true.
  bool Flag(const std::string& key);

  // Return nothing, or an empty list, if the param is not given.
  std::optional<int32_t> FindInt(const std::string& key);
  std::optional<float> FindFloat(const std::string& key);
  std::vector<float> FindFloats(const std::string& key);

  // Throws the error of a value that is not `expected`.
  [[noreturn]] void Refuse(const std::string& key, const std::string& expected) const;

  // Returns a line for each value that was not read in full, and for each param that was not asked for.
  std::vector<std::string> Warnings() const;

 private:
  // Returns null if the key is missing.
  const std::string* Find(const std::string& key);
  const std::string* TextOf(const std::string& key) const;

  std::vector<std::pair<std::string, std::string>> params_;
  std::set<std::string> known_;
  std::vector<std::string> warnings_;
};

}  // namespace braid::custom_nodes
