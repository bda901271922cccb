# lines FROM TO: prints texts without labels, in which each word determines the next.
lines() {
	awk -v from="$1" -v to="$2" 'BEGIN {
		n = split("green red the a boxes of un fish water said", word, " ")
		for (i = from; i < to; i++) {
			text = word[i % n + 1]
			for (k = 1; k < 2 + i * i % 7; k++) text = text " " word[(i + k) % n + 1]
			print text "."
		}
	}'
}
