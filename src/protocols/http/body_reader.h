// BodyReader: reads the body of one request after another. It uses no socket: it returns the memory to
// receive into, and takes bytes that were already received from the input.
//
//   Begin() -> Start() -> plain, of known size: front() .. EndFront() -> TakeRest() .. done
//                      -> chunked or compressed: TakeWhole() .. done
//
// For use by one thread at a time.
#pragma once

#include <sys/uio.h>

#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory_use.h"
#include "protocols/http/exchange.h"
#include "protocols/http/input_buffer.h"
#include "protocols/http/options.h"
#include "protocols/net/compression.h"

namespace braid {

class BodyReader {
 public:
  using Parser = boost::beast::http::request_parser<boost::beast::http::buffer_body>;
  // The call's decision on its body: a refusal, or the memory for the rest.
  struct Decision {
    std::optional<HttpResponse> refused;
    std::vector<std::span<std::byte>> destinations;
    MemoryCharge whole;
  };

  // `options` outlive the reader.
  explicit BodyReader(const HttpListenerOptions& options) : options_(options) {}

  // Begins a request whose head was read. `parser` reads the chunks and lives until the body ends.
  void Begin(Parser& parser);
  void set_coding(ContentCoding coding) { coding_ = coding; }
  // Whether the body is chunked and its end not reached.
  bool chunked() const { return chunked_; }
  // The unread bytes of a body of known size.
  uint64_t left() const { return left_; }
  // The size that the head announces; nullopt for a chunked or a compressed body.
  std::optional<uint64_t> size() const;
  // A lower bound of the body's size: the unread bytes of a plain body, or the received bytes of a chunked
  // one.
  uint64_t known_size() const { return chunked_ ? whole_.size() : left_; }

  // Starts to read for `call`. Returns whether the whole body is gathered, because it is chunked or
  // compressed.
  bool Start(const HttpCall& call, InputBuffer& input);

  // Returns the front once all of it has arrived.
  std::optional<std::string_view> front(const InputBuffer& input) const;
  // Passes the front to the call. May run on any thread while no other thread uses this object.
  void OfferFront(HttpCall& call, const InputBuffer& input, Decision& decision) const;
  // Ends the front. The rest goes to the destinations.
  void EndFront(InputBuffer& input);
  // Moves input to the destinations. Returns true once the body is complete.
  bool TakeRest(InputBuffer& input);

  enum class Whole : unsigned char { kInput, kThere, kRefused };
  // Takes input for a body that is gathered as a whole. `refused`: the response to a body that must not be
  // read further.
  Whole TakeWhole(InputBuffer& input, HttpResponse& refused);
  size_t gathered() const { return whole_.size(); }
  bool inflates() const { return coding_ != ContentCoding::kIdentity; }
  // Inflates the whole body if it is compressed, and passes it to the call. Threads: see OfferFront().
  void OfferWhole(HttpCall& call, Decision& decision);

  // Return the memory to receive into: that of a large front (empty for a small one, which is received into
  // the input), and that of the rest.
  std::span<char> FrontRoom() const;
  std::span<const iovec> RestRoom(std::span<iovec> vectors) const;
  void AddToFront(size_t bytes);
  void AddToRest(size_t bytes);

  void set_destinations(std::vector<std::span<std::byte>> destinations) {
    destinations_ = std::move(destinations);
  }
  std::vector<std::span<std::byte>> TakeDestinations() { return std::move(destinations_); }

  // Charges the memory of the received bytes. Errors: the body must not be read further.
  Status Charge();
  // Discards received bytes of the rest. Returns true if none is left.
  bool Discard(InputBuffer& input);
  // Frees the gathered bytes. left() stays.
  void Drop();
  // Like Drop(), but keeps the bytes that a call may still be reading on another thread.
  void Abandon();
  // Drops the body and expects none.
  void Forget() {
    Drop();
    left_ = 0;
  }

 private:
  // Stops the parser at a body with too many chunks, or with too many bytes of chunk extensions.
  struct ChunkCounter {
    size_t chunks = 0;
    size_t limit = 0;
    size_t extension_bytes = 0;
    size_t extension_limit = 0;
    void operator()(uint64_t, boost::core::string_view extensions, boost::system::error_code& error) {
      extension_bytes += extensions.size();
      if (++chunks > limit) error = boost::beast::http::error::body_limit;
      if (extension_bytes > extension_limit) error = boost::beast::http::error::header_limit;
    }
  };

  // Parts of TakeWhole().
  Status Gather(std::string_view bytes);
  HttpResponse Refusal(const Status& status) const;
  Whole TakeChunks(InputBuffer& input, HttpResponse& refused);
  // Passes a front to the call if the memory for its parsed form can be charged.
  void Offer(HttpCall& call, std::string_view front, size_t rest, Decision& decision) const;
  // Inflates the body. Returns a refusal on failure.
  std::optional<HttpResponse> Inflate(Decision& decision);

  const HttpListenerOptions& options_;
  Parser* parser_ = nullptr;
  bool chunked_ = false;
  ContentCoding coding_ = ContentCoding::kIdentity;
  uint64_t left_ = 0;
  ChunkCounter chunk_counter_;
  size_t front_size_ = 0;
  std::unique_ptr<char[]> front_;  // for a front larger than the input buffer
  size_t front_have_ = 0;
  bool front_over_ = false;
  std::vector<std::span<std::byte>> destinations_;
  size_t destination_ = 0;
  size_t destination_have_ = 0;
  std::string whole_;
  MemoryCharge charge_;
};

size_t HeaderFields(const BodyReader::Parser& parser);
// The responses to too many header fields (431) and to a body that is too large (413). Both count as
// refusals.
HttpResponse TooManyFields(const HttpListenerOptions& options);
HttpResponse TooLargeBody(const HttpListenerOptions& options, std::optional<uint64_t> size);

}  // namespace braid
