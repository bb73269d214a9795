#!/bin/bash
# Runs one test program. One that hangs is ended, which counts as a failure, and the others still have their turn.
#
# Tests on real hosts mostly wait for something: three for each core are begun at once.
case $1 in
  */system-*) export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((3 * $(nproc)))} ;;
esac
exec timeout --foreground --kill-after=10 2400 "$@"
