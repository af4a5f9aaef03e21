#include "sequences/redis_state_store.h"

#include <openssl/sha.h>

#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "sequences/sequence_record.h"

namespace braid {

namespace {

// ARGV: identity or "" for a sequence that begins anew, ttl, whether to remove the states from the store
constexpr std::string_view kTakeText = R"lua(
local held = redis.call('HMGET', KEYS[1], 'e', 's', 'i', 'd')
local begins = ARGV[1] == ''
if not begins and not held[4] then return {0} end
if not begins and held[3] ~= ARGV[1] then return {2} end
local time = redis.call('TIME')
local before = held[1] or '0'
local epoch = string.format('%.0f', math.max(tonumber(before) + 1, time[1] * 1000000 + time[2]))
redis.call('HSET', KEYS[1], 'e', epoch)
redis.call('HDEL', KEYS[1], 'o')
if ARGV[3] == '1' then redis.call('HDEL', KEYS[1], 'd') end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {1, epoch, held[2] or '0', begins and '' or held[4], before}
)lua";

// ARGV: how, epoch, life, step, identity, states, ttl
constexpr std::string_view kWriteText = R"lua(
local held = redis.call('HMGET', KEYS[1], 'e', 'o', 's', 'd')
local how = ARGV[1]
local epoch = held[1]
local again = how == 'claim' and held[2] == ARGV[3]
if how == 'claim' and held[4] and not again then return {0} end
if again then
  if tonumber(held[3]) > tonumber(ARGV[4]) then return {1, epoch} end
elseif how == 'claim' then
  local time = redis.call('TIME')
  epoch = string.format('%.0f', math.max(tonumber(held[1] or '0') + 1, time[1] * 1000000 + time[2]))
  redis.call('HSET', KEYS[1], 'e', epoch)
else
  if not held[1] then return {-1} end
  if held[1] ~= ARGV[2] then return {0} end
  local same = held[2] == ARGV[3]
  if how == 'step' and same and tonumber(held[3]) > tonumber(ARGV[4]) then return {1, epoch} end
end
redis.call('HSET', KEYS[1], 'o', ARGV[3], 's', ARGV[4], 'i', ARGV[5], 'd', ARGV[6])
redis.call('PEXPIRE', KEYS[1], ARGV[7])
return {1, epoch}
)lua";

// ARGV: how, epoch, life
constexpr std::string_view kEndText = R"lua(
local held = redis.call('HMGET', KEYS[1], 'e', 'o')
if not held[1] then
  if ARGV[1] == 'step' then return {-1} end
  return {1, '0'}
end
if ARGV[1] == 'claim' and held[2] ~= ARGV[3] then return {0} end
if ARGV[1] == 'step' and held[1] ~= ARGV[2] then return {0} end
redis.call('DEL', KEYS[1])
return {1, held[1]}
)lua";

std::string Digest(std::string_view text) {
  unsigned char hash[SHA_DIGEST_LENGTH];
  SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash);
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string digest;
  for (const unsigned char byte : hash) {
    digest += kDigits[byte >> 4];
    digest += kDigits[byte & 15];
  }
  return digest;
}

// Encodes all but letters, digits, '-', '_' and '.' as %XX, so that a name cannot contain the key's
// delimiters.
std::string Escape(std::string_view text) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string escaped;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.';
    if (plain) {
      escaped += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      escaped += '%';
      escaped += kDigits[byte >> 4];
      escaped += kDigits[byte & 15];
    }
  }
  return escaped;
}

std::optional<uint64_t> NumberIn(const RedisReply& reply) {
  uint64_t number = 0;
  const char* end = reply.text.data() + reply.text.size();
  const auto [at, error] = std::from_chars(reply.text.data(), end, number);
  if (reply.kind != RedisReply::Kind::kText || error != std::errc() || at != end) return std::nullopt;
  return number;
}

Status Unexpected() { return UnavailableError("it sent a malformed reply"); }

// Returns the first number of a script's answer.
Result<int64_t> VerdictIn(const Result<RedisReply>& reply) {
  if (!reply.ok()) return reply.status();
  const RedisReply& found = reply.value();
  if (found.kind == RedisReply::Kind::kError) {
    return UnavailableError("it refuses: " + ShownError(found));
  }
  if (found.list.empty() || found.list[0].kind != RedisReply::Kind::kNumber) return Unexpected();
  return found.list[0].number;
}

Result<StateStore::Written> WrittenIn(const Result<RedisReply>& reply) {
  BRAID_ASSIGN_OR_RETURN(const int64_t verdict, VerdictIn(reply));
  StateStore::Written written;
  if (verdict == 0) {
    written.verdict = StateStore::Verdict::kFenced;
  } else if (verdict < 0) {
    written.verdict = StateStore::Verdict::kMissing;
  } else {
    const auto epoch = reply.value().list.size() > 1 ? NumberIn(reply.value().list[1]) : std::nullopt;
    if (!epoch) return Unexpected();
    written.epoch = *epoch;
  }
  return written;
}

Result<StateStore::Taken> TakenIn(const Result<RedisReply>& reply) {
  BRAID_ASSIGN_OR_RETURN(const int64_t verdict, VerdictIn(reply));
  StateStore::Taken taken;
  if (verdict == 2) taken.finding = StateStore::Finding::kOtherModel;
  if (verdict != 1) return taken;
  const std::vector<RedisReply>& list = reply.value().list;
  if (list.size() < 5) return Unexpected();
  const auto epoch = NumberIn(list[1]);
  const auto steps = NumberIn(list[2]);
  const auto before = NumberIn(list[4]);
  if (!epoch || !steps || !before) return Unexpected();
  taken.finding = StateStore::Finding::kFound;
  taken.epoch = *epoch;
  taken.steps = *steps;
  taken.before = *before;
  if (list[3].text.empty()) return taken;
  auto states = DecodeSequenceRecord(list[3].text);
  if (!states.ok()) return InternalError("its data cannot be read: " + states.status().message());
  taken.states = std::move(states).value();
  return taken;
}

// The arguments that state the caller's right to a sequence.
std::vector<std::string> RightOf(const OwnershipLease& lease) {
  const char* how = lease.epoch != 0 ? "step" : lease.life != 0 ? "claim" : "any";
  return {how, std::to_string(lease.epoch), std::to_string(lease.life)};
}

}  // namespace

RedisStateStore::RedisStateStore(const Options& options, std::unique_ptr<RedisClient> client)
    : policy_(options.policy), ttl_ms_(std::to_string(options.ttl_ms)), client_(std::move(client)) {}

Result<std::unique_ptr<RedisStateStore>> RedisStateStore::Open(Options options, Logger& log) {
  // The client loads the scripts again on a Redis that has forgotten them.
  for (const std::string_view text : {kTakeText, kWriteText, kEndText}) {
    options.client.greeting.push_back({"SCRIPT", "LOAD", std::string(text)});
  }
  BRAID_ASSIGN_OR_RETURN(auto client, RedisClient::Start(options.client, log));
  return std::unique_ptr<RedisStateStore>(new RedisStateStore(options, std::move(client)));
}

std::string RedisStateStore::KeyOf(const Name& name) {
  const auto* number = std::get_if<uint64_t>(&name.id);
  const std::string id =
      number != nullptr ? "n:" + std::to_string(*number) : "t:" + Escape(std::get<std::string>(name.id));
  return "braid:{" + Escape(name.model) + ":" + std::to_string(name.version) + ":" + id + "}";
}

void RedisStateStore::Run(const std::string& digest, std::vector<std::string> arguments,
                          RedisClient::Done done) {
  std::string key = arguments.front();
  arguments.insert(arguments.begin(), {"EVALSHA", digest, "1"});
  client_->Send(std::move(key), RedisClient::Words(std::move(arguments)), std::move(done));
}

void RedisStateStore::Take(const Name& name, const std::string& identity, TakenDone done) {
  static const std::string kDigest = Digest(kTakeText);
  Run(kDigest, {KeyOf(name), identity, ttl_ms_, policy_.mode == StoreMode::kDrain ? "1" : "0"},
      [done = std::move(done)](const Result<RedisReply>& reply) { done(TakenIn(reply)); });
}

void RedisStateStore::Write(const Name& name, const std::string& identity, const Step& step,
                            WrittenDone done) {
  static const std::string kDigest = Digest(kWriteText);
  std::vector<std::string> arguments = {KeyOf(name)};
  for (std::string& word : RightOf(step.lease)) arguments.push_back(std::move(word));
  if (step.takes_back && step.lease.epoch != 0) arguments[1] = "back";
  arguments.push_back(std::to_string(step.lease.steps));
  arguments.push_back(identity);
  arguments.push_back(step.states == nullptr ? EncodeSequenceRecord({}) : EncodeSequenceRecord(*step.states));
  arguments.push_back(ttl_ms_);
  Run(kDigest, std::move(arguments),
      [done = std::move(done)](const Result<RedisReply>& reply) { done(WrittenIn(reply)); });
}

void RedisStateStore::End(const Name& name, const OwnershipLease& lease, WrittenDone done) {
  static const std::string kDigest = Digest(kEndText);
  std::vector<std::string> arguments = {KeyOf(name)};
  for (std::string& word : RightOf(lease)) arguments.push_back(std::move(word));
  Run(kDigest, std::move(arguments),
      [done = std::move(done)](const Result<RedisReply>& reply) { done(WrittenIn(reply)); });
}

}  // namespace braid
