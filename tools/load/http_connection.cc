#include "load/http_connection.h"

#include <cstring>

#include "base/check.h"
#include "base/json.h"

namespace braid::load {
namespace {

constexpr size_t kFirstBufferBytes = size_t{64} * 1024;
constexpr size_t kMaxErrorText = 400;

StatusCode CodeOfHttp(int http_status) {
  switch (http_status) {
    case 400:
      return StatusCode::kInvalidArgument;
    case 401:
      return StatusCode::kUnauthenticated;
    case 403:
      return StatusCode::kPermissionDenied;
    case 404:
      return StatusCode::kNotFound;
    case 501:
      return StatusCode::kUnsupported;
    case 429:
    case 503:
      return StatusCode::kUnavailable;
    default:
      return StatusCode::kInternal;
  }
}

Status TooLarge(size_t most_bytes) {
  return InternalError("the answer has more than " + std::to_string(most_bytes) + " bytes");
}

}  // namespace

std::string ErrorText(std::string_view body) {
  const Json parsed = ParseJson(body);
  const Json& error = parsed.is_object() && parsed.contains("error") ? parsed.at("error") : parsed;
  if (error.is_string()) return error.get<std::string>();
  if (error.is_object()) {
    if (const auto text = error.find("message"); text != error.end() && text->is_string())
      return text->get<std::string>();
  }
  return std::string(body.substr(0, kMaxErrorText));
}

HttpConnection::HttpConnection(std::unique_ptr<Socket> socket, size_t most_bytes)
    : socket_(std::move(socket)), most_bytes_(most_bytes), buffer_(kFirstBufferBytes) {}

HttpConnection::~HttpConnection() {
  if (exchange_ != nullptr) Break(CancelledError("the connection was closed"));
}

void HttpConnection::Start(Exchange& exchange, const OutgoingMessage& message, bool stays_open) {
  BRAID_CHECK(alive_ && exchange_ == nullptr && !stays_open);
  exchange_ = &exchange;
  outgoing_ = message.bytes;
  sent_ = 0;
  received_ = 0;
  head_.reset();
  body_.clear();
}

void HttpConnection::Send(Exchange&, const OutgoingMessage&) { BRAID_CHECK(false); }
void HttpConnection::EndSending(Exchange&) { BRAID_CHECK(false); }

void HttpConnection::Cancel(Exchange& exchange) {
  BRAID_CHECK(exchange_ == &exchange);
  exchange_ = nullptr;
  outgoing_ = {};
  sent_ = 0;
  alive_ = false;
}

void HttpConnection::Flush() {
  while (alive_ && wants_to_write()) {
    const iovec rest{const_cast<char*>(outgoing_.data() + sent_), outgoing_.size() - sent_};
    const Result<size_t> written = socket_->Write({&rest, 1});
    if (!written.ok()) {
      // The server may have responded before it closed the connection.
      outgoing_ = {};
      sent_ = 0;
      return;
    }
    if (*written == 0) return;
    sent_ += *written;
  }
}

void HttpConnection::Receive(bool wait) {
  do {
    if (!alive_) return;
    if (received_ == buffer_.size()) buffer_.resize(buffer_.size() * 2);
    const Result<size_t> read = socket_->Read(buffer_.data() + received_, buffer_.size() - received_, wait);
    if (!read.ok()) {
      if (exchange_ != nullptr && head_ && head_->to_the_end) {
        alive_ = false;
        Answer(std::string_view(buffer_.data() + head_->head_bytes, received_ - head_->head_bytes));
        return;
      }
      return Break(read.status());
    }
    if (*read == 0) return;
    wait = false;
    if (exchange_ == nullptr) return Break(InternalError("the server sent unexpected data"));
    received_ += *read;
    const Result<bool> whole = TakeResponse();
    if (!whole.ok()) return Break(whole.status());
    if (*whole) return;
  } while (socket_->buffered() || (head_ && !head_->chunked && !head_->to_the_end));
}

Result<bool> HttpConnection::TakeResponse() {
  if (!head_) {
    BRAID_ASSIGN_OR_RETURN(head_, client::DecodeHttpHead(std::string_view(buffer_.data(), received_)));
    if (!head_) return false;
    head_->events = head_->events && head_->status == 200;
    if (!head_->chunked && !head_->to_the_end) {
      const size_t whole = head_->head_bytes + head_->body_bytes;
      if (whole > most_bytes_) return TooLarge(most_bytes_);
      if (buffer_.size() < whole) buffer_.resize(whole);
    }
  }
  if (received_ + body_.size() > most_bytes_) return TooLarge(most_bytes_);
  const std::string_view body(buffer_.data() + head_->head_bytes, received_ - head_->head_bytes);
  if (head_->to_the_end) return false;
  if (head_->chunked) {
    std::string_view rest = body;
    BRAID_ASSIGN_OR_RETURN(const bool ended, client::TakeChunks(rest, body_));
    std::memmove(buffer_.data() + head_->head_bytes, rest.data(), rest.size());
    received_ = head_->head_bytes + rest.size();
    if (ended) {
      Answer(body_);
    } else if (head_->events) {
      body_.erase(0, TakeEvents(body_));
    }
    return ended;
  }
  if (body.size() < head_->body_bytes) return false;
  Answer(body.substr(0, head_->body_bytes));
  return true;
}

size_t HttpConnection::TakeEvents(std::string_view bytes) {
  size_t taken = 0;
  std::string data;
  for (size_t at = 0, end = 0; (end = bytes.find('\n', at)) != std::string_view::npos; at = end + 1) {
    std::string_view line = bytes.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("data:")) {
      if (!data.empty()) data += '\n';
      data += line.substr(line.starts_with("data: ") ? 6 : 5);
    } else if (line.empty()) {
      const Pieces pieces{data};
      if (!data.empty()) exchange_->OnMessage({pieces});
      data.clear();
      taken = end + 1;
    }
  }
  return taken;
}

void HttpConnection::Answer(std::string_view body) {
  if (head_->events) TakeEvents(body);
  Exchange& exchange = *std::exchange(exchange_, nullptr);
  if (head_->close || wants_to_write()) alive_ = false;
  if (head_->events) {
    exchange.OnEnd(OkStatus());
  } else if (head_->status == 200) {
    const Pieces pieces{body};
    exchange.OnMessage({pieces, head_->json_bytes});
    exchange.OnEnd(OkStatus());
  } else {
    exchange.OnEnd(
        Status(CodeOfHttp(head_->status), "HTTP " + std::to_string(head_->status) + ": " + ErrorText(body)));
  }
}

void HttpConnection::Break(const Status& why) {
  alive_ = false;
  outgoing_ = {};
  sent_ = 0;
  if (exchange_ != nullptr) std::exchange(exchange_, nullptr)->OnEnd(why);
}

}  // namespace braid::load
