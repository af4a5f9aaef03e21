// Fuzzes the files of tokens, rights and restricted groups, and the credentials of a sender.
#include "base/check.h"
#include "base/testing/fuzz_input.h"
#include "protocols/access/access_policy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace braid;
  FuzzInput input(data, size);
  const size_t what = input.Number(0, 2);
  const std::string text(input.rest());
  if (what == 0) {
    const auto tokens = Tokens::Parse(text);
    if (tokens.ok()) (void)(*tokens).Find(text);
  } else if (what == 1) {
    const auto rights = Rights::Parse(text);
    if (!rights.ok()) return 0;
    BRAID_CHECK(!(*rights).Allow("", {Api::kInference, ""}) || (*rights).Allow("", {Api::kInference, "m"}));
    (void)(*rights).Allow(text.substr(0, 20), {Api::kTrace, text.substr(size / 2)});
  } else {
    AccessPolicy policy(AccessPolicy::Wire::kGrpc);
    (void)policy.AddRestriction(text);
  }
  return 0;
}
