/* A server's host on a loop, and clients that send it frames, over the inproc transport or, with
 * auth, TCP. One rig per process. All functions fail the test on an error. */
#ifndef SL_TESTS_HOST_RIG_H
#define SL_TESTS_HOST_RIG_H

#include "common/link/proof.h"
#include "common/link/transport.h"
#include "server/host/auth.h"
#include "server/host/host.h"
#include "tests/support/asked.h"

enum { HOST_RIG_PART = 1 << 16, HOST_RIG_GIVE_UP_MS = 120000, HOST_RIG_STEP_MS = 2 };

/* A client without a session object: it counts the frames that arrive and keeps the last one of each kind. */
struct host_client {
	struct sl_transport *transport;
	int came[SL_FRAME_COUNT];
	struct sl_frame last[SL_FRAME_COUNT];
	uint64_t payload_bytes, header_bytes[SL_FRAME_COUNT];
	uint64_t parts_hash;   /* of the hashes of all parts, in their order */
	struct sl_frame hello; /* the last Hello sent; on the first Challenge it is sent again with its proof */
	bool mute;             /* answers no Challenge */
	int out_of_order;      /* parts that do not start where the last one ended */
};

struct host_auth_files {
	char secret_key[300], clients[300];
};

extern struct host_rig {
	struct sl_loop *loop;
	struct sl_host *host;
	struct sl_conf_server conf;
	struct sl_backend cpu, counting;
	struct sl_backend_ops counting_ops;
	size_t taken;      /* total bytes that the backend was asked for */
	const char *store; /* set before host_rig_open, as by host_rig_make_store; NULL: none */
	int piece_ms;      /* set before host_rig_open: limits.piece_ms; 0: none */
	struct sl_device device;
	struct sl_server_auth auth;
} host_rig;

/* files NULL: without authentication. */
void host_rig_open_with(const struct host_auth_files *files, int sessions, int64_t memory_bytes);
void host_rig_open(int sessions, int64_t memory_bytes);
void host_rig_close(void);
/* A folder for the server's store, and its end with all that is in it. */
void host_rig_make_store(void);
void host_rig_remove_store(void);

/* Runs the loop: await until *count ≥ least, turn for one tick of HOST_RIG_STEP_MS. */
void host_rig_await(const int *count, int least);
void host_rig_turn(void);

void host_rig_connect_with(struct host_client *c, const struct sl_transport_auth *with);
void host_rig_connect_raw(struct host_client *c);
void host_rig_say(struct host_client *c, const struct sl_frame *f);
/* Sends a part with a payload of at most HOST_RIG_PART bytes, and sets the part's hash. */
void host_rig_say_part(struct host_client *c, struct sl_frame *part, struct sl_bytes payload);
void host_rig_hang_up(struct host_client *c);

struct asked host_rig_agreement_of(int classes, int image, int64_t batch);
/* A Hello that the server's plan agrees with. *weight_count (or NULL) is set to the number of the middle's weights.
 * The payload stays valid until about a hundred more are made. host_rig_say adds the proof on the Challenge. */
struct sl_frame host_rig_hello_of(const struct asked *a, uint8_t session, uint64_t epoch, int64_t *weight_count);
/* Replaces the first occurrence of `from` in the Hello's payload. */
void host_rig_reword(struct sl_frame *hello, const char *from, const char *to);
struct sl_frame host_rig_small_hello(uint8_t session, uint64_t epoch);
/* The secret of a session; the same number gives the same secret. */
const struct sl_secret *host_rig_secret(uint8_t session);
/* Waits for a refusal and checks its code. Returns its text. */
const char *host_rig_refusal(struct host_client *c, enum sl_err code);

#endif
