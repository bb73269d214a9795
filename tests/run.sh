#!/bin/bash
# Builds everything, runs every test of the workspace in one go, and ends with the line 'N passed, N failed'
# (and ', N skipped'). Fails when a test fails, when a test program dies, and when something does not compile.
set -u -o pipefail
cargo=${CARGO:-cargo}

# A test program that hangs is ended, which counts as a failure, and the others still have their turn.
patience='target."cfg(unix)".runner="timeout --foreground --kill-after=10 2400"'

$cargo build --release --workspace || exit 1
$cargo test --release --workspace --no-run || exit 1

# A test program that dies (a signal, an abort) prints no result of its own: cargo's line about it counts as a failure.
$cargo test --config "$patience" --release --workspace --no-fail-fast "$@" 2>&1 | awk '
  { print; fflush() }
  /^ +(Running|Doc-tests) / { result = 0 }
  /^test result:/ {
    reported = result = 1
    for (i = 2; i <= NF; i++) {
      if ($i ~ /^passed/) passed += $(i - 1)
      if ($i ~ /^failed/) failed += $(i - 1)
      if ($i ~ /^ignored/) skipped += $(i - 1)
    }
  }
  /process didn.t exit successfully/ && !result { failed++; reported = 1 }
  END {
    if (!reported) exit 1
    printf "%d passed, %d failed", passed, failed
    if (skipped) printf ", %d skipped", skipped
    print ""
    exit failed > 0
  }'
status=("${PIPESTATUS[@]}")
[ "${status[0]}" = 0 ] && [ "${status[1]}" = 0 ]
