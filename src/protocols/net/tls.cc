#include "protocols/net/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "base/utf8.h"

namespace braid {
namespace {

// Returns the text of OpenSSL's last error and clears it.
std::string LastError() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (ERR_SYSTEM_ERROR(code)) return std::strerror(ERR_GET_REASON(code));
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "unknown error" : reason;
}

Status FileError(const char* what, const std::string& file) {
  return InvalidArgumentError("cannot use the " + std::string(what) + " '" + file + "': " + LastError());
}

// ---- A BIO for sockets; OpenSSL's own would raise SIGPIPE ----

int Descriptor(BIO* socket) { return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(socket))); }

bool MayRetry(ssize_t result) {
  return result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

int ReadSocket(BIO* socket, char* to, int size) {
  BIO_clear_retry_flags(socket);
  const ssize_t got = ::recv(Descriptor(socket), to, static_cast<size_t>(size), MSG_DONTWAIT);
  if (MayRetry(got)) BIO_set_retry_read(socket);
  return static_cast<int>(got);
}

int WriteSocket(BIO* socket, const char* from, int size) {
  BIO_clear_retry_flags(socket);
  const ssize_t sent =
      ::send(Descriptor(socket), from, static_cast<size_t>(size), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (MayRetry(sent)) BIO_set_retry_write(socket);
  return static_cast<int>(sent);
}

long ControlSocket(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

// Returns null without memory. The descriptor stays the caller's.
BIO* MakeSocket(int fd) {
  static BIO_METHOD* const kMethod = [] {
    BIO_METHOD* const method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "client socket");
    BIO_meth_set_read(method, ReadSocket);
    BIO_meth_set_write(method, WriteSocket);
    BIO_meth_set_ctrl(method, ControlSocket);
    return method;
  }();
  BIO* const socket = BIO_new(kMethod);
  if (socket == nullptr) return nullptr;
  BIO_set_data(socket, reinterpret_cast<void*>(static_cast<intptr_t>(fd)));
  BIO_set_init(socket, 1);
  return socket;
}

// ---- The identity in a certificate ----

std::string Usable(std::string_view text) {
  return IsUtf8(text) && text.find('\0') == std::string_view::npos ? std::string(text) : "";
}

std::string CommonName(const X509* certificate) {
  const X509_NAME* const subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0) return "";
  unsigned char* text = nullptr;
  const int size = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
  if (size < 0) return "";
  std::string name = Usable({reinterpret_cast<const char*>(text), static_cast<size_t>(size)});
  OPENSSL_free(text);
  return name;
}

std::string Identity(const ssl_st* ssl) {
  const X509* const certificate = SSL_get0_peer_certificate(ssl);
  if (certificate == nullptr || SSL_get_verify_result(ssl) != X509_V_OK) return "";
  const std::unique_ptr<GENERAL_NAMES, decltype(&GENERAL_NAMES_free)> names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)),
      &GENERAL_NAMES_free);
  const int count = names == nullptr ? 0 : sk_GENERAL_NAME_num(names.get());
  for (int i = 0; i < count; ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_STRING* const uri = name->d.uniformResourceIdentifier;
    return Usable({reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                   static_cast<size_t>(ASN1_STRING_length(uri))});
  }
  return CommonName(certificate);
}

// ---- Settings of a context ----

// Selects `protocol` among those that a client offers. It points to a std::string, which outlives the
// handshake.
int ChooseProtocol(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* in,
                   unsigned int in_size, void* protocol) {
  for (unsigned int at = 0; at < in_size; at += in[at] + 1U) {
    const std::string_view name(reinterpret_cast<const char*>(in + at + 1), in[at]);
    if (name != *static_cast<const std::string*>(protocol)) continue;
    *out = in + at + 1;
    *out_size = in[at];
    return SSL_TLSEXT_ERR_OK;
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

// Without this, OpenSSL would ask for the password at the terminal.
int NoPassword(char*, int, int, void*) { return -1; }

}  // namespace

// ---- TlsStream ----

TlsStream::~TlsStream() { SSL_free(ssl_); }

ssize_t TlsStream::Done(int result) {
  if (!handshake_done_ && SSL_is_init_finished(ssl_) == 1) {
    handshake_done_ = true;
    identity_ = Identity(ssl_);
    ERR_clear_error();  // from an unreadable certificate; SSL_get_error() would report it
  }
  if (result > 0) return result;
  const int error = SSL_get_error(ssl_, result);
  ERR_clear_error();
  if (error == SSL_ERROR_ZERO_RETURN) return 0;
  errno = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? EAGAIN : EPROTO;
  return -1;
}

ssize_t TlsStream::Read(std::span<char> to) {
  const int most = static_cast<int>(std::min<size_t>(to.size(), INT_MAX));
  MutexLock lock(mutex_);
  const int got = SSL_read(ssl_, to.data(), most);
  read_needs_write_ = got <= 0 && SSL_want_write(ssl_);
  return Done(got);
}

ssize_t TlsStream::Write(std::string_view bytes) {
  const int most = static_cast<int>(std::min<size_t>(bytes.size(), INT_MAX));
  MutexLock lock(mutex_);
  const ssize_t sent = Done(SSL_write(ssl_, bytes.data(), most));
  if (sent != 0) return sent;
  errno = EPROTO;
  return -1;
}

bool TlsStream::End() {
  MutexLock lock(mutex_);
  const int result = SSL_shutdown(ssl_);
  const bool blocked = result < 0 && SSL_get_error(ssl_, result) == SSL_ERROR_WANT_WRITE;
  ERR_clear_error();
  return !blocked;
}

bool TlsStream::has_pending() const {
  MutexLock lock(mutex_);
  return SSL_has_pending(ssl_) == 1;
}

bool TlsStream::read_needs_write() const {
  MutexLock lock(mutex_);
  return read_needs_write_;
}

bool TlsStream::handshake_done() const {
  MutexLock lock(mutex_);
  return handshake_done_;
}

// ---- TlsSource ----

TlsSource::TlsSource(TlsOptions options, std::string protocol)
    : options_(std::move(options)), protocol_(std::move(protocol)) {}

Result<std::shared_ptr<TlsSource>> TlsSource::Create(const TlsOptions& options, std::string protocol) {
  std::shared_ptr<TlsSource> source(new TlsSource(options, std::move(protocol)));
  BRAID_RETURN_IF_ERROR(source->Reload());
  return source;
}

Status TlsSource::Reload() {
  BRAID_ASSIGN_OR_RETURN(Context context, Read());
  MutexLock lock(mutex_);
  context_.swap(context);
  return OkStatus();
}

Result<TlsSource::Context> TlsSource::Read() const {
  ERR_clear_error();
  const Context made(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free);
  SSL_CTX* const context = made.get();
  if (context == nullptr) return ResourceExhaustedError("cannot set up TLS: " + LastError());
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  // A partial write is repeated with the remaining bytes, which may have moved by then.
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_options(context,
                      SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  // Reads a record's header and body in one system call.
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_default_passwd_cb(context, NoPassword);
  if (SSL_CTX_use_certificate_chain_file(context, options_.certificate_file.c_str()) != 1) {
    return FileError("server certificate", options_.certificate_file);
  }
  if (SSL_CTX_use_PrivateKey_file(context, options_.key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    return FileError("server key", options_.key_file);
  }
  if (SSL_CTX_check_private_key(context) != 1) return FileError("server key", options_.key_file);
  if (!options_.root_file.empty()) {
    if (SSL_CTX_load_verify_locations(context, options_.root_file.c_str(), nullptr) != 1) {
      return FileError("root certificate", options_.root_file);
    }
    SSL_CTX_set_client_CA_list(context, SSL_load_client_CA_file(options_.root_file.c_str()));
    // A resumed session is not verified again. With tickets, a client could use an expired certificate for
    // ever.
    SSL_CTX_set_num_tickets(context, 0);
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | (options_.mutual ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
                       nullptr);
  } else if (options_.mutual) {
    return InvalidArgumentError("mutual authentication needs a root certificate");
  }
  SSL_CTX_set_alpn_select_cb(context, ChooseProtocol, const_cast<std::string*>(&protocol_));
  ERR_clear_error();
  return made;
}

Result<std::unique_ptr<TlsStream>> TlsSource::Accept(int fd) const {
  Context context;
  {
    MutexLock lock(mutex_);
    context = context_;
  }
  SSL* const ssl = SSL_new(context.get());
  if (ssl == nullptr) return ResourceExhaustedError("cannot begin TLS: " + LastError());
  auto stream = std::make_unique<TlsStream>(shared_from_this(), ssl);
  BIO* const socket = MakeSocket(fd);
  if (socket == nullptr) return ResourceExhaustedError("cannot begin TLS: " + LastError());
  SSL_set_bio(ssl, socket, socket);
  SSL_set_accept_state(ssl);
  return stream;
}

}  // namespace braid
