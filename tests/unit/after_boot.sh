#!/bin/sh
# After_boot: the tests over stores and recordings pass on a machine that has just booted, and on one
# that has been up for a year, where days start at half hours.
#   after_boot.sh PROGRAM...
set -eu
unshare -T true 2>/dev/null || {
	echo "after_boot: needs a time namespace of its own: root, Linux 5.6" >&2
	exit 77
}
just_booted=$(awk '{ print 2 - int($1) }' /proc/uptime)
year=31536000
export TZ=America/St_Johns
for offset in "$just_booted" "$year"; do
	for program; do
		unshare -T --monotonic="$offset" --boottime="$offset" --fork "$program"
	done
done
