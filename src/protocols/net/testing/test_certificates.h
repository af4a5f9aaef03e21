// Keys and certificates for tests, valid for a day.
//
//   const TestAuthority authority("root");
//   const TestCertificate server = authority.Sign({.common_name = "server", .hosts = {"localhost"}});
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "protocols/net/tls.h"

namespace braid {

// Both in PEM.
struct TestCertificate {
  std::string certificate;
  std::string key;
};

struct TestSubject {
  std::string common_name = "";        // empty: none
  std::vector<std::string> uris = {};  // any bytes
  std::vector<std::string> hosts = {};
  std::vector<std::string> addresses = {};  // in bytes
};

// Signs certificates.
class TestAuthority {
 public:
  explicit TestAuthority(const std::string& name) : key_(MakeKey()) {
    certificate_ = Begin({.common_name = name}, key_.get());
    X509_set_issuer_name(certificate_.get(), X509_get_subject_name(certificate_.get()));
    AddExtension(NID_basic_constraints, "critical,CA:TRUE", *certificate_);
    AddExtension(NID_key_usage, "critical,keyCertSign", *certificate_);
    AddExtension(NID_subject_key_identifier, "hash", *certificate_);
    BRAID_CHECK(X509_sign(certificate_.get(), key_.get(), EVP_sha256()) > 0);
  }

  // The authority's own certificate in PEM.
  std::string certificate() const { return Pem(*certificate_); }

  TestCertificate Sign(const TestSubject& subject) const {
    const Key key = MakeKey();
    const Certificate certificate = Begin(subject, key.get());
    X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate_.get()));
    AddExtension(NID_authority_key_identifier, "keyid", *certificate);
    BRAID_CHECK(X509_sign(certificate.get(), key_.get(), EVP_sha256()) > 0);
    return {Pem(*certificate), Pem(*key)};
  }

 private:
  using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
  using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
  using Text = std::unique_ptr<BIO, decltype(&BIO_free)>;

  static Key MakeKey() { return {EVP_EC_gen("P-256"), &EVP_PKEY_free}; }

  static Certificate Begin(const TestSubject& subject, EVP_PKEY* key) {
    Certificate made(X509_new(), &X509_free);
    X509* const certificate = made.get();
    X509_set_version(certificate, X509_VERSION_3);
    static long serial = 0;
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 86400);
    X509_set_pubkey(certificate, key);
    if (!subject.common_name.empty()) {
      X509_NAME_add_entry_by_NID(X509_get_subject_name(certificate), NID_commonName, MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(subject.common_name.data()),
                                 static_cast<int>(subject.common_name.size()), -1, 0);
    }
    const std::unique_ptr<GENERAL_NAMES, decltype(&GENERAL_NAMES_free)> names(sk_GENERAL_NAME_new_null(),
                                                                              &GENERAL_NAMES_free);
    const auto add = [&](int kind, int type, const std::vector<std::string>& texts) {
      for (const std::string& text : texts) {
        ASN1_STRING* const value = ASN1_STRING_type_new(type);
        ASN1_STRING_set(value, text.data(), static_cast<int>(text.size()));
        GENERAL_NAME* const name = GENERAL_NAME_new();
        GENERAL_NAME_set0_value(name, kind, value);
        sk_GENERAL_NAME_push(names.get(), name);
      }
    };
    add(GEN_DNS, V_ASN1_IA5STRING, subject.hosts);
    add(GEN_IPADD, V_ASN1_OCTET_STRING, subject.addresses);
    add(GEN_URI, V_ASN1_IA5STRING, subject.uris);
    if (sk_GENERAL_NAME_num(names.get()) > 0)
      X509_add1_ext_i2d(certificate, NID_subject_alt_name, names.get(), 0, 0);
    return made;
  }

  // Adds an extension signed by this authority. `to` may be its own certificate.
  void AddExtension(int kind, const char* value, X509& to) const {
    X509V3_CTX context;
    X509V3_set_ctx(&context, certificate_.get(), &to, nullptr, nullptr, 0);
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value);
    BRAID_CHECK(extension != nullptr);
    X509_add_ext(&to, extension, -1);
    X509_EXTENSION_free(extension);
  }

  static std::string Read(const Text& text) {
    char* data = nullptr;
    const long size = BIO_get_mem_data(text.get(), &data);
    return {data, static_cast<size_t>(size)};
  }
  static std::string Pem(X509& certificate) {
    const Text text(BIO_new(BIO_s_mem()), &BIO_free);
    PEM_write_bio_X509(text.get(), &certificate);
    return Read(text);
  }
  static std::string Pem(EVP_PKEY& key) {
    const Text text(BIO_new(BIO_s_mem()), &BIO_free);
    PEM_write_bio_PKCS8PrivateKey(text.get(), &key, nullptr, nullptr, 0, nullptr, nullptr);
    return Read(text);
  }

  const Key key_;
  Certificate certificate_{nullptr, &X509_free};
};

inline void WriteTestFile(const std::filesystem::path& file, std::string_view text) {
  std::ofstream(file, std::ios::trunc) << text;
}

// Writes NAME.pem and NAME.key for these names, and root.pem:
//
//   server    localhost and 127.0.0.1
//   client    URI spiffe://test/client
//   plain     common name "plain client" only
//   stranger  signed by another root
inline void WriteTestCertificates(const std::filesystem::path& folder) {
  const TestAuthority authority("test root");
  const TestAuthority other("other root");
  const auto write = [&](const std::string& name, const TestCertificate& made) {
    WriteTestFile(folder / (name + ".pem"), made.certificate);
    WriteTestFile(folder / (name + ".key"), made.key);
  };
  WriteTestFile(folder / "root.pem", authority.certificate());
  write("server", authority.Sign({.common_name = "test server",
                                  .hosts = {"localhost"},
                                  .addresses = {std::string("\x7f\0\0\x01", 4)}}));
  write("client", authority.Sign({.common_name = "test client", .uris = {"spiffe://test/client"}}));
  write("plain", authority.Sign({.common_name = "plain client"}));
  write("stranger", other.Sign({.common_name = "stranger", .uris = {"spiffe://other/stranger"}}));
}

// These files in a temporary folder, which is removed with this object.
class TestCertificates {
 public:
  TestCertificates() {
    std::string folder = std::filesystem::temp_directory_path() / "braid-certificates-XXXXXX";
    BRAID_CHECK(::mkdtemp(folder.data()) != nullptr);
    folder_ = folder;
    WriteTestCertificates(folder_);
  }
  ~TestCertificates() { std::filesystem::remove_all(folder_); }
  TestCertificates(const TestCertificates&) = delete;
  TestCertificates& operator=(const TestCertificates&) = delete;

  std::string File(const std::string& name) const { return folder_ / name; }
  // Options with the certificate "server". `root`: name of the file with the authority of clients'
  // certificates; empty: none.
  TlsOptions Server(const std::string& root = "", bool mutual = false) const {
    return {true, mutual, File("server.pem"), File("server.key"), root.empty() ? "" : File(root)};
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace braid
