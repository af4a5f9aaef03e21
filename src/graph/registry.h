// Which calculators there are, by the name that a graph's `calculator:` gives. A new one is one line:
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
  // A name that is there already stays as it is. REQUIRES: C has a static FillContract(Contract&).
  template <class C>
  void Add(std::string name) {
    kinds_.try_emplace(std::move(name),
                       CalculatorKind{[](Contract& contract) { return C::FillContract(contract); },
                                      [] { return std::make_unique<C>(); }});
  }
  // False when the name is there already.
  bool Add(std::string name, CalculatorKind kind) {
    return kinds_.try_emplace(std::move(name), std::move(kind)).second;
  }
  // All names, in order.
  std::vector<std::string> Names() const;
  // A leading "mediapipe." or "::mediapipe::" of `name` counts for nothing. Null when there is none.
  const CalculatorKind* Find(std::string_view name) const;
  // The name as it was added; `name` itself when there is none.
  std::string FullName(std::string_view name) const;
  // The nearest known name, for messages; "" when none is near.
  std::string Nearest(std::string_view name) const;

 private:
  std::map<std::string, CalculatorKind, std::less<>>::const_iterator At(std::string_view name) const;
  std::map<std::string, CalculatorKind, std::less<>> kinds_;
};

// Those of calculators/ (see calculators/core_calculators.cc, where each has its line).
void AddCoreCalculators(CalculatorRegistry& registry);

}  // namespace braid::graph
