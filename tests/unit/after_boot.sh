#!/bin/sh
# After_boot: the tests over stores and recordings pass on a machine that has just booted, too, and
# where days begin at half hours.
#   after_boot.sh PROGRAM...
set -eu
unshare -T true 2>/dev/null || {
	echo "after_boot: needs a time namespace of its own: root, Linux 5.6" >&2
	exit 77
}
offset=$(awk '{ print 2 - int($1) }' /proc/uptime)
export TZ=America/St_Johns
for program; do
	unshare -T --monotonic="$offset" --boottime="$offset" --fork "$program"
done
