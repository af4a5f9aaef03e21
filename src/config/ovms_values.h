// Parsers for a model's options that are texts with a syntax, in a config.json and on the command line. Pure
// functions. Errors: INVALID_ARGUMENT that quotes the text and shows an example.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "config/ovms_config.h"

namespace braid {

// "auto", "(1,3,224,224)", "(1,-1,200:400)"; the parentheses may be left out.
Result<OvmsShape> ParseOvmsShape(std::string_view text);
// "auto", "4", "-1", "1:8".
Result<OvmsBatchSize> ParseOvmsBatchSize(std::string_view text);
// "NHWC", "N...", "NHWC:NCHW"; letters of any case.
Result<OvmsLayout> ParseOvmsLayout(std::string_view text);
// "FP32", "i64", "uint8"; returned in capitals.
Result<std::string> ParseOvmsPrecision(std::string_view text);
// "RGB", "RGB:BGR"; returned in capitals.
Result<std::string> ParseOvmsColorFormat(std::string_view text);
// "127.5", "1,2,3", "[1, 2, 3]", "(1,2,3)".
Result<std::vector<double>> ParseOvmsNumbers(std::string_view text);

}  // namespace braid
