// Libraries that a server refuses; a preprocessor definition chooses the fault.
#include <cstdlib>

#include "braid_calculator.h"

namespace {

class Nothing final : public braid::plugin::Calculator {
 public:
  static void Describe(braid::plugin::Contract&) {}
  void Process(braid::plugin::Context&) override {}
};

}  // namespace

#if defined(TWICE)
BRAID_CALCULATORS(braid::plugin::MakeCalculator<Nothing>("FirstCalculator"),
                  braid::plugin::MakeCalculator<Nothing>("TwiceCalculator"),
                  braid::plugin::MakeCalculator<Nothing>("TwiceCalculator"))
#elif defined(TAKEN)
BRAID_CALCULATORS(braid::plugin::MakeCalculator<Nothing>("NewCalculator"),
                  braid::plugin::MakeCalculator<Nothing>("TakenCalculator"))
#elif defined(NO_NAME)
BRAID_CALCULATORS(braid::plugin::MakeCalculator<Nothing>("FirstCalculator"),
                  braid::plugin::MakeCalculator<Nothing>(""))
#else
extern "C" __attribute__((visibility("default"))) const BraidCalculatorLibrary*
#if defined(NO_ENTRY)
calculators() {
#else
braidCalculators() {
#endif
#if defined(CRASH_AT_OPEN)
  std::abort();
#endif
#if defined(NULL_LIST)
  return nullptr;
#else
  static BraidCalculator calculator = braid::plugin::MakeCalculator<Nothing>("OneCalculator");
  static BraidCalculatorLibrary library{BRAID_CALCULATOR_INTERFACE, &calculator, 1};
#if defined(WRONG_VERSION)
  library = {BRAID_CALCULATOR_INTERFACE + 1, nullptr, 1};
#elif defined(EMPTY_LIST)
  library.count = 0;
#elif defined(NO_FUNCTION)
  calculator.close = nullptr;
#endif
  return &library;
#endif
}
#endif
