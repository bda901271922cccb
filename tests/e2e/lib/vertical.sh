# shellcheck shell=bash
# Sourced after daemons.sh by scripts with a vertical group of $members. The last one has the labels, the others features.
members=(A B)

# write_parties: writes $tmp/A.yaml and $tmp/B.yaml.
write_parties() {
	local role
	for role in features labels; do
		write_config "$tmp/$role.yaml"
		sed -i 's/batch: 16/batch: 12/; s/epochs: 1/epochs: 2/; s/chunks: 4/chunks: 3/; s/lr: 0.05/lr: 0.01/' "$tmp/$role.yaml"
	done
	mv "$tmp/features.yaml" "$tmp/A.yaml"
	mv "$tmp/labels.yaml" "$tmp/B.yaml"
	echo 'share: {mode: vertical, group: g, clients: 2, member: 0, role: features}' >>"$tmp/A.yaml"
	echo 'share: {mode: vertical, group: g, clients: 2, member: 1, role: labels}' >>"$tmp/B.yaml"
}

# config_of PARTY NAME [key=value]…: writes $tmp/NAME-PARTY.yaml, whose keys are set as given: --party takes a file alone.
config_of() {
	local set=() pair
	for pair in "share.group=$2" server="$endpoint" "${@:3}"; do set+=(--set "$pair"); done
	"$SPLITC" train "$tmp/$1.yaml" --print-config "${set[@]}" >"$tmp/$2-$1.yaml" || fail "$2: $1's config"
}

# tensors_of NAME: a line for each tensor of a run's model, a hash and the tensor's name, sorted.
tensors_of() {
	python3 -c 'import hashlib, json, struct, sys
data = open(sys.argv[1], "rb").read()
end = 8 + struct.unpack("<Q", data[:8])[0]
for name, t in json.loads(data[8:end]).items():
    if name != "__metadata__":
        print(hashlib.sha256(data[end + t["data_offsets"][0] : end + t["data_offsets"][1]]).hexdigest(), name)' "$1/model.safetensors" | sort
}

# begin_party PARTY NAME [argument]…: starts it in the background, with the failpoints of $points_A and so on; sets
# $client_pid.
begin_party() {
	local points=points_$1
	if [ -n "${!points:-}" ]; then
		start_failing_client "${!points}" "$2-$1" "$tmp/$2-$1.yaml" "${@:3}"
	else
		start_client "$2-$1" "$tmp/$2-$1.yaml" "${@:3}"
	fi
}

# train_all NAME: trains all over links, as $tmp/NAME-A.yaml and so on say; they end with $status, or 0.
train_all() {
	local party pids=()
	for party in "${members[@]}"; do
		begin_party "$party" "$1"
		pids+=("$client_pid")
	done
	for party in "${!members[@]}"; do ends_with "${pids[$party]}" "${status:-0}" $patience "$1: ${members[$party]}"; done
}
# parties NAME [key=value]…: all with these keys.
parties() {
	local party
	for party in "${members[@]}"; do config_of "$party" "$@"; done
	train_all "$1"
}

# in_one NAME: the same in one process.
in_one() {
	local party more=()
	for party in "${members[@]:1}"; do more+=(--party "$tmp/$1-$party.yaml"); done
	client "$1-local" "$tmp/$1-A.yaml" --local "${more[@]}" || fail "$1 in one process: exit status $?"
}

# as_one NAME [ORACLE]: all parties learned what ORACLE did, the run in one process (NAME-local): the figures of the last
# one are its figures, and the tensors of all are its tensors. With $several inputs one process has no distance
# correlation.
as_one() {
	local one=${2:-$1-local} steps last=$1-${members[-1]}
	steps=$(steps_of "$one")
	[ "${steps:-0}" -gt 0 ] || fail "$1: no steps"
	for party in "${members[@]}"; do [ "$(steps_of "$1-$party")" = "$steps" ] || fail "$1: $party did $(steps_of "$1-$party") of $steps steps"; done
	diff <(learned "$last") <(learned "$one") >"$tmp/differ" || fail "$1: ${members[-1]} learned otherwise: $(head -n 4 "$tmp/differ")"
	[ -n "$(tensors_of "$tmp/$1-A")" ] || fail "$1: A has no model"
	[ -n "${several:-}" ] || cmp <(dcor_of "$1-A") <(dcor_of "$one") || fail "$1: other distance correlations"
	diff <(for party in "${members[@]}"; do tensors_of "$tmp/$1-$party"; done | sort -u) <(tensors_of "$tmp/$one") >"$tmp/differ" ||
		fail "$1: other weights: $(head -n 4 "$tmp/differ")"
}

# vertical NAME [key=value]…: over links as in one process.
vertical() {
	parties "$@"
	in_one "$1"
	as_one "$1"
}
