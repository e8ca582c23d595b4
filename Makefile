# The two commands, and little else.
CARGO ?= cargo
export CARGO_TERM_PROGRESS_WHEN ?= auto

.PHONY: demo test results build clean

demo: ## what evenkeel does to a loaded line, on an emulated VDSL-100
	@scripts/setup demo
	@$(CARGO) build --release --locked -p evenkeel -p evenkeel-lab
	@target/release/evenkeel-lab demo --out out/demo

test: ## everything: lints, unit and property tests, real kernels
	@scripts/setup test
	@scripts/test

results: ## the committed tables and pictures
	@scripts/setup demo
	@scripts/results

build:
	$(CARGO) build --release --locked

clean:
	rm -rf out
	$(CARGO) clean
