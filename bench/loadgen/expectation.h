// Expectation: the expected responses. Figures of a server with wrong responses are worthless, so every
// response is checked. The number, names and sizes of its outputs are always checked, and their bytes in each
// response or in every n-th one.
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

// Immutable after Make() and thread-safe.
class Expectation {
 public:
  // kIdentity: OUTPUT<i> equals the i-th input. kAddSub: OUTPUT0 and OUTPUT1 are the sum and the difference
  // of two inputs. If `every` is 0, the bytes of every response are compared for requests below 64 KiB, else
  // those of every 16th response.
  static Result<Expectation> Make(Validation validation, const std::vector<InputTensor>& inputs, int every);

  // Checks the `nth` response of a slot, counted from 0. The bytes of response 0 are always compared.
  Status Check(const std::vector<OutputView>& outputs, uint64_t nth) const;

 private:
  bool checks_ = false;
  uint64_t every_ = 1;
  std::vector<std::string> data_;  // by output: OUTPUT0, OUTPUT1, ...
};

}  // namespace braid::bench
