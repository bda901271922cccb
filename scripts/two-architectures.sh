#!/usr/bin/env bash
# usage: two-architectures.sh        (by test-arm64.sh; ARM_SPLITC, ARM_SPLITS: programs of arm64)
# A client of one architecture trains with a server of the other. Both ways round, and with arm64 on both sides, the
# losses of every step are within 1e-4 of amd64's pair, and every tensor takes as many bytes. Golden files show that
# equal values make equal payloads and frames.
set -eu
cd "$(dirname "$0")/.."
. tests/e2e/lib/daemons.sh
make_data 48 16 # three steps
amd_c=$SPLITC amd_s=$SPLITS
write_config "$tmp/plain.yaml"
# A network and a learning rate at which rounding differences do not grow. With others, even two kernels of OpenBLAS
# differ by more after three steps.
gentle=(--set model.name=resnet9 --set model.width=0.125 --set train.optimizer.lr=0.001 --set train.chunks=2)

# losses NAME: prints the loss of each step.
losses() { jq -r 'select(.type == "step") | .loss' "$tmp/$1/log.jsonl"; }
bytes() { jq -c 'select(.type == "summary") | [.direction[] | [.tensor, .payload_bytes, .wire_bytes]]' "$tmp/$1/log.jsonl"; }
codecs='none f16 quant:8'

# pair NAME CLIENT SERVER: one run NAME-CODEC per codec. A server of arm64 must report NEON.
pair() {
	local codec
	SPLITC=$2 SPLITS=$3
	start_server "$1" "store=$tmp/store-$1"
	[ "$3" != "$ARM_SPLITS" ] || grep -q 'cpu: neon' "$tmp/$1.log" || fail "$1: the server does not compute with NEON"
	for codec in $codecs; do
		client "$1-$codec" "$tmp/plain.yaml" --set server="$endpoint" --set codec="$codec" "${gentle[@]}" || fail "$1 $codec: exit status $?"
	done
}

# close_to NAME: the losses equal those of amd64's pair up to rounding, and the bytes are as many.
close_to() {
	local codec most
	for codec in $codecs; do
		[ "$(steps_of "$1-$codec")" = 3 ] || fail "$1 $codec: $(steps_of "$1-$codec") steps, not 3"
		[ -n "$(bytes "$1-$codec")" ] && [ "$(bytes "$1-$codec")" = "$(bytes "amd-$codec")" ] || fail "$1 $codec: other numbers of bytes on the link"
		most=$(paste <(losses "amd-$codec") <(losses "$1-$codec") | awk '{d = $1 - $2; d = d < 0 ? -d : d; if (d > m) m = d} END {printf "%.2e", m}')
		awk -v m="$most" 'BEGIN {exit !(m <= 1e-4)}' || fail "$1 $codec: losses are off by $most"
		echo "$1, $codec: losses off by $most"
	done
}

pair amd "$amd_c" "$amd_s"
pair arm-client "$ARM_SPLITC" "$amd_s"
close_to arm-client
pair arm-server "$amd_c" "$ARM_SPLITS"
close_to arm-server
pair arm-both "$ARM_SPLITC" "$ARM_SPLITS"
close_to arm-both
echo 'three pairs with arm64: as amd64 trains alone'
