#include "graph/packet.h"

#include <cxxabi.h>

#include <array>
#include <cstdlib>
#include <string_view>

namespace braid::graph {
namespace {

struct Spelling {
  std::string_view found;
  std::string_view written;
};

// Internal names of types in the standard library.
constexpr std::array kSpellings = {
    Spelling{"std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >",
             "std::string"},
    Spelling{"std::__cxx11::", "std::"},
};

}  // namespace

std::string ValueType::name() const {
  int status = 0;
  char* text = abi::__cxa_demangle(type_.name(), nullptr, nullptr, &status);
  std::string name = status == 0 && text != nullptr ? text : type_.name();
  std::free(text);  // NOLINT: __cxa_demangle() allocates it so
  for (const Spelling& spelling : kSpellings) {
    for (size_t at = 0; (at = name.find(spelling.found, at)) != std::string::npos;) {
      name.replace(at, spelling.found.size(), spelling.written);
    }
  }
  return name;
}

}  // namespace braid::graph
