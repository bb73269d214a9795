#!/bin/bash
# make install: the program, its manual and completions, its unit and a sample configuration.
#   lab/install.sh DESTDIR PREFIX [PROGRAM]
set -eu
destination=$1 prefix=$2
program=${3:-target/release/bifrost}
share=$destination$prefix/share
unit=$destination$prefix/lib/systemd/system
[ "$prefix" != /usr ] || unit=$destination/lib/systemd/system

install -D -m 0755 "$program" "$destination$prefix/sbin/bifrost"
install -d "$unit" "$share/man/man1" "$share/doc/bifrost"
for service in bifrost bifrost-bfd bifrost-dhcp bifrost-system; do
  sed "s|/usr/local/|$prefix/|" "program/bifrost/systemd/$service.service" >"$unit/$service.service"
done
install -m 0644 docs/* "$share/doc/bifrost/"
"$program" man "$share/man/man1" >/dev/null
install -d "$share/man/man5"
mv "$share/man/man1/router.toml.5" "$share/man/man5/"

completions() { # shell, file
  install -d "$(dirname "$share/$2")"
  "$program" completions "$1" >"$share/$2"
}
completions bash bash-completion/completions/bifrost
completions zsh zsh/site-functions/_bifrost
completions fish fish/vendor_completions.d/bifrost.fish

# Wireshark asks the programs of this folder for interfaces.
libraries=$(gcc -print-multiarch 2>/dev/null || true)
extcap=$destination/usr/lib/${libraries:-$(uname -m)-linux-gnu}/wireshark/extcap
install -d "$extcap"
printf '#!/bin/sh\nexec %s/sbin/bifrost extcap "$@"\n' "$prefix" >"$extcap/bifrost"
chmod 0755 "$extcap/bifrost"

# An operator's own file is never touched.
sample=$destination/etc/bifrost/router.toml
[ -e "$sample" ] || install -D -m 0644 docs/router.toml "$sample"

if [ -z "$destination" ] && [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
echo "Installed. Name your ports in $sample, then: systemctl enable --now bifrost"
