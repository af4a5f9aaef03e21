#include "protocols/access/tokens.h"

#include <openssl/sha.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "protocols/access/access_files.h"

namespace braid {
namespace {

constexpr std::string_view kSpace = " \t";
constexpr std::string_view kHashed = "sha256:";

bool IsAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool IsMadeOf(std::string_view text, std::string_view marks) {
  return std::ranges::all_of(
      text, [&](char c) { return IsAlphanumeric(c) || marks.find(c) != std::string_view::npos; });
}

}  // namespace

size_t Tokens::DigestHash::operator()(const Digest& digest) const {
  size_t hash = 0;
  std::memcpy(&hash, digest.data(), sizeof(hash));
  return hash;
}

Tokens::Digest Tokens::DigestOf(std::string_view token) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), digest.data());
  return digest;
}

Status Tokens::Add(std::string_view identity, std::string_view token) {
  if (identity == kAnonymous) {
    return InvalidArgumentError(std::string("'").append(kAnonymous) +
                                "' is reserved for requests without a token");
  }
  if (!IsMadeOf(identity, "._-:/@+=")) {
    return InvalidArgumentError("an identity can contain only letters, digits and . _ - : / @ + =");
  }
  Digest digest;
  if (token.starts_with(kHashed)) {
    const std::string_view hex = token.substr(kHashed.size());
    bool good = hex.size() == 2 * digest.size();
    for (size_t i = 0; good && i < digest.size(); ++i) {
      const char* const end = hex.data() + 2 * i + 2;
      const auto [rest, error] = std::from_chars(end - 2, end, digest[i], 16);
      good = error == std::errc() && rest == end;
    }
    if (!good) return InvalidArgumentError("expected 64 hexadecimal digits after 'sha256:'");
  } else {
    if (!IsMadeOf(token, "-._~+/=")) {
      return InvalidArgumentError("a bearer token can contain only letters, digits and - . _ ~ + / =");
    }
    digest = DigestOf(token);
  }
  const auto [known, added] = identities_.emplace(digest, identity);
  if (!added && known->second != identity) {
    return InvalidArgumentError("duplicate token, already used for '" + known->second + "'");
  }
  return OkStatus();
}

Result<Tokens> Tokens::Parse(std::string_view text) {
  Tokens tokens;
  BRAID_RETURN_IF_ERROR(ForEachLine(text, [&](std::string_view line) {
    const std::string_view identity = line.substr(0, line.find_first_of(kSpace));
    std::string_view token = line.substr(identity.size());
    token.remove_prefix(std::min(token.find_first_not_of(kSpace), token.size()));
    if (token.empty() || token.find_first_of(kSpace) != std::string_view::npos) {
      return InvalidArgumentError("expected an identity and a token");
    }
    return tokens.Add(identity, token);
  }));
  return tokens;
}

const std::string* Tokens::Find(std::string_view token) const {
  const auto found = identities_.find(DigestOf(token));
  return found == identities_.end() ? nullptr : &found->second;
}

}  // namespace braid
