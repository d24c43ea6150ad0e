#!/usr/bin/env bash
# Brings the clients of other projects that the interop tests run against a
# broker: kcat from Debian, Kafka's own Java tools from Maven, confluent-kafka
# from PyPI. What could not be had is said on a line of its own; the tests then
# skip it, or fail where CI=true, since there nothing may be missing.
set -u
cd "$(dirname "$0")" || exit 1
out=$(cd ../.. && pwd)/build/interop
mkdir -p "$out"
missing() { echo "interop: could not get $1: $2"; }

if ! command -v kcat >/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    { apt-get update && apt-get install -y kcat; } >"$out/kcat.log" 2>&1 || missing kcat "see $out/kcat.log"
  else
    missing kcat "install the package kcat (it needs root)"
  fi
fi

if ! command -v java >/dev/null || ! command -v mvn >/dev/null; then
  missing "Kafka's Java tools" "they need a JDK 17 and Maven on PATH"
elif [ ! -e "$out/java/.complete" ]; then
  # The pom is copied so that Maven leaves nothing behind in the source tree.
  mkdir -p "$out/pom" && cp java/pom.xml "$out/pom/"
  if mvn -q -B -f "$out/pom/pom.xml" dependency:copy-dependencies -DoutputDirectory="$out/java" >"$out/java.log" 2>&1; then
    touch "$out/java/.complete"
  else
    missing "Kafka's Java tools" "see $out/java.log"
  fi
fi

if [ ! -x "$out/py/bin/python" ] || ! "$out/py/bin/python" -c 'import confluent_kafka' 2>/dev/null; then
  { python3 -m venv "$out/py" && "$out/py/bin/pip" install -q confluent-kafka==2.16.1; } >"$out/py.log" 2>&1 ||
    missing "confluent-kafka for Python" "see $out/py.log"
fi
exit 0
