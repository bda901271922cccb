# For scripts on volumes, after daemons.sh and before they start anything: needs PyTorch and libsplit, else skips or fails.
# live_by FILE ARGUMENT…: runs a file of tests/golden with both; what it prints is in $tmp/live. live: of volumes_cases.py.
python=${PYTHON:-/usr/bin/python3}
library=$PWD/$BUILD/libsplit.so.0
"$python" -c 'import torch' 2>/dev/null || { echo 'SKIP no PyTorch' && exit 77; }
[ -f "$library" ] || fail "$library is not built: make lib"
live_by() { SPLIT_LIBRARY=$library PYTHONPATH=$PWD/python "$python" -W ignore "tests/golden/$1" "${@:2}" >"$tmp/live" 2>&1 || fail "${*:2}: $(tail -n 3 "$tmp/live")"; }
live() { live_by volumes_cases.py "$@"; }
# class_config TRAIN [DATA]: $tmp/client.yaml for the cases that `live classes` makes, with further keys of train and of data.
class_config() {
	cat >"$tmp/client.yaml" <<-YAML
		server: $endpoint
		model: {network: $tmp/classes.safetensors}
		head_end: e0
		tail_begin: pool
		data:
		  {kind: volumes, dir: $tmp/sorted, size: [18, 20, 20], spacing: [2, 1.8, 1.8], intensity: "ct:-100,250",
		  cache: $tmp/cache${2:+, $2}}
		train: {$1, optimizer: {kind: adamw, lr: 0.01}}
		threads: 2
	YAML
	config=$tmp/client.yaml
}
