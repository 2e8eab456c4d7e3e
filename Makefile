# Everything a person or a CI job runs, by name. `make` alone lists it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

CARGO ?= cargo
# Kept between checkouts: the guest kernel and the tools.
export STRATA_CACHE ?= $(HOME)/.cache/strata
# The build goes to a directory named after the host, because it is static
# (.cargo/config.toml).
TARGET_DIR = $(or $(CARGO_TARGET_DIR),target)/$(shell rustc -vV | sed -n 's/^host: //p')

# What is no part of the product, and may start tasks as it likes.
NO_PRODUCT = --exclude strata-testkit --exclude strata-bench --exclude xtask

.PHONY: help demo build release test test-clusters test-images test-skew soak soak-sim test-all test-unit bench fuzz kubernetes lint fmt doc audit clean setup-build

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: setup-build ## Build and show it: containers, three nodes, a volume, a backup (root), 5 min
	@scripts/setup demo
	@$(CARGO) build --locked -p strata
	@STRATA=$(TARGET_DIR)/debug/strata scripts/demo

build: setup-build ## Build the workspace for development
	@$(CARGO) build --workspace --locked

release: setup-build ## Build the release binary, 15 min
	@$(CARGO) build --release --locked -p strata
	@echo "$(TARGET_DIR)/release/strata"

# Every target prints before it begins how long it takes, what it omits, and
# which target runs that. Times are on 2 idle cores, once built.
test: ## Run the tests (root), 10 to 13 min; ARGS="name" runs those with that name
	@scripts/test test -- $(ARGS)

test-clusters: ## Run the tests of real Kubernetes clusters (root), 18 min
	@scripts/test clusters -- $(ARGS)

test-images: ## Run services of Debian, packed as images, with their clients (root), 5 min
	@scripts/test images -- $(ARGS)

test-skew: ## Run servers and nodes of the previous release with this one (root); STRATA_PREVIOUS names another
	@scripts/test skew -- $(ARGS)

soak: ## Run the campaigns at full length (root), 20 min
	@scripts/test soak -- $(ARGS)

soak-sim: setup-build ## Simulate the control plane, seed after seed, until one fails; FIRST=1
	@$(CARGO) build --locked -p strata-sim
	@$(TARGET_DIR)/debug/strata-sim soak $(or $(FIRST),1)

test-all: ## Run all of these (root)
	@scripts/test test -- --allow-empty $(ARGS)
	@scripts/test clusters -- --allow-empty $(ARGS)
	@scripts/test images -- --allow-empty $(ARGS)
	@scripts/test skew -- --allow-empty $(ARGS)
	@scripts/test soak -- --allow-empty $(ARGS)

test-unit: setup-build ## Run the tests that need no root
	@$(CARGO) test --workspace --locked --lib --bins $(ARGS)

# A separate build, with coverage, for libFuzzer.
fuzz: ## Fuzz the parsers, 60 s each, 20 min; ARGS="--seconds 5 tar dns" fuzzes some
	@scripts/fuzz $(ARGS)

bench: ## Measure it beside its peers (root); ARGS=--quick for a short run
	@scripts/setup build test bench
	@scripts/guest-kernel
	@$(CARGO) build --release --locked -p strata
	@$(CARGO) run --release --locked -p strata-bench -- $(ARGS) $(TARGET_DIR)/release/strata

kubernetes: ## Build Kubernetes for clusters into the cache; VERSION="1.34 v1.35.4" says which
	@scripts/kubernetes $(VERSION)

lint: setup-build ## Formatting, clippy, documentation, words, modules, licences and bans
	@$(CARGO) fmt --all --check
	@cd fuzz && $(CARGO) fmt --check
	@$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@$(CARGO) clippy --workspace --lib --bins --locked $(NO_PRODUCT) -- -D clippy::disallowed_methods
	@RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked
	@$(CARGO) test --quiet --doc --workspace --locked
	@$(CARGO) build --quiet --workspace --bin xtask --locked && $(TARGET_DIR)/debug/xtask words
	@$(TARGET_DIR)/debug/xtask modules
	@scripts/deny licenses bans sources

fmt: ## Format the code
	@$(CARGO) fmt --all
	@cd fuzz && $(CARGO) fmt

doc: ## Build the documentation of the code
	@$(CARGO) doc --workspace --no-deps --locked

audit: ## Check the dependencies against known advisories (needs the network)
	@scripts/deny advisories

clean: ## Remove the build; the cache stays
	@$(CARGO) clean

setup-build:
	@command -v $(CARGO) >/dev/null || { \
	  echo "make: no cargo: install Rust first (rust-version is in Cargo.toml)" >&2; exit 1; }
	@scripts/setup build
