#include "protocols/http2/session.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace braid {
namespace {

// The maximum number of a client's SETTINGS and PING frames that wait for a reply.
constexpr size_t kMostWaitingAnswers = 1000;
// The number of frames that a head may have, in addition to those that its limit needs if frames are as small
// as clients make them.
constexpr size_t kMoreContinuations = 8;
constexpr size_t kSmallFrame = size_t{16} << 10;
// A head of this many times its limit ends the connection: a few bytes of HPACK can expand to a large head.
constexpr size_t kFarBeyond = 8;
// The overhead that HTTP/2 counts for each field (RFC 9113, 6.5.2).
constexpr size_t kFieldOverhead = 32;

std::string_view Text(const uint8_t* bytes, size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

// Throws when nghttp2 has no memory, like other allocations.
int Checked(int result) {
  if (result == NGHTTP2_ERR_NOMEM) throw std::bad_alloc();
  return result;
}

using Fields = boost::container::small_vector<nghttp2_nv, 8>;

Fields ToFields(std::span<const Http2Field> head) {
  Fields fields;
  for (const Http2Field& field : head) {
    // nghttp2 copies the texts, but takes non-const pointers.
    fields.push_back({reinterpret_cast<uint8_t*>(const_cast<char*>(field.name.data())),
                      reinterpret_cast<uint8_t*>(const_cast<char*>(field.value.data())), field.name.size(),
                      field.value.size(), NGHTTP2_NV_FLAG_NONE});
  }
  return fields;
}

}  // namespace

void Http2Head::Add(std::string_view name, std::string_view value) {
  if (fields_.empty()) {
    text_.reserve(400);
    fields_.reserve(12);
  }
  fields_.push_back({static_cast<uint32_t>(text_.size()), static_cast<uint32_t>(name.size()),
                     static_cast<uint32_t>(value.size())});
  text_ += name;
  text_ += value;
}

std::pair<std::string_view, std::string_view> Http2Head::operator[](size_t field) const {
  const Field& at = fields_[field];
  const std::string_view text = text_;
  return {text.substr(at.begin, at.name), text.substr(at.begin + at.name, at.value)};
}

std::string_view Http2Head::Find(std::string_view name) const {
  std::string_view found;
  Any(name, [&](std::string_view value) {
    found = value;
    return true;
  });
  return found;
}

// nghttp2 is written in C, so no exception may pass through it.
struct Http2Session::Callbacks {
  static Http2Session& Self(void* self) { return *static_cast<Http2Session*>(self); }
  static Request* RequestOf(nghttp2_session* session, int32_t id) {
    return static_cast<Request*>(nghttp2_session_get_stream_user_data(session, id));
  }
  template <class Work>
  static int Run(Work&& work) noexcept {
    try {
      return work();
    } catch (...) {
      // In a callback for a stream's head, this resets the stream, which the client survives better than the
      // loss of its connection. In other callbacks nghttp2 ends the session, except for OnData().
      return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
  }

  static int OnBeginHeaders(nghttp2_session* session, const nghttp2_frame* frame, void* self) {
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    return Run([&] {
      auto request = std::make_unique<Request>(Request{.id = frame->hd.stream_id});
      Self(self).requests_.insert(request.get());
      nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, request.release());
      return 0;
    });
  }

  static int OnHeader(nghttp2_session* session, const nghttp2_frame* frame, const uint8_t* name,
                      size_t name_size, const uint8_t* value, size_t value_size, uint8_t, void* self) {
    Request* request = RequestOf(session, frame->hd.stream_id);
    // Ignores trailers.
    if (request == nullptr || request->stream != nullptr) return 0;
    return Run([&] {
      const Limits& limits = Self(self).limits_;
      request->head_bytes += name_size + value_size + kFieldOverhead;
      if (request->head_bytes > kFarBeyond * limits.head_bytes) {
        Self(self).GoAway(NGHTTP2_ENHANCE_YOUR_CALM, "the metadata of a call far exceeds the limit");
        return static_cast<int>(NGHTTP2_ERR_CALLBACK_FAILURE);
      }
      if (!request->fault.ok()) return 0;
      if (request->head_bytes > limits.head_bytes) {
        request->fault = ResourceExhaustedError("the metadata of the call has more than " +
                                                std::to_string(limits.head_bytes) + " bytes");
      } else if (request->head.size() >= limits.head_fields) {
        request->fault = ResourceExhaustedError("the metadata of the call has more than " +
                                                std::to_string(limits.head_fields) + " fields");
      } else {
        request->head.Add(Text(name, name_size), Text(value, value_size));
      }
      return 0;
    });
  }

  static int OnFrame(nghttp2_session* session, const nghttp2_frame* frame, void* self) {
    if (frame->hd.type == NGHTTP2_PING) {
      if ((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0) return 0;
      return Run([&] {
        Self(self).owner_.OnPing();
        return 0;
      });
    }
    if (frame->hd.type == NGHTTP2_SETTINGS) Self(self).begun_ = true;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;
    Request* request = RequestOf(session, frame->hd.stream_id);
    if (request == nullptr) return 0;
    return Run([&] {
      if (frame->hd.type == NGHTTP2_HEADERS && request->stream == nullptr) {
        request->stream =
            Self(self).owner_.OnRequest(frame->hd.stream_id, std::move(request->head), request->fault);
      }
      if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 && request->stream != nullptr)
        request->stream->OnEnd();
      return 0;
    });
  }

  static int OnSent(nghttp2_session* session, const nghttp2_frame* frame, void* self) {
    if (frame->hd.type == NGHTTP2_GOAWAY) {
      const nghttp2_goaway& away = frame->goaway;
      if (away.error_code == NGHTTP2_NO_ERROR) return 0;
      return Run([&] {
        std::string text = nghttp2_http2_strerror(away.error_code);
        if (away.opaque_data_len > 0) text.append(": ").append(Text(away.opaque_data, away.opaque_data_len));
        Self(self).owner_.OnFault(away.error_code, text);
        return 0;
      });
    }
    if (frame->hd.type == NGHTTP2_RST_STREAM) {
      const uint32_t error = frame->rst_stream.error_code;
      return Run([&] {
        if (error == NGHTTP2_REFUSED_STREAM) {
          Self(self).owner_.OnStreamRefused();
        } else if (error != NGHTTP2_NO_ERROR && error != NGHTTP2_INTERNAL_ERROR &&
                   !Self(self).CountBrokenStream()) {
          return Checked(nghttp2_session_terminate_session(session, NGHTTP2_INTERNAL_ERROR));
        }
        return 0;
      });
    }
    // The response is complete, so a client that still sends is told to stop.
    if (frame->hd.type != NGHTTP2_HEADERS || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
    const int32_t id = frame->hd.stream_id;
    if (nghttp2_session_get_stream_remote_close(session, id) != 0) return 0;
    const int submitted = nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR);
    return submitted == 0 ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
  }

  // nghttp2 has refused a submitted frame, such as a head of more than 64 KiB. Without a reset the client
  // would wait for it.
  static int OnNotSent(nghttp2_session* session, const nghttp2_frame* frame, int, void*) {
    const int32_t id = frame->hd.stream_id;
    if (frame->hd.type != NGHTTP2_HEADERS || RequestOf(session, id) == nullptr) return 0;
    const int submitted = nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_INTERNAL_ERROR);
    return submitted == 0 ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
  }

  static int OnData(nghttp2_session* session, uint8_t, int32_t id, const uint8_t* bytes, size_t size,
                    void* self) {
    Request* request = RequestOf(session, id);
    if (request == nullptr || request->stream == nullptr) {
      return nghttp2_session_consume(session, id, size) == NGHTTP2_ERR_NOMEM ? NGHTTP2_ERR_CALLBACK_FAILURE
                                                                             : 0;
    }
    const int taken = Run([&] {
      request->stream->OnData(*Self(self).block_, Text(bytes, size));
      return 0;
    });
    // nghttp2 ignores a temporary failure here, and the bytes would be missing.
    return taken == 0 ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
  }

  static int OnClose(nghttp2_session* session, int32_t id, uint32_t error, void* self) {
    const std::unique_ptr<Request> request(RequestOf(session, id));
    if (request == nullptr) return 0;
    Self(self).requests_.erase(request.get());
    nghttp2_session_set_stream_user_data(session, id, nullptr);
    if (request->stream == nullptr) return 0;
    return Run([&] {
      request->stream->OnClosed(error != NGHTTP2_NO_ERROR || !request->complete_told);
      return 0;
    });
  }

  static ssize_t Read(nghttp2_session* session, int32_t id, uint8_t*, size_t most, uint32_t* flags,
                      nghttp2_data_source* source, void*) {
    auto& request = *static_cast<Request*>(source->ptr);
    const Http2Stream& stream = *request.stream;
    const size_t sendable = stream.sendable();
    const bool last = sendable <= most && stream.complete();
    if (sendable == 0 && !last) return NGHTTP2_ERR_DEFERRED;
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (last) {
      *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
      const int submitted = Run([&] {
        boost::container::small_vector<Http2Field, 8> fields;
        request.stream->AppendTrailers(fields);
        const Fields trailers = ToFields({fields.data(), fields.size()});
        return Checked(nghttp2_submit_trailer(session, id, trailers.data(), trailers.size()));
      });
      if (submitted != 0) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
      request.complete_told = true;
    }
    return static_cast<ssize_t>(std::min(sendable, most));
  }

  static int SendData(nghttp2_session*, nghttp2_frame*, const uint8_t* head, size_t size,
                      nghttp2_data_source* source, void* self) {
    constexpr size_t kFrameHead = 9;
    Http2Session& session = Self(self);
    // A partial frame must not leave, so a temporary failure is not enough.
    const int sent = Run([&] {
      session.outgoing_->Append(Text(head, kFrameHead));
      static_cast<Request*>(source->ptr)->stream->Take(size, *session.outgoing_);
      return session.outgoing_->size() >= session.most_ ? NGHTTP2_ERR_PAUSE : 0;
    });
    return sent == NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE ? NGHTTP2_ERR_CALLBACK_FAILURE : sent;
  }

  static ssize_t ReadLength(nghttp2_session*, uint8_t, int32_t, int32_t connection, int32_t stream,
                            uint32_t frame, void*) {
    return std::min<int64_t>({connection, stream, int64_t{frame}});
  }

  static nghttp2_session_callbacks* Make() {
    nghttp2_session_callbacks* made = nullptr;
    if (nghttp2_session_callbacks_new(&made) != 0) throw std::bad_alloc();
    nghttp2_session_callbacks_set_on_begin_headers_callback(made, OnBeginHeaders);
    nghttp2_session_callbacks_set_on_header_callback(made, OnHeader);
    nghttp2_session_callbacks_set_on_frame_recv_callback(made, OnFrame);
    nghttp2_session_callbacks_set_on_frame_send_callback(made, OnSent);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(made, OnNotSent);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(made, OnData);
    nghttp2_session_callbacks_set_on_stream_close_callback(made, OnClose);
    nghttp2_session_callbacks_set_send_data_callback(made, SendData);
    nghttp2_session_callbacks_set_data_source_read_length_callback(made, ReadLength);
    return made;
  }
};

Http2Session::Http2Session(Owner& owner, const Limits& limits)
    : owner_(owner), limits_(limits), faults_left_(static_cast<double>(limits.reset_burst)) {
  nghttp2_option* option = nullptr;
  if (nghttp2_option_new(&option) != 0) throw std::bad_alloc();
  const std::unique_ptr<nghttp2_option, void (*)(nghttp2_option*)> options(option, nghttp2_option_del);
  const std::unique_ptr<nghttp2_session_callbacks, void (*)(nghttp2_session_callbacks*)> callbacks(
      Callbacks::Make(), nghttp2_session_callbacks_del);
  nghttp2_option_set_no_auto_window_update(option, 1);
  nghttp2_option_set_no_closed_streams(option, 1);
  nghttp2_option_set_max_outbound_ack(option, kMostWaitingAnswers);
  // Values of metadata may begin and end with blanks, as with gRPC's other servers.
  nghttp2_option_set_no_rfc9113_leading_and_trailing_ws_validation(option, 1);
  nghttp2_option_set_max_continuations(option, kMoreContinuations + limits.head_bytes / kSmallFrame);
  nghttp2_option_set_stream_reset_rate_limit(option, limits.reset_burst, limits.resets_per_second);
  Checked(nghttp2_session_server_new2(&session_, callbacks.get(), this, option));
  const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits.streams},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits.stream_window},
      {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, limits.frame_bytes},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<uint32_t>(limits.head_bytes)}};
  Checked(nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings)));
  Checked(nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0,
                                                static_cast<int32_t>(limits.connection_window)));
}

bool Http2Session::CountBrokenStream() {
  // Uses the rate of streams that the client resets itself, because a call costs the same.
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::duration<double> passed = now - std::exchange(faults_counted_, now);
  const double again = passed.count() * static_cast<double>(limits_.resets_per_second);
  faults_left_ = std::min(static_cast<double>(limits_.reset_burst), faults_left_ + again) - 1;
  return faults_left_ >= 0;
}

Http2Session::~Http2Session() {
  CloseAll();
  nghttp2_session_del(session_);
}

void Http2Session::CloseAll() {
  for (Request* open : std::exchange(requests_, {})) {
    const std::unique_ptr<Request> request(open);
    nghttp2_session_set_stream_user_data(session_, open->id, nullptr);
    if (request->stream != nullptr) request->stream->OnClosed(true);
  }
}

Status Http2Session::Receive(const Buffer& block, std::string_view bytes) {
  block_ = &block;
  int fault = 0;
  filter_.Pass(bytes, [&](std::string_view piece) {
    const ssize_t taken =
        nghttp2_session_mem_recv(session_, reinterpret_cast<const uint8_t*>(piece.data()), piece.size());
    if (taken < 0) fault = static_cast<int>(taken);
    return fault == 0;
  });
  block_ = nullptr;
  if (Checked(fault) == 0) return OkStatus();
  return InvalidArgumentError(std::string("the client does not speak HTTP/2: ") + nghttp2_strerror(fault));
}

Status Http2Session::Stage(OutgoingBytes& to, size_t most) {
  outgoing_ = &to;
  most_ = most;
  ssize_t size = 0;
  while (to.size() < most) {
    const uint8_t* bytes = nullptr;
    size = nghttp2_session_mem_send(session_, &bytes);
    if (size <= 0) break;
    to.Append(Text(bytes, static_cast<size_t>(size)));
  }
  outgoing_ = nullptr;
  if (size >= 0) return OkStatus();
  return InternalError(std::string("cannot send: ") + nghttp2_strerror(static_cast<int>(size)));
}

bool Http2Session::over() const {
  return nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0;
}

void Http2Session::Respond(int32_t id, std::span<const Http2Field> head) {
  Request* request = Callbacks::RequestOf(session_, id);
  if (request == nullptr) return;
  nghttp2_data_provider body{};
  body.source.ptr = request;
  body.read_callback = Callbacks::Read;
  const Fields fields = ToFields(head);
  Checked(nghttp2_submit_response(session_, id, fields.data(), fields.size(), &body));
}

void Http2Session::RespondAtOnce(int32_t id, std::span<const Http2Field> head) {
  Request* request = Callbacks::RequestOf(session_, id);
  if (request == nullptr) return;
  const Fields fields = ToFields(head);
  Checked(nghttp2_submit_response(session_, id, fields.data(), fields.size(), nullptr));
  request->complete_told = true;
}

void Http2Session::Resume(int32_t id) { Checked(nghttp2_session_resume_data(session_, id)); }

void Http2Session::Consume(int32_t id, size_t bytes) {
  Checked(nghttp2_session_consume(session_, id, bytes));
}

void Http2Session::ConsumeConnection(size_t bytes) {
  Checked(nghttp2_session_consume_connection(session_, bytes));
}

void Http2Session::Ping() { Checked(nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr)); }

void Http2Session::Terminate(uint32_t error, std::string_view text) {
  GoAway(error, text);
  Checked(nghttp2_session_terminate_session(session_, error));
}

void Http2Session::GoAway(uint32_t error, std::string_view text) {
  Checked(nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                                nghttp2_session_get_last_proc_stream_id(session_), error,
                                reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

}  // namespace braid
