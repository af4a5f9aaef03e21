#include "protocols/access/access_control.h"

#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/utf8.h"
#include "protocols/access/access_files.h"

namespace braid {
namespace {

// Returns the token of "Bearer TOKEN"; nullopt for another scheme.
std::optional<std::string_view> BearerToken(std::string_view authorization) {
  constexpr std::string_view kScheme = "Bearer ";
  if (authorization.size() < kScheme.size() ||
      ::strncasecmp(authorization.data(), kScheme.data(), kScheme.size()) != 0) {
    return std::nullopt;
  }
  const std::string_view token = authorization.substr(kScheme.size());
  return token.substr(std::min(token.find_first_not_of(' '), token.size()));
}

std::string Told(const Rights::Subject& subject) {
  std::string told = "the API '" + std::string(ApiName(subject.api)) + "'";
  if (!subject.model) return told;
  if (subject.model->empty()) return told + " of all models";
  return told + " of model '" + Shortened(*subject.model) + "'";
}

}  // namespace

Result<std::shared_ptr<const AccessTable>> AccessControl::Read(const Files& files) {
  auto table = std::make_shared<AccessTable>(AccessTable{std::nullopt, Rights::ForAllKnown()});
  if (!files.tokens.empty()) {
    BRAID_ASSIGN_OR_RETURN(const std::string text, ReadAccessFile("token file", files.tokens));
    auto tokens = Tokens::Parse(text);
    if (!tokens.ok()) return tokens.status().WithPrefix("the token file '" + files.tokens + "': ");
    table->tokens = *std::move(tokens);
  }
  if (!files.policy.empty()) {
    BRAID_ASSIGN_OR_RETURN(const std::string text, ReadAccessFile("policy file", files.policy));
    auto rights = Rights::Parse(text);
    if (!rights.ok()) return rights.status().WithPrefix("the policy file '" + files.policy + "': ");
    table->rights = *std::move(rights);
  }
  return std::shared_ptr<const AccessTable>(std::move(table));
}

Result<std::unique_ptr<AccessControl>> AccessControl::Create(Files files, Logger& log) {
  BRAID_ASSIGN_OR_RETURN(auto table, Read(files));
  std::unique_ptr<AccessControl> made(new AccessControl(std::move(files), std::move(table), log));
  made->WarnOfReaders();
  return made;
}

void AccessControl::WarnOfReaders() const {
  struct stat status {};
  if (::stat(files_.tokens.c_str(), &status) != 0) return;
  if ((status.st_mode & S_IROTH) != 0) {
    BRAID_LOG_WARNING(log_, "every user of this machine can read the token file '{}'", files_.tokens);
  } else if ((status.st_mode & S_IRGRP) != 0 && status.st_uid == ::geteuid()) {
    // The server may need the group to read a file of another user.
    BRAID_LOG_WARNING(log_, "the group can read the token file '{}'; use mode 0600", files_.tokens);
  }
}

void AccessControl::Reload() {
  auto table = Read(files_);
  if (!table.ok()) {
    BRAID_LOG_ERROR(log_, "keeping the previous tokens and rights: {}", table.status().message());
    return;
  }
  table_.Set(*std::move(table));
  WarnOfReaders();
  BRAID_LOG_INFO(log_, "tokens and rights reloaded");
}

Status AccessControl::Refuse(Refusal why, Status status) {
  Counted& counted = counts_[static_cast<size_t>(why)];
  counted.count.fetch_add(1, std::memory_order_relaxed);
  if (counted.episode.Goes()) {
    BRAID_LOG_WARNING(log_, "refusing requests without the required rights: {}",
                      EscapeForLog(status.message()));
  }
  return status;
}

std::optional<std::string_view> AccessControl::IdentityOf(const AccessTable& table,
                                                          const Credentials& credentials) {
  if (!table.tokens || credentials.authorization.empty()) {
    return credentials.certificate.empty() ? kAnonymous : credentials.certificate;
  }
  const auto token = BearerToken(credentials.authorization);
  const std::string* known = token ? table.tokens->Find(*token) : nullptr;
  return known == nullptr ? std::nullopt : std::optional<std::string_view>(*known);
}

Result<std::string_view> AccessControl::Identify(const AccessTable& table, const Credentials& credentials) {
  if (const auto identity = IdentityOf(table, credentials)) return *identity;
  return Refuse(Refusal::kUnauthenticated,
                UnauthenticatedError(BearerToken(credentials.authorization)
                                         ? "unknown bearer token in the header 'authorization'"
                                         : "expected 'Bearer TOKEN' in the header 'authorization'"));
}

Status AccessControl::Check(const AccessTable& table, std::string_view identity,
                            const Rights::Subject& subject) {
  if (table.rights.Allow(identity, subject)) return OkStatus();
  if (identity == kAnonymous) {
    const std::string_view what =
        table.tokens ? "a bearer token in the header 'authorization'" : "a client certificate";
    return Refuse(Refusal::kUnauthenticated,
                  UnauthenticatedError(Told(subject) + " requires " + std::string(what)));
  }
  return Refuse(Refusal::kPermissionDenied,
                PermissionDeniedError(std::string("'").append(identity) + "' may not use " + Told(subject)));
}

Status Authorization::Check(std::string_view model) const {
  return of_ == nullptr ? OkStatus() : CheckAlso(of_->api, model);
}

Status Authorization::CheckAlso(Api api, std::string_view model) const {
  if (of_ == nullptr) return OkStatus();
  const Published<AccessTable>& published = of_->control.table();
  if (published.generation() == of_->generation) {
    return of_->control.Check(*of_->table, of_->identity, {api, model});
  }
  const auto table = published.Get();
  BRAID_ASSIGN_OR_RETURN(const std::string_view identity,
                         of_->control.Identify(*table, {of_->authorization, of_->certificate}));
  return of_->control.Check(*table, identity, {api, model});
}

Result<std::string_view> AccessReader::Allowed(const AccessTable& table, const Credentials& credentials,
                                               const Rights::Subject& subject) {
  BRAID_ASSIGN_OR_RETURN(const std::string_view identity, control_->Identify(table, credentials));
  BRAID_RETURN_IF_ERROR(control_->Check(table, identity, subject));
  return identity;
}

Status AccessReader::Check(const Credentials& credentials, const Rights::Subject& subject) {
  return control_ == nullptr ? OkStatus() : Allowed(*table_->Get(), credentials, subject).status();
}

bool AccessReader::Allows(const Credentials& credentials, const Rights::Subject& subject) {
  if (control_ == nullptr) return true;
  const AccessTable& table = *table_->Get();
  const auto identity = AccessControl::IdentityOf(table, credentials);
  return identity && table.rights.Allow(*identity, subject);
}

Result<Authorization> AccessReader::Authorize(const Credentials& credentials,
                                              const Rights::Subject& subject) {
  if (control_ == nullptr) return Authorization();
  // The identity points into the table, which the next look at the files may replace.
  std::shared_ptr<const AccessTable> table = table_->Get();
  BRAID_ASSIGN_OR_RETURN(const std::string_view identity, Allowed(*table, credentials, subject));
  return Authorization(std::make_shared<const Authorization::Of>(
      Authorization::Of{*control_, std::move(table), table_->generation(), std::string(identity), subject.api,
                        std::string(credentials.authorization), std::string(credentials.certificate)}));
}

}  // namespace braid
