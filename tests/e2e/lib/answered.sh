# For what answers lines: a trained model of a table, lines of it and their answers. Needs Python's asyncio.
python=/usr/bin/python3
"$python" -c 'import asyncio' 2>/dev/null || { echo 'no Python'; exit 77; }
# answered ENDPOINT TRAIN: writes $tmp/client.yaml with the keys TRAIN, and trains it in this process. $tmp/lines has 100
# lines, $tmp/want what `predict` prints of them.
answered() {
	mkdir "$tmp/table"
	awk -v train="$tmp/table/train.csv" -v test="$tmp/table/test.csv" 'BEGIN {
		print "a,b,kind" >train; print "a,b,kind" >test
		for (i = 0; i < 400; i++)
			printf "%.2f,%.1f,%s\n", (i * 37 % 101) / 10, i * 13 % 17, (i * 37 % 101 > 50 ? "large" : "small") >(i < 300 ? train : test)
	}'
	cat >"$tmp/client.yaml" <<-YAML
		server: $1
		model: {name: mlp, features: 2, classes: 2}
		data: {kind: csv, dir: $tmp/table, label: kind}
		train: {chunks: 2, seed: 1, $2}
		link: {retry_ms: 20, heartbeat_ms: 100, timeout_ms: 20000}
		threads: 1
		control: $tmp/c.sock
		log: {dir: $tmp/run}
	YAML
	"$SPLITC" train "$tmp/client.yaml" --local >"$tmp/train.log" 2>&1 || fail train
	"$SPLITC" predict "$tmp/client.yaml" --local --json "$tmp/table/test.csv" >"$tmp/want" 2>"$tmp/want.log" || fail predict
	jq -Rc 'split(",") | {a: (.[0] | tonumber), b: (.[1] | tonumber)}' <(tail -n +2 "$tmp/table/test.csv") >"$tmp/lines"
}
