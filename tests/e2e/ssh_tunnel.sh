#!/usr/bin/env bash
# The tunnel of docs/howto-keys.md: a run through ssh, whose key exchange a quantum computer does not break, equals the
# same run without it; over a tunnel that breaks, too.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
sshd=$(command -v sshd || echo /usr/sbin/sshd)
command -v ssh >/dev/null && [ -x "$sshd" ] || { echo 'no sshd here'; exit 77; }
kex=sntrup761x25519-sha512@openssh.com
ssh -Q kex | grep -qx "$kex" || { echo "this ssh has no $kex"; exit 77; }
make_data 48 16
start_server host
write_config "$tmp/client.yaml"
client direct "$tmp/client.yaml" || fail "without a tunnel: exit status $?"

for key in host user; do ssh-keygen -q -t ed25519 -N '' -f "$tmp/$key-key"; done
cp "$tmp/user-key.pub" "$tmp/authorized"
port=$(free_port) local_port=$(free_port)
cat >"$tmp/sshd_config" <<-CONFIG
	ListenAddress 127.0.0.1
	Port $port
	HostKey $tmp/host-key
	AuthorizedKeysFile $tmp/authorized
	PidFile none
	StrictModes no
	UsePAM no
	PasswordAuthentication no
	KexAlgorithms $kex
	AllowTcpForwarding local
	PermitOpen ${endpoint#tcp://}
CONFIG
[ "$(id -u)" != 0 ] || mkdir -p /run/sshd
start_sshd() {
	"$sshd" -D -e -f "$tmp/sshd_config" 2>"$tmp/sshd.log" &
	sshd_pid=$!
	started+=("$sshd_pid")
	wait_for 'sshd does not listen' grep -q 'Server listening' "$tmp/sshd.log"
}
# the recipe
start_tunnel() {
	ssh -N -L "127.0.0.1:$local_port:${endpoint#tcp://}" -o KexAlgorithms=$kex -o ExitOnForwardFailure=yes -o ServerAliveInterval=5 \
		-p "$port" -i "$tmp/user-key" -o IdentitiesOnly=yes -o StrictHostKeyChecking=accept-new -o UserKnownHostsFile="$tmp/known" \
		-F none "$(id -un)@127.0.0.1" 2>"$tmp/ssh.log" &
	ssh_pid=$!
	started+=("$ssh_pid")
	wait_for "no tunnel" bash -c "exec 3<>/dev/tcp/127.0.0.1/$local_port"
}
start_sshd
start_tunnel
client tunnel "$tmp/client.yaml" --set server="tcp://127.0.0.1:$local_port" || fail "through the tunnel: exit status $?"
same_run tunnel direct 3
! grep -q "$kex" "$tmp/ssh.log" || fail "ssh refused the exchange: $(cat "$tmp/ssh.log")"

# the tunnel breaks, and is made again
client_stands 2 broken "$tmp/client.yaml" --set server="tcp://127.0.0.1:$local_port" --set link.on_server_lost=wait
end_process "$ssh_pid"
start_tunnel
let_go broken
ends_with "$client_pid" 0 $patience 'the run over a broken tunnel'
same_run broken direct 3
echo passed
