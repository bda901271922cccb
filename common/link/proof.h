/* A session's secret, and how a Hello proves it. The session's id is an Ed25519 public key, made anew for each run;
 * only the client has its secret half. The server sends a nonce that it made for this connection only, and the client
 * signs it together with its whole Hello. So nobody can take over the session with what a server stores or shows, with
 * what was read on the link, or with a proof for another server. Thread-safe. */
#ifndef SL_LINK_PROOF_H
#define SL_LINK_PROOF_H

#include "common/link/wire.h"

enum { SL_SECRET_BYTES = 32 };

struct sl_secret {
	uint8_t seed[SL_SECRET_BYTES];     /* the secret */
	uint8_t session[SL_SESSION_BYTES]; /* the session's id, computed from it */
};

/* Makes a new secret. OS: no random bytes. */
enum sl_err sl_secret_make(struct sl_secret *secret, struct sl_fail *fail) SL_MUST_CHECK;
void sl_secret_from(struct sl_secret *secret, const uint8_t seed[SL_SECRET_BYTES]);
void sl_secret_wipe(struct sl_secret *secret);

/* Fills hello->proof. hello->session must be secret->session. DATA, LIMIT: the Hello cannot be encoded. */
enum sl_err sl_proof_make(struct sl_hello *hello, const struct sl_secret *secret,
			  const uint8_t nonce[SL_NONCE_BYTES]) SL_MUST_CHECK;
bool sl_proof_holds(const struct sl_hello *hello, const uint8_t nonce[SL_NONCE_BYTES]);
/* Whether the Hello has no proof, and so asks for a nonce. */
bool sl_proof_lacks(const struct sl_hello *hello);

/* Fills report->signature: of its text, as that of this member. */
void sl_report_sign(struct sl_wire_report *report, const struct sl_secret *secret, const char *group, int member);
bool sl_report_holds(const struct sl_wire_report *report, const uint8_t session[SL_SESSION_BYTES], const char *group,
		     int member);

/* A session's public name, for files, logs and statuses: 128 bits of a SHA-256 of its id. It does not reveal the id. */
void sl_session_name(const uint8_t session[SL_SESSION_BYTES], uint8_t name[16]);
/* The same for a group of clients, from its name of at most 64 bytes; it differs from every session's name. */
void sl_group_name(const char *group, uint8_t name[16]);

#endif
