#!/usr/bin/env bash
# usage: reproduce.sh [--list | --write] [ROW]…
# Trains rows of published accuracy tables, split between two daemons on this host, and writes the results to
# RESULTS.md, .jsonl and a picture per table. ROW is TABLE/NAME or TABLE of configs/reproduce/rows; the default is all
# rows. An interrupted row is resumed, and a finished one is not trained again. A daemon that dies is restarted.
#   --list    state of each row, what it took so far, and hours that it still needs; trains nothing
#   --write   write RESULTS anew from the runs in OUT, also of those that go on; trains nothing
# Environment: DATA, the binary files of CIFAR-10 (data/cifar-10-batches-bin); WEIGHTS, an ImageNet backbone
# (data/mobilenet_v2_imagenet_backbone.safetensors); OUT, a folder per row (runs/reproduce); RESULTS
# (docs/results/reproduction); ROWS, the table; DEVICE of the server (auto); THREADS of each daemon (0: all CPUs); BUILD.
set -eu -o pipefail
mode=train
case ${1:-} in
--list | --write) mode=${1#--}; shift ;;
-*) sed -n 2p "$0"; exit 64 ;;
esac
caller=$PWD
cd "$(dirname "$0")/.."
build=$(realpath "${BUILD:-build/release}")
path() { (cd "$caller" && realpath -m "$1"); }
here=$PWD
data=$(path "${DATA:-$here/data/cifar-10-batches-bin}")
weights=$(path "${WEIGHTS:-$here/data/mobilenet_v2_imagenet_backbone.safetensors}")
out=$(path "${OUT:-$here/runs/reproduce}")
results=$(path "${RESULTS:-$here/docs/results/reproduction}")
table=$(path "${ROWS:-$here/configs/reproduce/rows}")
unset OPENBLAS_CORETYPE
tmp=$(mktemp -d)
server='' clients=()

die() { echo "reproduce.sh: $*" >&2; exit 1; }

# The clients end first: without their server they would wait for it.
end_daemons() {
	local pid
	for pid in ${clients[@]+"${clients[@]}"} $server; do
		if kill "$pid" 2>/dev/null; then wait "$pid" 2>/dev/null || true; fi
	done
	server='' clients=()
}
trap 'end_daemons; rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM HUP

# Prints all rows, a line each: TABLE/NAME, ACCURACY, CONFIG, KEY=VALUE… A table with seeds=A,B,… has a row NAME.A,
# NAME.B, … for each of its rows.
all_rows() {
	awk '/^#/ || !NF {next}
		$1 == "table" {
			table = $2; config = $3; n = 0; $1 = $2 = $3 = ""
			if (match($0, / seeds=[0-9,]+/)) {
				n = split(substr($0, RSTART + 7, RLENGTH - 7), seed, ",")
				$0 = substr($0, 1, RSTART - 1) substr($0, RSTART + RLENGTH)
			}
			common = $0; next
		}
		{id = table "/" $1; published = $2; $1 = $2 = ""; if (!n) print id, published, config, common, $0}
		{for (i = 1; i <= n; i++) print id "." seed[i], published, config, common, "train.seed=" seed[i], $0}' "$table"
}

table_names() { awk '$1 == "table" {print $2}' "$table"; }

# chosen [ROW]…: prints the lines of these rows, or of all.
chosen() {
	local word found
	all_rows >"$tmp/all"
	[ $# -gt 0 ] || cat "$tmp/all"
	for word; do
		found=$(awk -v w="$word" '$1 == w || index($1, w "/") == 1' "$tmp/all")
		[ -n "$found" ] || die "no row or table '$word' in $table"
		echo "$found"
	done
}

# take_row LINE: sets $id, $published, $config, $dir, $members, and the row's keys: as $words, and as options of splitc
# in $set.
take_row() {
	local word key value
	read -r id published config words <<<"$1"
	dir=$out/$id set=() members=1
	[ "${config#/}" != "$config" ] || config=$here/$config
	for word in "data.dir=$data" "log.level=info" link.on_server_lost=wait ${THREADS:+"threads=$THREADS"} $words; do
		key=${word%%=*} value=${word#*=} value=${value//\~/ }
		case $value in *@*) value=$(echo "$value" | sed -E "s:@([^,]*):$out/\1/run/model.safetensors:g") ;; esac
		[ "$key" != share.clients ] || members=$value
		set+=(--set "$key=$value")
	done
	case " $words" in *' model.weights='*) set+=(--set model.partial=true) ;; *)
		! grep -q '^  weights:' "$config" || set+=(--set "model.weights=$weights") ;;
	esac
}

run_dir() { [ "$members" = 1 ] && echo "$dir/run" || echo "$dir/run-$1"; } # MEMBER
log() { echo "$(run_dir 0)/log.jsonl"; }
is_done() { [ -f "$(log)" ] && tail -n 1 "$(log)" | grep -q '"type":"summary","outcome":"finished"'; }
alive() { [ -n "$1" ] && kill -0 "$1" 2>/dev/null; }
steps_done() { if [ -f "$(log)" ]; then grep -o '^{"type":"step","step":[0-9]*' "$(log)" | tail -n 1 | grep -o '[0-9]*$' || echo 0; else echo 0; fi; }
steps_all() { cat "$dir/steps" 2>/dev/null || echo 0; }
take_cost() { wall=0 cpu=0; [ ! -f "$dir/cost" ] || read -r wall cpu <"$dir/cost"; } # seconds so far: $wall and $cpu

# Saves what the row has cost so far. The main loop calls it each second, so a kill loses at most one second.
keep_cost() {
	local pid
	for pid in $server ${clients[@]+${clients[@]}}; do # user and system time of each that was ever started
		used[pid]=$(awk '{sub(/.*\) /, ""); print $12 + $13}' "/proc/$pid/stat" 2>/dev/null || echo "${used[pid]:-0}")
	done
	echo $((wall_before + SECONDS)) "$cpu_before ${used[*]}" | awk -v hz="$(getconf CLK_TCK)" '
		{for (i = 3; i <= NF; i++) s += $i; printf "%d %.2f\n", $1, $2 + s / hz}' >"$dir/cost.part"
	mv "$dir/cost.part" "$dir/cost"
}

# The kernel kills the daemons if this script is killed, so that no row trains unattended.
start_server() {
	setpriv --pdeathsig KILL "$build/splits" serve "$here/configs/server.yaml" --set "listen=tcp://127.0.0.1:$port" \
		--set store="$dir/store" --set device="${DEVICE:-auto}" --set threads="${THREADS:-0}" --set control="$tmp/server.sock" 2>>"$dir/server.log" 9>&- &
	server=$!
}

start_client() { # MEMBER
	local run member=()
	run=$(run_dir "$1")
	[ "$members" = 1 ] || member=(--set "share.member=$1")
	[ "$1" = 0 ] || member+=(--set train.eval_every=0) # the row is member 0's curve
	setpriv --pdeathsig KILL "$build/splitc" train "$config" --auto-resume "${set[@]}" "${member[@]}" --set log.dir="$run" \
		--set control="$tmp/client-$1.sock" --set server="tcp://127.0.0.1:$port" >>"$dir/client-$1.log" 2>&1 9>&- &
	clients[$1]=$!
}

# client_ended MEMBER: restarts a client that was killed or lost its server, as long as the run makes progress.
client_ended() {
	local rc=0 steps
	wait "${clients[$1]}" || rc=$?
	[ $rc != 0 ] || { clients[$1]='' ended=$((ended + 1)); return; }
	[ $rc -gt 128 ] || [ $rc = 69 ] || [ $rc = 75 ] || die "$id: splitc ended with status $rc: $(tail -n 1 "$dir/client-$1.log")"
	steps=$(steps_done)
	[ "$steps" -gt "$steps_before" ] && idle=0 || idle=$((idle + 1))
	[ $idle -lt 20 ] || die "$id: splitc was started 20 times without a new step; see $dir"
	steps_before=$steps
	note_start "client ended with status $rc behind step $steps"
	start_client "$1"
}

note_start() { echo "$(date -Is) $*" >>"$dir/starts.log"; }

train() {
	local k ended=0 idle=0 steps_before port rc cpu_before wall_before used=()
	! is_done || { echo "$id is done"; return; }
	mkdir -p "$dir"
	exec 9>"$dir/lock"
	flock -w 10 9 || die "$id is being trained: another process holds $dir/lock"
	"$build/splitc" train "$config" "${set[@]}" --check-config >"$tmp/check" 2>&1 || die "$id: $(tail -n 1 "$tmp/check")"
	grep -o '[0-9]* steps on' "$tmp/check" | grep -o '[0-9]*' >"$dir/steps"
	take_cost
	SECONDS=0 wall_before=$wall cpu_before=$cpu steps_before=$(steps_done) clients=()
	while port=$(shuf -i 15000-31999 -n 1); do (: >"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break; done
	note_start "begins behind step $steps_before"
	echo "$id: $steps_before of $(steps_all) steps are done; messages are in $dir"
	start_server
	for ((k = 0; k < members; k++)); do start_client $k; done
	while [ $ended -lt "$members" ]; do
		sleep 1 9>&-
		if ! alive "$server"; then
			rc=0
			wait "$server" || rc=$?
			[ $rc -gt 128 ] || die "$id: splits ended with status $rc: $(tail -n 1 "$dir/server.log")"
			note_start "server ended with status $rc"
			start_server
		fi
		for ((k = 0; k < members; k++)); do
			[ -z "${clients[k]}" ] || alive "${clients[k]}" || client_ended $k
		done
		keep_cost
	done
	end_daemons
	is_done || die "$id: splitc ended, and its log has no summary of a finished run: $(log)"
	sed -n 's/.* serving: .*, \(cpu: .*\|cuda.*\)$/\1/p' "$dir/server.log" | tail -n 1 >"$dir/device"
	exec 9>&-
}

hours() { awk "BEGIN {printf \"%.2f\", ($1) / 3600}"; }

# seconds_a_step: measured in this row so far; else taken from RESULTS (this row, or its table; maybe of another
# machine); else 0.
seconds_a_step() {
	[ "$wall" = 0 ] || [ "$steps" = 0 ] || { awk "BEGIN {print $wall / $steps}"; return; }
	[ -f "$results.jsonl" ] || { echo 0; return; }
	jq -rs --arg row "$id" '(map(select(.row == $row)) + map(select(.row / "/" | .[0] == ($row / "/" | .[0])))) as $like |
		[$like[] | select(.steps > 0)][0] // {wall_s: 0, steps: 1} | .wall_s / .steps' "$results.jsonl"
}

list() {
	local line steps total rate left state
	printf '%-28s %9s %-22s %8s %8s %8s\n' row published state 'wall h' 'CPU h' 'h left'
	while read -r line; do
		take_row "$line"
		steps=$(steps_done) total=$(steps_all) left='?' state='not begun'
		take_cost
		[ "$total" != 0 ] || total=$("$build/splitc" train "$config" "${set[@]}" --set insert.head= --set insert.tail= \
			--set model.insert_weights= --set train.freeze= --check-config 2>/dev/null | grep -o '[0-9]* steps on' | grep -o '[0-9]*' || echo 0)
		rate=$(seconds_a_step)
		if is_done; then
			state=$(jq -r 'select(.type == "summary") | "done: \(.test_acc | if . then "\(10000 * . | round / 100) %" else "a part" end)"' "$(log)" | tail -n 1) left=0
		elif [ "$steps" != 0 ]; then
			state="step $steps of $total"
			flock -n "$dir/lock" true 2>/dev/null || state+=', runs'
		fi
		[ "$left" = 0 ] || [ "$rate" = 0 ] || [ "$total" = 0 ] || left=$(hours "$rate * ($total - $steps)")
		printf '%-28s %9s %-22s %8s %8s %8s\n' "$id" "$published" "$state" "$(hours "$wall")" "$(hours "$cpu")" "$left"
	done
}

# record: prints one line of JSON for a row that has begun.
record() {
	take_cost
	jq -sc --arg row "$id" --arg published "$published" --arg config "${config#"$here/"}" --arg words "$words" \
		--arg device "$(cat "$dir/device" 2>/dev/null || true)" --arg cpu "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" \
		--argjson steps_all "$(steps_all)" --argjson wall "$wall" --argjson used "$cpu" \
		--argjson starts "$(wc -l <"$dir/starts.log")" --arg date "$(date -r "$(log)" +%F)" '
		[.[] | select(.type == "epoch")] as $e | ([.[] | select(.type == "summary")] | last) as $s |
		{row: $row, command: "scripts/reproduce.sh \($row)", published: ($published | tonumber? // null), outcome: ($s.outcome // "unfinished"), config: $config,
			set: ($words | [splits(" +")] | map(select(. != ""))), date: $date, device: $device, cpu: $cpu,
			steps: ([.[] | select(.type == "step") | .step] | max // 0), steps_all: ($s.steps // $steps_all), epochs: ($e | length),
			test_acc: ($s.test_acc // ($e | last | .test_acc)), best_test_acc: ([$e[].test_acc | values] | max),
			starts: $starts, wall_s: $wall, cpu_s: $used,
			perplexity: $s.test_metrics.perplexity, bytes: (if $s then $s.wire_tx_bytes + $s.wire_rx_bytes else null end),
			rate: (if $s then ([$s.direction[].wire_bytes] | add) / ([$s.direction[].raw_bytes] | add) else null end),
			curve: [foreach $e[] as $x ({b: 0}; {b: (.b + $x.wire_tx_bytes + $x.wire_rx_bytes), x: $x};
				[.x.epoch, .x.train_loss, .x.test_loss, .x.test_acc, .b])]}' "$(log)"
}

# The rows of this table that OUT has replace those in RESULTS.jsonl; the others stay.
collect() {
	local line
	touch "$results.jsonl"
	while read -r line; do
		take_row "$line"
		if [ -s "$(log)" ] && [ -f "$dir/starts.log" ]; then record; else jq -c --arg row "$id" 'select(.row == $row)' "$results.jsonl"; fi
	done < <(all_rows) >"$tmp/results"
	mv "$tmp/results" "$results.jsonl"
}

has_seeds() { grep -qE "^table $1 .* seeds=" "$table"; }

# points TABLE: the finished rows of a table with seeds, as JSON: each with means and standard deviations over its seeds.
points() {
	jq -s --arg t "$1/" 'def mean: add / length; def sd: mean as $m | if length < 2 then null else (map(. - $m | . * .) | add / (length - 1) | sqrt) end;
		map(select((.row | startswith($t)) and .outcome == "finished") | . + {name: (.row | ltrimstr($t) | sub("[.][0-9]+$"; "")),
			figure: (.perplexity // .test_acc * 100)}) | group_by(.name) | map({name: .[0].name, seeds: length, perplexity: (.[0].perplexity != null),
			bytes: (map(.bytes) | mean), mean: (map(.figure) | mean), sd: (map(.figure) | sd), cpu_s: (map(.cpu_s) | add)}) | sort_by(-.bytes)' "$results.jsonl"
}

point_table() {
	points "$1" | jq -r 'def d: . * 100 | round / 100; (map(.bytes) | max) as $most |
		"| point | MB of the connection | times fewer | \(if .[0].perplexity then "test perplexity" else "test accuracy, %" end) | seeds |\n|---|---|---|---|---|",
		(.[] | "| \(.name) | \(.bytes / 1e6 | d) | \($most / .bytes * 10 | round / 10) | \(.mean | d)\(if .sd then " ± \(.sd | d)" else "" end) | \(.seeds) |")'
}

# Bytes against the figure: a point is a mean over seeds, its bar one standard deviation. The line joins points that no other
# with fewer bytes equals. Labels lie above and below in turn.
point_picture() {
	local above
	points "$1" >"$tmp/points.json"
	[ "$(jq length "$tmp/points.json")" -gt 1 ] || return 0
	jq -r '.[] | [.bytes / 1e6, .mean, (.sd // 0), .name] | @tsv' "$tmp/points.json" >"$tmp/points"
	jq -r 'reduce reverse[] as $p ([]; (if $p.perplexity then -$p.mean else $p.mean end) as $f |
		if all(.[]; .f < $f) then . + [$p + {f: $f}] else . end) | .[] | [.bytes / 1e6, .mean] | @tsv' "$tmp/points.json" >"$tmp/best"
	above=$(jq -r 'if .[0].perplexity then "left rotate by 40 offset 0.5,0.5" else "right rotate by -40 offset -0.5,0.5" end' "$tmp/points.json")
	gnuplot <<-GP
		set terminal svg noenhanced size 900,520 background 'white'
		set output '$results-$1.svg'
		set datafile separator tab
		set logscale x
		set grid
		set offsets graph 0.05, graph 0.2, graph 0.25, graph 0.3
		set xlabel 'MB of the connection, a whole run'
		set ylabel '$(jq -r 'if .[0].perplexity then "test perplexity" else "test accuracy, %" end' "$tmp/points.json")'
		plot '$tmp/points' using 1:2:3 with yerrorbars pt 7 lc rgb '#1f5fa8' notitle, '$tmp/best' using 1:2 with lines lc rgb '#1f5fa8' notitle, \
			'$tmp/points' using 1:2:4 every 2 with labels $above notitle, \
			'$tmp/points' using 1:2:4 every 2::1 with labels left rotate by -40 offset 0.5,-0.5 notitle
	GP
}

tables() {
	local name
	for name in $(table_names); do
		[[ $name != *-@(parts|tried) ]] && grep -q "^{\"row\":\"$name/" "$results.jsonl" || continue # those have no place on a page
		printf '\n### %s\n\n' "$name"
		if has_seeds "$name"; then
			point_table "$name"
			! [ -f "$results-$name.svg" ] || printf '\n![Bytes against the figure of %s](%s-%s.svg)\n' "$name" "$(basename "$results")" "$name"
			continue
		fi
		echo '| row | published | accuracy % | GB on the link | fp32 bytes / bytes | CPU h |'
		echo '|---|---|---|---|---|---|'
		jq -r --arg table "$name/" 'def p: if . then (. * 10000 | round / 100 | tostring) else "" end;
			def h: . / 36 | round / 100;
			select(.row | startswith($table)) |
			"| \(.row | ltrimstr($table)) | \(.published // "") | " +
			"\(.test_acc | p)\(if .outcome == "finished" then "" else " (unfinished)" end) | " +
			"\((.curve | last | .[4]? // 0) / 1e8 | round / 10) | \(if .rate then (1 / .rate * 10 | round / 10) else "" end) | " +
			"\(.cpu_s | h) |"' "$results.jsonl"
		! [ -f "$results-$name.svg" ] || printf '\n![Accuracy of %s by epoch and by megabytes](%s-%s.svg)\n' "$name" "$(basename "$results")" "$name"
	done
}

# picture TABLE: plots accuracy by epoch and by megabytes for its rows of several epochs; published figures are dashed
# lines.
picture() {
	local row runs=() lines='' figure n=0 published
	while read -r row; do
		n=$((n + 1))
		mkdir -p "$tmp/curves/$row"
		jq -c --arg row "$row" 'select(.row == $row) | foreach .curve[] as $c ({at: 0}; {at: $c[4], d: ($c[4] - .at), c: $c};
			{type: "step", step: .c[0], loss: .c[1]}, {type: "epoch", epoch: .c[0], steps: .c[0], train_loss: .c[1], test_loss: .c[2], test_acc: .c[3],
			wire_tx_bytes: .d, wire_rx_bytes: 0})' "$results.jsonl" >"$tmp/curves/$row/log.jsonl"
		published=$(jq -r --arg row "$row" 'select(.row == $row) | .published // empty' "$results.jsonl")
		runs+=("${row#*/}${published:+ (published $published)}=$tmp/curves/$row/log.jsonl")
		[ -z "$published" ] || lines+=", $published with lines dt 2 lc $n notitle"
	done < <(jq -r --arg t "$1/" 'select((.row | startswith($t)) and ([.curve[] | select(.[3])] | length > 1)) | .row' "$results.jsonl")
	[ $n -gt 0 ] || return 0
	for figure in accuracy bytes; do
		"$build/splitc" plot "${runs[@]}" --figure $figure --out "$tmp/$figure.gp" >/dev/null
	done
	{
		echo "set terminal svg noenhanced size 1300,520 background 'white'"
		echo "set output '$results-$1.svg'"
		echo 'set grid'
		grep '^set linetype' "$tmp/accuracy.gp"
		echo 'set multiplot layout 1,2'
		for figure in accuracy bytes; do
			sed -n "/^\\\$$figure <</,\$p" "$tmp/$figure.gp" | sed "${lines:+s/^set yrange.*/set yrange [*:*]/; }/^plot /s/\$/$lines/"
		done
		echo 'unset multiplot'
	} >"$tmp/picture.gp"
	gnuplot "$tmp/picture.gp"
}

write_results() {
	local name
	collect
	if command -v gnuplot >/dev/null; then
		for name in $(table_names); do if has_seeds "$name"; then point_picture "$name"; else picture "$name"; fi; done
	fi
	tables >"$tmp/tables"
	[ -s "$results.md" ] || printf '# Published accuracies, reproduced\n\n<!-- reproduce.sh writes from here -->\n<!-- to here -->\n' >"$results.md"
	awk -v tables="$tmp/tables" '/^<!-- to here -->/ {skip = 0} !skip {print}
		/^<!-- reproduce.sh writes from here -->/ {skip = 1; while ((getline line < tables) > 0) print line; print ""}' "$results.md" >"$tmp/page"
	cat "$tmp/page" >"$results.md"
}

chosen "$@" >"$tmp/chosen"
case $mode in
list) list <"$tmp/chosen" ;;
write) write_results ;;
train)
	while read -r line <&3; do
		take_row "$line"
		train
		write_results
	done 3<"$tmp/chosen"
	;;
esac
