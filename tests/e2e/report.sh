#!/usr/bin/env bash
# splitc report: of a member of a group of three that was killed and went on, and of an audited run that was killed, went
# on and whose leaks were measured. What the report says is what the run did: bytes by tensor, keys, processes, audits,
# figures, shares of members, and what is not known. HTML is well-formed and loads nothing, and no name from a file
# becomes markup.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 96 60
for k in 0 1 2; do "$SPLITC" keygen --out "$tmp/$k.key" 2>/dev/null | sed "s/\$/ site-$k group=wards/" >>"$tmp/clients"; done
"$SPLITS" keygen --out "$tmp/server.key" >"$tmp/server.pub" 2>/dev/null
start_server host auth.secret_key="$tmp/server.key" auth.clients="$tmp/clients"
write_config "$tmp/client.yaml"
sed -i 's/epochs: 1/epochs: 2\n  checkpoint_every: 2/' "$tmp/client.yaml"
echo "auth: {secret_key: $tmp/0.key, server_key: $tmp/server.pub}" >>"$tmp/client.yaml"
print_of() { sed -n "s/^INFO auth: this $2's key is \([0-9a-f-]*\).*/\1/p" "$tmp/$1.log" | head -n 1; }

# report NAME FILE [argument]…
unfit=0 # the status of a report of files that do not fit: 65
report() {
	local rc=0
	"$SPLITC" report "$tmp/$1" --out "$tmp/$2" "${@:3}" >"$tmp/report.log" 2>&1 || rc=$?
	[ $rc = $unfit ] || fail "report $*: exit status $rc: $(cat "$tmp/report.log")"
}
# fact FILE SECTION NAME, cell FILE SECTION ROW COLUMN: what a report in JSON says.
fact() { jq -r --arg s "$2" --arg n "$3" '.sections[] | select(.title == $s).facts[] | select(.[0] == $n)[1]' "$tmp/$1"; }
cell() { jq -r --arg s "$2" ".sections[] | select(.title == \$s).rows[$3][$4]" "$tmp/$1"; }
is() { [ "$1" = "$2" ] || fail "$3: '$1', not '$2'"; }
like() { [[ $1 =~ $2 ]] || fail "$3: '$1'"; }

# ---- a group: member 2 is killed, and goes on
group=(--set share.group=wards --set share.clients=3 --set share.epoch_steps=6 --set share.ends=private --set link.on_server_lost=wait --set link.retry_ms=20)
for k in 0 1 2; do
	start_slow_client 1 15 ward-$k "$tmp/client.yaml" "${group[@]}" --set share.member=$k --set auth.secret_key="$tmp/$k.key"
	pid[k]=$client_pid
done
wait_for 'member 2 has no checkpoint' has_checkpoint ward-2
end_process "${pid[2]}"
client ward-2 "$tmp/client.yaml" "${group[@]}" --set share.member=2 --set auth.secret_key="$tmp/2.key" --auto-resume || fail "member 2: exit status $?"
for k in 0 1; do ends_with "${pid[k]}" 0 $patience "member $k"; done
report ward-2 ward.json
is "$(fact ward.json 'The run' Outcome)" finished 'the outcome'
is "$(fact ward.json 'The data' Samples)" '96 to train on, 60 to evaluate on' 'the data'
is "$(fact ward.json 'The run' 'This member')" 2 'the member'
like "$(fact ward.json 'Processes of the run' Interruptions)" '^2 processes began, 1 wrote an end;' 'interruptions'
is "$(cell ward.json 'Processes of the run' 0 2)" 'killed, or failed' 'the first process'
is "$(cell ward.json 'Processes of the run' 1 2)" finished 'the second process'
is "$(cell ward.json Who 0 4)" "$(print_of ward-2 client)" "the client's key"
is "$(cell ward.json Who 1 3)" "$(print_of host server)" "the server's key"
is "$(cell ward.json Who 1 2)" "$endpoint" 'the address'
is "$(fact ward.json 'What is not known' 'Keys and addresses of other members')" 'the server alone knows them' 'other members'
like "$(fact ward.json 'What is not known' 'Bytes by tensor of killed processes')" . 'bytes of the killed process'
like "$(fact ward.json 'The logs' Checked)" 'each fits the one before$' 'the logs'
# The lines below "All bytes" add up to it, with the tensors in the table.
adds_up() {
	python3 - "$tmp/$1" <<-'PY' || fail "$1: the bytes do not add up"
		import json, re, sys
		s = next(s for s in json.load(open(sys.argv[1]))["sections"] if s["title"] == "What crossed")
		lines = [tuple(map(int, m)) for _, t in s["facts"] for m in re.findall(r"^(\d+) sent, (\d+) received$", t)]
		of = [sum(int(r[4]) for r in s["rows"] if r[2].startswith(way)) for way in ("to", "from")]
		assert len(lines) == 5 and all(sum(l[w] for l in lines[1:]) + of[w] == lines[0][w] for w in (0, 1)), (lines, of)
	PY
}
adds_up ward.json
summary=$(jq -c 'select(.type == "summary")' "$tmp/ward-2/log.jsonl") own=$(jq -s 'map(select(.type == "step" and .skipped != true)) | length' "$tmp/ward-2/log.jsonl")
is "$(fact ward.json 'The run' 'Steps of the whole run')" "$(jq -r '"\(.steps), in \(.epochs) epochs; of a group also those that this member missed"' <<<"$summary")" 'steps of the run'
said=$(jq '.group.members[2].steps' <<<"$summary")
lost=$(fact ward.json 'What was interrupted' 'Lost with a killed process')
if [ "$said" -gt "$own" ]; then like "$lost" "^$((said - own)) steps? of this host" 'steps that were lost'; else is "$lost" '' 'steps that were lost'; fi
is "$(jq -r '.sections[] | select(.title == "What was interrupted").rows[] | select(.[1] | test("checkpoint")) | .[2]' "$tmp/ward.json")" "$(jq -r 'select(.type == "back").step' "$tmp/ward-2/sessions.jsonl")" 'the step that it went on from'
like "$(jq -r '.sections[] | select(.title == "What was interrupted").rows[0][1]' "$tmp/ward.json")" 'killed, or failed$' 'the kill'
absent=$(jq -r '.group.absent // empty' <<<"$summary")
[ -z "$absent" ] || like "$(fact ward.json 'What was interrupted' 'To check the state')" "--local --clients 3 --absent $absent " 'the command that repeats it'
for id in $(jq -r '.warnings[].id' <<<"$summary"); do like "$(fact ward.json 'What was interrupted' "Warning $id" | head -n 1)" . "warning $id"; done
like "$(cell ward.json 'Processes of the run' 0 1)" '^last seen 20' 'when the killed process was seen last'
like "$(fact ward.json 'What crossed' 'How often each training row crossed')" '^[12][.][0-9]+ times on average' 'how often'
like "$(fact ward.json 'What crossed' 'Rows of one patient')" 'count apart' patients
like "$(fact ward.json 'The model' 'Models of the members')" 'share.ends is private' 'three models'
like "$(fact ward.json 'The logs' 'A change shows in')" 'about.json' 'what is covered'
like "$(fact ward.json 'The logs' 'A change does not show in')" 'traffic' 'what is not'
is "$(fact ward.json 'What is not known' 'Privacy as a number')" 'there is none: privacy.… was off' privacy
is "$(fact ward.json 'The run' 'Privacy: clip of head_act')$(fact ward.json 'The run' 'Noise on head_act (noise.…)')" '' 'settings that are off'
like "$(fact ward.json 'What the server could learn' Measured)" 'splitc leak .*ward-2/config.yaml --weights .*ward-2/model.safetensors' 'what to run'
"$SPLITC" report "$tmp/ward-2" --verify >"$tmp/verify" || fail "--verify: $(cat "$tmp/verify")"
for file in config.yaml about.json model.safetensors; do grep -qx "$file is the one that the run has written" "$tmp/verify" || fail "--verify says nothing of $file: $(cat "$tmp/verify")"; done
grep -q '^sessions.jsonl, [0-9]* lines: each fits the one before$' "$tmp/verify" || fail "--verify: $(cat "$tmp/verify")"

# ---- an audited run: killed, goes on, and its leaks are measured
client_dies client.apply@8 'a <b>&"run' "$tmp/client.yaml" --set train.audit.every=2 --set codec.head_act=quant:8
client 'a <b>&"run' "$tmp/client.yaml" --set train.audit.every=2 --set codec.head_act=quant:8 --resume || fail "--resume: exit status $?"
run=$tmp/'a <b>&"run'
"$SPLITC" leak "$tmp/client.yaml" --set log.dir="$run" --set codec.head_act=quant:8 --steps 5 --out "$run/leak" >"$tmp/leak.log" 2>&1 || fail "leak: exit status $?: $(tail -n 1 "$tmp/leak.log")"
sed -i 's|"airplane"|"<script>alert(1)</script>\|**x**"|' "$run/about.json"
unfit=65
report 'a <b>&"run' run.json
like "$(fact run.json 'Audits of the server' 'Begun and ended')" '^[1-9][0-9]* and [1-9][0-9]* in the run$' audits
like "$(fact run.json 'Audits of the server' 'In the log')" '^[1-9][0-9]* audits, in which this host computed [1-9][0-9]* steps, too; 0 found a difference$' audits
is "$(fact run.json 'The model' model.safetensors)" "BLAKE2b, 16 bytes: $(python3 -c 'import hashlib, sys; print(hashlib.blake2b(open(sys.argv[1], "rb").read(), digest_size=16).hexdigest())' "$run/model.safetensors")" 'the hash'
sent=$(jq -s 'map(select(.type == "end").direction.head_act.wire_bytes) | add' "$run/sessions.jsonl")
is "$(jq -r '.sections[] | select(.title == "What crossed").rows[] | select(.[0] == "head_act") | .[2:5] | join(" ")' "$tmp/run.json")" "to the server quant:8 $sent" head_act
[ "$(jq '.sections[] | select(.title == "What the server could learn").rows | length' "$tmp/run.json")" -gt 5 ] || fail 'no figures of leaks'
adds_up run.json
like "$(fact run.json 'What crossed' 'How often each training row crossed')" '^2 times. Epochs with all steps in the log: 2; with some: 0; more, if a killed process' 'how often'
like "$(fact run.json 'Audits of the server' 'Steps that this host computed, too')" '^[0-9]+(-[0-9]+)?(, [0-9]+(-[0-9]+)?)*( and others)?$' 'the audited steps'
python3 - "$tmp/run.json" "$run/log.jsonl" "$run/leak/leak.json" <<-'PY' || fail 'audits, or leaks'
	import json, re, sys
	report, log, leak = json.load(open(sys.argv[1])), [json.loads(l) for l in open(sys.argv[2])], json.load(open(sys.argv[3]))
	facts = {s["title"]: dict(s["facts"]) for s in report["sections"]}
	a = facts["Audits of the server"]
	steps = [n for x in a["Steps that this host computed, too"].split(", ") for f, _, t in [x.partition("-")] for n in range(int(f), int(t or f) + 1)]
	assert len(steps) == sum(l["steps"] for l in log if l["type"] == "audit"), a
	share = next(l for l in log if l["type"] == "summary")["audited"]
	said = list(map(int, re.findall(r"\d+", a["Batches of evaluations that this host computed, too"])))
	assert said == [share[k] for k in ("eval_batches", "of_eval_batches", "last_batches", "of_last_batches")], (said, share)
	assert 0 <= said[2] <= said[3] <= said[1] and said[3] == 4 and said[2] <= said[0], said
	rows = {r[0]: r for s in report["sections"] if s["title"] == "What the server could learn" for r in s["rows"]}
	for name, f in leak["labels"].items():
	    row, there = rows[f'labels "{name}"'], [v for v in f["classes"] if v is not None]
	    names = [c for c, v in zip(json.load(open(sys.argv[2].replace("log.jsonl", "about.json")))["classes"], f["classes"]) if v == max(there)]
	    assert row[4] == ("all classes alike" if len(names) == len(there) else ", ".join(n[:40] for n in names)), row
	    assert row[2] == "%.4g to %.4g" % (f["low"], f["high"]), row
PY
is "$(fact run.json 'What is not known' Leaks)" '' 'leaks, which were measured'
like "$(fact run.json 'What is not known' 'Better attacks')" . 'other attacks'

# ---- forms: the same facts, and no markup from names
report 'a <b>&"run' run.html
python3 - "$tmp/run.html" "$tmp/run.json" <<-'PY' || fail 'the page'
	import json, sys, xml.dom.minidom
	page, report = xml.dom.minidom.parse(sys.argv[1]), json.load(open(sys.argv[2]))
	tags = {e.tagName for e in page.getElementsByTagName("*")}
	assert tags <= {"html", "head", "meta", "title", "style", "body", "h1", "h2", "table", "tr", "th", "td", "pre"}, tags
	assert not any(e.hasAttribute(a) for e in page.getElementsByTagName("*") for a in ("src", "href", "onload"))
	cells = {"".join(n.data for n in e.childNodes) for e in page.getElementsByTagName("td")}
	for section in report["sections"]:
	    for name, text in section["facts"]:
	        assert text in cells, text
	assert any("<script>alert(1)</script>" in c for c in cells)
PY
rc=0
"$SPLITC" report "$run" >"$tmp/run.md" || rc=$?
[ $rc = $unfit ] || fail "Markdown: exit status $rc"
! grep -q '[^\\]<script\|[^\\]\*\*x' "$tmp/run.md" && grep -q '^## What is not known$' "$tmp/run.md" || fail "Markdown: $(grep -n 'script' "$tmp/run.md")"

# ---- errors
refuses() { # STATUS PHRASE [argument]…
	local rc=0
	"$SPLITC" report "${@:3}" >"$tmp/report.log" 2>&1 || rc=$?
	[ $rc = "$1" ] && grep -q -- "$2" "$tmp/report.log" || fail "report ${*:3}: exit status $rc: $(cat "$tmp/report.log")"
}
mkdir "$tmp/none" "$tmp/odd"
refuses 66 "give a run's log.dir" "$tmp/none"
echo '[1]' >"$tmp/odd/log.jsonl"
refuses 65 'odd/log.jsonl:1: not a line of a run' "$tmp/odd"
echo '{"type":"step"}' >"$tmp/odd/log.jsonl"
"$SPLITC" report "$tmp/odd" >"$tmp/odd.md" || fail 'a log of an earlier version'
grep -q 'THEY DO NOT FIT' "$tmp/odd.md" || fail "a log without hashes: $(cat "$tmp/odd.md")"
refuses 64 'is not html, md or json' "$run" --format pdf
refuses 64 'writes no report' "$run" --verify --out x.md
refuses 64 RUN
