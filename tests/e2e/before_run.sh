#!/usr/bin/env bash
# Before a run: --check-config says how many bytes go each way, and these are what the run then moves. With --connect it
# also tries the server: each thing that would stop the run is said with a sentence that says what would be right.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 96 24
start_server host
write_config "$tmp/client.yaml"
"$SPLITC" keygen --out "$tmp/c.key" >"$tmp/c.pub" 2>/dev/null
"$SPLITC" keygen --out "$tmp/other.key" >"$tmp/other.pub" 2>/dev/null
"$SPLITS" keygen --out "$tmp/s.key" >"$tmp/s.pub" 2>/dev/null

# ---- bytes: payloads of dense methods are exact, others at most some percent above; weights are the middle's
# price NAME PERCENT SETTING…
price() {
	local name=$1 percent=$2
	shift 2
	"$SPLITC" train "$tmp/client.yaml" "${@/#/--set=}" --check-config --json >"$tmp/$name.json" 2>"$tmp/$name.log" || fail "$name: --check-config"
	client "$name" "$tmp/client.yaml" "${@/#/--set=}" --json || fail "$name: status $?"
	grep '^{' "$tmp/$name.log" | jq -s --argjson percent "$percent" '.[0] as $said | .[1] as $did |
		def sum(a; b): [$did.directions[] | select(.tensor == a or .tensor == b).payload_bytes] | add;
		def holds(a; b): a >= b and a <= b * (1 + $percent / 100);
		holds($said.link_bytes.run.up - $said.link_bytes.weights.up; sum("head_act"; "mid_grad"))
		and holds($said.link_bytes.run.down - $said.link_bytes.weights.down; sum("mid_act"; "head_grad"))
		and ($did.weights_rx_bytes >= $said.link_bytes.weights.down and $did.weights_rx_bytes < 1.01 * $said.link_bytes.weights.down)
		and $said.steps == $did.steps and ([$said.link_bytes.times[] | .up_s * .mbit_s] | max - min < 1e-6)' \
		"$tmp/$name.json" - | grep -qx true || fail "$name: $(cat "$tmp/$name.json" "$tmp/$name.log")"
}
price none 0 train.epochs=3 train.eval_every=2
price quant 0.1 codec=quant:8 train.batch=24
price topk 10 codec=topk:0.1,ef=true train.max_steps=3 train.schedule.warmup_epochs=0
price zstd 200 'codec=quant:8|zstd:3' data.test_limit=5
"$SPLITC" train "$tmp/client.yaml" --check-config >"$tmp/text" || fail "text"
for line in '^link  *up  *down  at most; headers' '^epoch  *1.[45] MB  *1.4 MB$' '^run  *1.5 MB  *2.4 MB$' '^weights  *0 B  *995.8 kB  of the middle' '^  10 Mbit/s  *1.2 s  *1.9 s' '^1000 Mbit/s  *0.0 s  *0.0 s *$'; do
	grep -qE "$line" "$tmp/text" || fail "the text lacks $line: $(cat "$tmp/text")"
done
tail -n +2 "$tmp/text" >"$tmp/narrow"
fits "$tmp/narrow"

# ---- --connect
# connects NAME STATUS SENTENCE [SETTING]…
connects() {
	local rc=0 name=$1 status=$2 says=$3
	shift 3
	"$SPLITC" train "$tmp/client.yaml" --set log.dir="$tmp/kept" "${@/#/--set=}" --check-config --connect >"$tmp/$name.out" 2>"$tmp/$name.log" || rc=$?
	[ $rc = "$status" ] && grep -qE -- "$says" "$tmp/$name.out" "$tmp/$name.log" || fail "$name: status $rc: $(cat "$tmp/$name.out")"
	[ ! -e "$tmp/kept" ] || fail "$name: the trial keeps something"
}
ls "$tmp/store" >"$tmp/stored"
connects well 0 "^server  *$endpoint answers, round trip [0-9.]+ .*s$"
for line in '^key  *none: no encryption$' '^protocol  *both speak [0-9]+$' '^trial  *a step takes .*s, and the link moves [0-9.]+ MB/s meanwhile;$' "for the run's steps at this pace$"; do
	grep -qE "$line" "$tmp/well.out" || fail "--connect lacks $line: $(cat "$tmp/well.out")"
done
tail -n +2 "$tmp/well.out" >"$tmp/narrow"
fits "$tmp/narrow"
as_before() { ls "$tmp/store" | cmp -s - "$tmp/stored"; }
wait_for "the trial's session stays in the store" as_before
"$SPLITC" train "$tmp/client.yaml" --check-config --connect --json 2>"$tmp/json.log" |
	jq -e '.server | .steps == 3 and .protocol > 12 and .round_trip_s > 0 and .step_s > 0 and .keys == false and .trial.steps == 3' >"$tmp/json.out" || fail "--connect --json: $(cat "$tmp/json.out")"
connects away 69 "no server of Split answers at tcp://127.0.0.1:1 .Connection refused.: is splits running there" server=tcp://127.0.0.1:1
connects keys 77 "does not authenticate: its config has no auth section" auth.secret_key="$tmp/c.key" auth.server_key="$tmp/s.pub"
start_server small store= limits.memory_bytes=1048576
connects memory 76 "trial of 3 steps there ended with status 76" server="$endpoint"
for words in --connect '--connect --local --check-config'; do
	rc=0
	"$SPLITC" train "$tmp/client.yaml" $words >"$tmp/refused.log" 2>&1 || rc=$?
	[ $rc = 64 ] && grep -q -- '--connect goes with a CONFIG and --check-config, without --local' "$tmp/refused.log" || fail "$words: status $rc"
done

# ---- keys, and the groups of a line in the list of clients
echo "$(cat "$tmp/c.pub") a group=g" >"$tmp/clients"
start_server locked store= auth.secret_key="$tmp/s.key" auth.clients="$tmp/clients"
sed -i "s#^server: .*#server: $endpoint#" "$tmp/client.yaml"
mine=(auth.secret_key="$tmp/c.key" auth.server_key="$tmp/s.pub")
group=(share.clients=3 share.member=1)
connects known 0 "^key  *each side knows the other's$" "${mine[@]}"
connects plain 77 'accepts only clients with keys, but this client.s config has no auth section' auth.secret_key=
connects unknown 77 "does not know this client's key, fingerprint" auth.secret_key="$tmp/other.key" auth.server_key="$tmp/s.pub"
connects impostor 77 'cuts the handshake: its key is not .* .auth.server_key.' auth.secret_key="$tmp/c.key" auth.server_key="$tmp/other.pub"
connects member 0 '^group  *this client may train with g$' "${mine[@]}" share.group=g "${group[@]}"
grep -q '^trial  *a step takes' "$tmp/member.out" || fail "a group's member has no trial: $(cat "$tmp/member.out")"
connects outsider 77 "may not align with group h: its line in the server's list of clients needs group=h" "${mine[@]}" share.group=h "${group[@]}"
echo passed
