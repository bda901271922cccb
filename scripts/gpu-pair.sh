#!/usr/bin/env bash
# shellcheck disable=SC2046,SC1091,SC2034
# usage: gpu-pair.sh DATA WEIGHTS OUT [EPOCHS]
# The published setting on one host with a GPU: splitc on its CPUs, splits on its GPU. DATA: CIFAR-10's binary files.
# WEIGHTS: an ImageNet backbone in safetensors. OUT gets timing.jsonl (a row per codec and chunk count) and, with EPOCHS
# > 0, the fine-tuning run over the whole training set. BIN: folder of splitc and splits (default build/release). CODECS
# and CHUNKS: the settings to time. DEVICE: default cuda:0. STEPS: timed steps per row. FINETUNE_CODECS and SCHEDULE: of
# the fine-tuning runs. LIMIT_S: after this many seconds a fine-tuning run ends with its current step.
# LINK_MB_S: both directions are limited to so many MB/s, between two network namespaces (root, ip and tc).
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
: "${3:?usage: gpu-pair.sh DATA WEIGHTS OUT [EPOCHS]}"
data=$1 weights=$2 out=$3 epochs=${4:-0}
bin=${BIN:-$here/build/release}
device=${DEVICE:-cuda:0} steps=${STEPS:-12}
threads=$((($(nproc) + 1) / 2))
mkdir -p "$out"
unset OPENBLAS_CORETYPE
listen=127.0.0.1 on_server=() on_client=() server=
cleanup() {
	kill $server 2>/dev/null || true
	wait 2>/dev/null || true
	[ -z "${LINK_MB_S:-}" ] || namespaces_remove
}
trap cleanup EXIT
if [ -n "${LINK_MB_S:-}" ]; then
	ns=pair$$ listen=127.1.0.2 on_server=(ip netns exec "pair$$s") on_client=(ip netns exec "pair$$c")
	. "$here/tests/bench/namespaces.sh"
	namespaces_make
	shape "$LINK_MB_S"
fi

cat >"$out/server.yaml" <<YAML
listen: tcp://$listen:0
store: $out/store
device: $device
threads: $threads
limits: {memory_bytes: 64 GiB}
control: $out/splits.sock
YAML
: >"$out/server.log" # read below before splits may have opened it
"${on_server[@]}" "$bin/splits" serve "$out/server.yaml" 2>"$out/server.log" &
server=$!
for _ in $(seq 300); do
	endpoint=$(sed -n 's/.*serving: .* on \(tcp:[^,]*\), .*/\1/p' "$out/server.log")
	if [ -n "$endpoint" ] || ! kill -0 "$server" 2>/dev/null; then break; fi
	sleep 0.2
done
[ -n "$endpoint" ] || { cat "$out/server.log"; exit 69; }
grep serving "$out/server.log"

train() { # NAME, then --set pairs
	local name=$1
	shift
	"${on_client[@]}" timeout --foreground -s INT "${limit:-600}" "$bin/splitc" train "$here/configs/client-finetune224.yaml" --fresh --json --set "server=$endpoint" --set "data.dir=$data" \
		--set "model.weights=$weights" --set "threads=$threads" --set "log.dir=$out/$name" \
		--set "control=$out/splitc.sock" --set log.level=warn "$@" 2>"$out/$name.log" || { tail -n 3 "$out/$name.log"; touch "$out/failed"; return 1; }
}

codec_sets() { # CODEC → --set pairs; lowrank:3,7 is rank 3 at the head's cut and 7 at the tail's
	case $1 in
	lowrank:3,7) echo "--set codec.head_act=lowrank:3 --set codec.head_grad=lowrank:3 --set codec.mid_act=lowrank:7 --set codec.mid_grad=lowrank:7" ;;
	conv-insert) echo "--set insert.head=conv:20,k=4,s=4 --set insert.tail=conv:320" ;; # the published rate 0.070
	*) echo "--set codec=$1" ;;
	esac
}

: >"$out/timing.jsonl"
rm -f "$out/failed"
for codec in ${CODECS-none f16 quant:8 sortquant:6+2 topk:0.1 lowrank:3,7 conv-insert}; do
	for chunks in ${CHUNKS-1 4 8}; do
		row=$(train "row" $(codec_sets "$codec") --set "train.chunks=$chunks" --set "train.max_steps=$steps" \
			--set data.train_limit=2000 --set data.test_limit=64) || continue
		hash=$(sha256sum <"$out/row/model.safetensors" | cut -c 1-16)
		echo "{\"codec\":\"$codec\",\"chunks\":$chunks,\"weights\":\"$hash\",\"result\":$row,\"steps\":[$(grep '"type":"step"' "$out/row/log.jsonl" | paste -sd,)]}" \
			>>"$out/timing.jsonl"
		echo "$codec, $chunks chunks: done, weights $hash"
	done
done
if [ "$epochs" -gt 0 ]; then
	for codec in ${FINETUNE_CODECS-quant:8}; do
		limit=${LIMIT_S:-36000}
		name=finetune-$(echo "$codec" | tr -c 'a-z0-9\n' -)
		if train "$name" $(codec_sets "$codec") --set train.chunks=8 --set train.max_steps=0 --set "train.epochs=$epochs" \
			--set data.train_files= --set data.test_limit=0 --set train.schedule.kind="${SCHEDULE:-constant}" >"$out/$name.json"; then
			echo "fine-tuning, $codec: $(cat "$out/$name.json")"
		fi
		grep '"type":"epoch"' "$out/$name/log.jsonl" || true
		cp "$out/$name/log.jsonl" "$out/$name.jsonl"
	done
fi
[ ! -e "$out/failed" ]
