# shellcheck shell=bash
# Sourced by the demos. Sets $build, and $run: the demo's own folder for logs and weights. The daemons end with the
# script, also when it is interrupted.
build=${BUILD:-build/release}
demo=$(basename "$0" .sh)
run=${DEMO_RUN:-runs/$demo}

# find_texts [FOLDER]: sets $data and $glue. FOLDER, or $SPLIT_TEXT_DATA, must have CoLA and a tokenizer.
find_texts() {
	local needed
	data=${1:-${SPLIT_TEXT_DATA:-}}
	[ -n "$data" ] || { echo "$demo: name the folder that has glue/CoLA and roberta_tokenizer/: make $demo TEXT_DATA=FOLDER"; exit 64; }
	glue=$data
	[ ! -d "$data/glue" ] || glue=$data/glue
	for needed in "$glue/CoLA/train.tsv" "$data/roberta_tokenizer"; do
		[ -e "$needed" ] || { echo "$demo: $needed is not there"; exit 66; }
	done
}

# The variable may force a BLAS kernel that is slower than the CPU's own.
unset OPENBLAS_CORETYPE

server='' client='' socket=''
end_all() {
	trap - EXIT
	local pid
	for pid in $client $server; do kill "$pid" 2>/dev/null || true; done
	wait 2>/dev/null || true
	[ -z "$socket" ] || rm -rf "$socket"
}
trap end_all EXIT
trap 'exit 143' TERM HUP
trap 'exit 130' INT

# The daemons have sessions of their own, so that a terminal's Ctrl-C reaches this script alone. They get SIGTERM when
# it ends.
child='setsid setpriv --pdeathsig TERM'

# start_splits: sets $endpoint, and $socket: a folder for the control sockets. A demo starts its daemons with $child.
start_splits() {
	mkdir -p "$run"
	socket=$(mktemp -d "${TMPDIR:-/tmp}/split-demo.XXXXXX")
	: >"$run/splits.log" # read below before splits may have opened it; and an earlier demo's address is not this one's
	# A free port and own sockets, so that the demo disturbs no other splits on this host.
	$child "$build/splits" serve configs/server.yaml --set listen=tcp://127.0.0.1:0 --set store="$run/store" \
		--set control="$socket/splits.sock" 2>"$run/splits.log" &
	server=$!
	for _ in $(seq 200); do
		endpoint=$(sed -n 's/^INFO serving: .* on \(tcp:[^ ,]*\),.*/\1/p' "$run/splits.log")
		[ -z "$endpoint" ] || break
		kill -0 $server 2>/dev/null || break
		sleep 0.1
	done
	[ -n "$endpoint" ] || { echo 'splits did not start:'; cat "$run/splits.log"; exit 1; }
}

# client_ended STATUS: shows the end of the server's log if the client failed, else the client's summary.
client_ended() {
	client=''
	[ "$1" = 0 ] || { echo "splitc ended with exit status $1; the server's log:"; tail -n 5 "$run/splits.log"; exit 1; }
	echo
	cat "$run/summary.txt"
}
