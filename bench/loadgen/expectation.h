// What the responses have to hold. A figure of a server that answers wrongly is worth nothing, so every
// response is looked at: the number, names and sizes of its outputs always, their bytes in each response or
// in every n-th one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "load/tensor.h"
#include "payload.h"

namespace braid::bench {

using load::OutputView;

enum class Validation { kNone, kIdentity, kAddSub };

// Immutable after Make; used by all threads at once.
class Expectation {
 public:
  // kIdentity: OUTPUT<i> equals the i-th input. kAddSub: OUTPUT0 and OUTPUT1 are the sum and the difference
  // of two inputs. `every` = 0 compares the bytes of every response where a request is below 64 KiB, else of
  // every 16th.
  static Result<Expectation> Make(Validation validation, const std::vector<InputTensor>& inputs, int every);

  // Checks the `nth` response of a slot (counted from 0, whose bytes are always compared).
  Status Check(const std::vector<OutputView>& outputs, uint64_t nth) const;

 private:
  bool checks_ = false;
  uint64_t every_ = 1;
  std::vector<std::string> data_;  // of OUTPUT0, OUTPUT1, ...
};

}  // namespace braid::bench
