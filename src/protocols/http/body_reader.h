// The body of one request after another: how much of it is there, and where it goes. Knows no socket: it says where bytes
// are to be received to, and takes what came before from the input.
//
//   Begin() -> Start() -> plain, of known size: front() .. EndFront() -> TakeRest() .. done
//                      -> chunked or compressed: TakeWhole() .. done
//
// One thread at a time.
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
  // The call's decision about its body: it refuses the body, or gives the places of the rest.
  struct Shown {
    std::optional<HttpResponse> refused;
    std::vector<std::span<std::byte>> destinations;
    MemoryCharge whole;
  };

  // `options` outlive this.
  explicit BodyReader(const HttpListenerOptions& options) : options_(options) {}

  // A head has been read. `parser` reads the chunks, and lives until the body is over.
  void Begin(Parser& parser);
  void set_coding(ContentCoding coding) { coding_ = coding; }
  // Whether its end is not known yet.
  bool chunked() const { return chunked_; }
  // Of a body of known size: not yet taken.
  uint64_t left() const { return left_; }
  // As the head says it; nothing for a chunked or a compressed body.
  std::optional<uint64_t> size() const;
  // The bytes that are certain: the announced ones, or the received ones of a chunked body.
  uint64_t known_size() const { return chunked_ ? whole_.size() : left_; }

  // Reads on for `call`. Whether the body is gathered as a whole, because it is chunked or compressed.
  bool Start(const HttpCall& call, InputBuffer& input);

  // The front, once it is there.
  std::optional<std::string_view> front(const InputBuffer& input) const;
  // Shows it to the call: on any thread, while nothing else uses this.
  void ShowFront(HttpCall& call, const InputBuffer& input, Shown& shown) const;
  // The call has seen it; what follows goes to the destinations.
  void EndFront(InputBuffer& input);
  // Takes what there is of it; true when all is there.
  bool TakeRest(InputBuffer& input);

  enum class Whole : unsigned char { kInput, kThere, kRefused };
  // Takes what there is of a body that is gathered. `refused`: the answer to one that is not to be read further.
  Whole TakeWhole(InputBuffer& input, HttpResponse& refused);
  size_t gathered() const { return whole_.size(); }
  bool inflates() const { return coding_ != ContentCoding::kIdentity; }
  // Inflates it if need be, and shows it to the call: as ShowFront().
  void ShowWhole(HttpCall& call, const InputBuffer& input, Shown& shown);

  // Where more is received to, if that is not the input: the place of a large front; then that of the rest.
  std::span<char> FrontRoom() const;
  std::span<const iovec> RestRoom(std::span<iovec> vectors) const;
  void AddToFront(size_t bytes);
  void AddToRest(size_t bytes);

  void set_destinations(std::vector<std::span<std::byte>> destinations) {
    destinations_ = std::move(destinations);
  }
  std::vector<std::span<std::byte>> TakeDestinations() { return std::move(destinations_); }

  // Counts what there is of it. Errors: it is not to be read further.
  Status Charge();
  // Throws away what there is of the rest; true when nothing is left.
  bool Discard(InputBuffer& input);
  // Frees the gathered bytes; left() stays.
  void Drop();
  // The same while a call may still be shown some of it.
  void Abandon();
  // As if there were no body.
  void Forget() {
    Drop();
    left_ = 0;
  }

 private:
  // Ends the parse of a body in too many chunks, or with too much said beside them.
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
  // Shows a front, if the memory for its parsed form can be charged.
  void Show(HttpCall& call, std::string_view front, size_t rest, Shown& shown) const;
  // Why a compressed body is refused, if it is.
  std::optional<HttpResponse> Inflate(Shown& shown);

  const HttpListenerOptions& options_;
  Parser* parser_ = nullptr;
  bool chunked_ = false;
  ContentCoding coding_ = ContentCoding::kIdentity;
  uint64_t left_ = 0;
  ChunkCounter chunk_counter_;
  size_t front_size_ = 0;
  std::unique_ptr<char[]> front_;  // a front that does not fit the input
  size_t front_have_ = 0;
  bool front_over_ = false;
  std::vector<std::span<std::byte>> destinations_;
  size_t destination_ = 0;
  size_t destination_have_ = 0;
  std::string whole_;
  MemoryCharge charge_;
};

size_t HeaderFields(const BodyReader::Parser& parser);
// The answers to a request with too many header fields, and with a body that is too large: 431, 413. Both are counted.
HttpResponse TooManyFields(const HttpListenerOptions& options);
HttpResponse TooLargeBody(const HttpListenerOptions& options, std::optional<uint64_t> size);

}  // namespace braid
