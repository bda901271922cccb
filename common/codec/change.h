/* What both sides of a codec of changes keep (quant's change=b; docs/CODECS.md). A call's tokens
 * are pending in its slot until the step's commit. After sl_change_keep k may be NULL. */
#ifndef SL_CODEC_CHANGE_H
#define SL_CODEC_CHANGE_H

#include "common/codec/loops.h"
#include "common/codec/stage.h"

struct sl_change;

/* Adds what _open takes. */
void sl_change_memory(const struct sl_codec_env *env, struct sl_memory *need);
/* Room for env->keep_tokens tokens of env->shape. NOMEM; *out is then to be closed. */
enum sl_err sl_change_open(struct sl_change **out, const struct sl_codec_env *env) SL_MUST_CHECK;
void sl_change_close(struct sl_change *k);

/* Begins a call: finds where the tokens of x are kept. False: it keeps none. *all: they are there already, so that
 * their changes are to be coded. */
bool sl_change_find(struct sl_change *k, const struct sl_codec_call *call, const struct sl_tensor *x, bool *all);
/* Of a call whose tokens are all there. _subtract: returns x minus what is kept, cut to the range of codes of
 * change_bits bits, which are *code_step apart, as those of x would be with `bits`. NULL: x has NaN or Inf, or spans
 * more than floats do. _add: x becomes x plus what is kept. */
float *sl_change_subtract(struct sl_change *k, const struct sl_codec_call *call, const struct sl_codec_loops *loops,
			  struct sl_pool *pool, const float *x, int bits, int change_bits, float *code_step);
void sl_change_add(struct sl_change *k, const struct sl_codec_call *call, struct sl_pool *pool, float *x);
float *sl_change_room(struct sl_change *k, const struct sl_codec_call *call); /* for what the call decodes */
/* x, which may be the room, is what the call has decoded. A call that fails is not kept. */
void sl_change_keep(struct sl_change *k, const struct sl_codec_call *call, const float *x);

void sl_change_end(struct sl_change *k, bool commit); /* else what is pending is dropped */
void sl_change_forget(struct sl_change *k);
/* As those of sl_codec.h; _load takes the state off the front of *in. */
size_t sl_change_state_bytes(const struct sl_change *k);
size_t sl_change_state_most(const struct sl_codec_env *env); /* the same, before _open */
enum sl_err sl_change_save(const struct sl_change *k, struct sl_buf *out) SL_MUST_CHECK;
enum sl_err sl_change_load(struct sl_change *k, struct sl_bytes *in) SL_MUST_CHECK;

#endif
