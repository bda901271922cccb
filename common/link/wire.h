/* Frames: the plain C form of a message's header, and its protobuf encoding (proto/split.proto, docs/WIRE.md).
 * Decoding refuses unknown kinds, missing and extra fields, sizes beyond the limits, and payloads that the kind does
 * not have. Nothing is allocated per frame that outlives the call. Thread-safe. */
#ifndef SL_LINK_WIRE_H
#define SL_LINK_WIRE_H

#include <stdbool.h>

#include "common/base/buf.h"
#include "common/base/err.h"

enum {
	SL_WIRE_VERSION = 12,
	SL_WIRE_HEADER_MAX = 4096,
	SL_WIRE_PART_MAX = 1 << 20,
	SL_WIRE_TEXT_MAX = 384,
	SL_WIRE_DEVICE = 48,           /* how a server calls its device, with its NUL */
	SL_WIRE_HELLO_MAX = 256 << 10, /* payload of a Hello, whatever part_bytes says */
	SL_WIRE_HELD_MAX = 4,          /* steps that Hello offers */
	SL_WIRE_KEPT = 2,              /* checkpoints that COMMIT names */
	SL_SESSION_BYTES = 32,         /* a session's id, and how it is proven: link/proof.h */
	SL_PROOF_BYTES = 64,
	SL_NONCE_BYTES = 32,
	SL_WIRE_ENDS_HASH = 16 /* XXH3-128 of head and tail as SL_PART_ENDS carries them */
};

enum sl_frame_kind {
	SL_FRAME_HELLO,     /* client → server: opens a session */
	SL_FRAME_WELCOME,   /* server → client */
	SL_FRAME_REFUSE,    /* either way: the session ends, and why */
	SL_FRAME_PART,      /* a part of a tensor or of weights, with payload */
	SL_FRAME_CREDIT,    /* bytes consumed since the last one: the sender may send as many more */
	SL_FRAME_COMMIT,    /* client → server: apply step */
	SL_FRAME_COMMITTED, /* server → client */
	SL_FRAME_FETCH,     /* send the middle's weights; server → client: send head and tail, or their hash */
	SL_FRAME_HEARTBEAT, /* either way */
	SL_FRAME_BYE,       /* client → server: done, forget the session */
	SL_FRAME_ABANDON,   /* either way: NaN or Inf in the step under way, which is not applied */
	SL_FRAME_CHALLENGE, /* server → client: say Hello again, with a proof */
	SL_FRAME_NORM,      /* server → client: what clipping needs to know of the middle's gradient */
	SL_FRAME_COUNT
};

/* What a run of parts carries. The first four equal enum sl_dir. */
enum sl_part_what {
	SL_PART_HEAD_ACT,
	SL_PART_MID_ACT,
	SL_PART_MID_GRAD,
	SL_PART_HEAD_GRAD,
	SL_PART_WEIGHTS, /* the middle's parameters, f32, in the plan's order: upload and fetch */
	/* of a group with shared heads and tails: what a member's step would change there, and what all members'
	   together do (session/mean.h) */
	SL_PART_END_GRAD,
	SL_PART_END_MEAN,
	SL_PART_ENDS, /* head and tail as a member has them, for one that comes; or their hash, SL_WIRE_ENDS_HASH bytes
		       */
	SL_PART_WHAT_COUNT
};
/* What crosses beside passes. */
static inline bool sl_part_is_state(uint32_t what)
{
	return what == SL_PART_WEIGHTS || what == SL_PART_ENDS;
}

/* How the middle's weights begin. */
enum sl_weights_source { SL_WEIGHTS_SEED, SL_WEIGHTS_HASH };

/* Opens a session. With a proof it has a payload: what both sides agree on and the network (session/agree.h), all that
 * the server needs to build the same plan; plan_hash proves that it did. Without one it asks for a nonce. */
struct sl_hello {
	uint32_t version;                  /* SL_WIRE_VERSION */
	uint8_t session[SL_SESSION_BYTES]; /* its id, a public key */
	uint8_t proof[SL_PROOF_BYTES];     /* that this side has the secret half; zeros: none yet */
	uint64_t epoch;                    /* of the session: a newer one replaces older ones */
	uint8_t plan_hash[16];             /* XXH3-128 of the plan's canonical text */
	char software[32];                 /* "splitc 0.1.0": for logs */
	uint64_t payload_xxh3;             /* XXH3-64 of the payload that goes with a proof */
	uint32_t weights_source;           /* enum sl_weights_source */
	uint8_t weights_hash[16];          /* XXH3-128 of the middle's parameters as SL_PART_WEIGHTS carries them */
	uint32_t part_bytes;               /* largest payload this side accepts */
	uint64_t window_bytes;             /* credit that this side grants the other */
	uint32_t heartbeat_ms, timeout_ms;
	/* Steps that the client can go on from, newest first: the one it holds in memory, its checkpoints, 0 for a
	 * fresh start. The server takes the newest that it can go on from too. */
	uint32_t n_held; /* 1 … SL_WIRE_HELD_MAX */
	uint64_t held[4];
	uint64_t run_steps; /* of the client's run in all */
};

static inline bool sl_hello_holds(const struct sl_hello *h, uint64_t step)
{
	for (uint32_t i = 0; i < h->n_held; i++)
		if (h->held[i] == step)
			return true;
	return false;
}

/* Its run has no step to do any more: what is still to come is evaluation, and the weights. */
static inline bool sl_hello_is_done(const struct sl_hello *h)
{
	return h->run_steps && sl_hello_holds(h, h->run_steps);
}

/* sl_welcome.made: the server does not know, and the client goes on from what it has. */
#define SL_MADE_UNKNOWN UINT64_MAX

struct sl_welcome {
	uint32_t version;
	uint8_t plan_hash[16];
	uint32_t part_bytes;
	uint64_t window_bytes;
	uint64_t next_step;
	uint64_t made;     /* epoch of the link whose COMMIT made the state before that step; 0: the first weights */
	uint64_t branch;   /* of a group: what `made` is of the states that follow; 0: there is none */
	bool need_weights; /* the store does not hold weights_hash: upload them */
	char software[32];
	char device[SL_WIRE_DEVICE]; /* "cpu: avx512, …", "cuda:0: NVIDIA H200" */
	/* The step that comes next. Above next_step: a group did those between without this member, whose state before
	 * next_step they left alone. */
	uint64_t begin;
	bool common; /* of a group: next_step is the newest that all members hold, and the server has lost nothing */
	bool ends;   /* of a group: a run of SL_PART_ENDS follows, head and tail as they are before `begin` */
};

struct sl_challenge {
	uint8_t nonce[SL_NONCE_BYTES]; /* for this connection alone */
	uint64_t above; /* to a Hello that was proven, and whose epoch is too low: what it must be above; else 0 */
};

struct sl_refuse {
	uint32_t code;               /* enum sl_err; on the wire its number of docs/WIRE.md */
	char key[SL_FAIL_KEY];       /* of the config, or "node NAME" of the network: what is to blame; "": neither */
	char text[SL_WIRE_TEXT_MAX]; /* the sentence behind it, which names both values */
};

struct sl_part {
	uint32_t what; /* enum sl_part_what */
	bool training; /* false: a chunk of an evaluation */
	uint64_t step; /* of training; for evaluation the number of the evaluation batch */
	uint32_t chunk;
	uint32_t rows;       /* of the chunk (activations, gradients); 0 for weights */
	uint32_t batch_rows; /* of the whole batch: a ragged last batch is known from the first part on */
	uint64_t total;      /* bytes of the whole run */
	uint64_t offset;     /* of this part */
	uint64_t xxh3;       /* XXH3-64 of the payload */
	uint32_t tokens;     /* of the chunk; 0: the network has none, or weights */
	uint32_t answers;    /* tokens of the step's batch that have a loss; 0: they are not counted */
};

struct sl_commit {
	uint64_t step;
	uint32_t chunks;
	double lr;
	bool checkpoint;             /* keep the state behind this step on disk */
	bool skip;                   /* nothing is to be applied: the step was abandoned, and counts as done */
	uint64_t kept[SL_WIRE_KEPT]; /* steps that the client has on its own disk, newest first; 0: none */
	double grad_scale;           /* of a run that clips: what the gradient is multiplied by; else 0 */
	bool writing;                /* kept[0] is still being written */
};

struct sl_wire_norm {
	uint64_t step;
	double squares; /* of the middle's gradient, summed over what learns */
};

struct sl_committed {
	uint64_t step;
	double compute_s;  /* the server's kernels in this step */
	bool checkpointed; /* a checkpoint was asked for, and is on the disk */
	bool mean;         /* a run of SL_PART_END_MEAN belongs to the step */
};

struct sl_abandon {
	uint64_t step;
	char text[SL_WIRE_TEXT_MAX]; /* which tensor of which chunk */
	bool late;                   /* none: the others of the group have done this step without the client */
};

struct sl_heartbeat {
	uint64_t sent_ms; /* of the sender's clock */
	uint64_t echo_ms; /* 0: older peers of this protocol measured round trips with it */
};

struct sl_frame {
	enum sl_frame_kind kind;
	uint64_t epoch; /* of the session; frames of older ones are dropped and counted */
	union {
		struct sl_hello hello;
		struct sl_welcome welcome;
		struct sl_refuse refuse;
		struct sl_part part;
		struct {
			uint64_t bytes;
		} credit;
		struct {
			bool whole; /* from a server: all of head and tail; else their hash */
		} fetch;
		struct sl_commit commit;
		struct sl_committed committed;
		struct sl_heartbeat heartbeat;
		struct sl_abandon abandon;
		struct sl_challenge challenge;
		struct sl_wire_norm norm;
	} u;
	/* Borrowed. PART: 1 … part_bytes bytes; HELLO with a proof: 1 … SL_WIRE_HELLO_MAX; else none. */
	struct sl_bytes payload;
};

const char *sl_frame_kind_name(enum sl_frame_kind kind);

/* Header bytes of `frame`, their own XXH3 at the end (its payload is sent beside them). LIMIT where they pass
 * SL_WIRE_HEADER_MAX; DATA where a text is not terminated or holds control characters, or an enum is out of range: such
 * a frame would be refused over there. */
enum sl_err sl_wire_encode(const struct sl_frame *frame, uint8_t header[SL_WIRE_HEADER_MAX], size_t *len) SL_MUST_CHECK;
/* PROTOCOL with a sentence. The payload's XXH3 is checked here (PROTOCOL, "corrupt"). VERSION, naming both, where
 * a Hello or Welcome cannot be read because the other side speaks another version; one that can be read is the
 * session's to refuse. */
enum sl_err sl_wire_decode(struct sl_bytes header, struct sl_bytes payload, struct sl_frame *frame,
			   struct sl_fail *fail) SL_MUST_CHECK;
/* VERSION, with a sentence that is true at both ends, as the one that refuses tells it to the other: the client
 * (`clients`), or else the server, speaks `theirs`, its peer here SL_WIRE_VERSION. */
enum sl_err sl_wire_other_version(uint32_t theirs, bool clients, struct sl_fail *fail);

/* What refuses for this reason. */
void sl_refuse_fill(struct sl_refuse *out, const struct sl_fail *why);

/* What sl_part.xxh3 and sl_hello.payload_xxh3 say of a payload. */
uint64_t sl_wire_hash(struct sl_bytes payload);

#endif
