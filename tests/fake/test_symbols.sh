#!/bin/sh
# Test symbols: looks at the built simulated libcuda as a uprobe sees it.
#   test_symbols.sh LIBRARY SECOND_COPY ABI_FOLDER
# Every row of api.def is exported and nothing else is; no two functions share an address; each
# starts with "push %rbp"; none is called from inside; the two copies have different build ids.
set -eu
library=$1 second=$2 abi=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	echo "test_symbols: $1" >&2
	[ $# -lt 2 ] || head -20 "$2" >&2
	exit 1
}

sed -nE 's/^([FSD])\([0-9]+, (cu[A-Za-z0-9_]+),.*/\1 \2/p' "$abi"/api_*.def |
while read -r kind name; do
	echo "$name"
	case $kind in
	S) echo "${name}_ptsz" ;;
	D) echo "${name}_ptds" ;;
	esac
done | sort >"$work/wanted"
[ "$(wc -l <"$work/wanted")" -gt 200 ] || fail "found too few rows in $abi" "$work/wanted"

nm -D --defined-only "$library" | awk '{ print $3 }' | sort >"$work/exported"
diff "$work/wanted" "$work/exported" >"$work/diff" ||
	fail "exports differ from api.def" "$work/diff"

nm -D --defined-only "$library" | awk '{ print $1 }' | sort | uniq -d >"$work/shared"
[ ! -s "$work/shared" ] || fail "exported functions share addresses" "$work/shared"

objdump -d --no-show-raw-insn "$library" >"$work/code"
awk '
	/^[0-9a-f]+ <cu[A-Za-z0-9_]+>:$/ { name = $2; next }
	name {
		seen++
		if ($2 != "push" || $3 != "%rbp")
			print name, $0
		name = ""
	}
	END { if (seen < 200) print "only", seen, "functions seen" }
' "$work/code" >"$work/prologues"
[ ! -s "$work/prologues" ] || fail "functions that do not begin with push %rbp" "$work/prologues"

grep -E '(call|jmp)[a-z]* .*<cu[A-Z][A-Za-z0-9_]*(@plt)?>' "$work/code" >"$work/calls" || true
[ ! -s "$work/calls" ] || fail "exported functions called from inside" "$work/calls"

readelf -d "$library" | grep -q 'SONAME.*\[libcuda.so.1\]' || fail "SONAME is not libcuda.so.1"

build_id() {
	readelf -n "$1" | awk '/Build ID/ { print $3 }'
}
[ -n "$(build_id "$library")" ] || fail "no build id"
[ "$(build_id "$library")" != "$(build_id "$second")" ] || fail "both copies have one build id"
echo "$(wc -l <"$work/exported") functions are as they should be"
