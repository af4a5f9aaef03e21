#include "protocols/net/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <cerrno>
#include <climits>

namespace braid {
namespace {

// What OpenSSL has to say of its last error, which is forgotten.
std::string LastError() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "unknown error" : reason;
}

Status FileError(const char* what, const std::string& file) {
  return InvalidArgumentError("cannot use the " + std::string(what) + " '" + file + "': " + LastError());
}

}  // namespace

TlsStream::~TlsStream() { SSL_free(ssl_); }

ssize_t TlsStream::Failed(int result) {
  const int error = SSL_get_error(ssl_, result);
  ERR_clear_error();
  switch (error) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      errno = EAGAIN;
      return -1;
    case SSL_ERROR_ZERO_RETURN:
      return 0;
    case SSL_ERROR_SYSCALL:
      if (errno == EINTR) return -1;
      [[fallthrough]];
    default:
      errno = EPROTO;
      return -1;
  }
}

ssize_t TlsStream::Read(std::span<char> to) {
  const int most = static_cast<int>(std::min<size_t>(to.size(), INT_MAX));
  const int got = SSL_read(ssl_, to.data(), most);
  return got > 0 ? got : Failed(got);
}

ssize_t TlsStream::Write(std::string_view bytes) {
  const int most = static_cast<int>(std::min<size_t>(bytes.size(), INT_MAX));
  const int sent = SSL_write(ssl_, bytes.data(), most);
  return sent > 0 ? sent : Failed(sent);
}

TlsContext::TlsContext(ssl_ctx_st* context, std::string protocol)
    : context_(context), protocol_(std::move(protocol)) {}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

Result<std::shared_ptr<const TlsContext>> TlsContext::Create(const Options& options, std::string protocol) {
  ERR_clear_error();
  ssl_ctx_st* const context = SSL_CTX_new(TLS_server_method());
  if (context == nullptr) return ResourceExhaustedError("cannot set up TLS: " + LastError());
  const std::shared_ptr<TlsContext> made(new TlsContext(context, std::move(protocol)));
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  // A write that the socket does not take whole is tried again with what is left, which may lie elsewhere by
  // then.
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_options(context,
                      SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  if (SSL_CTX_use_certificate_chain_file(context, options.certificate_file.c_str()) != 1) {
    return FileError("server certificate", options.certificate_file);
  }
  if (SSL_CTX_use_PrivateKey_file(context, options.key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    return FileError("server key", options.key_file);
  }
  if (SSL_CTX_check_private_key(context) != 1) return FileError("server key", options.key_file);
  if (!options.root_file.empty()) {
    if (SSL_CTX_load_verify_locations(context, options.root_file.c_str(), nullptr) != 1) {
      return FileError("root certificate", options.root_file);
    }
    SSL_CTX_set_client_CA_list(context, SSL_load_client_CA_file(options.root_file.c_str()));
  } else if (options.client_certificate) {
    return InvalidArgumentError("mutual authentication needs a root certificate");
  }
  if (options.client_certificate) {
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  const auto select = [](SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* in,
                         unsigned int in_size, void* self) {
    const std::string& ours = static_cast<const TlsContext*>(self)->protocol_;
    for (unsigned int at = 0; at < in_size; at += in[at] + 1U) {
      const std::string_view name(reinterpret_cast<const char*>(in + at + 1), in[at]);
      if (name != ours) continue;
      *out = in + at + 1;
      *out_size = in[at];
      return SSL_TLSEXT_ERR_OK;
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  };
  SSL_CTX_set_alpn_select_cb(context, select, made.get());
  return std::shared_ptr<const TlsContext>(made);
}

Result<std::unique_ptr<TlsStream>> TlsContext::Accept(int fd) const {
  SSL* const ssl = SSL_new(context_);
  if (ssl == nullptr) return ResourceExhaustedError("cannot begin TLS: " + LastError());
  auto stream = std::make_unique<TlsStream>(ssl);
  if (SSL_set_fd(ssl, fd) != 1) return ResourceExhaustedError("cannot begin TLS: " + LastError());
  SSL_set_accept_state(ssl);
  return stream;
}

}  // namespace braid
