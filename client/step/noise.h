/* Noise on what the client sends, drawn by a key that the server lacks. A sample's noise is a function of the key, of
 * its deviation, and of what would be sent without it. So a repeated step has the same noise, in one process or over
 * the link, and a sample that sends the same values again reveals nothing new. The backward pass ignores the noise. It
 * hinders attackers, but guarantees nothing unless samples are clipped (privacy.…): its deviation depends on the
 * sample. */
#ifndef SL_CLIENT_STEP_NOISE_H
#define SL_CLIENT_STEP_NOISE_H

#include <stdatomic.h>
#include <stdint.h>

#include "client/step/releases.h"
#include "common/codec/codec.h"
#include "common/conf/conf.h"
#include "common/link/key.h"

/* Deviation of the normal noise, as a multiple of a sample's root mean square; 0: none. With privacy.clip a sample is
 * scaled to a norm of clip[dir] at most, and the deviation is a multiple of that norm. So two samples differ by at most
 * 2 · clip in what would be sent, and each release is a Gaussian mechanism (figures/epsilon.h). */
struct sl_noise {
	double head_act, mid_grad;
	double clip_act, clip_grad; /* 0: nothing is clipped */
	struct sl_key act_key, grad_key;
	struct sl_noise_count *count; /* borrowed; NULL: nothing is counted */
};
/* Samples that were sent with a clip, in training and evaluations, and those of them that were longer: any thread. And
 * what has crossed: the thread that sends. */
struct sl_noise_count {
	_Atomic uint64_t act, act_clipped, grad, grad_clipped;
	struct sl_releases releases; /* close it at the end */
	_Atomic uint64_t evaluates;  /* `when` of the one under way; 0: evaluations are not noted */
};

/* Reads the keys `noise.…` and `privacy.…` of the configs of both ends, which differ only in a vertical group. Errors
 * of sl_keypair_load, with the place of noise.key in the file. */
enum sl_err sl_noise_read(struct sl_noise *noise, const struct sl_conf_client *head, const struct sl_conf_client *tail,
			  struct sl_fail *fail) SL_MUST_CHECK;
static inline double sl_noise_of(const struct sl_noise *noise, enum sl_dir dir)
{
	return !noise ? 0 : dir == SL_DIR_HEAD_ACT ? noise->head_act : dir == SL_DIR_MID_GRAD ? noise->mid_grad : 0;
}
/* Which rows these are: of which step (of an evaluation: its batch), which value of the cut, from which row of the
 * batch on. Only with clip_…. */
struct sl_noise_place {
	uint64_t step;
	bool training;
	int value;
	int64_t first;
};
/* A step that is repeated must send what it sent before: else a server that lets steps repeat, and answers otherwise,
 * gets fresh noise each time. AUDIT: the values or the noise are others. Without clip_… and where nothing is counted
 * OK. IO, NOMEM. */
enum sl_err sl_noise_check(const struct sl_noise *noise, enum sl_dir dir, const struct sl_noise_place *place,
			   const struct sl_tensor *x, struct sl_fail *fail) SL_MUST_CHECK;
/* Writes x with the noise for `dir` to `to`, which may be x itself, and with mid_grad is. A sample is a row of x or, if
 * x has a row for each token, all of a text's tokens. Padding changes no noise of the tokens before it; it has noise
 * itself in head_act, where it tells of them, and none in mid_grad, where it would go into the middle's gradient.
 * `word`: scratch, one more than x has floats. */
void sl_noise_add(const struct sl_noise *noise, enum sl_dir dir, const struct sl_noise_place *place,
		  const struct sl_dims *dims, const struct sl_tensor *x, float *to, uint32_t *word);

#endif
