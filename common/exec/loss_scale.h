/* Dynamic scaling of the loss. Gradients of half precision are computed times a power of two, so that small ones do not
 * vanish. A step whose gradients overflow is left out. See Micikevicius et al., Mixed Precision Training, 2018; the
 * numbers are those of torch.cuda.amp.GradScaler. The state changes once a step, when it is applied or left out, and
 * belongs to the step's transaction: a step that is run again finds the same scale. Plain data, no thread. */
#ifndef SL_EXEC_LOSS_SCALE_H
#define SL_EXEC_LOSS_SCALE_H

#include <stdbool.h>
#include <stdint.h>

#define SL_LOSS_SCALE_FIRST 0x1p16f
#define SL_LOSS_SCALE_LEAST 0x1p-14f
#define SL_LOSS_SCALE_MOST  0x1p24f
enum { SL_LOSS_SCALE_STEPS = 2000 }; /* applied one after another until it doubles */

struct sl_loss_scale {
	float scale;   /* a power of two, LEAST to MOST; 1 where nothing is scaled */
	uint32_t good; /* steps applied since it last changed, below STEPS */
};

static inline struct sl_loss_scale sl_loss_scale_first(void)
{
	return (struct sl_loss_scale){SL_LOSS_SCALE_FIRST, 0};
}

struct sl_loss_scale sl_loss_scale_applied(struct sl_loss_scale s);
struct sl_loss_scale sl_loss_scale_skipped(struct sl_loss_scale s);
/* Whether the two functions above can have led to it: for what comes from a file. */
bool sl_loss_scale_valid(struct sl_loss_scale s);

/* As two floats of a checkpoint, and back; false, *s untouched: no such state. */
void sl_loss_scale_write(struct sl_loss_scale s, float out[2]);
bool sl_loss_scale_read(struct sl_loss_scale *s, const float in[2]);

#endif
