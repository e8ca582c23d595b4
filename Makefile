# The commands, and little else.
CARGO ?= cargo
export CARGO_TERM_PROGRESS_WHEN ?= auto

.PHONY: demo test deb test-machine results build clean

# Built without optimising across crates: 245 CPU-seconds from nothing, and nothing that is seen here
# changes.
demo: ## what evenkeel does to a loaded line, on an emulated VDSL-100
	@scripts/setup demo
	@CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
		$(CARGO) build --release --locked --target-dir target/demo -p evenkeel -p evenkeel-lab
	@target/demo/release/evenkeel-lab demo --out out/demo

test: ## everything: lints, unit and property tests, real kernels
	@scripts/setup test
	@scripts/test

deb: ## Debian packages of both programs, in target/debian
	@scripts/setup deb
	@scripts/deb

test-machine: deb ## the packages in a whole machine: install, boot, kill, upgrade, remove, purge
	@scripts/setup machine
	@scripts/machine

results: ## the committed tables and pictures
	@scripts/setup results
	@scripts/results

build:
	$(CARGO) build --release --locked

clean:
	rm -rf out
	$(CARGO) clean
