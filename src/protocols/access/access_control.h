// AccessControl: who may do what, by the token file (Tokens) and the policy file (Rights), which are read
// again when they change.
//
//   BRAID_ASSIGN_OR_RETURN(auto access, AccessControl::Create({.tokens = "tokens.txt", .policy = ""}, log));
//   AccessReader reader(access.get());                                            // one a thread
//   BRAID_ASSIGN_OR_RETURN(Authorization authorization, reader.Authorize(credentials, {Api::kInference, {}}));
//   BRAID_RETURN_IF_ERROR(authorization.Check("resnet"));                                // once the model is known
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/episode.h"
#include "base/log.h"
#include "base/published.h"
#include "base/status.h"
#include "protocols/access/rights.h"
#include "protocols/access/tokens.h"

namespace braid {

// What a request shows of its sender. Both may be empty.
struct Credentials {
  std::string_view authorization;  // the header field of that name
  std::string_view certificate;    // the identity of the client certificate that TLS has verified
};

// What the files say at a time.
struct AccessTable {
  std::optional<Tokens> tokens;  // nothing: tokens are not looked at
  Rights rights;
};

class AccessControl {
 public:
  struct Files {
    std::string tokens;  // empty: no tokens; certificates alone tell who somebody is
    std::string policy;  // empty: Rights::ForAllKnown()
  };
  enum class Refusal : unsigned char { kUnauthenticated, kPermissionDenied };

  // Errors: INVALID_ARGUMENT for files that cannot be read, or are not what they should be.
  static Result<std::unique_ptr<AccessControl>> Create(Files files, Logger& log);

  // Reads the files again. Where they are not good, what they said before holds on, and the log says why.
  // Any thread.
  void Reload();

  // Who the sender is, in the words of the files; kAnonymous where it shows nothing, nothing for a token that is not
  // known. The name lives as long as the table and the credentials. Any thread.
  static std::optional<std::string_view> IdentityOf(const AccessTable& table, const Credentials& credentials);
  // Who the sender is; kAnonymous where it shows nothing. Errors: UNAUTHENTICATED for a token that is not
  // known. The name lives as long as the table and the credentials. Any thread.
  Result<std::string_view> Identify(const AccessTable& table, const Credentials& credentials);
  // Why this identity may not do this: UNAUTHENTICATED where it is anonymous, else PERMISSION_DENIED. Any
  // thread.
  Status Check(const AccessTable& table, std::string_view identity, const Rights::Subject& subject);
  uint64_t refused(Refusal why) const { return counts_[static_cast<size_t>(why)].count; }

  const Published<AccessTable>& table() const { return table_; }

 private:
  struct Counted {
    std::atomic<uint64_t> count{0};
    Episode episode;
  };

  AccessControl(Files files, std::shared_ptr<const AccessTable> table, Logger& log)
      : files_(std::move(files)), log_(log), table_(std::move(table)) {}
  static Result<std::shared_ptr<const AccessTable>> Read(const Files& files);
  Status Refuse(Refusal why, Status status);
  // Where other users of this machine can read the tokens.
  void WarnOfReaders() const;

  const Files files_;
  Logger& log_;
  Published<AccessTable> table_;
  Counted counts_[2];
};

// What a request was allowed, for what is asked of it later. Small where nothing is restricted; copied.
class Authorization {
 public:
  Authorization() = default;  // everything
  // Whether the sender may do it with this model ("": all models), by what the files say now. Any thread.
  Status Check(std::string_view model) const;
  // The same for another API, which the request turns out to use too.
  Status CheckAlso(Api api, std::string_view model) const;

 private:
  friend class AccessReader;
  struct Of {
    AccessControl& control;
    std::shared_ptr<const AccessTable> table;  // shared with other permits
    uint64_t generation;                       // of the table
    std::string identity;                      // by the table
    Api api;
    std::string authorization;
    std::string certificate;
  };
  explicit Authorization(std::shared_ptr<const Of> of) : of_(std::move(of)) {}

  std::shared_ptr<const Of> of_;  // shared by the copies; null: everything
};

// One thread's view. Not for use by two threads at once.
class AccessReader {
 public:
  // `control` outlives it; null: everything is allowed.
  explicit AccessReader(AccessControl* control) : control_(control) {
    if (control != nullptr) table_.emplace(control->table());
  }

  // Errors: as AccessControl's Identify() and Check().
  Status Check(const Credentials& credentials, const Rights::Subject& subject);
  Result<Authorization> Authorize(const Credentials& credentials, const Rights::Subject& subject);
  // What Check() would say; counts as no refusal.
  bool Allows(const Credentials& credentials, const Rights::Subject& subject);

 private:
  // Who may do it. REQUIRES: control_ is not null.
  Result<std::string_view> Allowed(const AccessTable& table, const Credentials& credentials,
                                   const Rights::Subject& subject);

  AccessControl* const control_;
  std::optional<Published<AccessTable>::Reader> table_;
};

}  // namespace braid
