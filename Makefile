# Braid's everyday commands. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BUILD_FOLDER ?= build
JOBS ?= $(shell nproc)
MODELS ?= examples/models
ARGS ?=
export BUILD_FOLDER JOBS

CONFIGURE := cmake --preset release -B $(BUILD_FOLDER)
# The worker's own tests run in the project's Python, which has what they import.
CONFIGURE_TESTS := $(CONFIGURE) -DBRAID_TESTS=ON -DPython3_EXECUTABLE=$(CURDIR)/.venv/bin/python
TESTS_ARE_ON = grep -qs '^BRAID_TESTS:BOOL=ON' $(BUILD_FOLDER)/CMakeCache.txt && \
	grep -qs '^Python3_EXECUTABLE:.*=$(CURDIR)/.venv/bin/python$$' $(BUILD_FOLDER)/CMakeCache.txt
CC_FILES = $(shell git ls-files -co --exclude-standard '*.cc' '*.h')

.PHONY: help build wheel deb image sbom audit lock serve fleet quick test nightly test-asan test-tsan fuzz test-mediapipe bench format check \
	docs site clean

help:  ## Show this list
	@echo "Braid: an inference server for models with their own Python around them"
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1 \2/p' Makefile | while read -r name text; do printf '  make %-14s %s\n' "$$name" "$$text"; done

build:  ## Build build/braid; installs missing system packages first
	@scripts/install-system-packages build
	@scripts/python-env build
	@test -f $(BUILD_FOLDER)/build.ninja || $(CONFIGURE) -DBRAID_TESTS=OFF
	@cmake --build $(BUILD_FOLDER) -j $(JOBS) --target braid

wheel: build  ## Build the Python package dist/braid_server-*.whl, for pip install
	@scripts/python-env build package
	@scripts/build-wheel

deb: build  ## Build the Debian packages dist/braid_*.deb and dist/braid-openvino_*.deb
	@scripts/install-system-packages package
	@scripts/python-env build package
	@scripts/build-deb

image: deb  ## Build the container image dist/braid-oci.tar of the Debian packages, without a daemon
	@scripts/build-image

sbom: wheel deb  ## Write bills of materials (CycloneDX) of the packages in dist/ beside them, of the images there too
	@.venv/bin/python scripts/sbom dist/*.whl dist/*.deb $$(ls dist/*-oci.tar 2>/dev/null)

audit:  ## Ask databases of advisories about what is pinned (ARGS="--advisories FOLDER" where none can be reached)
	@scripts/python-env package
	@.venv/bin/python scripts/audit $(ARGS)

lock:  ## Write requirements/lock.txt anew after a change of requirements/ (ARGS=--check compares)
	@scripts/python-env package
	@.venv/bin/python scripts/lock-requirements $(ARGS)

serve: build  ## Build, then serve the example models on this machine (MODELS=folder ARGS="more options")
	@scripts/python-env serve
	@exec $(BUILD_FOLDER)/braid serve $(MODELS) --host 127.0.0.1 --python .venv/bin/python $(ARGS)

fleet: build  ## Three servers with the example models and a Redis behind an Envoy on this machine, until Ctrl-C (FLEET=--no-store: no Redis)
	@case " $(FLEET) " in *" --no-store "*) ;; *) scripts/install-system-packages fleet ;; esac
	@scripts/python-env serve test
	@.venv/bin/python scripts/fleet --braid $(BUILD_FOLDER)/braid --models $(MODELS) $(FLEET)

quick:  ## Build what changed, and run the tests that it concerns (SINCE=commit; what is not committed, without)
	@scripts/quick $(if $(SINCE),--since $(SINCE)) $(ARGS)

test:  ## Build everything, run the unit tests and the end-to-end tests (ARGS="..." goes to pytest)
	@scripts/test $(ARGS)

nightly:  ## Run all that takes long: every sanitizer, campaigns, fuzzers, clients that are compiled; goes on where it was stopped
	@scripts/nightly $(ARGS)

test-asan:  ## Run unit tests with the sanitizers of addresses and undefined behaviour (ARGS=scheduling: of that folder)
test-tsan:  ## Run the unit tests of what threads share with the sanitizer of threads (ARGS=--all: of more folders)
test-asan test-tsan: test-%:
	@scripts/install-system-packages build test
	@scripts/python-env build test
	@scripts/unit-tests $* $(ARGS)

fuzz:  ## Try random inputs on all that reads what clients, workers and users write (FUZZ_SECONDS=60 for each)
	@scripts/install-system-packages build fuzz
	@scripts/python-env build
	@scripts/fuzz $(ARGS)

test-mediapipe:  ## Compare graphs with MediaPipe itself on random cases (ARGS="--cases 5000 --seed 1")
	@scripts/install-system-packages build test
	@scripts/python-env build test
	@$(TESTS_ARE_ON) || $(CONFIGURE_TESTS)
	@cmake --build $(BUILD_FOLDER) -j $(JOBS) --target graph_replay
	@scripts/test-mediapipe $(ARGS)

bench:  ## Measure (see bench/)
	@scripts/install-system-packages build bench
	@scripts/python-env build test
	@bench/run $(ARGS)
	@bench/run-floor
	@.venv/bin/python bench/run-others
	@bench/run-latency
	@bench/run-curves
	@.venv/bin/python bench/run-openvino
	@bench/run-graphs
	@.venv/bin/python bench/run-stateful
	@[ $$(nproc) -lt 16 ] || bench/run-scaling

format:  ## Format the C++ and Python files
	@scripts/python-env check
	@.venv/bin/clang-format -i $(CC_FILES)
	@.venv/bin/ruff format --quiet
	@.venv/bin/ruff check --quiet --fix

check:  ## Check formatting, lint Python and C++, includes, each file alone, and what mutexes guard
	@scripts/check $(ARGS)

docs: build  ## Write the option table of docs/configuration.md anew
	@scripts/update-docs $(BUILD_FOLDER)/braid

site:  ## Build the documentation as a site with search, in build-site/
	@scripts/python-env site
	@.venv/bin/python scripts/build-site $(ARGS)

clean:  ## Remove the build folder and the Python environment
	rm -rf $(BUILD_FOLDER) dist build-site build-check build-asan build-tsan build-fuzz .venv
