#!/usr/bin/env bash
# A client's clock goes back: the run is resumed twice, in processes whose clock is a day earlier, while the server
# still holds the previous link. The newest link must win all the same.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
clock=$PWD/$BUILD/tests/support/preload/clock_back.so
[ -z "${SAN:-}" ] && [ -f "$clock" ] || { echo "nothing is put before libc in this build"; exit 77; }

make_data 320 16
start_server host
write_config "$tmp/client.yaml"
sets=(--set train.checkpoint_every=5 --set link.timeout_ms=300000 --set link.heartbeat_ms=60000)
client good "$tmp/client.yaml" "${sets[@]}" || fail "undisturbed: status $?"

# goes_dark NAME STEP [argument]…: a client that does five steps and stops after the checkpoint of STEP, with its link
# open.
goes_dark() {
	client_stands 5 "$1" "$tmp/client.yaml" "${sets[@]}" "${@:3}"
	wait_for "$1: no checkpoint" test -f "$tmp/$1/checkpoint-$(printf %012d "$2").safetensors"
	signal STOP "$client_pid"
}
goes_dark first 5
cp -r "$tmp/first" "$tmp/second"
export LD_PRELOAD=$clock SPLIT_CLOCK_BACK_S=86400
goes_dark second 10 --resume
cp -r "$tmp/second" "$tmp/third"
rm "$tmp/third/link-epoch" # what it remembered is lost, too: the server says from where to count
export SPLIT_CLOCK_BACK_S=172800
client third "$tmp/client.yaml" "${sets[@]}" --resume || fail "a process for which it is earlier: status $?"
unset LD_PRELOAD
same_run good third 20
[ "$(grep -c 'replaced by a newer link' "$tmp/host.log")" = 2 ] || fail 'the server did not end both older links'
