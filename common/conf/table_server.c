/* The server's config. Order here is the order of --print-config; keys of one section stand together. */
#include "common/conf/check.h"
#include "common/conf/row.h"

typedef struct sl_conf_server T;

/* clang-format off */
static const struct sl_conf_key keys[] = {
	SL_STRING(T, "listen", listen, sl_conf_check_listen, "tcp://127.0.0.1:5570", "address to listen on, without auth on loopback only; port 0: any free one"),
	SL_STRING(T, "store", store, NULL, "", "folder of uploaded weights and of sessions' states; empty: nothing is kept, and no run can go on from a checkpoint"),
	SL_INT64(T, "store_ttl_s", store_ttl_s, 0, 1e10, "2592000", "seconds; 0: for ever", "files of the store that nobody has used for so long are removed"),
	SL_BYTES(T, "store_bytes", store_bytes, 0, 0x1p50, "0", "most bytes of the store; 0: half of what it holds and its file system has free at the start"),
	SL_BYTES(T, "store_bytes_per_key", store_bytes_per_key, 0, 0x1p50, "0", "most bytes of the store for one client's key, whose own oldest files leave first; 0: half of store_bytes"),
	SL_INT(T, "threads", threads, 0, 256, "0", "0: all CPUs", "threads that compute"),
	SL_STRING(T, "device", device, sl_conf_check_server_device, "auto", "where the middle runs: auto, cpu or cuda:N"),
	SL_BOOL(T, "deterministic", deterministic, "true", "take only algorithms that give the same bits every time"),
	SL_BOOL(T, "graphs", graphs, "false", "on a GPU: record what a chunk needs once, and launch it as one (CUDA graphs)"),
	SL_BOOL(T, "overlap", overlap, "false", "on a GPU: queue a chunk's work while the one before it is computed, and copy payloads beside"),

	SL_BYTES(T, "link.part_bytes", link.part_bytes, 4096, 1 << 20, "1 MiB", "payload of one message"),
	SL_BYTES(T, "link.window_bytes", link.window_bytes, 4096, 0x1p34, "64 MiB", "credit: most bytes in flight in one direction of a session"),
	SL_INT(T, "link.heartbeat_ms", link.heartbeat_ms, 50, 60000, "1000", "ms", "sign of life when there is nothing to send"),
	SL_INT(T, "link.timeout_ms", link.timeout_ms, 100, 600000, "10000", "ms", "silence after which a client is lost"),

	SL_STRING(T, "auth.secret_key", auth.secret_key, NULL, "", "key file of this server, made by splits keygen; empty: no authentication"),
	SL_STRING(T, "auth.clients", auth.clients, NULL, "", "file of clients that may come in, one KEY NAME a line; read again on SIGHUP"),

	SL_INT(T, "limits.sessions", limits.sessions, 1, 1024, "8", NULL, "sessions at once"),
	SL_INT(T, "limits.sessions_per_key", limits.sessions_per_key, 1, 1024, "4", NULL, "sessions at once of one client's key"),
	SL_INT(T, "limits.connections_per_s", limits.connections_per_s, 2, 1000000, "64", NULL, "connections that may come in a second; half of it from one address"),
	SL_BYTES(T, "limits.memory_bytes", limits.memory_bytes, 1 << 20, 0x1p44, "8 GiB", "memory of all sessions together"),
	SL_INT(T, "limits.task_s", limits.task_s, 0, 86400, "120", "seconds of one thread; 0: no limit", "predicted cost of the longest task that a session may have"),
	SL_INT(T, "limits.piece_ms", limits.piece_ms, 0, 600000, "1000", "ms; 0: no limit", "predicted time that a session's task may keep others waiting at a stretch"),
	SL_BYTES(T, "limits.part_bytes", limits.part_bytes, 4096, 1 << 20, "1 MiB", "largest message payload a client may send"),

	SL_CHOICE(T, "log.level", log.level, SL_WORDS("error", "warn", "info", "debug"), "info", "of the lines on stderr"),
	SL_INT(T, "watchdog_s", watchdog_s, 0, 86400, "300", "seconds; 0: never", "a kernel or file that takes longer hangs: end with status 75"),
	SL_INT(T, "drain_s", drain_s, 0, 3600, "10", "seconds", "SIGTERM ends the server in good order within them; a second one at once"),
	SL_STRING(T, "control", control, NULL, "", "Unix socket of splits status; empty: splits.sock in $XDG_RUNTIME_DIR, /run/split or /tmp"),
	SL_STRING(T, "metrics", metrics, sl_conf_check_metrics, "", "address of /metrics for Prometheus, such as 127.0.0.1:9570; on another address than loopback everybody there can read it; empty: none"),
};
/* clang-format on */

static const char *finish(void *conf, char why[SL_CONF_WHY])
{
	struct sl_conf_server *c = conf;

	if (!c->auth.secret_key[0] != !c->auth.clients[0]) {
		snprintf(why, SL_CONF_WHY, "auth needs both secret_key and clients, or neither");
		return c->auth.secret_key[0] ? "auth.secret_key" : "auth.clients";
	}
	if (!c->auth.secret_key[0] && !sl_conf_is_loopback(c->listen)) {
		snprintf(why, SL_CONF_WHY,
			 "must be on loopback, such as tcp://127.0.0.1:5570, where auth.secret_key and auth.clients do "
			 "not say who may come in; got \"%.60s\"",
			 c->listen);
		return "listen";
	}
	if (!sl_conf_default_control(c->control, "splits", NULL)) {
		snprintf(why, SL_CONF_WHY, "$XDG_RUNTIME_DIR is too long for a socket: give a path of at most %d bytes",
			 SL_CONF_SOCKET_PATH - 1);
		return "control";
	}
	return sl_conf_check_link(&c->link, why);
}

_Static_assert(sizeof keys / sizeof keys[0] <= SL_CONF_MAX_KEYS, "struct sl_conf_origin has too few marks");

const struct sl_conf_schema sl_conf_server_schema = {
	.key = keys,
	.n_key = sizeof keys / sizeof keys[0],
	.size = sizeof(T),
	.origin_offset = offsetof(T, origin),
	.other = &sl_conf_client_schema,
	.program = "splits",
	.finish = finish,
};
