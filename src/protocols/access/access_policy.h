// AccessPolicy: the one gate of a port. Every route of every protocol passes it before anything of its body
// is read.
//
// Three questions, in this order. Is the API served at this port at all? Does the request have the secret of
// the API's restricted group (--http-restricted-api, --grpc-restricted-protocol)? May its sender do this
// (AccessControl)?
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
  // How a protocol carries the secrets of groups, and says no.
  enum class Wire : unsigned char { kHttp, kGrpc };

  // `control` outlives it; null: every sender with the secrets may do everything.
  explicit AccessPolicy(Wire wire, AccessControl* control = nullptr) : wire_(wire), control_(control) {}

  // Adds one flag value: "{api}[,{api}...]:{header}={value}". All protocols know all groups, so that one list
  // does for all.
  Status AddRestriction(std::string_view flag_value);
  // The same for each line of a file; empty ones, and those that start with '#', are left out.
  Status AddRestrictionsOf(const std::string& file);
  // The headers that secrets of groups are shown in.
  std::vector<std::string> SecretHeaders() const;
  // Only these APIs are served.
  void ServeOnly(ApiSet apis) { served_ = apis; }
  bool serves(Api api) const { return served_.Has(api); }

  // What a request shows of its sender.
  class Sender {
   public:
    // Whether a header of this name, in lower case over gRPC, has this value. For SameSecret().
    virtual bool Shows(std::string_view header, std::string_view secret) const = 0;
    virtual Credentials credentials() const = 0;

   protected:
    ~Sender() = default;
  };

  // A reader for one thread's requests at this port.
  AccessReader Reader() const { return AccessReader(control_); }
  // Errors: PERMISSION_DENIED, and UNAVAILABLE for restricted groups over gRPC; UNAUTHENTICATED.
  Status Check(AccessReader& reader, const Sender& sender, const Rights::Subject& subject) const;
  Result<Authorization> Authorize(AccessReader& reader, const Sender& sender,
                                  const Rights::Subject& subject) const;
  // What Check() would say, for who only wants to know: counts as no refusal.
  bool Allows(AccessReader& reader, const Sender& sender, const Rights::Subject& subject) const;

  // Compares in a time that does not depend on where two texts differ.
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
