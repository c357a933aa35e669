# shellcheck shell=sh
# Settings and small functions shared by the build and VM scripts. Sourced,
# never run: the caller has set "here" to the directory of this file.

SUITE=trixie
# The kernel that is built for: the newest point release of this series in
# backports. Point releases leave the archive, so none is ever named.
KERNEL_SERIES=${KERNEL_SERIES:-7.3}
KERNEL_FLAVOUR=amd64
CACHE=${METAROCE_CACHE:-/var/cache/metaroce}
# shellcheck disable=SC2154
TOP=$(cd "$here/../.." && pwd)

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() { say "$*"; exit 1; }

# need PROGRAM:PACKAGE…: install what the host lacks, or say what to install.
need() {
	missing=
	for pair in "$@"; do
		command -v "${pair%%:*}" >/dev/null 2>&1 ||
			[ -e "${pair%%:*}" ] ||
			missing="$missing ${pair#*:}"
	done
	[ -n "$missing" ] || return 0
	[ "$(id -u)" = 0 ] || die "missing on this machine, install first:$missing"
	say "installing on this machine:$missing"
	# The lists may never have been fetched, or be old: try both ways.
	# shellcheck disable=SC2086
	DEBIAN_FRONTEND=noninteractive apt-get -qq -y \
		--no-install-recommends install $missing >/dev/null 2>&1 || {
		apt-get -qq update
		DEBIAN_FRONTEND=noninteractive apt-get -qq -y \
			--no-install-recommends install $missing >/dev/null
	}
}

# The Debian archive that this machine uses. Nothing here names a mirror.
mirror() {
	apt-get indextargets --format '$(ORIGIN) $(LABEL) $(SITE)' \
		'Created-By: Packages' 2>/dev/null |
	awk '$1 == "Debian" && $2 == "Debian" { print $3; exit }'
}

# sources URI TYPES: the one apt source of the roots.
sources() {
	cat <<EOF
Types: $2
URIs: $1
Suites: $SUITE $SUITE-updates $SUITE-backports
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
EOF
}

# This machine's apt settings for reaching and trusting the archive: proxies,
# and leniency towards mirrors that lag.
apt_options() {
	apt-config dump | grep -E \
		'^Acquire::(https?::|Check-Valid-Until|Check-Date|Retries)' || :
	echo 'Acquire::Languages "none";'
}

# The build root's name holds a hash of what it is made from, so another
# package list or recipe makes another root and an old one is never patched.
build_key() {
	cat "$TOP/tools/build/packages.list" "$TOP/tools/build/prepare" \
		"$TOP/tools/build/prepare-kernel" |
	{ cat; echo "$SUITE $KERNEL_SERIES"; } | sha256sum | cut -c1-12
}

# Paths inside the build root. They never change, the kernel's output
# directory holds them as absolute names.
K_SRC=/usr/src/metaroce/linux
K_OUT=/usr/src/metaroce/linux-build
RDMA_SRC=/usr/src/metaroce/rdma-core
