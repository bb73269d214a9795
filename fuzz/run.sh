#!/bin/bash
# Fuzzes one target after the other. `ONLY`: this one alone; `FUZZ_SECONDS`: how long each; `SANITIZER=address`: and watches over
# memory, slower. What breaks a target lands in fuzz/artifacts/TARGET: once it is mended, keep it in fuzz/corpus/TARGET, where
# every test run calls it again.
set -eu -o pipefail
cd "$(dirname "$0")"
cargo=${CARGO:-cargo}
seconds=${FUZZ_SECONDS:-600}
work=target/corpus
sanitizer=${SANITIZER:-none}

"$cargo" +nightly --version >/dev/null 2>&1 || {
  echo "libFuzzer needs a nightly compiler: rustup toolchain install nightly" >&2
  exit 1
}
"$cargo" fuzz --version >/dev/null 2>&1 || "$cargo" install --locked cargo-fuzz

broken=""
for target in ${ONLY:-$(ls corpus)}; do
  mkdir -p "$work/$target"
  echo "== $target: $seconds s"
  # New inputs go to the first folder; corpus/ changes only by hand.
  "$cargo" +nightly fuzz run -O -s "$sanitizer" "$target" "$work/$target" "corpus/$target" -- \
    -max_total_time="$seconds" -max_len=16384 -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=512 -print_final_stats=1 \
    || broken+=" $target"
done
[ -z "$broken" ] || { echo "Broken:$broken (see fuzz/artifacts)" >&2; exit 1; }
