#!/usr/bin/env bash
# Everything that README.md, docs/*.md and docs/results/*.md name must exist: sub-commands, options, keys of both
# configs with the values beside them, codecs, targets of make, files, tests, links and their headings. A block that
# names an example has lines of that file. A wrong page must be detected. docs/config.md must be what both programs print. Arguments: pages to check instead of these.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
[ $# -gt 0 ] || scripts/config-page.sh | diff -u docs/config.md - || fail 'docs/config.md is not what the programs say: run make config-page'
pages=("$@")
[ $# -gt 0 ] || pages=(README.md docs/*.md docs/results/*.md)
declare -A command option key section whole codec file test
bad=0
wrong() { echo "$at: $*"; bad=$((bad + 1)); }

# ---- what exists
printf 'model: {name: mobilenet_v2}\ndata: {dir: .}\ntrain: {on_nan: skip}\n' >"$tmp/splitc.yaml"
: >"$tmp/splits.yaml"
for program in "$SPLITC" "$SPLITS"; do
	name=${program##*/}
	while read -r word; do
		command[$name $word]=1
		while read -r flag; do option[$name $word $flag]=1 option[$name $flag]=1; done \
			< <("$program" "$word" --help | sed -n 's/^  \(--[a-z-]*\).*/\1/p'; echo --help)
	done < <("$program" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p')
	for flag in --help --version; do option[$name $flag]=1; done
done
option[splitc --failpoints]=1 # of `make fail`
paths_of() { # PROGRAM COMMAND
	"$1" "$2" "$tmp/${1##*/}.yaml" --print-config | awk '
		/^ *#[a-z_0-9]+:/ { sub(/#/, "") } # a key that means nothing beside these values
		/^ *#/ { next }
		/^ *[a-z_0-9]+:/ {
			depth = (match($0, /[^ ]/) - 1) / 2
			name[depth] = $1; sub(/:.*/, "", name[depth])
			path = name[0]
			for (i = 1; i <= depth; i++) path = path "." name[i]
			print ($0 ~ /: *$/ ? "section " : "key ") path
		}'
}
while read -r kind path; do
	if [ "$kind" = section ]; then section[$path]=1 whole[${path##*.}]=$path; else key[$path]=1 key[.${path##*.}]=1; fi
done < <(paths_of "$SPLITC" train; paths_of "$SPLITS" serve)
key[codec]=1 # of all four tensors
while read -r name; do codec[$name]=1; done < <("$SPLITC" codecs --json | jq -r '.[].name')
while read -r name; do test[$name]=1; done < <(grep -rhowE 'test_[a-z0-9_]+' tests/unit tests/suite | sort -u)
while read -r path; do file[${path##*/}]=1; done < <(find README.md Makefile client common examples configs deploy docs kernels lib mk proto python scripts server tests -type f)
[ ${#command[@]} -gt 8 ] && [ ${#key[@]} -gt 60 ] && [ ${#codec[@]} -gt 8 ] || fail "${#command[@]} commands, ${#key[@]} keys, ${#codec[@]} codecs"

# ---- what the pages name: PAGE:LINE<tab>KIND<tab>TEXT; taken from inline code, blocks of ```sh and ```yaml, indented code, links
said() {
	awk '
		function out(kind, text) { gsub(/\\\|/, "|", text); print FILENAME ":" FNR "\t" kind "\t" text }
		FNR == 1 { fence = "" }
		/^ *```/ { fence = fence != "" ? "" : substr($1, 4) == "" ? "-" : substr($1, 4); next }
		fence == "sh" { out("sh", $0); next }
		fence == "yaml" { sub(/ *#.*/, ""); out("code", $0); next }
		fence != "" { next }
		/^    +[^ ]/ && !/^ *[-*|] / { out("sh", $0) }
		{
			n = split($0, part, "`")
			for (i = 2; i < n; i += 2) out("code", part[i])
			line = $0
			while (match(line, /\]\([^)]*\)/)) {
				out("link", substr(line, RSTART + 2, RLENGTH - 3))
				line = substr(line, RSTART + RLENGTH)
			}
		}' "$@"
}

# ---- checks of one text
# takes KEY=VALUE…: a config accepts them together.
takes() {
	local sets=() pair
	for pair in "$@"; do sets+=(--set "$pair"); done
	"$SPLITC" train "$tmp/splitc.yaml" "${sets[@]}" --print-config >"$tmp/out" 2>&1 ||
		"$SPLITS" serve "$tmp/splits.yaml" "${sets[@]}" --print-config >"$tmp/out.splits" 2>&1
}

# stands KEY=VALUE: a config accepts it, alone or together with the setting that it requires.
stands() {
	takes "$1" && return
	case $(cat "$tmp/out") in
	*share.group*) takes "$1" share.group=g ;;
	*'an address in metrics'*) takes "$1" metrics=127.0.0.1:9570 ;;
	*'data.kind: images'*) takes "$1" data.kind=images ;;
	*'model.task: numbers'*) takes "$1" model.task=numbers data.kind=csv model.name=mlp ;;
	*'data.kind: csv'*) takes "$1" data.kind=csv model.name=mlp ;;
	*'it is of mlp'*) takes "$1" data.kind=csv model.name=mlp ;;
	*'data.id: belongs to share.mode: vertical'*) takes "$1" share.mode=vertical share.group=g share.secret=k data.kind=csv model.name=mlp ;;
	*'data.aligned: belongs to share.mode: vertical'*) takes "$1" share.mode=vertical share.group=g data.id=i data.kind=csv model.name=mlp ;;
	*'it is of token_mlp'*) takes "$1" data.kind=made_tokens model.name=token_mlp ;;
	*) return 1 ;;
	esac
}

known() { [ -n "${key[$1]:-}" ] || [ -n "${section[$1]:-}" ]; }

invoked() { # PROGRAM WORD…
	local program=$1 word=${2:-} scope=$1 i
	case $word in
	'' | … | [0-9]* | COMMAND | -*) ;;
	help) [ -z "${3:-}" ] || [ -n "${command[$program $3]:-}" ] || wrong "$program has no command '$3'" ;;
	*[!a-z]*) return ;;
	*) [ -n "${command[$program $word]:-}" ] || { wrong "$program has no command '$word'"; return; }
		scope="$program $word" ;;
	esac
	for ((i = 2; i <= $#; i++)); do
		[[ ${!i} =~ ^-- ]] || continue
		[ -n "${option[$scope ${!i}]:-}" ] || wrong "$scope has no option '${!i}'"
	done
}

settings() { # TEXT: every KEY=VALUE behind --set
	local rest=$1 pair value all=()
	while [[ $rest =~ --set[[:space:]]+\"?([A-Za-z_.]+=[^[:space:]\"]*)(.*) ]]; do
		pair=${BASH_REMATCH[1]} rest=${BASH_REMATCH[2]} value=${BASH_REMATCH[1]#*=}
		case $pair in key=* | KEY=*) continue ;; esac
		known "${pair%%=*}" || { wrong "no config has the key '${pair%%=*}'"; continue; }
		case $value in *…* | *'$'*) continue ;; esac
		all+=("$pair")
	done
	[ ${#all[@]} = 0 ] || takes "${all[@]}" || { [ ${#all[@]} = 1 ] && stands "${all[0]}"; } || wrong "$(cat "$tmp/out" "$tmp/out.splits" | head -n 1)"
}

shell_line() {
	local text=${1%%#*} word target words
	settings "$text"
	if [[ $text =~ (^|[[:space:]/])(split[cs])([[:space:]].*|$) ]]; then
		read -r -a words <<<"${BASH_REMATCH[3]%%[|>\`]*}" || true
		invoked "${BASH_REMATCH[2]}" ${words[@]+"${words[@]}"}
	fi
	if [[ $text =~ (^|[[:space:]])make[[:space:]](.*) ]]; then
		for word in ${BASH_REMATCH[2]}; do
			case $word in *=*) continue ;; esac
			target=${word%[\',;]}
			[[ $target =~ ^[a-z][a-z-]*$ ]] || continue
			grep -qE "^([a-z-]+ )*$target( [a-z-]+)*:" Makefile mk/*.mk || wrong "make has no target '$target'"
			break
		done
	fi
}

config_line() { # KEY: VALUE
	local name=${1%%:*} value=${1#*:} item plain
	value=${value# }
	known "$name" || name=${whole[$name]:-$name} # `optimizer: {kind: …}` is train.optimizer
	if ! known "$name"; then
		[ -n "${key[.$name]:-}" ] || [ "$name" = checkpoint ] || wrong "no config has the key '$name'"
		return
	fi
	case $value in
	*…*'}' | '{'*)
		plain=$(sed 's/"[^"]*"//g; s/[{}]//g' <<<"$value")
		while IFS= read -r -d , item; do
			item=${item%%:*} item=${item// /}
			[ -z "$item" ] || [ "$item" = … ] || known "$name.$item" || wrong "no config has the key '$name.$item'"
		done <<<"$plain,"
		;;
	*…* | '') ;;
	*'|'*) # a list of values, where each is a word
		[[ $value =~ ^[a-z0-9|]+$ ]] || return 0
		for item in ${value//|/ }; do takes "$name=$item" || wrong "$(cat "$tmp/out")"; done
		;;
	*) plain=${value#\"} && stands "$name=${plain%\"}" || wrong "$(cat "$tmp/out")" ;;
	esac
}

code() {
	local text=$1 word
	shell_line "$text"
	case $text in
	*[[:space:]]*) ;;
	client/* | server/* | common/* | examples/* | kernels/* | proto/* | tests/* | scripts/* | docs/* | configs/* | deploy/*)
		[[ $text =~ [*\<…{,] ]] || [ -e "$text" ] || [ -e "$text.c" ] || wrong "no file '$text'"
		return
		;;
	test_[a-z]*) [[ $text =~ [*…\<] ]] || [ "$text" = test_x ] || grep -qw "\"$text\"" client/persist/jsonl.c client/train/summary*.c || grep -qw "{\"${text#test_}\"" client/figures/metric.c || [ -n "${file[${text%.c}.c]:-}" ] || [ -n "${test[$text]:-}" ] || wrong "no test '$text'" ; return ;;
	esac
	if [[ $text =~ ^[a-z_0-9]+\.(c|h|cu|cuh|sh|proto|py)$ ]]; then
		[ -n "${file[$text]:-}" ] || wrong "no file '$text'"
	elif [[ $text =~ ^[a-z_]+(\.[a-z_]+)*:\  ]]; then
		config_line "$text"
	elif [[ $text =~ ^([a-z_]+)(\.[a-z_0-9]+)+$ ]] && [ -n "${section[${BASH_REMATCH[1]}]:-}" ]; then
		case $text in *.jsonl | *.safetensors) ;; *) known "$text" || wrong "no config has the key '$text'" ;; esac
	elif [[ $text =~ ^([a-z0-9]+)(:[a-z0-9.,=+-]*[0-9][a-z0-9.,=+-]*)?(\|.*)?$ ]] && [ -n "${codec[${BASH_REMATCH[1]}]:-}" ] && [[ $text =~ : ]]; then
		"$SPLITC" flops "$tmp/splitc.yaml" --set "codec=$text" --check-config >"$tmp/out" 2>&1 || wrong "$(cat "$tmp/out")"
	fi
}

heading() { # FILE ANCHOR
	sed -n 's/^##* *//p' "$1" | sed 's/[^A-Za-z0-9 _-]//g; s/ /-/g' | tr 'A-Z' 'a-z' | grep -qx -- "$2"
}

link() {
	local target=$1 from=${at%%:*} path
	case $target in http*:* | mailto:*) return ;; esac
	path=${target%%#*}
	[ -n "$path" ] && path=$(dirname "$from")/$path || path=$from
	[ -e "$path" ] || { wrong "no file '$path'"; return; }
	[[ $target == *#* ]] || return 0
	heading "$path" "${target#*#}" || wrong "no heading '${target#*#}' in $path"
}

# quoted PAGE…: a block that names an example has some of its lines, in their order.
quoted() {
	awk '
		/^```/ { close(file); file = file == "" && $2 ~ /^examples\// ? $2 : ""; next }
		file != "" && NF {
			while ((more = (getline text <file)) > 0 && text != $0) { }
			if (more <= 0) print FILENAME ":" FNR "\t" file " has no such line here: " $0
		}' "$@"
}

check() { # PAGE…
	local n=0 kind text
	bad=0
	said "$@" >"$tmp/said"
	while IFS=$'\t' read -r at kind text; do
		n=$((n + 1))
		case $kind in
		sh) shell_line "$text" ;;
		code) code "$text" ;;
		link) link "$text" ;;
		esac
	done <"$tmp/said"
	while IFS=$'\t' read -r at text; do wrong "$text"; done < <(quoted "$@")
	[ $n -gt 10 ] || fail "only $n texts in $*"
	texts=$n
}

check "${pages[@]}"
[ $bad = 0 ] || fail "$bad of what the pages name is not there"
good=$texts

# ---- a page with every kind of mistake: each of its lines is reported
cat >"$tmp/wrong.md" <<'MD'
`splitc trian CONFIG`
`splits serve CONFIG --daemon`
`splitc train … --parity`
`splitc help server`
`splitc train x --set train.bacth=4`
`splitc train x --set train.chunks=many`
`train.gone`
`train.on_nan: stop\|panic`
`train: {batch, chunkz, …}`
`store_gone: 3`
`optimizer: {kind: adam, gone: 0.9}`
`quant:17`
`make gone`
`tests/e2e/gone.sh`
`gone.c`
`test_gone`
[gone](gone.md)
[here](#gone)
```sh
build/release/splits gone    # a remark
```
```python examples/digits.py
        middle.gone()
```
MD
lines=$(grep -vc '^```' "$tmp/wrong.md")
check "$tmp/wrong.md" >"$tmp/found"
[ "$(grep -oE 'wrong\.md:[0-9]+: ' "$tmp/found" | sort -u | wc -l)" = "$lines" ] || { cat "$tmp/found"; fail "not every fault of the wrong page was found ($lines)"; }
echo "$good texts of ${#pages[@]} pages"
