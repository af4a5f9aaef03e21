#include "sequences/redis_client.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/guard.h"
#include "base/thread.h"

namespace braid {
namespace {

constexpr int64_t kFirstPauseNs = 100 * kMillisecondNs;
constexpr int64_t kLongestPauseNs = 2 * kSecondNs;
constexpr int64_t kMapPauseNs = 100 * kMillisecondNs;
// Added to the time of an attempt to connect. An attempt ends by itself, except during a name lookup.
constexpr int64_t kAttemptSlackNs = 100 * kMillisecondNs;
// The most nodes that are asked for the map at a time, since one may hang.
constexpr size_t kAskedForMap = 3;
// Redirects that are followed at once; after more, the command waits for the map.
constexpr int kQuickRedirects = 2;

bool IsNotDone(std::string_view error) {
  for (const std::string_view kind : {"CLUSTERDOWN", "TRYAGAIN", "LOADING", "MASTERDOWN"}) {
    if (error.starts_with(kind)) return true;
  }
  return false;
}

}  // namespace

RedisClient::RedisClient(Options options, client::TlsOptions tls, UniqueFd wake, Logger& log)
    : options_(std::move(options)), tls_(std::move(tls)), wake_(std::move(wake)), log_(log) {
  if (options_.url.cluster) {
    slots_.resize(kRedisSlots, nullptr);
    map_status_ = UnavailableError("the nodes of the cluster were not queried yet");
    stale_ = true;
  } else {
    Node& node = NodeAt(options_.url.addresses.front());
    node.wanted = node.owns = true;
  }
}

Result<std::unique_ptr<RedisClient>> RedisClient::Start(const Options& options, Logger& log) {
  client::TlsOptions tls;
  tls.enabled = options.url.tls;
  tls.ca_file = options.ca_file;
  tls.cert_file = options.cert_file;
  tls.key_file = options.key_file;
  // Detects faulty TLS files now.
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
  Wake();
  if (thread_.joinable()) thread_.join();
}

void RedisClient::Send(std::string key, SharedWords command, Done done) {
  bool first = false;
  {
    MutexLock lock(mutex_);
    first = queued_.empty();
    queued_.push_back({.key = std::move(key), .words = std::move(command), .done = std::move(done)});
  }
  if (first) Wake();
}

bool RedisClient::Stopping() {
  MutexLock lock(mutex_);
  return stopping_;
}

void RedisClient::Wake() const {
  const uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

void RedisClient::DrainWake() const {
  uint64_t count = 0;
  (void)!::read(wake_.get(), &count, sizeof count);
}

// ---- the client's thread ----

void RedisClient::Run() {
  while (!Stopping()) {
    // An error such as a failed allocation drops all connections with their commands.
    const Status worked = Guarded([this] {
      const int64_t now_ns = SteadyNowNs();
      Work(now_ns);
      Wait(now_ns);
    });
    if (worked.ok()) continue;
    for (auto& [name, node] : nodes_) Break(node, UnavailableError(worked.message()));
  }
  Stop();
}

void RedisClient::Work(int64_t now_ns) {
  TakeQueued();
  for (auto& [name, node] : nodes_) {
    if (node.attempt != nullptr && node.attempt->ended.load(std::memory_order_acquire)) OnConnected(node);
    FailLate(node.waiting, now_ns);
  }
  while (!parked_.empty() && parked_.front().give_up_ns <= now_ns) {
    Command command = std::move(parked_.front());
    parked_.pop_front();
    Finish(command, command.why);
  }
  ReadMap(now_ns);
  while (!ready_.empty()) {
    Command command = std::move(ready_.front());
    ready_.pop_front();
    Route(std::move(command));
  }
  for (auto& each : nodes_) {
    Node& node = each.second;
    const bool wanted = node.wanted || !node.waiting.empty();
    if (node.connection == nullptr && node.attempt == nullptr && wanted && node.retry_ns <= now_ns) {
      Connect(node);
    }
    if (node.connection == nullptr) continue;
    const Status served = Guarded([&] { return Serve(node); });
    if (!served.ok()) Break(node, UnavailableError(served.message()));
  }
  DropUnused();
}

void RedisClient::Wait(int64_t now_ns) {
  int64_t until_ns = now_ns + kSecondNs;
  const auto by = [&](int64_t when_ns) { until_ns = std::min(until_ns, when_ns); };
  if (!ready_.empty()) by(now_ns);
  if (!parked_.empty()) by(parked_.front().give_up_ns);
  if (stale_ && !reading_) by(read_ns_ + kMapPauseNs);
  if (reading_ && asked_ < kAskedForMap && (asked_ == 0 || !to_ask_.empty())) by(now_ns);
  std::vector<pollfd> ends = {{wake_.get(), POLLIN, 0}};
  for (auto& [name, node] : nodes_) {
    if (!node.waiting.empty()) by(node.waiting.front().deadline_ns);
    if (node.connection == nullptr) {
      if (node.attempt == nullptr && (node.wanted || !node.waiting.empty())) by(node.retry_ns);
      continue;
    }
    if (!node.sent.empty()) by(node.sent.front().deadline_ns);
    if (node.connection->buffered()) by(now_ns);
    const int16_t events = node.connection->writing() ? POLLIN | POLLOUT : POLLIN;
    ends.push_back({node.connection->fd(), events, 0});
  }
  const int64_t left_ns = std::max<int64_t>(until_ns - SteadyNowNs(), 0);
  ::poll(ends.data(), ends.size(), static_cast<int>((left_ns + kMillisecondNs - 1) / kMillisecondNs));
  if ((ends.front().revents & POLLIN) != 0) DrainWake();
  auto end = std::next(ends.begin());
  for (auto& [name, node] : nodes_) {
    if (node.connection != nullptr) node.readable = (end++->revents & ~POLLOUT) != 0;
  }
}

void RedisClient::TakeQueued() {
  const RetryingAllocation retrying;
  std::deque<Command> taken;
  {
    MutexLock lock(mutex_);
    taken.swap(queued_);
  }
  if (!options_.url.cluster) {
    std::ranges::move(taken, std::back_inserter(ready_));
    return;
  }
  for (Command& command : taken) {
    const auto [chain, first] = chains_.try_emplace(command.key);
    (first ? ready_ : chain->second).push_back(std::move(command));
  }
}

void RedisClient::Stop() {
  const Status stopped = UnavailableError("the server is stopping");
  for (auto& [name, node] : nodes_) {
    if (node.attempt != nullptr) node.attempt->thread.join();
    Break(node, stopped);
    for (Command& command : std::exchange(node.waiting, {})) Finish(command, stopped);
  }
  for (Command& command : std::exchange(parked_, {})) Finish(command, stopped);
  do {
    for (Command& command : std::exchange(ready_, {})) Finish(command, stopped);
    TakeQueued();
  } while (!ready_.empty());
}

void RedisClient::Finish(Command& command, Result<RedisReply> reply) {
  if (command.done) GuardedOrReport("brd-store", [&] { command.done(std::move(reply)); });
  if (command.own || !options_.url.cluster) return;
  const auto chain = chains_.find(command.key);
  if (chain->second.empty()) {
    chains_.erase(chain);
    return;
  }
  ready_.push_back(std::move(chain->second.front()));
  chain->second.pop_front();
}

// ---- routing ----

void RedisClient::Route(Command command) {
  if (!options_.url.cluster) return Give(nodes_.begin()->second, std::move(command));
  if (command.give_up_ns == 0) command.give_up_ns = SteadyNowNs() + options_.command_timeout_ns;
  Node* node = slots_[RedisSlotOf(command.key)];
  if (node != nullptr) return Give(*node, std::move(command));
  NowhereToGo(std::move(command),
              map_status_.ok() ? UnavailableError("no node of the cluster owns its slot") : map_status_);
}

void RedisClient::Give(Node& node, Command command) {
  if (!command.own) node.wanted = true;
  if (node.connection != nullptr) return Push(node, std::move(command));
  const int64_t now_ns = SteadyNowNs();
  if (node.away && node.attempt == nullptr && now_ns < node.retry_ns) {
    return NowhereToGo(std::move(command), UnavailableError(node.away_reason));
  }
  const RetryingAllocation retrying;
  command.deadline_ns = now_ns + options_.connect_timeout_ns + kAttemptSlackNs;
  node.waiting.push_back(std::move(command));
}

void RedisClient::Push(Node& node, Command command) {
  if (std::exchange(command.asking, false)) PushOwn(node, {"ASKING"});
  command.deadline_ns = SteadyNowNs() + options_.command_timeout_ns;
  {
    const RetryingAllocation retrying;
    node.sent.push_back(std::move(command));
  }
  node.connection->Add(*node.sent.back().words);
}

void RedisClient::PushOwn(Node& node, const std::vector<std::string>& words) {
  Push(node, {.words = Words(words), .own = true});
}

void RedisClient::NotDone(Command command, const Status& why) {
  if (options_.url.cluster && !command.own) stale_ = true;
  const bool again =
      options_.url.cluster && !command.own && !command.parked && SteadyNowNs() < command.give_up_ns;
  if (!again) return Finish(command, why);
  Park(std::move(command), why);
}

void RedisClient::NowhereToGo(Command command, const Status& why) {
  // The map was just read, and the next one would be the same.
  if (!reading_ && SteadyNowNs() - read_ns_ <= kMapPauseNs) command.parked = true;
  NotDone(std::move(command), why);
}

void RedisClient::Park(Command command, Status why) {
  const RetryingAllocation retrying;
  stale_ = true;
  // All commands wait for the first map; that does not count.
  command.parked = read_ns_ != 0;
  command.asking = false;
  command.why = std::move(why);
  const auto later = std::ranges::upper_bound(parked_, command.give_up_ns, {}, &Command::give_up_ns);
  parked_.insert(later, std::move(command));
}

void RedisClient::Redirect(Command command, const RedisRedirect& redirect) {
  ++command.redirects;
  Node& to = NodeAt(redirect.to);
  to.owns = true;
  if (!redirect.asks) {
    slots_[redirect.slot] = &to;
    stale_ = true;
  }
  if (SteadyNowNs() >= command.give_up_ns || command.redirects > kQuickRedirects) {
    // While a slot moves, its nodes may redirect to each other.
    return Park(std::move(command),
                UnavailableError("the nodes of the cluster disagree about the owner of its slot"));
  }
  command.asking = redirect.asks;
  Give(to, std::move(command));
}

// ---- nodes ----

RedisClient::Node& RedisClient::NodeAt(const client::Address& address) {
  return nodes_.try_emplace(address.authority(), address).first->second;
}

std::string RedisClient::Who(const Node& node) const {
  return options_.url.cluster ? node.address.authority() + ": " : "";
}

void RedisClient::Connect(Node& node) {
  node.attempt = std::make_unique<Attempt>();
  Attempt& attempt = *node.attempt;
  auto thread = TryStartThread("brd-store-dial", [this, &attempt, address = node.address] {
    attempt.status = Guarded([&]() -> Status {
      BRAID_ASSIGN_OR_RETURN(attempt.connection, RedisConnection::Open(options_, tls_, address));
      return OkStatus();
    });
    attempt.ended.store(true, std::memory_order_release);
    Wake();
  });
  if (thread.ok()) {
    attempt.thread = std::move(thread).value();
    return;
  }
  node.attempt.reset();
  SayAway(node, thread.status());
}

void RedisClient::OnConnected(Node& node) {
  const std::unique_ptr<Attempt> attempt = std::move(node.attempt);
  attempt->thread.join();
  if (!attempt->status.ok()) return SayAway(node, attempt->status);
  node.connection = std::move(attempt->connection);
  node.failures = 0;
  if (std::exchange(node.away, false) && node.owns) {
    BRAID_LOG_INFO(log_, "{}the sequence store is available again", Who(node));
  }
  for (Command& command : std::exchange(node.waiting, {})) Push(node, std::move(command));
}

void RedisClient::SayAway(Node& node, const Status& why) {
  const std::string reason = Who(node) + why.message();
  // A repeated reason is not logged again. Nodes without keys are only asked for the map, and the end of that
  // reading is logged instead.
  if (node.owns && (!node.away || node.away_reason != reason)) {
    BRAID_LOG_ERROR(log_, "the sequence store is unavailable: {}", reason);
  }
  node.away = true;
  node.away_reason = reason;
  node.retry_ns = SteadyNowNs() + std::min(kFirstPauseNs << std::min(node.failures++, 10), kLongestPauseNs);
  if (node.owns && options_.url.cluster) stale_ = true;
  for (Command& command : std::exchange(node.waiting, {})) {
    NotDone(std::move(command), UnavailableError(reason));
  }
}

Status RedisClient::Serve(Node& node) {
  if (std::exchange(node.readable, false) || node.connection->buffered()) {
    BRAID_RETURN_IF_ERROR(node.connection->ReadSome());
  }
  for (;;) {
    RedisReply reply;
    BRAID_ASSIGN_OR_RETURN(const bool whole, node.connection->NextReply(reply));
    if (!whole) break;
    if (node.sent.empty()) return UnavailableError("it sent an unexpected reply");
    Command command = std::move(node.sent.front());
    node.sent.pop_front();
    BRAID_RETURN_IF_ERROR(OnReply(node, std::move(command), std::move(reply)));
  }
  if (!node.sent.empty() && node.sent.front().deadline_ns <= SteadyNowNs()) {
    return UnavailableError("it does not answer in time");
  }
  return node.connection->WriteSome();
}

Status RedisClient::OnReply(Node& node, Command command, RedisReply reply) {
  if (reply.kind != RedisReply::Kind::kError || command.own) {
    Finish(command, std::move(reply));
    return OkStatus();
  }
  if (reply.text.starts_with("NOSCRIPT") && !std::exchange(command.greeted, true)) {
    for (const auto& words : options_.greeting) PushOwn(node, words);
    Push(node, std::move(command));
    return OkStatus();
  }
  if (options_.url.cluster) {
    if (const auto redirect = ReadRedisRedirect(reply.text, node.address)) {
      Redirect(std::move(command), *redirect);
      return OkStatus();
    }
    if (IsNotDone(reply.text)) {
      NotDone(std::move(command), UnavailableError(Who(node) + "it refuses: " + ShownError(reply)));
      return OkStatus();
    }
  }
  // It was the master before a failover.
  const bool replica = reply.text.starts_with("READONLY");
  Finish(command, std::move(reply));
  return replica ? UnavailableError("it is a read-only replica") : OkStatus();
}

void RedisClient::Break(Node& node, const Status& why) {
  if (node.connection == nullptr) return;
  if (node.owns && !Stopping()) {
    BRAID_LOG_WARNING(log_, "{}the connection to the sequence store ended: {}", Who(node), why.message());
  }
  node.connection.reset();
  node.readable = false;
  node.retry_ns = 0;
  if (node.owns && options_.url.cluster) stale_ = true;
  for (Command& command : std::exchange(node.sent, {})) Finish(command, why.WithPrefix(Who(node)));
}

void RedisClient::FailLate(std::deque<Command>& commands, int64_t now_ns) {
  while (!commands.empty() && commands.front().deadline_ns <= now_ns) {
    Command command = std::move(commands.front());
    commands.pop_front();
    NotDone(std::move(command), UnavailableError("it does not answer"));
  }
}

// ---- the map of slots ----

void RedisClient::ReadMap(int64_t now_ns) {
  if (reading_) {
    AskForMap();
    if (asked_ == 0 && to_ask_.empty()) EndReading(reading_status_);
    return;
  }
  if (!stale_ || (read_ns_ != 0 && now_ns - read_ns_ < kMapPauseNs)) return;
  stale_ = false;
  reading_ = true;
  ++reading_number_;
  asked_ = 0;
  to_ask_.clear();
  // Connected nodes are asked first, and the URL's nodes last.
  for (const bool connected : {true, false}) {
    for (const auto& [name, node] : nodes_) {
      if ((node.connection != nullptr) == connected) to_ask_.push_back(node.address);
    }
  }
  for (const client::Address& address : options_.url.addresses) {
    if (!nodes_.contains(address.authority())) to_ask_.push_back(address);
  }
  AskForMap();
}

void RedisClient::AskForMap() {
  while (reading_ && asked_ < kAskedForMap && !to_ask_.empty()) {
    const client::Address address = std::move(to_ask_.front());
    to_ask_.pop_front();
    ++asked_;
    Command command{.words = Words({"CLUSTER", "SLOTS"}), .own = true};
    command.done = [this, address, number = reading_number_](const Result<RedisReply>& reply) {
      if (reading_ && number == reading_number_) OnMap(address, reply);
    };
    Give(NodeAt(address), std::move(command));
  }
}

// The first map that arrives is used.
void RedisClient::OnMap(const client::Address& asked, const Result<RedisReply>& reply) {
  --asked_;
  if (!reply.ok()) {
    reading_status_ = reply.status();
    return;
  }
  const auto ranges = ReadRedisSlots(*reply, asked);
  if (!ranges.ok()) {
    reading_status_ = ranges.status().WithPrefix(asked.authority() + ": ");
    return;
  }
  for (auto& [name, node] : nodes_) node.owns = false;
  std::ranges::fill(slots_, nullptr);
  for (const RedisSlotRange& range : *ranges) {
    Node& node = NodeAt(range.master);
    node.owns = true;
    for (size_t slot = range.first; slot <= range.last; ++slot) slots_[slot] = &node;
  }
  EndReading(OkStatus());
}

void RedisClient::EndReading(const Status& status) {
  if (!status.ok() && status.message() != map_status_.message()) {
    BRAID_LOG_ERROR(log_, "the sequence store is unavailable: {}", status.message());
  } else if (status.ok() && !map_status_.ok() && read_ns_ != 0) {
    BRAID_LOG_INFO(log_, "the sequence store is available again");
  }
  map_status_ = status;
  reading_ = false;
  stale_ = stale_ || !status.ok();
  read_ns_ = SteadyNowNs();
  const RetryingAllocation retrying;
  std::ranges::move(std::exchange(parked_, {}), std::back_inserter(ready_));
}

// Drops nodes without slots, and nodes that were only asked for the map. Without a map all stay, because each
// has its pause between two attempts.
void RedisClient::DropUnused() {
  if (!options_.url.cluster || !map_status_.ok()) return;
  std::erase_if(nodes_, [](const auto& each) {
    const Node& node = each.second;
    return !node.owns && node.sent.empty() && node.waiting.empty() && node.attempt == nullptr;
  });
}

}  // namespace braid
