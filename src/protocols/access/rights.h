// Rights: which identity may use which APIs of which models, as a policy file says it.
//
//   {"rules": [
//     {"identities": ["anonymous"], "apis": ["health"]},
//     {"identities": ["alice", "team-*"], "apis": ["inference", "metadata"], "models": ["resnet*"]},
//     {"identities": ["operator"], "apis": ["*"]}
//   ]}
//
// What no rule allows is refused. A rule without `models` is for all of them. Names of identities and models
// are patterns: '*' stands for any text, '?' for any character, "[abc]" for one of these (fnmatch(3)); but no
// pattern stands for "anonymous", which is allowed by its own name alone.
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
  // Where there are tokens and no policy: who is known may do everything, others may ask for health.
  static Rights ForAllKnown();

  // What a request is about.
  struct Subject {
    Api api;
    // Nothing: no model, or one that is not known yet, and a right to any will do. "": all models at once.
    std::optional<std::string_view> model;
  };
  bool Allow(std::string_view identity, const Subject& subject) const;

 private:
  using Names = std::vector<std::string>;
  struct Rule {
    Names identities;
    ApiSet apis;
    Names models;  // none: all
  };

  std::vector<Rule> rules_;
};

}  // namespace braid
