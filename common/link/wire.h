/* Frames: the plain C form of a message's header, and its protobuf encoding (proto/split.proto, docs/WIRE.md).
 * Decoding refuses unknown kinds, missing and extra fields, sizes beyond the limits, and payloads that the kind does
 * not have. Nothing is allocated per frame that outlives the call. Thread-safe. */
#ifndef SL_LINK_WIRE_H
#define SL_LINK_WIRE_H

#include <stdbool.h>

#include "common/base/buf.h"
#include "common/base/err.h"

enum {
	SL_WIRE_VERSION = 13,
	SL_WIRE_HEADER_MAX = 4096,
	SL_WIRE_PART_MAX = 1 << 20,
	SL_WIRE_TEXT_MAX = 384,
	SL_WIRE_DEVICE = 48,           /* a server's name for its device, with NUL */
	SL_WIRE_HELLO_MAX = 256 << 10, /* payload of a Hello, whatever part_bytes says */
	SL_WIRE_HELD_MAX = 7,          /* steps that a Hello offers */
	SL_WIRE_KEPT = 2,              /* checkpoints that a COMMIT names */
	SL_SESSION_BYTES = 32,         /* a session's id; link/proof.h proves it */
	SL_PROOF_BYTES = 64,
	SL_NONCE_BYTES = 32,
	SL_WIRE_ENDS_HASH = 16, /* XXH3-128 of head and tail as SL_PART_ENDS carries them */
	SL_WIRE_ORDER = 16      /* bytes of SL_PART_ORDER */
};

enum sl_frame_kind {
	SL_FRAME_HELLO,     /* client → server: opens a session */
	SL_FRAME_WELCOME,   /* server → client */
	SL_FRAME_REFUSE,    /* either way: the session ends, and why */
	SL_FRAME_PART,      /* a part of a tensor or of weights, with payload */
	SL_FRAME_CREDIT,    /* either way: this side has consumed so many bytes more; the other may send as many more */
	SL_FRAME_COMMIT,    /* client → server: apply the step */
	SL_FRAME_COMMITTED, /* server → client */
	SL_FRAME_FETCH, /* asks the server for the middle's weights, or the client for head and tail, or their hash */
	SL_FRAME_HEARTBEAT, /* either way */
	SL_FRAME_BYE,       /* client → server: done, forget the session */
	SL_FRAME_ABANDON,   /* either way: NaN or Inf in the step under way, which is not applied */
	SL_FRAME_CHALLENGE, /* server → client: say Hello again, with a proof */
	SL_FRAME_NORM,      /* server → client: sum of squares of the middle's gradient, for clipping */
	SL_FRAME_RECORD,    /* server → client, in a group: who took part in its steps */
	SL_FRAME_REPORT,    /* in a group: a member's figures; back: why the server does not take them */
	SL_FRAME_COUNT
};

/* The contents of a run: a tensor, or weights, that is sent in parts. The first four equal enum sl_dir. */
enum sl_part_what {
	SL_PART_HEAD_ACT,
	SL_PART_MID_ACT,
	SL_PART_MID_GRAD,
	SL_PART_HEAD_GRAD,
	SL_PART_WEIGHTS, /* the middle's parameters, f32, in the plan's order: upload and fetch */
	/* in a group with shared heads and tails: how a member's step would change them, and the mean of all members'
	   changes (session/mean.h) */
	SL_PART_END_GRAD,
	SL_PART_END_MEAN,
	SL_PART_ENDS, /* a member's head and tail, for one that comes or the store; or only their hash,
			 SL_WIRE_ENDS_HASH bytes */
	/* in a vertical group: a keyed hash of the rows of a pass, which begins it; the server sends it back where a
	   party has nothing else to wait for */
	SL_PART_ORDER,
	SL_PART_LETTER, /* of an alignment: sealed, for the other member */
	SL_PART_WHAT_COUNT
};
/* Whether a run carries weights, and so belongs to no pass. */
static inline bool sl_part_is_state(uint32_t what)
{
	return what == SL_PART_WEIGHTS || what == SL_PART_ENDS;
}

/* The source of the middle's initial weights. */
enum sl_weights_source { SL_WEIGHTS_SEED, SL_WEIGHTS_HASH };

/* Opens a session. With a proof it has a payload: the agreement and the network (session/agree.h), from which the
 * server builds the same plan; plan_hash proves that it did. Without a proof it asks for a nonce. */
struct sl_hello {
	uint32_t version;                  /* SL_WIRE_VERSION */
	uint8_t session[SL_SESSION_BYTES]; /* the session's id, a public key */
	uint8_t proof[SL_PROOF_BYTES];     /* proves that the client has the secret half; zeros: no proof yet */
	uint64_t epoch;                    /* number of this link of the session; a higher one replaces older links */
	uint8_t plan_hash[16];             /* XXH3-128 of the plan's canonical text */
	char software[32];                 /* "splitc 0.2.0": for logs */
	uint64_t payload_xxh3;             /* XXH3-64 of the payload that goes with a proof */
	uint32_t weights_source;           /* enum sl_weights_source */
	uint8_t weights_hash[16];          /* XXH3-128 of the middle's parameters as SL_PART_WEIGHTS carries them */
	uint32_t part_bytes;               /* largest payload of a part that the client accepts */
	uint64_t window_bytes;             /* credit that the client grants the server */
	uint32_t heartbeat_ms, timeout_ms;
	/* Steps from which the client can resume, newest first: the one in its memory, its checkpoints, 0 for a fresh
	 * start. The server chooses the newest from which it can resume, too. */
	uint32_t n_held; /* 1 … SL_WIRE_HELD_MAX */
	uint64_t held[SL_WIRE_HELD_MAX];
	uint64_t run_steps; /* steps of the client's whole run */
};

static inline bool sl_hello_holds(const struct sl_hello *h, uint64_t step)
{
	for (uint32_t i = 0; i < h->n_held; i++)
		if (h->held[i] == step)
			return true;
	return false;
}

/* Whether the client begins anew. */
static inline bool sl_hello_is_new(const struct sl_hello *h)
{
	return h->n_held == 1 && h->held[0] == 0;
}

/* Whether the client's run has done all of its steps: only evaluations and the fetch of weights can follow. */
static inline bool sl_hello_is_done(const struct sl_hello *h)
{
	return h->run_steps && sl_hello_holds(h, h->run_steps);
}

/* sl_welcome.made: the server does not know, and the client resumes from what it has. */
#define SL_MADE_UNKNOWN UINT64_MAX
/* In `made`, beside a branch: the member came before this step, and its codecs began anew. A server that was started
 * again from an older checkpoint of the step does not know that, so its `made` is another one. */
#define SL_MADE_ANEW (UINT64_C(1) << 63)

struct sl_welcome {
	uint32_t version;
	uint8_t plan_hash[16];
	uint32_t part_bytes;
	uint64_t window_bytes;
	uint64_t next_step;
	uint64_t made;     /* epoch of the link whose COMMIT made the state before that step; 0: the first weights */
	uint64_t branch;   /* in a group: the value of `made` for the states that follow; else 0 */
	bool need_weights; /* the server's store lacks weights_hash: the client must upload them */
	char software[32];
	char device[SL_WIRE_DEVICE]; /* "cpu: avx512, …", "cuda:0: NVIDIA H200" */
	/* The step that comes next. If it is above next_step, the group did the steps between without this member,
	 * and they left the member's state before next_step unchanged. */
	uint64_t begin;
	bool common; /* in a group: next_step is the newest that all members hold, and the server has lost nothing */
	bool ends;   /* in a group: a run of SL_PART_ENDS follows, with head and tail as they are before `begin` */
};

struct sl_challenge {
	uint8_t nonce[SL_NONCE_BYTES]; /* only for this connection */
	uint64_t above; /* if it answers a proven Hello whose epoch is too low: the next one must be above; else 0 */
};

struct sl_refuse {
	uint32_t code;         /* enum sl_err; on the wire its number in docs/WIRE.md */
	char key[SL_FAIL_KEY]; /* the config's key, or "node NAME" of the network, that is to blame; "": neither */
	char text[SL_WIRE_TEXT_MAX]; /* the reason, a sentence that names both values */
};

struct sl_part {
	uint32_t what; /* enum sl_part_what */
	bool training; /* false: a chunk of an evaluation */
	uint64_t step; /* in training the step; in an evaluation the number of its batch */
	uint32_t chunk;
	uint32_t rows;       /* of the chunk (activations, gradients); 0 for weights */
	uint32_t batch_rows; /* of the whole batch: a ragged last batch is known from the first part on */
	uint64_t total;      /* bytes of the whole run */
	uint64_t offset;     /* of this part in the run */
	uint64_t xxh3;       /* XXH3-64 of the payload */
	uint32_t tokens;     /* of the chunk; 0: the network has none, or weights */
	uint32_t answers;    /* tokens of the step's batch that have a loss; 0: they are not counted */
};

struct sl_commit {
	uint64_t step;
	uint32_t chunks;
	double lr;
	bool checkpoint;             /* write the state after this step to disk */
	bool skip;                   /* apply nothing: the step was abandoned, and counts as done */
	uint64_t kept[SL_WIRE_KEPT]; /* steps of the checkpoints on the client's own disk, newest first; 0: none */
	double grad_scale;           /* if the run clips: factor on the gradient; else 0 */
	bool writing;                /* kept[0] is still being written */
};

struct sl_wire_norm {
	uint64_t step;
	double squares; /* sum of squares of the middle's gradient, over its trainable parameters */
};

struct sl_committed {
	uint64_t step;
	double compute_s;  /* the server's kernels in this step */
	bool checkpointed; /* the checkpoint that was asked for is on disk */
	bool mean;         /* a run of SL_PART_END_MEAN belongs to the step */
	bool other_lr;     /* the group took another learning rate than this client's: lr */
	double lr;
};

struct sl_abandon {
	uint64_t step;
	char text[SL_WIRE_TEXT_MAX]; /* names the tensor and its chunk */
	bool late;                   /* no tensor is bad: the group's other members did this step without the client */
};

struct sl_heartbeat {
	uint64_t sent_ms; /* by the sender's clock */
	uint64_t echo_ms; /* sent as 0; older peers of this protocol measured round trips with it */
};

enum { SL_WIRE_RECORD = 2048 };

/* A piece of the text that says who took part in a group's steps (docs/WIRE.md). */
struct sl_wire_record {
	char text[SL_WIRE_RECORD + 1];
	bool more; /* another piece follows */
};

/* Bytes of JSON: what a frame can carry, so that a server can say that it is too long, and what a report may have. */
enum { SL_WIRE_REPORT = 2048, SL_WIRE_REPORT_MOST = 1024 };

struct sl_wire_report {
	char text[SL_WIRE_REPORT + 1];
	uint8_t signature[SL_PROOF_BYTES];
};

struct sl_frame {
	enum sl_frame_kind kind;
	uint64_t epoch; /* of the session's link; frames of older links are dropped and counted */
	union {
		struct sl_hello hello;
		struct sl_welcome welcome;
		struct sl_refuse refuse;
		struct sl_part part;
		struct {
			uint64_t bytes;
		} credit;
		struct {
			bool whole; /* from a server: send all of head and tail; else only their hash */
		} fetch;
		struct sl_commit commit;
		struct sl_committed committed;
		struct sl_heartbeat heartbeat;
		struct sl_abandon abandon;
		struct sl_challenge challenge;
		struct sl_wire_norm norm;
		struct sl_wire_record record;
		struct sl_wire_report report;
	} u;
	/* Borrowed. A PART has 1 … part_bytes bytes, a HELLO with a proof 1 … SL_WIRE_HELLO_MAX, others none. */
	struct sl_bytes payload;
};

const char *sl_frame_kind_name(enum sl_frame_kind kind);

/* Writes the header of `frame`, which ends with its own XXH3. The payload is sent beside it. LIMIT: longer than
 * SL_WIRE_HEADER_MAX. DATA: a text is not terminated or has control characters, or an enum is out of range; the peer
 * would refuse such a frame. */
enum sl_err sl_wire_encode(const struct sl_frame *frame, uint8_t header[SL_WIRE_HEADER_MAX], size_t *len) SL_MUST_CHECK;
/* PROTOCOL with a sentence: malformed, or the payload's XXH3 differs ("corrupt"). VERSION, naming both: a Hello or
 * Welcome is not readable because the peer speaks another version. If it is readable, the session must refuse it. */
enum sl_err sl_wire_decode(struct sl_bytes header, struct sl_bytes payload, struct sl_frame *frame,
			   struct sl_fail *fail) SL_MUST_CHECK;
/* Returns VERSION, with a sentence that is true at both ends, since a Refuse carries it to the other: the client (if
 * `clients`), or the server, speaks version `theirs`, this side SL_WIRE_VERSION. */
enum sl_err sl_wire_other_version(uint32_t theirs, bool clients, struct sl_fail *fail);

/* Fills a Refuse with a failure. */
void sl_refuse_fill(struct sl_refuse *out, const struct sl_fail *why);

/* The hash of a payload for sl_part.xxh3 and sl_hello.payload_xxh3. */
uint64_t sl_wire_hash(struct sl_bytes payload);

#endif
