// AccessControl: decides which identity may do what, by the token file (Tokens) and the policy file (Rights).
// Both are read again when they change.
//
//   BRAID_ASSIGN_OR_RETURN(auto access, AccessControl::Create({.tokens = "tokens.txt", .policy = ""}, log));
//   AccessReader reader(access.get());  // one a thread
//   BRAID_ASSIGN_OR_RETURN(auto authorization, reader.Authorize(credentials, {Api::kInference, {}}));
//   BRAID_RETURN_IF_ERROR(authorization.Check("resnet"));  // once the model is known
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

// The credentials of a request's sender. Both may be empty.
struct Credentials {
  std::string_view authorization;  // the header field of that name
  std::string_view certificate;    // the identity of the client certificate that TLS has verified
};

// The contents of the files at one time.
struct AccessTable {
  std::optional<Tokens> tokens;  // nullopt: tokens are ignored
  Rights rights;
};

class AccessControl {
 public:
  struct Files {
    std::string tokens;  // empty: no tokens; only certificates identify clients
    std::string policy;  // empty: Rights::ForAllKnown()
  };
  enum class Refusal : unsigned char { kUnauthenticated, kPermissionDenied };

  // Errors: INVALID_ARGUMENT for files that cannot be read or are invalid.
  static Result<std::unique_ptr<AccessControl>> Create(Files files, Logger& log);

  // Reads the files again. If they are invalid, keeps the previous contents and logs the reason. Any thread.
  void Reload();

  // Returns the sender's identity as the files name it. Returns kAnonymous without credentials, and nullopt
  // for an unknown token. The name lives as long as the table and the credentials. Any thread.
  static std::optional<std::string_view> IdentityOf(const AccessTable& table, const Credentials& credentials);
  // The same with an error: UNAUTHENTICATED for an unknown token, which counts as a refusal.
  Result<std::string_view> Identify(const AccessTable& table, const Credentials& credentials);
  // Checks whether this identity may do this. Errors, which count as refusals: UNAUTHENTICATED if it is
  // anonymous, else PERMISSION_DENIED. Any thread.
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
  // Logs a warning if other users of this machine can read the tokens.
  void WarnOfReaders() const;

  const Files files_;
  Logger& log_;
  Published<AccessTable> table_;
  Counted counts_[2];
};

// The authorization of a request, for later checks. Cheap to copy if nothing is restricted.
class Authorization {
 public:
  Authorization() = default;  // permits everything
  // Checks whether the sender may do this with the model ("": all models), by the current files. Any thread.
  Status Check(std::string_view model) const;
  // The same for another API that the request uses too.
  Status CheckAlso(Api api, std::string_view model) const;

 private:
  friend class AccessReader;
  struct Of {
    AccessControl& control;
    std::shared_ptr<const AccessTable> table;  // shared with other authorizations
    uint64_t generation;                       // of the table
    std::string identity;                      // as the table names it
    Api api;
    std::string authorization;
    std::string certificate;
  };
  explicit Authorization(std::shared_ptr<const Of> of) : of_(std::move(of)) {}

  std::shared_ptr<const Of> of_;  // shared by copies; null: permits everything
};

// The view of one thread, and for use by that thread only.
class AccessReader {
 public:
  // `control` outlives the reader; null: everything is permitted.
  explicit AccessReader(AccessControl* control) : control_(control) {
    if (control != nullptr) table_.emplace(control->table());
  }

  // Errors: as AccessControl::Identify() and Check().
  Status Check(const Credentials& credentials, const Rights::Subject& subject);
  Result<Authorization> Authorize(const Credentials& credentials, const Rights::Subject& subject);
  // Whether Check() would succeed. Does not count as a refusal.
  bool Allows(const Credentials& credentials, const Rights::Subject& subject);

 private:
  // Returns the sender's identity if it may do this. REQUIRES: control_ is not null.
  Result<std::string_view> Allowed(const AccessTable& table, const Credentials& credentials,
                                   const Rights::Subject& subject);

  AccessControl* const control_;
  std::optional<Published<AccessTable>::Reader> table_;
};

}  // namespace braid
