#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Usage: bindgen.sh BINDGEN SOURCES OUTPUT FLAG-OF-CLANG…
# The parameters are quoted for a shell.
set -eu
# shellcheck disable=SC2034
bindgen=$1 src=$2 out=$3
shift 3
eval "\"\$bindgen\" \"\$src/bindings.h\" $(grep -v '^#' "$src/bindgen_parameters" | tr '\n' ' ') \
	-o \"\$out\" -- \"\$@\""
