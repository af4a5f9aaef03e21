// A checker of histories, beside the one of tests/campaigns; scripts/public-clients builds it.
module braid.test/porcupine

go 1.21

require github.com/anishathalye/porcupine v1.3.1
