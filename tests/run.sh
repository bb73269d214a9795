#!/bin/bash
# Builds everything, runs every test of the workspace in one go, and ends with the line 'N passed, N failed'
# (and ', N skipped'). Fails when a test fails, when a test program dies, and when something does not compile.
#
# Tests on real hosts need the cores that they run on, and a hypervisor takes these away as it likes. So one of
# them that failed runs again when all is quiet, alone and three times. It has failed if it fails once more;
# else it has passed, and the lines before the last name it. What was said the first time is printed either way.
set -u -o pipefail
profile=${PROFILE:-dev}
cargo=${CARGO:-cargo}

# Programs and tests in one build: by themselves, programs would be built of crates with fewer features, and
# these crates once more for the tests.
$cargo build --profile "$profile" --workspace --lib --bins --tests || exit 1

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

# Debian's awk (mawk) else waits until its buffer is full before it shows a line.
live=()
awk -W version </dev/null 2>&1 | grep -q ^mawk && live=(-W interactive)

# A test program that dies (a signal, an abort) prints no result of its own: cargo's line about it counts as a failure.
$cargo test --config "target.'cfg(unix)'.runner='$PWD/tests/runner.sh'" --profile "$profile" --workspace --no-fail-fast "$@" 2>&1 |
  awk "${live[@]}" -v results="$results" '
  { print; fflush() }
  /^ +(Running|Doc-tests) / { result = 0; program = $NF; gsub(/[()]/, "", program) }
  # The texts of what failed, then their names: both lists begin with this line.
  /^failures:$/ { names = 0 }
  /^---- .* ----$/ { told = 15 }
  told > 0 { print > (results "/texts"); told-- }
  /^    [^ ]+$/ { name[names++] = $1 }
  /^test result:/ {
    reported = result = 1
    for (i = 2; i <= NF; i++) {
      if ($i ~ /^passed/) passed += $(i - 1)
      if ($i ~ /^failed/) failed += $(i - 1)
      if ($i ~ /^ignored/) skipped += $(i - 1)
    }
    if (/FAILED/) for (i = 0; i < names; i++) print program, name[i] > (results "/names")
    names = 0
  }
  /process didn.t exit successfully/ && !result { failed++; reported = 1 }
  END { if (reported) print passed + 0, failed + 0, skipped + 0 > (results "/counts") }'
status=${PIPESTATUS[0]}
read -r passed failed skipped 2>/dev/null <"$results/counts" || exit 1
# What stopped cargo was no test.
[ "$status" = 0 ] || [ "$failed" != 0 ] || exit 1

touch "$results/names" "$results/texts"
[ -s "$results/texts" ] && echo && echo "What failed:" && cat "$results/texts"
while read -r program name <&3; do
  case $program in */system-* | */machines-*) ;; *) echo "failed: $name"; continue ;; esac
  program=$(realpath "$program")
  again() { (cd tests && CARGO_MANIFEST_DIR=$PWD timeout --kill-after=10 600 "$program" --exact "$name" --test-threads 1); }
  if again && again && again; then
    echo "failed beside the others, passed three times alone: $name"
    passed=$((passed + 1)) failed=$((failed - 1))
  else
    echo "failed, alone as well: $name"
  fi
done 3<"$results/names"

echo "$passed passed, $failed failed${skipped:+$( ((skipped)) && echo ", $skipped skipped")}"
[ "$failed" = 0 ]
