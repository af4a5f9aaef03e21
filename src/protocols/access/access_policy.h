// AccessPolicy: the access check of a port. Every request of every protocol passes it before its body is
// read.
//
// It checks three conditions in this order:
//   - The port serves the API.
//   - The request has the secret of the API's restricted group (--http-restricted-api,
//     --grpc-restricted-protocol).
//   - The sender has the right (AccessControl).
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "protocols/access/access_control.h"
#include "protocols/access/api.h"

namespace braid {

class AccessPolicy {
 public:
  // The transport, which determines the names of secrets' headers and the errors.
  enum class Wire : unsigned char { kHttp, kGrpc };

  // `control` outlives the policy; null: every sender with the secrets may do everything.
  explicit AccessPolicy(Wire wire, AccessControl* control = nullptr) : wire_(wire), control_(control) {}

  // Adds one flag value: "{api}[,{api}...]:{header}={value}". All protocols know all groups, so one list is
  // enough for all protocols.
  Status AddRestriction(std::string_view flag_value);
  // The same for each line of a file. Skips empty lines and lines that begin with '#'.
  Status AddRestrictionsOf(const std::string& file);
  // Returns the headers with the secrets of groups.
  std::vector<std::string> SecretHeaders() const;
  // Limits the port to these APIs.
  void ServeOnly(ApiSet apis) { served_ = apis; }
  bool serves(Api api) const { return served_.Has(api); }

  // The headers and credentials of a request's sender.
  class Sender {
   public:
    // Whether a header of this name has this value. Names are in lower case over gRPC. Implement it with
    // SameSecret().
    virtual bool Shows(std::string_view header, std::string_view secret) const = 0;
    virtual Credentials credentials() const = 0;

   protected:
    ~Sender() = default;
  };

  // Returns a reader for the requests of one thread.
  AccessReader Reader() const { return AccessReader(control_); }
  // Errors: PERMISSION_DENIED (for restricted groups over gRPC UNAVAILABLE) and UNAUTHENTICATED.
  Status Check(AccessReader& reader, const Sender& sender, const Rights::Subject& subject) const;
  Result<Authorization> Authorize(AccessReader& reader, const Sender& sender,
                                  const Rights::Subject& subject) const;
  // Whether Check() would succeed. Does not count as a refusal.
  bool Allows(AccessReader& reader, const Sender& sender, const Rights::Subject& subject) const;

  // Whether the texts are equal. The time does not depend on where they differ.
  static bool SameSecret(std::string_view a, std::string_view b);

 private:
  struct Restriction {
    std::string header;
    std::string value;
  };
  Status CheckPort(const Sender& sender, Api api) const;

  Wire wire_;
  AccessControl* control_;
  ApiSet served_ = ApiSet::All();
  std::array<std::optional<Restriction>, kApiCount> restrictions_;
};

}  // namespace braid
