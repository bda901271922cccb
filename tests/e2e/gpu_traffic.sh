#!/usr/bin/env bash
# The count of the bytes that the GPU's codecs read and write (make cuda-sim-traffic): right for a codec of known
# traffic, and not above fixed bounds for codecs that search a tensor.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
tool=$BUILD/cuda-sim-race/gpu_traffic
[ -x "$tool" ] || { echo "no counts in a build with sanitizers"; exit 77; }

count() { "$tool" --json --samples 2 "$1" | jq -r "select(.way == \"$2\") | $3" || fail "$1: no count"; }
# 802816 elements: 3.2113 MB in fp32, 1.6056 MB in 16 bits; every warp accesses whole sectors.
[ "$(count f16 encode '"\(.launches) \(.read_mb) \(.written_mb) \(.asked * 100 | round)"')" = '1 3.2113 1.6057 100' ] ||
	fail "f16 encodes by $(count f16 encode .)"
[ "$(count f16 decode '"\(.launches) \(.read_mb) \(.written_mb) \(.asked * 100 | round)"')" = '1 1.6056 3.2113 100' ] ||
	fail "f16 decodes by $(count f16 decode .)"
# Traffic in multiples of the tensor's size: the samples of topk and sortquant weigh little on large tensors.
at_most() { [ "$(count "$1" "$2" ".traffic <= $3")" = true ] || fail "$1, $2: $(count "$1" "$2" .traffic) copies, at most $3"; }
at_most quant:8 encode 1.13
at_most topk:0.1 encode 1.3
at_most topk:0.1 decode 0.65
at_most sortquant:6+2 encode 1.3
