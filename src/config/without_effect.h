// Fields of configurations that are parsed but have no effect in this server. When a field gets an effect,
// remove its line here.
#pragma once

#include <span>
#include <string_view>

namespace braid {

// The option of the server that gives a field its effect.
enum class EffectBy : unsigned char { kNothing, kRateLimit, kCache };

struct FieldWithoutEffect {
  std::string_view field;    // without indexes: "instance_group.rate_limiter"; includes the fields within it
  std::string_view value;    // the value without effect; empty: any value
  std::string_view message;  // for users
  std::string_view advice;   // what to do instead; may be empty
  EffectBy unless = EffectBy::kNothing;
};

// For a config.pbtxt.
std::span<const FieldWithoutEffect> ModelFieldsWithoutEffect();
// For a graph that loads.
std::span<const FieldWithoutEffect> GraphFieldsWithoutEffect();

}  // namespace braid
