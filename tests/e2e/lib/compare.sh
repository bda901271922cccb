# shellcheck shell=bash
# Sourced after daemons.sh by scripts that compare training of a token network with a server and in one process. The
# caller sets $config and $steps first. $one and $two are the endpoints of two servers, with one and with two threads.
start_server one threads=1
one=$endpoint
start_server two "store=$tmp/two" threads=2
two=$endpoint

# Prints each key=value as a --set option. In a codec chain, write ^ for |, because two_at_a_time splits its words at |.
sets() { for pair in "$@"; do printf -- '--set\n%s\n' "${pair//^/|}"; done; }

# compare NAME [key=value]…: a run with a server, with two threads on either side, learns what the run in one process
# learns.
compare() {
	local name=$1 set
	shift
	mapfile -t set < <(sets "$@")
	client "local $name" "$config" --local "${set[@]}" || fail "local $name: exit status $?"
	client "two $name" "$config" --set server="$two" --set threads=2 "${set[@]}" || fail "two $name: exit status $?"
	same_run "two $name" "local $name" "$steps"
}

# compare_both NAME [key=value]…: compare, and again with one thread on either side.
compare_both() {
	local name=$1 set
	compare "$@"
	shift
	mapfile -t set < <(sets "$@")
	client "one $name" "$config" --set server="$one" "${set[@]}" || fail "one $name: exit status $?"
	same_run "one $name" "local $name" "$steps"
}
