# Everything a newcomer needs. Each target does its own set-up: missing Debian packages come through apt.

SHELL := /bin/bash
.DEFAULT_GOAL := help

PREFIX  ?= /usr/local
DESTDIR ?=
ARGS    ?=
PROFILE ?= dev
ONLY    ?=

# Under sudo, the toolchain of the user who called it.
OWNER   := $(if $(SUDO_USER),$(shell getent passwd $(SUDO_USER) | cut -d: -f6),$(HOME))
CARGO   := $(shell command -v cargo || ls $(HOME)/.cargo/bin/cargo $(OWNER)/.cargo/bin/cargo 2>/dev/null | head -n 1)
ifeq ($(CARGO),$(OWNER)/.cargo/bin/cargo)
export CARGO_HOME  ?= $(OWNER)/.cargo
export RUSTUP_HOME ?= $(OWNER)/.rustup
endif
AS_ROOT := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
PROGRAM := target/release/bifrost
# Where cargo installs it, whether or not that is in the path.
MDBOOK  := $(or $(shell command -v mdbook),$(if $(CARGO_HOME),$(CARGO_HOME),$(OWNER)/.cargo)/bin/mdbook)

.PHONY: help build run test lint deny fuzz bench docs install uninstall package clean cargo root

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

build: cargo ## Build bifrost, the lab and the benches
	@lab/setup.sh build
	$(CARGO) build --release --workspace

run: build ## The demo: an ISP, a router, a customer and a server (ARGS="--seconds 20" for plain lines)
	@lab/setup.sh lab
	@$(AS_ROOT) target/release/bifrost-demo $(ARGS)

test: root cargo ## Every test, on real hosts in network namespaces (as root; ONLY=nat: named so; PROFILE=release)
	@lab/setup.sh build lab
	@lab/setup.sh machines || echo "Tests in virtual machines will fail; the others go on" >&2
	@CARGO=$(CARGO) PROFILE=$(PROFILE) tests/run.sh $(ONLY)

lint: cargo ## Formatting and warnings: rustfmt, clippy, clang-format
	@lab/setup.sh build lint
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --workspace --all-targets -- -D warnings
	clang-format --dry-run -Werror $(wildcard forwarding/bpf/*.c forwarding/bpf/*.h)

deny: cargo ## Dependencies: licences, second versions, sources, and known faults where their list can be fetched
	@$(CARGO) deny --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-deny
	$(CARGO) deny check licenses bans sources
	@if $(CARGO) deny fetch db 2>/dev/null || ls "$${CARGO_HOME:-$$HOME/.cargo}"/advisory-dbs/*/crates >/dev/null 2>&1; \
	  then $(CARGO) deny check --disable-fetch advisories; \
	  else echo "Known faults were not looked for: the list of them (github.com/RustSec/advisory-db) cannot be fetched"; fi

fuzz: root cargo ## Hostile bytes for every parser, for hours (ONLY=fpm: one target; FUZZ_SECONDS=600: each; SANITIZER=address)
	@lab/setup.sh build
	@CARGO=$(CARGO) ONLY=$(ONLY) fuzz/run.sh

bench: root cargo ## Every figure, as a table and target/bench.json (ONLY=fib: those whose name starts so; KEEP=1: as the baseline)
	@lab/setup.sh build lab
	$(CARGO) run --release -p bench -- $(if $(ONLY),--only $(ONLY)) $(if $(KEEP),--keep measure/bench/baseline.json)

docs: cargo ## The pages of docs/ as a site, their links and commands checked (target/book)
	@$(MDBOOK) --version >/dev/null 2>&1 || $(CARGO) install --locked mdbook
	$(CARGO) test --release -p bifrost --test docs
	$(MDBOOK) build

install: build ## Install the program, its manual, its unit and a sample router.toml (PREFIX, DESTDIR)
	lab/install.sh "$(DESTDIR)" "$(PREFIX)"

uninstall: build ## Remove what install put in place; your configuration stays (PREFIX, DESTDIR)
	lab/uninstall.sh "$(DESTDIR)" "$(PREFIX)"

package: build ## A .deb and, where rpmbuild is, an .rpm, with debug symbols beside them (target/package)
	@lab/setup.sh package
	lab/package.sh

clean: ## Remove what was built
	rm -rf target

cargo:
	@[ -n "$(CARGO)" ] || { echo "Bifrost is built by Rust's cargo, which is missing here. To get it:" >&2; \
	  echo "  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y" >&2; exit 1; }

root:
	@[ "$$(id -u)" = 0 ] || { echo "This makes network namespaces and attaches programs to interfaces: run it as root" >&2; \
	  echo "  sudo -E env PATH=\"\$$PATH\" make $(MAKECMDGOALS)" >&2; exit 1; }
