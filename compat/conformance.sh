#!/usr/bin/env bash
# Runs franz-go's own test suite, built from the module that go.mod names,
# against a broker that it starts, and prints how many of the tests that need a
# broker passed. compat/findings.md says why the others do not yet.
set -eu
cd "$(dirname "$0")/.."
export GOTOOLCHAIN=${GOTOOLCHAIN:-go1.27.3}
records=${RECORDS:-50000}
# The suite's tests that talk to a broker and need none of what docs/compatibility.md lists as missing.
run=${RUN:-'^(TestGroupETL|TestGroupSimple|Test.*Consume.*|TestClient_Produce|TestProduce.*|TestPause.*|TestAddRemovePartitions|TestDirect.*|TestIssue.*)$'}
data=$(mktemp -d)
trap 'kill "$broker" 2>/dev/null; wait "$broker" 2>/dev/null; rm -rf "$data"' EXIT

go test -c -o build/kgo.test github.com/twmb/franz-go/pkg/kgo
build/millrace broker --data "$data/broker" --listen 127.0.0.1:0 --output json >"$data/ready" 2>"$data/log" &
broker=$!
for _ in $(seq 100); do [ -s "$data/ready" ] && break; sleep 0.1; done
seeds=$(sed -n 's/.*"kafka":"\([^"]*\)".*/\1/p' "$data/ready")
[ -n "$seeds" ] || { echo "the broker did not start:"; cat "$data/log"; exit 1; }

status=0
KGO_SEEDS=$seeds KGO_TEST_RF=1 KGO_LOG_LEVEL=none KGO_TEST_RECORDS=$records \
  build/kgo.test -test.v -test.timeout 15m -test.run "$run" >build/kgo.log 2>&1 || status=$?
passed=$(grep -c '^--- PASS' build/kgo.log || true)
failed=$(grep -c '^--- FAIL' build/kgo.log || true)
skipped=$(grep -c '^--- SKIP' build/kgo.log || true)
grep '^--- \(FAIL\|SKIP\)' build/kgo.log || true
echo "conformance: $passed passed, $failed failed, $skipped skipped (build/kgo.log)"
exit $status
