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
