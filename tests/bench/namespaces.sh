# Sourced by measurements over a shaped link. Makes two network namespaces that a veth pair joins: ${ns}c for the client
# with 127.1.0.1, and ${ns}s for the server with 127.1.0.2. tc (tbf) limits both directions to one rate. Needs root and
# iproute2. CONGESTION (reno) and NOTSENT_LOWAT: see shaped-link.sh.

namespaces_make() {
	ip netns add "${ns}c"
	ip netns add "${ns}s"
	ip link add split-c netns "${ns}c" type veth peer name split-s netns "${ns}s"
	for end in c:1 s:2; do
		side=${end%:*}
		in_ns=(ip netns exec "$ns$side")
		"${in_ns[@]}" ip link set lo up
		"${in_ns[@]}" ip addr del 127.0.0.1/8 dev lo
		"${in_ns[@]}" sh -c "echo 1 >/proc/sys/net/ipv4/conf/split-$side/route_localnet"
		"${in_ns[@]}" ip addr add "127.1.0.${end#*:}/24" dev "split-$side"
		"${in_ns[@]}" ip link set "split-$side" up
		"${in_ns[@]}" sh -c "echo ${CONGESTION:-reno} >/proc/sys/net/ipv4/tcp_congestion_control"
		[ -z "${NOTSENT_LOWAT:-}" ] || "${in_ns[@]}" sh -c "echo $NOTSENT_LOWAT >/proc/sys/net/ipv4/tcp_notsent_lowat"
	done
}

namespaces_remove() {
	ip netns del "${ns}c" 2>/dev/null || true
	ip netns del "${ns}s" 2>/dev/null || true
}

shape() { # MB/s of TCP payload; a frame of 1514 bytes carries 1448 bytes of it
	local bytes
	bytes=$(awk -v r="$1" 'BEGIN { printf "%d", r * 1e6 * 1514 / 1448 }')
	for side in c s; do
		ip netns exec "$ns$side" tc qdisc replace dev "split-$side" root tbf rate "${bytes}bps" burst 256kb limit 4mb
	done
}
