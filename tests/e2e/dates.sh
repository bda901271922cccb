#!/usr/bin/env bash
# Columns of dates (data.dates) are days since training's first date, month and weekday: a run learns what it learns from
# these as columns of their own, and predicts the same. However dates are written, they are the same. Those that may have
# the day or the month first, and others that are no dates, are refused. splitc init notices dates.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
mkdir "$tmp/dates" "$tmp/numbers"
# Two dates a week apart or more, in 400 rows; the class depends on weekday and month. Some days are before 1970.
python3 - "$tmp" <<'PY'
import datetime, sys
tmp, first = sys.argv[1], datetime.date(1968, 2, 27)
def write(name, begin, end):
    dates, numbers = open(f"{tmp}/dates/{name}.csv", "w"), open(f"{tmp}/numbers/{name}.csv", "w")
    dates.write("visit,dose,kind\n")
    numbers.write("days,month,weekday,dose,kind\n")
    for i in range(begin, end):
        day = first + datetime.timedelta(i * 211 % 1009)
        kind = "late" if (day.isoweekday() % 7 >= 5) != (day.month > 6) else "early"
        dates.write(f"{day},{i % 7},{kind}\n")
        numbers.write(f"{(day - first).days},m{day.month:02},d{day.isoweekday() % 7},{i % 7},{kind}\n")
write("train", 0, 400)
write("val", 400, 500)
PY
start_server one
cat >"$tmp/client.yaml" <<-YAML
	server: $endpoint
	model: {name: mlp, features: 21, classes: 2}
	data: {kind: csv, dir: $tmp/dates, label: kind, dates: [visit]}
	train: {batch: 32, chunks: 2, epochs: 8, seed: 1, optimizer: {kind: adam, lr: 0.01}}
	threads: 1
YAML
sed "s|$tmp/dates|$tmp/numbers|; s/, dates: \[visit\]//" "$tmp/client.yaml" >"$tmp/numbers.yaml"
client dates "$tmp/client.yaml" --json || fail "dates: exit status $?"
client numbers "$tmp/numbers.yaml" --local || fail "numbers: exit status $?"
same_run dates numbers 104 other
tail -n 1 "$tmp/dates.log" | jq -e '.test_acc > 0.9' >"$tmp/out" || fail "not learned: $(tail -n 1 "$tmp/dates.log")"
# The model says how training's dates were written, and counts from their first one.
jq -ce '.columns[0] | [.name, .dates, .first_date]' "$tmp/dates/about.json" >"$tmp/out" && [ "$(cat "$tmp/out")" = '["visit","year_first","1968-02-27"]' ] || fail "about.json: $(cat "$tmp/out")"
mkdir "$tmp/later"
printf 'visit,dose\n2031-12-31,3\n1968-02-29 23:59,4\n' >"$tmp/later/dates.csv"
printf 'days,month,weekday,dose\n23318,m12,d3,3\n2,m02,d4,4\n' >"$tmp/later/numbers.csv"
predict() { "$SPLITC" predict "$tmp/$1.yaml" --local --json --set log.dir="$tmp/$2" "${@:3}" 2>"$tmp/err" | jq -c .probabilities; }
predict client dates "$tmp/later/dates.csv" >"$tmp/a"
predict numbers numbers "$tmp/later/numbers.csv" >"$tmp/b"
cmp "$tmp/a" "$tmp/b" && [ "$(wc -l <"$tmp/a")" = 2 ] || fail "predictions: $(cat "$tmp/a" "$tmp/b" "$tmp/err")"
predict client dates --stream <"$tmp/later/dates.csv" | cmp - "$tmp/a" || fail 'predictions of a stream'
# a member of a group takes the first date of another run
mv "$tmp/dates" "$tmp/run-of-dates"
mkdir "$tmp/dates"
{ head -n 1 "$tmp/run-of-dates/train.csv"; tail -n 200 "$tmp/run-of-dates/train.csv"; } >"$tmp/dates/train.csv"
cp "$tmp/run-of-dates/val.csv" "$tmp/dates"
client like "$tmp/client.yaml" --local --set data.like="$tmp/run-of-dates/about.json" --set train.epochs=1 || fail "data.like: exit status $?"
cmp <(jq -c .columns "$tmp/like/about.json") <(jq -c .columns "$tmp/run-of-dates/about.json") || fail 'data.like: other columns'

# ---- notations: written SED SCRIPT, of days and months; a comparison with the first
written() {
	for part in train val; do sed -E "2,\$s#^([0-9]*)-([0-9]*)-([0-9]*)#$1#" "$tmp/run-of-dates/$part.csv" >"$tmp/dates/$part.csv"; done
	"$SPLITC" train "$tmp/client.yaml" --local --fresh --set train.epochs=1 --set log.dir="$tmp/written" >"$tmp/out" 2>&1
}
written '\1-\2-\3' || fail "$(cat "$tmp/out")"
jq -c .train.fingerprint "$tmp/written/about.json" >"$tmp/fingerprint"
for form in '\1/\2/\3' '\3.\2.\1' '\3/\2/\1' '\2/\3/\1' '\2-\3-\1' '\1-\2-\3T12:30:00Z' '\3.\2.\1 7:15'; do
	written "$form" || fail "$form: $(tail -n 1 "$tmp/out")"
	jq -c .train.fingerprint "$tmp/written/about.json" | cmp - "$tmp/fingerprint" || fail "$form: other numbers"
done
# refused STATUS SENTENCE SED-SCRIPT
refused() {
	local status=0
	sed -E "$3" "$tmp/run-of-dates/train.csv" >"$tmp/dates/train.csv"
	"$SPLITC" train "$tmp/client.yaml" --check-config "${@:4}" >"$tmp/out" 2>&1 || status=$?
	[ $status = "$1" ] && grep -qF -- "$2" "$tmp/out" || fail "$3: status $status, $(cat "$tmp/out")"
}
cp "$tmp/run-of-dates/val.csv" "$tmp/dates"
refused 65 '" may have the day or the month first, and no row tells which: write 2024-12-31' '2,$s#^([0-9]*)-([0-9]*)-[0-9]*#07/\2/\1#'
refused 65 ':5: column "visit": "1969-02-29" is no date: write 2024-12-31, 31.12.2024 or 12/31/2024, in one way' '5s/^[^,]*/1969-02-29/'
refused 65 ':5: column "visit": "31.12.1969" is no date' '5s/^[^,]*/31.12.1969/'
refused 65 'no column "visited" (data.dates)' '' --set data.dates=visited
refused 65 ':5: the cell of column "visit" is empty' '5s/^[^,]*//'
refused 0 'ok, ' '5s/^[^,]*//' --set data.missing=mean
status=0
printf 'visit,dose\n31.12.2031,3\n' | "$SPLITC" predict "$tmp/client.yaml" --local --set log.dir="$tmp/like" --stream >"$tmp/out" 2>&1 || status=$?
grep -qF '"31.12.2031" is no date like 2024-12-31' "$tmp/out" || fail "another notation: $status, $(cat "$tmp/out")"

# ---- splitc init
cp "$tmp/run-of-dates"/{train,val}.csv "$tmp/dates"
"$SPLITC" init "$tmp/init.yaml" --data "$tmp/dates" >"$tmp/out" 2>&1 </dev/null || fail "init: $(cat "$tmp/out")"
grep -q 'The label is the column "kind", of 2 classes; the other columns make 21 features. Dates: visit.$' "$tmp/out" && grep -q '^  dates: \["visit"\]' "$tmp/init.yaml" || fail "init: $(cat "$tmp/out" "$tmp/init.yaml")"
client init "$tmp/init.yaml" --local --json || fail "init: exit status $?"
tail -n 1 "$tmp/init.log" | jq -e '.test_acc > 0.9' >"$tmp/out" || fail "init has not learned: $(tail -n 1 "$tmp/init.log")"
echo 'dates in seven notations'
