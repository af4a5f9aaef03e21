// Tokens: the identities of bearer tokens (RFC 6750), from a token file.
//
//   # identity   token
//   alice        mF_9.B5f-4.1JqM
//   alice        sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//   ci           C8hX2kq0yB7dTz4w
//
// A line has an identity and a token, or the token's SHA-256. An identity may have several tokens, so that a
// new one can be introduced while the old one still works. Only digests are kept in memory.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/status.h"

namespace braid {

// The identity of requests with neither a token nor a certificate.
inline constexpr std::string_view kAnonymous = "anonymous";

class Tokens {
 public:
  // Errors: INVALID_ARGUMENT, which names the line but never the token.
  static Result<Tokens> Parse(std::string_view text);

  // Returns the identity, or null for an unknown token. The time reveals nothing about the tokens, because
  // digests are compared.
  const std::string* Find(std::string_view token) const;
  size_t size() const { return identities_.size(); }

 private:
  using Digest = std::array<unsigned char, 32>;
  struct DigestHash {
    size_t operator()(const Digest& digest) const;
  };
  static Digest DigestOf(std::string_view token);
  Status Add(std::string_view identity, std::string_view token);

  std::unordered_map<Digest, std::string, DigestHash> identities_;
};

}  // namespace braid
