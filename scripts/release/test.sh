#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Installs the release in target/dist on a machine without Rust: a chroot with Debian 12 and Python. Uses the tarball, the wheel and the Debian
# packages as an ordinary user without network, upgrades older packages, and removes them. Needs root, mmdebstrap, iproute2 and a C compiler.
#
#   scripts/release/test.sh [OLDER]     folder with Debian packages of an earlier commit [default: these binaries with version 0.0.1]
set -euo pipefail
cd "$(dirname "$0")/../.."

dist=target/dist work=target/release-test
root=$work/root
say() { printf 'release-test: %s\n' "$*" >&2; }

# Runs a script in the chroot as the user with ID $1, in namespaces without network.
in_chroot() {
    unshare --mount --pid --net --fork -- sh -ec 'mount -t proc proc "$0/proc"; ip link set lo up; exec chroot --userspec="$1:$1" "$0" \
        env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME="$2" sh -ec "$3"' "$root" "$@"
}
as_root() { in_chroot 0 /root "$1"; }
as_user() { in_chroot 1000 /home/user "$1"; }

if [ ! -f "$work/made" ]; then
    say "making a chroot with Debian 12"
    rm -rf "$work"
    mkdir -p "$work"
    mmdebstrap --quiet --variant=apt --include=python3-venv,libc6-dev bookworm "$root"
    touch "$work/made"
fi
rm -rf "$root/dist" "$root/older" "$root/home/user"
mkdir -p "$root/dist" "$root/older" "$root/home/user"
cp "$dist"/* scripts/release/check-installed.sh "$root/dist/"
chown -R 1000:1000 "$root/home/user"

say "checksums"
(cd "$dist" && sha256sum --check --quiet SHA256SUMS)

say "tarball"
as_user 'mkdir ~/.local
    cd /dist
    tar xzf riser-*-linux.tar.gz -C ~/.local --strip-components=1
    /dist/check-installed.sh ~/.local/bin/riser ~/.local/share/doc/riser/examples/labs'

say "wheel"
as_user 'python3 -m venv ~/venv
    . ~/venv/bin/activate
    cd /dist
    pip install riser-*.whl >~/pip.log
    labs=$VIRTUAL_ENV/share/doc/riser/examples/labs
    /dist/check-installed.sh ~/venv/bin/riser $labs
    [ -s $VIRTUAL_ENV/share/man/man1/riser.1 ] || { echo "the wheel has no manual page" >&2; exit 1; }
    python -c "import riser; riser.Lab.from_toml(\"$labs/ping.toml\").run()"
    tar tzf riser-*-linux.tar.gz | sed -n "s|^[^/]*/\(.*[^/]\)\$|\1|p" | (cd ~/.local && xargs rm)
    left=$(find ~/.local ! -type d)
    [ -z "$left" ] || { echo "left over: $left" >&2; exit 1; }'

say "Debian packages over older ones"
older=${1:-$work/older}
if [ $# = 0 ]; then
    rm -rf "$older"
    scripts/release/package.py --built target/release-built --out "$older" --version 0.0.1 --quick
fi
cp "$older"/*.deb "$root/older/"
as_root 'dpkg --purge riser libtlp-dev libtlp0 >/dev/null 2>&1
    dpkg --install /older/*.deb >/dev/null
    touch /usr/share/doc/riser/of-the-user
    cd /dist
    apt install ./riser_*.deb ./libtlp*.deb >/root/apt.log 2>&1
    [ -e /usr/share/doc/riser/of-the-user ]
    rm /usr/share/doc/riser/of-the-user'
version=$(dpkg-deb --field "$dist"/riser_*.deb Version)
[ "$(as_root 'dpkg-query --show --showformat "\${Version}" riser')" = "$version" ]
as_user '/dist/check-installed.sh riser /usr/share/doc/riser/examples/labs
    for file in man/man1/riser.1.gz man/man1/riser-run.1.gz bash-completion/completions/riser doc/riser/copyright; do
        [ -s /usr/share/$file ] || { echo "$file is missing" >&2; exit 1; }
    done'

say "C programs with the installed headers and libraries"
usr=$root/usr
for example in dma_read dma_write; do
    cc -std=gnu99 -o "$root/dist/$example" "crates/libtlp/examples/$example.c" -I "$usr/include" -L "$usr/lib" -ltlp
done
cc -shared -fPIC -o "$root/dist/scrambler.so" crates/native/examples/scrambler.c -I "$usr/include"
cp crates/native/examples/scrambler.toml "$root/dist/"
as_user 'riser nettlp adapter --memory zero:256M --listen 127.0.0.1 --allow 127.0.0.2,all,rw >~/adapter.log 2>&1 &
    for try in 1 2 3 4 5 6 7 8 9 10; do
        /dist/dma_write -r 127.0.0.1 -l 127.0.0.2 -a 0x1000 -d text >~/write.log 2>&1 && break
        sleep 0.5
    done
    read=$(/dist/dma_read -r 127.0.0.1 -l 127.0.0.2 -a 0x1000 -s 4)
    [ "$read" = "74 65 78 74" ] || { echo "dma_read: expected the bytes of \"text\", not \"$read\"; $(cat ~/adapter.log ~/write.log)" >&2; exit 1; }
    riser run /dist/scrambler.toml --allow-native >~/scrambler.log'

say "removal"
as_root 'dpkg --purge riser libtlp-dev libtlp0 >/dev/null
    left=$(find /usr /etc /var/lib -path "*riser*" -o -name "*libtlp*")
    [ -z "$left" ] || { echo "left over: $left" >&2; exit 1; }'
say "all passed"
