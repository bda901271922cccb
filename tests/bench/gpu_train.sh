#!/usr/bin/env bash
# usage: gpu_train.sh OUT STEPS CONFIG[,CONFIG] [KEY=VALUE]…
# Trains a config for so many steps with the server on a device, and again while kill -9 ends each side: the weights of
# both must be the same bits. Then a few steps with the server on the CPU, which must begin with nearly the same losses.
# With a second config two parties train, and nobody is killed. Prints milliseconds per step, and the last line is JSON.
# BIN: folder of splitc and splits (build/release). DEVICE: cuda:0. THREADS: of each daemon (half the CPUs).
set -eu -o pipefail
: "${3:?$(sed -n 2p "$0")}"
out=$(realpath -m "$1") steps=$2
IFS=, read -r -a configs <<<"$3"
shift 3
bin=$(realpath "${BIN:-build/release}") threads=${THREADS:-$((($(nproc) + 1) / 2))}
sets=()
for pair; do sets+=(--set "$pair"); done
unset OPENBLAS_CORETYPE
rm -rf "$out"
mkdir -p "$out"
echo 'limits: {memory_bytes: 16 GiB}' >"$out/server.yaml"
server='' clients=()
cleanup() { kill -9 ${server:+"$server"} ${clients[@]+"${clients[@]}"} 2>/dev/null || true; }
trap cleanup EXIT
die() { echo "gpu_train.sh: $*" >&2; exit 1; }

start_server() { # NAME DEVICE PORT
	"$bin/splits" serve --set listen="tcp://127.0.0.1:$3" --set store="$out/$1-store" --set device="$2" --set threads="$threads" \
		--set control="$out/server.sock" "$out/server.yaml" 2>>"$out/$1-server.log" &
	server=$!
}
serving() { sed -n 's/.*serving: .* on \(tcp:[^,]*\), .*/\1/p' "$out/$1-server.log" | tail -n 1; }
await_server() { # NAME
	until [ -n "$(serving "$1")" ]; do
		kill -0 "$server" 2>/dev/null || die "$(tail -n 2 "$out/$1-server.log")"
		sleep 0.1
	done
	endpoint=$(serving "$1")
}
start_client() { # NAME K
	"$bin/splitc" train "${configs[$2]}" --auto-resume "${sets[@]}" --set server="$endpoint" --set threads="$threads" --set log.dir="$out/$1-$2" \
		--set train.max_steps="$3" --set train.checkpoint_every=100 --set link.on_server_lost=wait --set log.level=warn \
		--set control="$out/client-$2.sock" >>"$out/$1-$2.log" 2>&1 &
	clients[$2]=$!
}
steps_done() { grep -c '^{"type":"step"' "$out/$1-0/log.jsonl" 2>/dev/null || [ -e "$out/$1-0/log.jsonl" ] || echo 0; }
# train NAME DEVICE STEPS [kill]
train() {
	local k name=$1
	start_server "$1" "$2" 0
	await_server "$1"
	for k in "${!configs[@]}"; do start_client "$1" "$k" "$3"; done
	if [ -n "${4:-}" ]; then
		until [ "$(steps_done "$1")" -ge $(($3 / 3)) ]; do kill -0 "${clients[0]}" || die "$(tail -n 2 "$out/$1-0.log")"; sleep 0.05; done
		kill -9 "${clients[0]}"
		wait "${clients[0]}" 2>/dev/null || true
		start_client "$1" 0 "$3"
		until [ "$(steps_done "$1")" -ge $(($3 * 2 / 3)) ]; do kill -0 "${clients[0]}" || die "$(tail -n 2 "$out/$1-0.log")"; sleep 0.05; done
		kill -9 "$server"
		wait "$server" 2>/dev/null || true
		start_server "$1" "$2" "${endpoint##*:}"
	fi
	for k in "${!configs[@]}"; do wait "${clients[$k]}" || die "$name: status $? of client $k: $(tail -n 2 "$out/$name-$k.log")"; done
	kill "$server"
	wait "$server" || true
	server='' clients=()
}
# times NAME: steps, and milliseconds of a step: median, least, most, of those behind the twentieth
times() {
	grep '^{"type":"step"' "$out/$1-0/log.jsonl" | sed 's/.*"t_step_s":\([0-9.e-]*\).*/\1/' | tail -n +21 | sort -g |
		awk '{t[NR] = $1 * 1e3} END {printf "%.2f %.2f %.2f", t[int((NR + 1) / 2)], t[1], t[NR]}'
}
losses() { grep '^{"type":"step"' "$out/$1-$2/log.jsonl" | sed 's/.*"loss":\([^,]*\),.*/\1/' | head -n 5; }
weights() { local k; for k in "${!configs[@]}"; do python3 - "$out/$1-$k/model.safetensors" <<'PY'
import hashlib, struct, sys
data = open(sys.argv[1], "rb").read()
print(hashlib.sha256(data[8 + struct.unpack("<Q", data[:8])[0]:]).hexdigest()[:16])
PY
done; }

same='' last=$((${#configs[@]} - 1))
train device "${DEVICE:-cuda:0}" "$steps"
if [ "$last" = 0 ]; then
	train killed "${DEVICE:-cuda:0}" "$steps" kill
	same=$([ "$(weights device)" = "$(weights killed)" ] && echo true || echo false)
fi
train cpu cpu "${CPU_STEPS:-25}"
read -r median least most <<<"$(times device)"
apart=$(paste <(losses device $last) <(losses cpu $last) | awk 'NF == 2 {n++; d = ($1 - $2) / $2; if (d < 0) d = -d; if (d > m) m = d} END {if (n) print m + 0; else print "null"}')
echo "$median ms a step ($least to $most); with the server on the CPU $(times cpu) ms; first losses apart by $apart${same:+; the same weights behind a kill of each side: $same}"
printf '{"steps":%d,"ms":%s,"least":%s,"most":%s,"first_losses_apart":%s,"same_weights":%s}\n' "$steps" "$median" "$least" "$most" "$apart" "${same:-null}"
[ "$same" != false ] && awk -v a="$apart" 'BEGIN {exit !(a != "null" && a < 0.01)}'
