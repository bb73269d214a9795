#!/bin/bash
# Runs one test program. One that hangs is ended, which counts as a failure, and the others still have their turn.
#
# Tests on real hosts mostly wait for something, so twice as many of them run at once as there are cores.
case $1 in
  */system-*) export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((2 * $(nproc)))} ;;
esac
exec timeout --foreground --kill-after=10 2400 "$@"
