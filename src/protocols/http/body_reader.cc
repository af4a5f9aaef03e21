#include "protocols/http/body_reader.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <cstring>
#include <iterator>

#include "base/check.h"

namespace braid {
namespace {

namespace http = boost::beast::http;

static_assert(InputBuffer::kPadding >= HttpCall::kFrontPadding);

// The bytes that simdjson may need to parse a byte of JSON: 8 for its tape, 4 for its index, and the text of
// strings.
constexpr size_t kParsedBytes = 13;
// A compressed body is inflated in pieces of this size. Its size and the memory are checked after each.
constexpr size_t kInflatedPiece = 1024;

}  // namespace

void BodyReader::Begin(Parser& parser) {
  parser_ = &parser;
  chunked_ = parser.chunked();
  coding_ = ContentCoding::kIdentity;
  chunk_counter_ = {0, options_.max_chunks, 0, options_.max_header_bytes};
  left_ = chunked_ ? 0 : parser.content_length().value_or(0);
}

std::optional<uint64_t> BodyReader::size() const {
  if (chunked_ || inflates()) return std::nullopt;
  return parser_->content_length().value_or(0);
}

bool BodyReader::Start(const HttpCall& call, InputBuffer& input) {
  destinations_.clear();
  destination_ = 0;
  destination_have_ = 0;
  front_over_ = false;
  if (chunked_ || inflates()) {
    parser_->eager(true);
    if (chunked_) parser_->on_chunk_header(chunk_counter_);
    return true;
  }
  front_size_ = static_cast<size_t>(std::min<uint64_t>(call.front_bytes(), left_));
  front_have_ = 0;
  if (front_size_ > InputBuffer::kBytes) {
    front_.reset(new char[front_size_ + HttpCall::kFrontPadding]);
    AddToFront(input.MoveTo(reinterpret_cast<std::byte*>(front_.get()), front_size_));
  }
  return false;
}

std::optional<std::string_view> BodyReader::front(const InputBuffer& input) const {
  if (front_) {
    if (front_have_ < front_size_) return std::nullopt;
    return std::string_view(front_.get(), front_size_);
  }
  if (front_size_ == 0) return std::string_view();
  if (input.size() < front_size_) return std::nullopt;
  return input.text().substr(0, front_size_);
}

void BodyReader::OfferFront(HttpCall& call, const InputBuffer& input, Decision& decision) const {
  Offer(call, front(input).value(), static_cast<size_t>(left_) - (front_ ? 0 : front_size_), decision);
}

void BodyReader::Offer(HttpCall& call, std::string_view front, size_t rest, Decision& decision) const {
  MemoryCharge parsed;
  if (front.size() > HttpCall::kLargeFront) {
    parsed.Set(static_cast<int64_t>(front.size() * kParsedBytes));
    if (const Status room = options_.limits->budget.Continue(); !room.ok()) {
      decision.refused = ErrorResponse(room);
      return;
    }
  }
  decision.refused = call.OnFront(front, rest, decision.destinations);
}

void BodyReader::EndFront(InputBuffer& input) {
  if (!front_) {
    if (front_size_ > 0) input.Consume(front_size_);
    left_ -= front_size_;
  }
  front_.reset();
  front_over_ = true;
}

bool BodyReader::TakeRest(InputBuffer& input) {
  while (destination_ < destinations_.size()) {
    const auto span = destinations_[destination_].subspan(destination_have_);
    const size_t bytes = input.MoveTo(span.data(), span.size());
    left_ -= bytes;
    if (bytes < span.size()) {
      destination_have_ += bytes;
      return false;
    }
    ++destination_;
    destination_have_ = 0;
  }
  BRAID_CHECK(left_ == 0);
  return true;
}

Status BodyReader::Gather(std::string_view bytes) {
  if (bytes.size() > options_.max_body_bytes - whole_.size()) return InvalidArgumentError("");
  whole_.append(bytes);
  return Charge();
}

HttpResponse BodyReader::Refusal(const Status& status) const {
  return status.code() == StatusCode::kResourceExhausted ? ErrorResponse(status)
                                                         : TooLargeBody(options_, std::nullopt);
}

BodyReader::Whole BodyReader::TakeWhole(InputBuffer& input, HttpResponse& refused) {
  if (chunked_) return TakeChunks(input, refused);
  const auto bytes = static_cast<size_t>(std::min<uint64_t>(input.size(), left_));
  const Status status = Gather(input.text().substr(0, bytes));
  input.Consume(bytes);
  left_ -= bytes;
  if (!status.ok()) {
    refused = Refusal(status);
    return Whole::kRefused;
  }
  return left_ > 0 ? Whole::kInput : Whole::kThere;
}

BodyReader::Whole BodyReader::TakeChunks(InputBuffer& input, HttpResponse& refused) {
  const auto refuse = [&](HttpResponse response) {
    refused = std::move(response);
    return Whole::kRefused;
  };
  while (!parser_->is_done()) {
    char window[16 * 1024];
    auto& body = parser_->get().body();
    body.data = window;
    body.size = sizeof(window);
    body.more = true;
    boost::system::error_code error;
    const std::string_view text = input.text();
    if (text.empty()) return Whole::kInput;
    const size_t used = parser_->put(boost::asio::const_buffer(text.data(), text.size()), error);
    const size_t made = sizeof(window) - body.size;
    input.Consume(used);
    if (made > 0) {
      if (Status status = Gather({window, made}); !status.ok()) return refuse(Refusal(status));
    }
    if (error == http::error::need_buffer) continue;
    if (error == http::error::need_more) {
      if (used > 0 && !input.empty()) continue;
      if (!input.full()) return Whole::kInput;
      error = http::error::bad_chunk;
    }
    if (error == http::error::body_limit) return refuse(ErrorResponse(413, "too many chunks"));
    if (error == http::error::header_limit) {
      return refuse(ErrorResponse(
          431, "more than " + std::to_string(chunk_counter_.extension_limit) + " bytes of chunk extensions"));
    }
    if (error) return refuse(ErrorResponse(400, "malformed HTTP request: " + error.message()));
  }
  // The parser appends the trailer fields to the header fields.
  if (HeaderFields(*parser_) > options_.max_header_fields) return refuse(TooManyFields(options_));
  chunked_ = false;  // nothing of the body is left to read if an error is answered now
  return Whole::kThere;
}

void BodyReader::OfferWhole(HttpCall& call, Decision& decision) {
  if (inflates()) decision.refused = Inflate(decision);
  if (decision.refused) return;
  whole_.reserve(whole_.size() + HttpCall::kFrontPadding);
  const std::string_view all = whole_;
  const size_t front = std::min(call.front_bytes(), all.size());
  Offer(call, all.substr(0, front), all.size() - front, decision);
  if (decision.refused) return;
  size_t at = front;
  for (const auto& span : decision.destinations) {
    BRAID_CHECK(span.size() <= all.size() - at);
    if (!span.empty()) std::memcpy(span.data(), all.data() + at, span.size());
    at += span.size();
  }
  BRAID_CHECK(at == all.size());
}

std::optional<HttpResponse> BodyReader::Inflate(Decision& decision) {
  Decompressor decompressor;
  std::string inflated;
  for (std::string_view left = whole_; !left.empty();) {
    const std::string_view piece = left.substr(0, kInflatedPiece);
    left.remove_prefix(piece.size());
    const Status status = decompressor.Append(piece, inflated, options_.max_body_bytes);
    if (!status.ok())
      return decompressor.too_large() ? TooLargeBody(options_, std::nullopt) : ErrorResponse(status);
    decision.whole.Set(static_cast<int64_t>(inflated.capacity()));
    if (inflated.size() <= InputBuffer::kBytes) continue;
    if (Status room = options_.limits->budget.Continue(); !room.ok()) return ErrorResponse(room);
  }
  if (!decompressor.finished()) return ErrorResponse(400, "the compressed request body is truncated");
  whole_ = std::move(inflated);
  return std::nullopt;
}

std::span<char> BodyReader::FrontRoom() const {
  if (!front_) return {};
  return {front_.get() + front_have_, front_size_ - front_have_};
}

void BodyReader::AddToFront(size_t bytes) {
  front_have_ += bytes;
  left_ -= bytes;
}

std::span<const iovec> BodyReader::RestRoom(std::span<iovec> vectors) const {
  size_t count = 0;
  for (size_t i = destination_; i < destinations_.size() && count < vectors.size(); ++i) {
    const auto span = destinations_[i].subspan(i == destination_ ? destination_have_ : 0);
    if (!span.empty()) vectors[count++] = {span.data(), span.size()};
  }
  return vectors.first(count);
}

void BodyReader::AddToRest(size_t bytes) {
  left_ -= bytes;
  while (bytes > 0) {
    const size_t step = std::min(bytes, destinations_[destination_].size() - destination_have_);
    destination_have_ += step;
    bytes -= step;
    if (destination_have_ == destinations_[destination_].size()) {
      ++destination_;
      destination_have_ = 0;
    }
  }
}

Status BodyReader::Charge() {
  auto bytes = static_cast<int64_t>(whole_.capacity() + (front_ ? front_have_ : 0));
  // Memory that the call allocated for the rest counts as the bytes arrive, not as they are announced.
  if (front_over_) bytes -= static_cast<int64_t>(left_);
  charge_.Set(bytes);
  const bool large = front_ || whole_.size() > InputBuffer::kBytes || left_ > InputBuffer::kBytes;
  return large ? options_.limits->budget.Continue() : OkStatus();
}

bool BodyReader::Discard(InputBuffer& input) {
  const auto bytes = static_cast<size_t>(std::min<uint64_t>(input.size(), left_));
  input.Consume(bytes);
  left_ -= bytes;
  return left_ == 0;
}

void BodyReader::Drop() {
  Abandon();
  front_.reset();
  FreeText(whole_);
}

void BodyReader::Abandon() {
  destinations_.clear();
  charge_.Set(0);
}

size_t HeaderFields(const BodyReader::Parser& parser) {
  const auto& head = parser.get();
  return static_cast<size_t>(std::distance(head.begin(), head.end()));
}

HttpResponse TooManyFields(const HttpListenerOptions& options) {
  const std::string text = "more than " + std::to_string(options.max_header_fields) + " header fields";
  options.limits->refusals.Count(Limit::kHeaderFields, text);
  return ErrorResponse(431, text);
}

HttpResponse TooLargeBody(const HttpListenerOptions& options, std::optional<uint64_t> size) {
  std::string text = "request size ";
  if (size) text += "of " + std::to_string(*size) + " bytes ";
  text += "exceeds the maximum allowed input size of " + std::to_string(options.max_body_bytes) + " bytes." +
          options.body_limit_hint;
  options.limits->refusals.Count(Limit::kHttpBody, text);
  return ErrorResponse(413, text);
}

}  // namespace braid
