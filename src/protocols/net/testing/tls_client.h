// A TLS client for tests, over a blocking socket. One thread may receive while another sends.
#pragma once

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/check.h"
#include "protocols/net/testing/test_encryption.h"

namespace braid {

class TlsClient final : public TestEncryption {
 public:
  struct Options {
    std::string root_file;              // that signed the server's certificate
    std::string certificate_file = "";  // empty: none
    std::string key_file = "";
    std::string protocol = "";  // to offer by ALPN; empty: no ALPN
    SSL_SESSION* session = nullptr;
    int version = 0;  // TLS1_2_VERSION or TLS1_3_VERSION; 0: the newest
  };

  TlsClient(int fd, const Options& options)
      : fd_(fd), context_(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free) {
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_max_proto_version(context_.get(), options.version);
    BRAID_CHECK(SSL_CTX_load_verify_locations(context_.get(), options.root_file.c_str(), nullptr) == 1);
    if (!options.certificate_file.empty()) {
      BRAID_CHECK(SSL_CTX_use_certificate_chain_file(context_.get(), options.certificate_file.c_str()) == 1);
      BRAID_CHECK(SSL_CTX_use_PrivateKey_file(context_.get(), options.key_file.c_str(), SSL_FILETYPE_PEM) ==
                  1);
    }
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    if (!options.protocol.empty()) {
      const std::string list = static_cast<char>(options.protocol.size()) + options.protocol;
      SSL_set_alpn_protos(ssl_.get(), reinterpret_cast<const unsigned char*>(list.data()),
                          static_cast<unsigned int>(list.size()));
    }
    if (options.session != nullptr) SSL_set_session(ssl_.get(), options.session);
    SSL_set_connect_state(ssl_.get());
  }

  // Optional: Send() and Receive() shake hands too.
  bool Handshake() {
    return Do([this] { return SSL_do_handshake(ssl_.get()); }, true) == 1;
  }
  bool Send(std::string_view bytes) override {
    const int size = static_cast<int>(bytes.size());
    return size == 0 || Do([&] { return SSL_write(ssl_.get(), bytes.data(), size); }, true) == size;
  }
  // Returns bytes of one record.
  ssize_t Receive(std::span<char> to) override {
    return Do([&] { return SSL_read(ssl_.get(), to.data(), static_cast<int>(to.size())); }, false);
  }
  void End() override {
    {
      const std::lock_guard lock(mutex_);
      SSL_shutdown(ssl_.get());
    }
    Flush();
  }

  SSL* ssl() { return ssl_.get(); }

 private:
  // `writes`: `work` has output to flush. Other calls have output during the handshake only.
  template <class Work>
  int Do(Work work, bool writes) {
    while (true) {
      int result = 0;
      int error = 0;
      {
        const std::lock_guard lock(mutex_);
        writes |= SSL_is_init_finished(ssl_.get()) == 0;
        result = work();
        error = SSL_get_error(ssl_.get(), result);
        ERR_clear_error();
      }
      if (writes && !Flush()) return -1;
      if (result > 0) return result;
      if (error == SSL_ERROR_ZERO_RETURN) return 0;
      if (error != SSL_ERROR_WANT_READ) return -1;
      char bytes[1 << 16];
      const ssize_t got = ::recv(fd_, bytes, sizeof(bytes), 0);
      if (got <= 0) return -1;
      const std::lock_guard lock(mutex_);
      BIO_write(SSL_get_rbio(ssl_.get()), bytes, static_cast<int>(got));
    }
  }
  // Sends OpenSSL's pending output.
  bool Flush() {
    const std::lock_guard order(flush_mutex_);
    while (true) {
      char bytes[1 << 14];
      int size = 0;
      {
        const std::lock_guard lock(mutex_);
        size = BIO_read(SSL_get_wbio(ssl_.get()), bytes, sizeof(bytes));
      }
      if (size <= 0) return true;
      for (int at = 0; at < size;) {
        const ssize_t sent = ::send(fd_, bytes + at, static_cast<size_t>(size - at), MSG_NOSIGNAL);
        if (sent <= 0) return false;
        at += static_cast<int>(sent);
      }
    }
  }

  const int fd_;
  std::mutex mutex_;        // guards ssl_
  std::mutex flush_mutex_;  // held while sending, which blocks; taken before mutex_
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, &SSL_free};
};

}  // namespace braid
