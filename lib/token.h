/* Tokens: what a script keeps to go on from later, as bytes. */
#ifndef SL_LIB_TOKEN_H
#define SL_LIB_TOKEN_H

#include "lib/impl.h"

/* The contents of a token; codecs' states are borrowed from its bytes. */
struct sl_token {
	uint8_t seed[SL_SECRET_BYTES];
	uint64_t epoch, step, made;
	uint64_t train_seed; /* of the run; used if the resuming program sets none */
	uint64_t frozen;     /* hash of weights that came from this side: at step 0 all, later frozen ones */
	uint8_t plan_hash[SL_PLAN_HASH_BYTES];
	struct sl_bytes codec[SL_DIR_COUNT];
};

/* Little endian, with a checksum at the end. DATA: it is no token, or damaged. */
uint64_t sl_token_frozen(const struct split_middle *m, uint64_t step); /* `frozen` of a token of that step */
size_t sl_token_bytes(const struct sl_token *token);
void sl_token_write(const struct sl_token *token, uint8_t *out);
enum sl_err sl_token_read(struct sl_token *token, const void *data, size_t len, struct sl_fail *fail) SL_MUST_CHECK;

/* _set_state makes a token's state this side's. MISMATCH: the token is of another network. */
enum sl_err sl_lib_token_check(const struct split_middle *m, const struct sl_token *t,
			       struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_lib_set_state(struct split_middle *m, const struct sl_token *t, struct sl_fail *fail) SL_MUST_CHECK;
void sl_lib_set_token_step(struct split_middle *m, uint64_t step);

#endif
