#!/usr/bin/env bash
# usage: check-hardening.sh FILE…
# Fails where a program or library was linked without what `make` asks for: position-independent code, full RELRO with
# BIND_NOW, no executable stack, stack protectors and checked libc calls (FORTIFY). Needs readelf.
set -eu
[ $# -gt 0 ] || { sed -n 2p "$0" >&2; exit 64; }
bad=0
lacks() { echo "$1: $2" >&2; bad=1; }
for file; do
	head=$(readelf -Wh "$file") dynamic=$(readelf -Wd "$file") segments=$(readelf -Wl "$file") calls=$(readelf -W --dyn-syms "$file")
	grep -q 'Type: *DYN' <<<"$head" || lacks "$file" 'not position-independent (-fPIE -pie)'
	grep -qE 'BIND_NOW|Flags:.* NOW' <<<"$dynamic" || lacks "$file" 'symbols are bound late (-Wl,-z,now)'
	grep -q GNU_RELRO <<<"$segments" || lacks "$file" 'its tables of symbols stay writable (-Wl,-z,relro)'
	grep -qE 'GNU_STACK.* RW ' <<<"$segments" || lacks "$file" 'its stack is executable'
	grep -q ' __stack_chk_fail@' <<<"$calls" || lacks "$file" 'no stack protector (-fstack-protector-strong)'
	grep -qE ' __\w+_chk@' <<<"${calls//__stack_chk_fail/}" || lacks "$file" 'no checked libc calls (-D_FORTIFY_SOURCE=2)'
done
exit $bad
