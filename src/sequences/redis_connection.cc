#include "sequences/redis_connection.h"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/clock.h"
#include "base/guard.h"

namespace braid {
namespace {

constexpr size_t kReadBytes = size_t{64} << 10;
constexpr size_t kMostErrorText = 160;

RedisReply Convert(const redisReply& from) {
  RedisReply reply;
  switch (from.type) {
    case REDIS_REPLY_INTEGER:
      reply.kind = RedisReply::Kind::kNumber;
      reply.number = from.integer;
      break;
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
      reply.kind = RedisReply::Kind::kText;
      reply.text.assign(from.str, from.len);
      break;
    case REDIS_REPLY_ERROR:
      reply.kind = RedisReply::Kind::kError;
      reply.text.assign(from.str, from.len);
      break;
    case REDIS_REPLY_ARRAY:
      reply.kind = RedisReply::Kind::kList;
      for (size_t i = 0; i < from.elements; ++i) reply.list.push_back(Convert(*from.element[i]));
      break;
    default:
      break;
  }
  return reply;
}

// Appends a command in the Redis protocol (RESP), a list of texts. Not done with hiredis' formatter, which
// would copy the states of a large model once more.
void Append(const std::vector<std::string>& words, std::string& out) {
  size_t bytes = 32;
  for (const std::string& word : words) bytes += word.size() + 32;
  out.reserve(out.size() + bytes);
  fmt::format_to(std::back_inserter(out), "*{}\r\n", words.size());
  for (const std::string& word : words) {
    fmt::format_to(std::back_inserter(out), "${}\r\n", word.size());
    out += word;
    out += "\r\n";
  }
}

Result<std::string> ReadSecret(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string secret{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file.is_open() || file.bad()) return UnavailableError("its password file cannot be read");
  while (secret.ends_with('\n') || secret.ends_with('\r')) secret.pop_back();
  if (secret.empty()) return UnavailableError("its password file is empty");
  return secret;
}

}  // namespace

std::string ShownError(const RedisReply& reply) {
  std::string shown = reply.text.substr(0, kMostErrorText);
  if (shown.starts_with("MOVED ") || shown.starts_with("ASK ") ||
      shown.find("not allowed in cluster mode") != std::string::npos) {
    shown += " (it is a node of a Redis Cluster; use redis+cluster://HOST:PORT,...)";
  }
  return shown;
}

RedisConnection::RedisConnection(std::unique_ptr<client::Socket> socket)
    : socket_(std::move(socket)), reader_(redisReaderCreate()) {}

RedisConnection::~RedisConnection() {
  if (reader_ != nullptr) redisReaderFree(reader_);
}

Result<std::unique_ptr<RedisConnection>> RedisConnection::Dial(const client::TlsOptions& tls,
                                                               const client::Address& address,
                                                               int64_t deadline_ns) {
  const int64_t left_ns = deadline_ns - SteadyNowNs();
  if (left_ns <= 0) return UnavailableError("it does not answer");
  BRAID_ASSIGN_OR_RETURN(const auto dialer, client::Dialer::Make(address, tls));
  BRAID_ASSIGN_OR_RETURN(auto socket,
                         client::Socket::Dial(*dialer, false, static_cast<double>(left_ns) / 1e9));
  std::unique_ptr<RedisConnection> connection(new RedisConnection(std::move(socket)));
  if (connection->reader_ == nullptr) return OutOfMemory();
  return connection;
}

Result<client::Address> RedisConnection::AskSentinels(const RedisOptions& options,
                                                      const client::TlsOptions& tls, int64_t deadline_ns) {
  Status last;
  const int64_t each_ns = options.connect_timeout_ns / static_cast<int64_t>(options.url.addresses.size() + 1);
  for (const client::Address& sentinel : options.url.addresses) {
    const int64_t until_ns = std::min(deadline_ns, SteadyNowNs() + each_ns);
    const auto connection = Dial(tls, sentinel, until_ns);
    last = connection.status();
    if (!last.ok()) continue;
    const auto told =
        (*connection)->AskNow({"SENTINEL", "get-master-addr-by-name", options.url.master}, until_ns);
    if (told.ok() && told->list.size() == 2) return client::Address{told->list[0].text, told->list[1].text};
    last = told.ok()
               ? UnavailableError("it does not know master '" + options.url.master + "' " + ShownError(*told))
               : told.status();
  }
  return last.WithPrefix("no sentinel returned the master's address: ");
}

Result<std::unique_ptr<RedisConnection>> RedisConnection::Open(const RedisOptions& options,
                                                               const client::TlsOptions& tls,
                                                               const client::Address& address) {
  const int64_t deadline_ns = SteadyNowNs() + options.connect_timeout_ns;
  client::Address where = address;
  if (!options.url.master.empty()) {
    BRAID_ASSIGN_OR_RETURN(where, AskSentinels(options, tls, deadline_ns));
  }
  BRAID_ASSIGN_OR_RETURN(auto connection, Dial(tls, where, deadline_ns));
  BRAID_RETURN_IF_ERROR(connection->Greet(options, deadline_ns));
  return connection;
}

Status RedisConnection::Greet(const RedisOptions& options, int64_t deadline_ns) {
  std::vector<std::vector<std::string>> words;
  if (!options.password_file.empty()) {
    BRAID_ASSIGN_OR_RETURN(std::string secret, ReadSecret(options.password_file));
    words.push_back({"AUTH"});
    if (!options.url.user.empty()) words.back().push_back(options.url.user);
    words.back().push_back(std::move(secret));
  }
  if (options.url.database != 0) words.push_back({"SELECT", std::to_string(options.url.database)});
  words.insert(words.end(), options.greeting.begin(), options.greeting.end());
  for (const auto& command : words) {
    BRAID_ASSIGN_OR_RETURN(const RedisReply reply, AskNow(command, deadline_ns));
    if (reply.kind != RedisReply::Kind::kError) continue;
    return UnavailableError("it refuses " + command.front() + ": " + ShownError(reply));
  }
  return OkStatus();
}

Result<RedisReply> RedisConnection::AskNow(const std::vector<std::string>& words, int64_t deadline_ns) {
  Add(words);
  RedisReply reply;
  for (;;) {
    BRAID_RETURN_IF_ERROR(WriteSome());
    BRAID_ASSIGN_OR_RETURN(const bool whole, NextReply(reply));
    if (whole) return reply;
    const int16_t events = writing() ? POLLIN | POLLOUT : POLLIN;
    if (!buffered() && !client::WaitFor(fd(), events, deadline_ns)) {
      return UnavailableError("it does not answer");
    }
    BRAID_RETURN_IF_ERROR(ReadSome());
  }
}

void RedisConnection::Add(const std::vector<std::string>& words) {
  if (!writing()) {
    out_.clear();
    out_at_ = 0;
  }
  Append(words, out_);
}

Status RedisConnection::WriteSome() {
  while (writing()) {
    iovec piece{out_.data() + out_at_, out_.size() - out_at_};
    BRAID_ASSIGN_OR_RETURN(const size_t written, socket_->Write({&piece, 1}));
    if (written == 0) break;
    out_at_ += written;
  }
  return OkStatus();
}

Status RedisConnection::ReadSome() {
  char piece[kReadBytes];
  for (;;) {
    BRAID_ASSIGN_OR_RETURN(const size_t size, socket_->Read(piece, sizeof piece, false));
    if (size == 0) return OkStatus();
    if (redisReaderFeed(reader_, piece, size) != REDIS_OK) return OutOfMemory();
    if (size < sizeof piece && !buffered()) return OkStatus();
  }
}

Result<bool> RedisConnection::NextReply(RedisReply& reply) {
  void* found = nullptr;
  if (redisReaderGetReply(reader_, &found) != REDIS_OK) {
    return UnavailableError(std::string("it does not speak the Redis protocol: ") + reader_->errstr);
  }
  if (found == nullptr) return false;
  const std::unique_ptr<redisReply, decltype(&freeReplyObject)> owned(static_cast<redisReply*>(found),
                                                                      &freeReplyObject);
  reply = Convert(*owned);
  return true;
}

}  // namespace braid
