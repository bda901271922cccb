# shellcheck shell=bash
# Sourced behind daemons.sh by scripts that compare runs of a network of tokens with a server and in one process. The caller has set
# $config and $steps. $one and $two: endpoints of servers with one and with two threads.
start_server one threads=1
one=$endpoint
start_server two "store=$tmp/two" threads=2
two=$endpoint

# key=value… as options; ^ stands for the bar of a chain of codecs, since bars part the words of two_at_a_time
sets() { for pair in "$@"; do printf -- '--set\n%s\n' "${pair//^/|}"; done; }

# compare NAME [key=value]…: with a server and a client of two threads as in one process
compare() {
	local name=$1 set
	shift
	mapfile -t set < <(sets "$@")
	client "local $name" "$config" --local "${set[@]}" || fail "local $name: exit status $?"
	client "two $name" "$config" --set server="$two" --set threads=2 "${set[@]}" || fail "two $name: exit status $?"
	same_run "two $name" "local $name" "$steps"
}

# compare_both NAME [key=value]…: the same, and with one thread each
compare_both() {
	local name=$1 set
	compare "$@"
	shift
	mapfile -t set < <(sets "$@")
	client "one $name" "$config" --set server="$one" "${set[@]}" || fail "one $name: exit status $?"
	same_run "one $name" "local $name" "$steps"
}
