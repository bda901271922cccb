# shellcheck shell=bash
# Sourced after daemons.sh by scripts with a vertical group: member 0, A, has the features, member 1, B, the labels.

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

# begin_party PARTY NAME [argument]…: starts it in the background, with the failpoints of $points_A or $points_B; sets
# $client_pid.
begin_party() {
	local points=points_$1
	if [ -n "${!points:-}" ]; then
		start_failing_client "${!points}" "$2-$1" "$tmp/$2-$1.yaml" "${@:3}"
	else
		start_client "$2-$1" "$tmp/$2-$1.yaml" "${@:3}"
	fi
}

# train_both NAME: trains both over links, as $tmp/NAME-A.yaml and -B.yaml say; they end with $status, or 0.
train_both() {
	local a
	begin_party A "$1"
	a=$client_pid
	begin_party B "$1"
	ends_with "$a" "${status:-0}" $patience "$1: A"
	ends_with "$client_pid" "${status:-0}" $patience "$1: B"
}
# parties NAME [key=value]…: both with these keys.
parties() {
	config_of A "$@"
	config_of B "$@"
	train_both "$1"
}

# as_one NAME [ORACLE]: both parties learned what ORACLE did, the run in one process (NAME-local): B's figures are its
# figures, and the tensors of both are its tensors.
as_one() {
	local one=${2:-$1-local} steps
	steps=$(steps_of "$one")
	for party in A B; do [ "$(steps_of "$1-$party")" = "$steps" ] || fail "$1: $party did $(steps_of "$1-$party") of $steps steps"; done
	diff <(learned "$1-B") <(learned "$one") >"$tmp/differ" || fail "$1: B learned otherwise: $(head -n 4 "$tmp/differ")"
	[ -n "$(tensors_of "$tmp/$1-A")" ] || fail "$1: A has no model"
	cmp <(dcor_of "$1-A") <(dcor_of "$one") || fail "$1: other distance correlations"
	diff <({ tensors_of "$tmp/$1-A"; tensors_of "$tmp/$1-B"; } | sort -u) <(tensors_of "$tmp/$one") >"$tmp/differ" ||
		fail "$1: other weights: $(head -n 4 "$tmp/differ")"
}

# vertical NAME [key=value]…: over links as in one process.
vertical() {
	parties "$@"
	client "$1-local" "$tmp/$1-A.yaml" --local --party "$tmp/$1-B.yaml" || fail "$1 in one process: exit status $?"
	as_one "$1"
}
