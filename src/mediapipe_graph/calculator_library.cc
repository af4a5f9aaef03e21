#include "mediapipe_graph/calculator_library.h"

#include <dlfcn.h>

#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

#include "graph/calculators/core_calculators.h"
#include "include/braid_calculator.h"
#include "mediapipe_graph/ovms_calculators.h"
#include "mediapipe_graph/plugin_calculator.h"

namespace braid {
namespace {

std::string LoaderError() {
  const char* text = dlerror();
  return text == nullptr ? "unknown error" : text;
}

// Returns the reason to refuse the library's list; "" if there is none.
std::string FaultOf(const BraidCalculatorLibrary* library) {
  if (library == nullptr) return "it lists no calculators";
  if (library->version != BRAID_CALCULATOR_INTERFACE) {
    return "it was built for version " + std::to_string(library->version) +
           " of the calculator interface, but this server has version " +
           std::to_string(BRAID_CALCULATOR_INTERFACE) + "; build it with this server's braid_calculator.h";
  }
  if (library->calculators == nullptr || library->count == 0) return "it lists no calculators";
  std::set<std::string_view> names;
  for (size_t i = 0; i < library->count; ++i) {
    const BraidCalculator& one = library->calculators[i];
    if (one.name == nullptr || *one.name == '\0') return "calculator " + std::to_string(i) + " has no name";
    if (one.describe == nullptr || one.create == nullptr || one.destroy == nullptr || one.open == nullptr ||
        one.process == nullptr || one.close == nullptr) {
      return std::string("calculator '").append(one.name).append("' lacks a function");
    }
    if (!names.insert(one.name).second) {
      return std::string("duplicate calculator '").append(one.name).append("'");
    }
  }
  return "";
}

Status CannotBeUsed(const std::string& path, const std::string& why) {
  return InvalidArgumentError(
      std::string("the calculator library '").append(path).append("' cannot be used: ").append(why));
}

// Adds all or none.
Status Add(const std::string& path, std::vector<std::pair<std::string, graph::CalculatorKind>> kinds,
           graph::CalculatorRegistry& registry) {
  for (const auto& [name, kind] : kinds) {
    if (registry.Find(name) != nullptr) {
      return CannotBeUsed(path, std::string("calculator '").append(name).append("' already exists"));
    }
  }
  for (auto& [name, kind] : kinds) registry.Add(std::move(name), std::move(kind));
  return OkStatus();
}

Status AddIsolatedLibrary(const std::string& path, const OpenIsolatedCalculators& open,
                          graph::CalculatorRegistry& registry) {
  auto library = open(path);
  if (!library.ok()) {
    // INVALID_ARGUMENT comes from the process that has examined the library; its text is complete.
    const bool told = library.status().code() == StatusCode::kInvalidArgument;
    return told ? library.status() : CannotBeUsed(path, library.status().message());
  }
  return Add(path, IsolatedKinds(*std::move(library)), registry);
}

}  // namespace

Status AddCalculatorLibrary(const std::string& path, graph::CalculatorRegistry& registry) {
  const auto fail = [&path](const std::string& why) { return CannotBeUsed(path, why); };
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  // dlopen() would wait for a writer of a named pipe.
  if (error || !std::filesystem::is_regular_file(absolute, error)) {
    return fail(error ? error.message() : "not a file");
  }
  // Never unloaded: packets of the library may be released after the last of its calculators.
  void* opened = dlopen(absolute.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (opened == nullptr) return fail(LoaderError());
  const auto entry = reinterpret_cast<BraidCalculatorEntry>(dlsym(opened, BRAID_CALCULATOR_ENTRY));
  if (entry == nullptr) return fail(std::string("it has no function '") + BRAID_CALCULATOR_ENTRY + "'");
  const BraidCalculatorLibrary* library = entry();
  if (const std::string fault = FaultOf(library); !fault.empty()) return fail(fault);
  std::vector<std::pair<std::string, graph::CalculatorKind>> kinds;
  for (size_t i = 0; i < library->count; ++i) {
    kinds.emplace_back(library->calculators[i].name, PluginKind(library->calculators[i]));
  }
  return Add(path, std::move(kinds), registry);
}

Result<std::shared_ptr<const graph::CalculatorRegistry>> MakeCalculators(
    const std::vector<std::string>& libraries, const OpenIsolatedCalculators& open) {
  auto calculators = std::make_shared<graph::CalculatorRegistry>();
  graph::AddCoreCalculators(*calculators);
  AddOvmsCalculators(*calculators);
  for (const std::string& library : libraries) {
    BRAID_RETURN_IF_ERROR(open ? AddIsolatedLibrary(library, open, *calculators)
                               : AddCalculatorLibrary(library, *calculators));
  }
  return std::shared_ptr<const graph::CalculatorRegistry>(std::move(calculators));
}

}  // namespace braid
