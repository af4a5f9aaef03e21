// Templates of JSON: values with places in them that are filled in.
//
//   "$name"           the value of that name; "${name}" the same within a text
//   "@name"           the template of that name
//   "[a !b] key"      the key is there when a is there and b is not: false, "" and null are not
//   "[*list] ..."     of an only key of an element of a list: the element is there once for each of `list`, whose fields are values in it
//                     ("item", where it has none); a list stands for its elements
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace braid::fleet {

class Templates {
 public:
  // `text` is an object of templates by name, which are values, too. REQUIRES: it is one.
  explicit Templates(std::string_view text) : parts_(ParseJson(text)) {}

  const Json& operator[](const std::string& name) const { return parts_.at(name); }
  // `values` and, before them, those of `item`.
  Json Fill(const std::string& name, const Json& values, const Json& item = Json::object()) const;

 private:
  struct Scope;
  struct Head;
  const Json& Find(const std::string& name, const Scope& scope) const;
  Head ReadHead(const std::string& key, const Scope& scope) const;
  Json Filled(const Json& part, const Scope& scope) const;
  Json FilledText(const std::string& text, const Scope& scope) const;
  Json FilledList(const Json& part, const Scope& scope) const;

  const Json parts_;
};

}  // namespace braid::fleet
