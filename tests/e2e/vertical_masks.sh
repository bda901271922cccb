#!/usr/bin/env bash
# Pictures at one site, masks at another one: configs/vertical-pictures.yaml and -masks.yaml train a U-Net over links. The
# weights are those of one process with the data of both, and of one client that has pictures and masks.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
. tests/e2e/lib/vertical.sh
python=${PYTHON:-/usr/bin/python3}
"$python" -c 'import torch, torchvision, onnx, PIL' 2>/dev/null || { echo 'SKIP no PyTorch' && exit 77; }
"$python" -W ignore tests/golden/cuts_live.py make "$tmp/photos" >"$tmp/made" 2>&1 || fail "make: $(tail -n 3 "$tmp/made")"
start_server one threads=2
"$SPLITC" keygen --out "$tmp/pair.key" >"$tmp/keygen.log" 2>&1 || fail "keygen: $(cat "$tmp/keygen.log")"

# The network and its layers, sizes and folders are the test's; all else is as in configs/.
sites() { # HEAD_END TAIL_BEGIN
	sed -e "s,unet.safetensors,$tmp/photos/unet.safetensors," -e "s,pair.key,$tmp/pair.key," -e 's/classes: 2, image: 128/classes: 3, image: 32/' \
		-e "s/^head_end:.*/head_end: $1/; s/^tail_begin:.*/tail_begin: $2/" -e 's/(128, 128)/(32, 32)/' \
		-e "s,dir: scans,dir: $tmp/photos," -e "s,dir: masks,dir: $tmp/photos/masks," -e 's/label: .*/label: [back, disc, square]/' \
		-e 's/batch: 16, chunks: 4, epochs: 20/batch: 8, chunks: 2, epochs: 3/' "configs/vertical-$4.yaml" >"$tmp/$3.yaml"
}
cuts=('e0.5 d0 codec=quant:8' 'e0.5 d0 codec=none train.optimizer.kind=sgd train.optimizer.lr=0.1')
for i in "${!cuts[@]}"; do
	read -r head tail keys <<<"${cuts[$i]}"
	sites "$head" "$tail" A pictures
	sites "$head" "$tail" B masks
	read -r -a keys <<<"$keys"
	vertical "masks-$i" "${keys[@]}"
	sed -e '/^share:/d' -e '/^  id:/d' -e "s,dir: $tmp/photos\$,dir: $tmp/photos\n  label: [back\, disc\, square]," "$tmp/A.yaml" >"$tmp/one.yaml"
	set=()
	for key in "${keys[@]}"; do set+=(--set "$key"); done
	client "one-$i" "$tmp/one.yaml" --local "${set[@]}" || fail "one client: exit status $?"
	diff <(learned "one-$i") <(learned "masks-$i-B") >"$tmp/differ" || fail "one client with pictures and masks learned otherwise: $(head -n 4 "$tmp/differ")"
	diff <(tensors_of "$tmp/one-$i") <({ tensors_of "$tmp/masks-$i-A"; tensors_of "$tmp/masks-$i-B"; } | sort -u) >"$tmp/differ" ||
		fail "one client with pictures and masks has other weights: $(head -n 4 "$tmp/differ")"
done

# Site A finds masks in head_grad, by a decoder; nothing if its head is frozen. Leak wants 40 pictures.
"$python" - "$tmp/photos" <<-'PYTHON'
	import sys
	import numpy as np
	sys.path.insert(0, "tests/golden")
	from pixels_live import make_pair
	rng = np.random.default_rng(6)
	for i in range(4, 60):
	    make_pair(rng, sys.argv[1], "val", i)
PYTHON
leak() { # NAME KEY=VALUE ARGUMENT…
	timeout -k 5 $patience "$SPLITC" leak "$tmp/masks-1-B.yaml" --party "$tmp/masks-1-A.yaml" --set log.dir="$tmp/masks-1-local" \
		--set "$2" --out "$tmp/$1" "${@:3}" >"$tmp/$1.log" 2>&1 || fail "$1: exit status $?"
}
leak masks-leak threads=2 --steps 80
jq -e '(.site_a.head_grad_masks | .value > .chance + 0.03 and .chance > 0.7 and .samples == 12) and .site_b.psnr_db.value > 0' "$tmp/masks-leak/leak.json" >"$tmp/out" ||
	fail "masks: $(jq .site_a "$tmp/masks-leak/leak.json")"
"$python" tests/golden/leak_page.py "$tmp/masks-leak" 'Attacker site_a' 'Only what member A finds was measured' || fail 'the page'
leak masks-frozen 'train.freeze=e0.*' --steps 2
jq -e '.site_a == null and (.not_measured | any(startswith("Labels from head_grad: the head is frozen")))' "$tmp/masks-frozen/leak.json" >"$tmp/out" || fail 'a frozen head gets masks'
