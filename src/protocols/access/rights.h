// Rights: the APIs and models that each identity may use, from a policy file.
//
//   {"rules": [
//     {"identities": ["anonymous"], "apis": ["health"]},
//     {"identities": ["alice", "team-*"], "apis": ["inference", "metadata"], "models": ["resnet*"]},
//     {"identities": ["operator"], "apis": ["*"]}
//   ]}
//
// Requests that no rule allows are refused. A rule without `models` applies to all models. Names of
// identities and models are patterns: '*' matches any text, '?' any character, "[abc]" one of these
// characters (fnmatch(3)). No pattern matches "anonymous", so rules must name it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "protocols/access/api.h"

namespace braid {

class Rights {
 public:
  // Errors: INVALID_ARGUMENT with the path of each fault.
  static Result<Rights> Parse(std::string_view json);
  // The rights with tokens but without a policy: known identities may do everything, others may ask for
  // health.
  static Rights ForAllKnown();

  // The subject of a request.
  struct Subject {
    Api api;
    // nullopt: no model, or one that is not known yet; a right to any model is enough. "": all models at
    // once.
    std::optional<std::string_view> model;
  };
  bool Allow(std::string_view identity, const Subject& subject) const;

 private:
  using Names = std::vector<std::string>;
  struct Rule {
    Names identities;
    ApiSet apis;
    Names models;  // empty: all
  };

  std::vector<Rule> rules_;
};

}  // namespace braid
