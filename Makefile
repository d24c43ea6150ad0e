# Everything a contributor runs. `make help` lists the targets.
export GOTOOLCHAIN := go1.27.3
export CGO_ENABLED ?= 0

GO     ?= go
BUILD  := build
TIME   ?= 10s
KILLS  ?= 20
GOFMT   = $(shell $(GO) env GOROOT)/bin/gofmt
SOURCES = $(shell git ls-files '*.go' | grep -v '\.pb\.go$$')

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build the binary and the example job into build/
	$(GO) build -o $(BUILD)/millrace ./cmd/millrace
	$(GO) build -o $(BUILD)/activity ./examples/activity

.PHONY: demo
demo: build ## run a real pipeline, from an access log to a SQLite file
	$(BUILD)/millrace demo $(ARGS)

.PHONY: test
test: ## run the tests: no root, no services, a few minutes
	$(GO) test $(TESTFLAGS) ./...

.PHONY: race
race: ## run the tests with the race detector
	CGO_ENABLED=1 $(GO) test -race ./...

.PHONY: lint
lint: ## check formatting, vet and staticcheck
	@unformatted=$$($(GOFMT) -l $(SOURCES)); if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags interop ./compat/... ./broker/internal/storage/
	$(GO) tool staticcheck ./...

.PHONY: fuzz
fuzz: ## run every fuzz target for TIME each (default 10s)
	@for package in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
	  for target in $$(grep -rhoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' $$package/*_test.go | sed 's/func //'); do \
	    echo "== $$package $$target"; $(GO) test $$package -run '^$$' -fuzz "^$$target\$$" -fuzztime $(TIME) || exit 1; \
	  done; \
	done

.PHONY: soak
soak: build ## run the crash tests at full length (KILLS=20 kills each)
	MILLRACE_KILLS=$(KILLS) $(GO) test -count=1 -timeout 60m -v -run 'Kill|PowerCuts|WorkersDeath|Demo' ./broker ./streams ./connect/host ./cmd/... ./examples/...

.PHONY: interop
interop: build ## run clients of other projects against the built binary
	@compat/interop/get.sh
	$(GO) test -tags interop -count=1 -v -timeout 15m ./compat/interop/
	$(GO) test -tags interop -count=1 -v -run Kafka ./broker/internal/storage/

.PHONY: conformance
conformance: build ## run franz-go's own test suite against the built binary
	compat/conformance.sh

.PHONY: bench
bench: build ## measure what docs/benchmarks.md reports
	$(GO) run ./bench/startup -binary $(BUILD)/millrace

.PHONY: generate
generate: ## write generated code again (needs protoc)
	$(GO) generate ./...

.PHONY: clean
clean: ## remove what was built
	rm -rf $(BUILD)
