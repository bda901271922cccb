#!/usr/bin/env bash
# The times in a summary are right for known work: kernels that sleep (failpoints). An evaluation, however heavy, is not
# counted in a batch's time. After --resume, the time per batch and the shares of client and server are still those of
# all steps.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
SPLITC=$PWD/$BUILD/fail/splitc SPLITS=$PWD/$BUILD/fail/splits
port=$(free_port)

# serve NAME FAILPOINTS: starts a server at $port; sets $server_pid.
serve() { SPLIT_FAILPOINTS=$2 start_server "$1" listen="tcp://127.0.0.1:$port" log.level=info; }

# run NAME FAILPOINTS STATUS [argument]…: a run whose summary goes to $tmp/NAME.json.
run() {
	local rc=0
	SPLIT_FAILPOINTS=$2 timeout -k 5 $patience "$SPLITC" train "$tmp/c.yaml" --set log.dir="$tmp/run" --set control="$tmp/c.sock" --json \
		"${@:4}" >"$tmp/$1.json" 2>"$tmp/$1.log" || rc=$?
	[ $rc = "$3" ] || fail "$1: exit status $rc, not $3"
}
# is NAME FIGURE LEAST MOST: the figure of that summary is within the bounds.
is() {
	jq -e --argjson least "$3" --argjson most "$4" ".$2 >= \$least and .$2 <= \$most" "$tmp/$1.json" >/dev/null ||
		fail "$1: $2 is $(jq ".$2" "$tmp/$1.json"), not between $3 and $4"
}

make_data 32 16
write_config "$tmp/c.yaml"
sed -i "s|^server: .*|server: tcp://127.0.0.1:$port|; s/epochs: 1/epochs: 3\\n  eval_every: 1/" "$tmp/c.yaml"

# ---- 6 steps of 0.1 s on the client and 0.2 s on the server, three evaluations of 2 s: counting two of them would give 0.87 s
serve heavy server.apply=delay:200@1+,server.eval=delay:500@1+
run heavy client.apply=delay:100@1+ 0 --set link.timeout_ms=20000
is heavy t_compute_server_per_batch_s 0.2 0.6
is heavy t_compute_client_per_batch_s 0.1 0.8
is heavy t_per_batch_s 0.3 3
jq -e '(.t_compute_client_per_batch_s + .t_compute_server_per_batch_s - .t_compute_per_batch_s) | . < 1e-9 and . > -1e-9' "$tmp/heavy.json" >/dev/null ||
	fail "the computation is not the sum of its parts"
# Bytes sent for steps: of head_act two thirds, because 96 of 144 images were trained.
jq -e '((.directions[0].wire_bytes * 2 / 3 + .directions[2].wire_bytes) / 1e6) as $mb | .avg_mb_s * .t_compute_per_batch_s * .steps / $mb
	| . > 0.95 and . < 1.05' "$tmp/heavy.json" >/dev/null || fail "avg_mb_s is not what was sent for a step over its computation: $(cat "$tmp/heavy.json")"
signal TERM "$server_pid"
ends_with "$server_pid" 0 60 "the first server"

# ---- four slow steps, and after --resume two fast ones on another server: the means are of all six
serve slow server.apply=delay:600@1+
run slow client.begin=term@4 75 --fresh
is slow t_compute_server_per_batch_s 0.6 1.5
is slow steps 4 4
signal TERM "$server_pid"
ends_with "$server_pid" 0 60 "the slow server"
serve fast ""
run resumed "" 0 --resume
is resumed steps 6 6
is resumed t_compute_server_per_batch_s 0.4 1.3
is resumed t_per_batch_s 0.4 3
jq -e '.t_per_batch_s >= .t_compute_per_batch_s' "$tmp/resumed.json" >/dev/null || fail "the shares are more than the whole: $(cat "$tmp/resumed.json")"
echo "an evaluation is no part of a batch, before and after --resume"
