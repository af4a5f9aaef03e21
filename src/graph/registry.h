// The registry of calculators, by the name that a graph's `calculator:` gives. A new one is one line:
//
//   registry.Add<PassThroughCalculator>("PassThroughCalculator");
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "graph/calculator.h"

namespace braid::graph {

struct CalculatorKind {
  std::function<Status(Contract& contract)> fill_contract;
  std::function<std::unique_ptr<Calculator>()> make;
};

class CalculatorRegistry {
 public:
  // Keeps an existing entry of that name. REQUIRES: C has a static FillContract(Contract&).
  template <class C>
  void Add(std::string name) {
    kinds_.try_emplace(std::move(name),
                       CalculatorKind{[](Contract& contract) { return C::FillContract(contract); },
                                      [] { return std::make_unique<C>(); }});
  }
  // Returns false if the name exists already.
  bool Add(std::string name, CalculatorKind kind) {
    return kinds_.try_emplace(std::move(name), std::move(kind)).second;
  }
  // Returns all names, in order.
  std::vector<std::string> Names() const;
  // Ignores a leading "mediapipe." or "::mediapipe::" of `name`. Returns null if there is none.
  const CalculatorKind* Find(std::string_view name) const;
  // Returns the registered name; `name` itself if there is none.
  std::string FullName(std::string_view name) const;
  // Returns the nearest known name, for messages; "" if none is near.
  std::string Nearest(std::string_view name) const;

 private:
  std::map<std::string, CalculatorKind, std::less<>>::const_iterator At(std::string_view name) const;
  std::map<std::string, CalculatorKind, std::less<>> kinds_;
};

// Adds the calculators of calculators/; each has a line in calculators/core_calculators.cc.
void AddCoreCalculators(CalculatorRegistry& registry);

}  // namespace braid::graph
