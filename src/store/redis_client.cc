#include "store/redis_client.h"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <spdlog/fmt/fmt.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/clock.h"
#include "base/guard.h"
#include "base/thread.h"

namespace braid {
namespace {

constexpr int64_t kFirstPauseNs = 100 * kMillisecondNs;
constexpr int64_t kLongestPauseNs = 2 * kSecondNs;
constexpr size_t kReadBytes = size_t{64} << 10;
// What is shown of an error that the Redis answers.
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

// A command in the Redis protocol (RESP): a list of texts. Written here, since hiredis' formatter makes a text of its own of what may hold
// the states of a large model, which would be copied once more.
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
  if (!file.is_open() || file.bad()) return UnavailableError("the file of its password cannot be read");
  while (secret.ends_with('\n') || secret.ends_with('\r')) secret.pop_back();
  if (secret.empty()) return UnavailableError("the file of its password is empty");
  return secret;
}

}  // namespace

RedisClient::RedisClient(Options options, client::TlsOptions tls, UniqueFd wake, Logger& log)
    : options_(std::move(options)), tls_(std::move(tls)), wake_(std::move(wake)), log_(log) {}

Result<std::unique_ptr<RedisClient>> RedisClient::Start(const Options& options, Logger& log) {
  client::TlsOptions tls;
  tls.enabled = options.url.tls;
  tls.ca_file = options.ca_file;
  tls.cert_file = options.cert_file;
  tls.key_file = options.key_file;
  // What is wrong with the files is known now.
  BRAID_RETURN_IF_ERROR(client::Dialer::Make(options.url.addresses.front(), tls).status());
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return ErrnoError("eventfd", errno);
  std::unique_ptr<RedisClient> client(new RedisClient(options, std::move(tls), std::move(wake), log));
  BRAID_ASSIGN_OR_RETURN(client->thread_,
                         TryStartThread("brd-store", [self = client.get()] { self->Run(); }));
  return client;
}

RedisClient::~RedisClient() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  const uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
  if (thread_.joinable()) thread_.join();
  if (reader_ != nullptr) redisReaderFree(reader_);
}

void RedisClient::Send(SharedWords command, Done done) {
  bool first = false;
  {
    MutexLock lock(mutex_);
    first = queued_.empty();
    queued_.push_back({std::move(command), std::move(done)});
  }
  if (!first) return;
  const uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

void RedisClient::Finish(Command& command, Result<RedisReply> reply) {
  GuardedOrReport("brd-store", [&] { command.done(std::move(reply)); });
}

bool RedisClient::Stopping() {
  MutexLock lock(mutex_);
  return stopping_;
}

void RedisClient::DrainWake() const {
  uint64_t count = 0;
  (void)!::read(wake_.get(), &count, sizeof count);
}

void RedisClient::FailQueued(const Status& why) {
  std::deque<Command> failed;
  {
    MutexLock lock(mutex_);
    failed.swap(queued_);
  }
  for (Command& command : failed) Finish(command, why);
}

void RedisClient::Break(const Status& why) {
  socket_.reset();
  out_.clear();
  out_at_ = 0;
  for (Command& command : std::exchange(sent_, {})) Finish(command, why);
}

// ---- the thread ----

void RedisClient::Run() {
  while (!Stopping()) {
    // What cannot be had, memory say, costs the connection and what is on it.
    const Status served = Guarded([this] { Connect(); });
    if (!served.ok()) Break(UnavailableError(served.message()));
  }
  const Status stopped = UnavailableError("the server stops");
  Break(stopped);
  FailQueued(stopped);
}

Status RedisClient::Dial(const client::Address& address, int64_t deadline_ns) {
  const int64_t left_ns = deadline_ns - SteadyNowNs();
  if (left_ns <= 0) return UnavailableError("it does not answer");
  BRAID_ASSIGN_OR_RETURN(const auto dialer, client::Dialer::Make(address, tls_));
  BRAID_ASSIGN_OR_RETURN(socket_, client::Socket::Dial(*dialer, false, static_cast<double>(left_ns) / 1e9));
  if (reader_ != nullptr) redisReaderFree(reader_);
  reader_ = redisReaderCreate();
  return reader_ == nullptr ? OutOfMemory() : OkStatus();
}

Result<client::Address> RedisClient::AskSentinels(int64_t deadline_ns) {
  Status last;
  const int64_t each_ns =
      options_.connect_timeout_ns / static_cast<int64_t>(options_.url.addresses.size() + 1);
  for (const client::Address& sentinel : options_.url.addresses) {
    const int64_t until_ns = std::min(deadline_ns, SteadyNowNs() + each_ns);
    last = Dial(sentinel, until_ns);
    if (!last.ok()) continue;
    const auto told = AskNow({"SENTINEL", "get-master-addr-by-name", options_.url.master}, until_ns);
    if (told.ok() && told->list.size() == 2) return client::Address{told->list[0].text, told->list[1].text};
    last = told.ok() ? UnavailableError("it knows no master '" + options_.url.master + "' " +
                                        told->text.substr(0, kMostErrorText))
                     : told.status();
  }
  return last.WithPrefix("no sentinel says where the master is: ");
}

void RedisClient::Connect() {
  const int64_t deadline_ns = SteadyNowNs() + options_.connect_timeout_ns;
  Result<client::Address> address = options_.url.addresses.front();
  if (!options_.url.master.empty()) address = AskSentinels(deadline_ns);
  Status status = address.ok() ? Dial(*address, deadline_ns) : address.status();
  if (status.ok()) status = Greet(deadline_ns);
  if (!status.ok()) {
    socket_.reset();
    // The same again says nothing new.
    if (!away_ || away_reason_ != status.message()) {
      BRAID_LOG_ERROR(log_, "the store of sequences cannot be used: {}", status.message());
    }
    away_ = true;
    away_reason_ = status.message();
    const int64_t pause_ns = std::min(kFirstPauseNs << std::min(failures_++, 10), kLongestPauseNs);
    Sleep(SteadyNowNs() + pause_ns);
    return;
  }
  failures_ = 0;
  if (std::exchange(away_, false)) {
    BRAID_LOG_INFO(log_, "the store of sequences can be used again");
  }
  const Status ended = Exchange();
  if (!Stopping())
    BRAID_LOG_WARNING(log_, "the connection to the store of sequences has ended: {}", ended.message());
  Break(UnavailableError(ended.message()));
}

// Until the next attempt all that is given fails.
void RedisClient::Sleep(int64_t until_ns) {
  for (;;) {
    FailQueued(UnavailableError(away_reason_));
    if (Stopping()) return;
    const int64_t left_ms = (until_ns - SteadyNowNs()) / kMillisecondNs;
    if (left_ms <= 0) return;
    pollfd wake{wake_.get(), POLLIN, 0};
    ::poll(&wake, 1, static_cast<int>(left_ms));
    DrainWake();
  }
}

Status RedisClient::Greet(int64_t deadline_ns) {
  std::vector<std::vector<std::string>> words;
  if (!options_.password_file.empty()) {
    BRAID_ASSIGN_OR_RETURN(std::string secret, ReadSecret(options_.password_file));
    words.push_back({"AUTH"});
    if (!options_.url.user.empty()) words.back().push_back(options_.url.user);
    words.back().push_back(std::move(secret));
  }
  if (options_.url.database != 0) words.push_back({"SELECT", std::to_string(options_.url.database)});
  words.insert(words.end(), options_.greeting.begin(), options_.greeting.end());
  for (const auto& command : words) {
    BRAID_ASSIGN_OR_RETURN(const RedisReply reply, AskNow(command, deadline_ns));
    if (reply.kind != RedisReply::Kind::kError) continue;
    return UnavailableError("it refuses " + command.front() + ": " + reply.text.substr(0, kMostErrorText));
  }
  return OkStatus();
}

Result<RedisReply> RedisClient::AskNow(const std::vector<std::string>& words, int64_t deadline_ns) {
  out_.clear();
  out_at_ = 0;
  Append(words, out_);
  RedisReply reply;
  for (;;) {
    BRAID_RETURN_IF_ERROR(WriteSome());
    BRAID_ASSIGN_OR_RETURN(const bool whole, NextReply(reply));
    if (whole) return reply;
    const int16_t events = out_at_ < out_.size() ? POLLIN | POLLOUT : POLLIN;
    if (!socket_->buffered() && !client::WaitFor(socket_->fd(), events, deadline_ns)) {
      return UnavailableError("it does not answer");
    }
    BRAID_RETURN_IF_ERROR(ReadSome());
  }
}

Status RedisClient::Exchange() {
  for (;;) {
    if (Stopping()) return UnavailableError("the server stops");
    TakeQueued();
    BRAID_RETURN_IF_ERROR(WriteSome());
    int64_t wait_ms = 1000;
    if (!sent_.empty()) {
      const int64_t left_ns = sent_.front().deadline_ns - SteadyNowNs();
      if (left_ns <= 0) return UnavailableError("it does not answer in time");
      wait_ms = std::min<int64_t>(wait_ms, left_ns / kMillisecondNs + 1);
    }
    pollfd ends[] = {{socket_->fd(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    if (out_at_ < out_.size()) ends[0].events |= POLLOUT;
    if (!socket_->buffered()) ::poll(ends, 2, static_cast<int>(wait_ms));
    if ((ends[1].revents & POLLIN) != 0) DrainWake();
    BRAID_RETURN_IF_ERROR(ReadSome());
    for (;;) {
      RedisReply reply;
      BRAID_ASSIGN_OR_RETURN(const bool whole, NextReply(reply));
      if (!whole) break;
      if (sent_.empty()) return UnavailableError("it has answered what nobody has asked");
      Command command = std::move(sent_.front());
      sent_.pop_front();
      // It was the master before a fail-over.
      const bool replica = reply.kind == RedisReply::Kind::kError && reply.text.starts_with("READONLY");
      Finish(command, std::move(reply));
      if (replica) return UnavailableError("it is a replica, which takes no writes");
    }
  }
}

void RedisClient::TakeQueued() {
  std::deque<Command> taken;
  {
    MutexLock lock(mutex_);
    taken.swap(queued_);
  }
  if (out_at_ == out_.size()) {
    out_.clear();
    out_at_ = 0;
  }
  const int64_t deadline_ns = SteadyNowNs() + options_.command_timeout_ns;
  for (Command& command : taken) {
    Append(*command.words, out_);
    command.words.reset();
    command.deadline_ns = deadline_ns;
    sent_.push_back(std::move(command));
  }
}

Status RedisClient::WriteSome() {
  while (out_at_ < out_.size()) {
    iovec piece{out_.data() + out_at_, out_.size() - out_at_};
    BRAID_ASSIGN_OR_RETURN(const size_t written, socket_->Write({&piece, 1}));
    if (written == 0) break;
    out_at_ += written;
  }
  return OkStatus();
}

Status RedisClient::ReadSome() {
  char piece[kReadBytes];
  for (;;) {
    BRAID_ASSIGN_OR_RETURN(const size_t size, socket_->Read(piece, sizeof piece, false));
    if (size == 0) return OkStatus();
    if (redisReaderFeed(reader_, piece, size) != REDIS_OK) return OutOfMemory();
    if (size < sizeof piece && !socket_->buffered()) return OkStatus();
  }
}

Result<bool> RedisClient::NextReply(RedisReply& reply) {
  void* found = nullptr;
  if (redisReaderGetReply(reader_, &found) != REDIS_OK) {
    return UnavailableError(std::string("it speaks another protocol: ") + reader_->errstr);
  }
  if (found == nullptr) return false;
  const std::unique_ptr<redisReply, decltype(&freeReplyObject)> owned(static_cast<redisReply*>(found),
                                                                      &freeReplyObject);
  reply = Convert(*owned);
  return true;
}

}  // namespace braid
