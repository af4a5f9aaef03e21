// Fields of configurations that are read and have no effect here. They stand beside the parsers, so that a field which gets one leaves its
// line.
#pragma once

#include <span>
#include <string_view>

namespace braid {

// The option of the server that gives a field its effect.
enum class EffectBy : unsigned char { kNothing, kRateLimit, kCache };

struct FieldWithoutEffect {
  std::string_view field;    // without indexes: "instance_group.rate_limiter"; stands for what is in it, too
  std::string_view value;    // that has none; empty: none has
  std::string_view message;  // for users
  std::string_view advice;   // what to do instead; may be empty
  EffectBy unless = EffectBy::kNothing;
};

// Of a config.pbtxt.
std::span<const FieldWithoutEffect> ModelFieldsWithoutEffect();
// Of a graph that loads.
std::span<const FieldWithoutEffect> GraphFieldsWithoutEffect();

}  // namespace braid
