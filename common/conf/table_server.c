/* The server's config. Order here is the order of --print-config; keys of one section stand together. */
#include "common/conf/check.h"
#include "common/conf/check_keys.h"
#include "common/conf/row.h"

typedef struct sl_conf_server T;

/* clang-format off */
static const struct sl_conf_key keys[] = {
	SL_STRING(T, "listen", listen, sl_conf_check_listen, "tcp://127.0.0.1:5570", "address to listen on; without auth it must be on loopback; port 0: any free port"),
	SL_STRING(T, "store", store, NULL, "", "folder for uploaded weights and the states of sessions; empty: nothing is kept, and no run can resume"),
	SL_INT64(T, "store_ttl_s", store_ttl_s, 0, 1e10, "2592000", "seconds; 0: for ever", "the store removes files that nobody used for this long"),
	SL_BYTES(T, "store_bytes", store_bytes, 0, 0x1p50, "0", "most bytes in the store; 0: half of the sum of its size and its file system's free space, which is measured again before each write: the limit grows with it"),
	SL_BYTES(T, "store_bytes_per_key", store_bytes_per_key, 0, 0x1p50, "0", "most bytes in the store for one client's key; 0: half of store_bytes"),
	SL_INT(T, "threads", threads, 0, 256, "0", "0: all CPUs", "threads that compute"),
	SL_CHOICE(T, "recompute", recompute, SL_WORDS("auto", "on", "off"), "auto", "compute activations again before backward, on a CPU, to save memory; no bit changes; auto: where memory would not suffice"),
	SL_STRING(T, "device", device, sl_conf_check_server_device, "auto", "where the middle runs: auto, cpu or cuda:N"),
	SL_BOOL(T, "deterministic", deterministic, "true", "use only algorithms that give the same bits every time"),

	SL_BYTES(T, "link.window_bytes", link.window_bytes, 4096, 0x1p34, "64 MiB", "credit: the most bytes in flight in one direction of a session"),

	SL_STRING(T, "auth.secret_key", auth.secret_key, NULL, "", "key file of this server, made by splits keygen; empty: no authentication"),
	SL_STRING(T, "auth.clients", auth.clients, NULL, "", "list of admitted clients, KEY NAME on each line; the server reads it again on SIGHUP"),

	SL_INT(T, "limits.sessions", limits.sessions, 1, 1024, "8", NULL, "most sessions at once"),
	SL_INT(T, "limits.sessions_per_key", limits.sessions_per_key, 1, 1024, "4", NULL, "most sessions at once for one client's key"),
	SL_INT(T, "limits.connections_per_s", limits.connections_per_s, 2, 1000000, "64", NULL, "most new connections in a second; half of it from one address"),
	SL_BYTES(T, "limits.memory_bytes", limits.memory_bytes, 1 << 20, 0x1p44, "8 GiB", "memory of all sessions; on CPUs at most 7/8 of what the process can have"),
	SL_BYTES(T, "limits.memory_bytes_per_key", limits.memory_bytes_per_key, 0, 0x1p44, "0", "memory of all sessions of one client's key; 0: half of limits.memory_bytes, or all of it where the list has one client"),
	SL_INT(T, "limits.task_s", limits.task_s, 0, 86400, "120", "seconds of one thread; 0: no limit", "predicted cost of the longest task that a session may have"),
	SL_INT(T, "limits.piece_ms", limits.piece_ms, 0, 600000, "1000", "ms; 0: no limit", "predicted time that a session's task may keep others waiting at a stretch"),
	SL_INT(T, "limits.report_samples", limits.report_samples, 1, 1000000000, "20", NULL, "fewest samples of an evaluation whose figures a member of a group may report"),
	SL_BYTES(T, "limits.part_bytes", limits.part_bytes, 4096, 1 << 20, "1 MiB", "largest message payload a client may send"),

	SL_CHOICE(T, "log.level", log.level, SL_WORDS("error", "warn", "info", "debug"), "info", "least severe lines that are logged to stderr"),
	SL_INT(T, "watchdog_s", watchdog_s, 0, 86400, "300", "seconds; 0: never", "a task (a kernel, a file) that takes longer counts as hung: the server ends with status 75"),
	SL_INT(T, "drain_s", drain_s, 0, 3600, "10", "seconds", "time to end in good order after SIGTERM; a second SIGTERM ends the server at once"),
	SL_STRING(T, "control", control, NULL, "", "Unix socket for splits status; empty: splits.sock in $XDG_RUNTIME_DIR, /run/split, /run/user/UID or a folder split-UID of mode 0700"),
	SL_STRING(T, "metrics", metrics, sl_conf_check_metrics, "", "address of /metrics for Prometheus, such as 127.0.0.1:9570; whoever reaches it can read it; empty: none"),
	SL_NAMES(T, "metrics_hosts", metrics_hosts, sl_conf_check_word, "", "host names under which /metrics may be asked, besides localhost and addresses, such as [split.example.org]"),
};
/* clang-format on */

static const char *finish(void *conf, char why[SL_CONF_WHY])
{
	struct sl_conf_server *c = conf;

	if (!c->auth.secret_key[0] != !c->auth.clients[0])
		return sl_conf_say(why, c->auth.secret_key[0] ? "auth.secret_key" : "auth.clients",
				   "auth needs both secret_key and clients, or neither");
	if (!c->auth.secret_key[0] && !sl_conf_is_loopback(c->listen))
		return sl_conf_say(
			why, "listen",
			"must be on loopback, such as tcp://127.0.0.1:5570, unless auth.secret_key and auth.clients "
			"are set; got \"%.60s\"",
			c->listen);
	if (!sl_conf_default_control(c->control, "splits", NULL))
		return sl_conf_say(why, "control",
				   "$XDG_RUNTIME_DIR is too long for a socket: give a path of at most %d bytes",
				   SL_CONF_SOCKET_PATH - 1);
	return NULL;
}

_Static_assert(sizeof keys / sizeof keys[0] <= SL_CONF_MAX_KEYS, "struct sl_conf_origin has too few marks");

const struct sl_conf_schema sl_conf_server_schema = {
	.key = keys,
	.n_key = sizeof keys / sizeof keys[0],
	.size = sizeof(T),
	.origin_offset = offsetof(T, origin),
	.other = "splitc",
	.of_other =
		SL_WORDS("server", "model", "partition", "head_end", "tail_begin", "insert", "data", "train", "codec"),
	.finish = finish,
};
