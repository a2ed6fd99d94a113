#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR MIT
# Checks the drivers as kernel developers do: checkpatch.pl --strict, sparse and all warnings, for both kernels of riser's guests.
# RISER is the riser command. CHECKPATCH is the kernel's scripts/checkpatch.pl; by default it is fetched with Debian's linux-source-6.12 (150
# MB).
set -eu

here=$(cd "$(dirname "$0")" && pwd)
riser=${RISER:-riser}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/riser-checkpatch

if [ -z "${CHECKPATCH:-}" ]; then
	CHECKPATCH=$cache/scripts/checkpatch.pl
	if [ ! -f "$CHECKPATCH" ]; then
		mkdir -p "$cache"
		(
			cd "$cache"
			apt-get download linux-source-6.12 || apt-get download linux-source-6.1
			dpkg-deb --fsys-tarfile linux-source-*.deb | tar -xO --wildcards '*.tar.xz' |
				tar -xJ --strip-components=1 --wildcards '*/scripts/checkpatch.pl' '*/scripts/spelling.txt' '*/scripts/const_structs.checkpatch'
			rm linux-source-*.deb
		)
	fi
fi

# Checks the driver in a folder.
check() {
	cd "$1"
	# Skip files of a build in this folder.
	sources=$(find . -maxdepth 1 -name '*.[ch]' ! -name '*.mod.c')
	# shellcheck disable=SC2046,SC2086 # names without spaces
	perl "$CHECKPATCH" --no-tree --strict --quiet -f $sources Kbuild $(find . -maxdepth 1 -name Makefile)

	for kernel in 6.1 6.12; do
		folder=$(mktemp -d)
		# shellcheck disable=SC2086
		cp $sources Kbuild "$folder"
		# W=1: more warnings; C=2: sparse for all files. Both print to standard error, where only make's own lines are
		# allowed.
		"$riser" guest build "$folder" --kernel "$kernel" -- W=1 C=2 2>"$folder/said" >/dev/null || { cat "$folder/said"; exit 1; }
		if grep -E 'warning|error' "$folder/said"; then
			echo "check.sh: errors above, in $1 under Linux $kernel" >&2
			exit 1
		fi
		grep -q CHECK "$folder/said" || { echo "check.sh: sparse did not run" >&2; exit 1; }
		rm -r "$folder"
	done
}

check "$here"
check "$here/nic"
check "$here/bench"
echo "checkpatch, sparse and warnings: no errors"
