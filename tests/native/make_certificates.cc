// make_certificates FOLDER: writes keys and certificates for TLS tests.
#include "protocols/net/testing/test_certificates.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  braid::WriteTestCertificates(argv[1]);
  return 0;
}
